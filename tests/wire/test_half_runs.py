"""A process that starts while agents run: the half that it gets of a run is never scored as a run."""

import time
from collections import Counter
from pathlib import Path

from tests.wire.agent_runs import AgentRun, request
from tests.wire.support import Toolgauge, serving, until_equal

MINUTE_NS = 60_000_000_000
CALLS = 5


def outcomes(toolgauge: Toolgauge, criterion: str) -> dict[tuple[str, str], float]:
    """The results of a criterion, by outcome and reason."""
    found: Counter[tuple[str, str]] = Counter()
    for (name, labels), value in toolgauge.samples().items():
        of_series = dict(labels)
        if name == "toolgauge_evaluations_total" and value and of_series["gen_ai_evaluation_name"] == criterion:
            found[of_series["toolgauge_outcome"], of_series.get("toolgauge_not_evaluated_reason", "")] += int(value)
    return dict(found)


def test_only_a_run_that_was_going_on_at_the_start_is_half_a_run(tmp_path: Path):
    before_ns = time.time_ns()
    with serving(tmp_path) as toolgauge:
        now_ns = time.time_ns()
        long_ago = AgentRun(1, before_ns - 60 * MINUTE_NS, before_ns - 30 * MINUTE_NS)
        going_on = AgentRun(2, before_ns - MINUTE_NS, now_ns)
        begun_after = AgentRun(4, now_ns, now_ns + 1000)
        for run in (long_ago, going_on, begun_after):
            toolgauge.send(request(run.spans()))
        # Of another such run, a part arrives.
        toolgauge.send(request(AgentRun(5, before_ns - MINUTE_NS, now_ns).spans()[-4:]))
        whole = {("pass", ""): 2 * CALLS, ("not_evaluated", "incomplete"): 2}
        until_equal(lambda: outcomes(toolgauge, "default.tool_success"), whole, "the results")
