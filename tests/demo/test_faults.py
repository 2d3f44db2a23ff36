"""The demo plants five kinds of faults in its worse release, and the default criteria find them."""

from itertools import islice

from tests.rows import each_row
from tests.walk.support import SECOND, Walk, attributes
from toolgauge.demo.drawing import FAULTS, WORSE, Fault, Release, drawn, recordings

CONVERSATIONS = 20
SEQUENCE = [recording for recording in recordings() if recording.scenario == "sequence"]
FAILING = Release(version="1.1", failures=0, failures_by_tool={"refund_order": 1.0})
CRITERIA: dict[Fault, str] = {
    "invented_tool": "default.known_tool",
    "bad_arguments": "default.arguments_schema",
    "repeats": "default.repeated_calls",
    "ungrounded_id": "default.grounded_arguments",
}


def found(release: Release) -> list[set[object]]:
    """Return the criteria that fail, for each of the drawn conversations."""
    walk = Walk()
    walk.now_ns += 60 * SECOND
    for body in islice(drawn(SEQUENCE, release, seed=1, clock=lambda: walk.now_ns), CONVERSATIONS):
        walk.send(body)
    walk.wait(60)
    named: dict[bytes, set[object]] = {span.trace_id: set() for span in walk.scorecards()}
    for event in walk.events():
        result = attributes(event)
        if result["toolgauge.outcome"] == "fail":
            named[event.trace_id].add(result["gen_ai.evaluation.name"])
    assert len(named) == CONVERSATIONS
    return list(named.values())


@each_row("fault", FAULTS)
def test_a_planted_fault_is_found(fault: Fault):
    criteria = found(Release(version="1.1", failures=0, fault_every=1, faults=(fault,)))
    assert sum(CRITERIA[fault] in named for named in criteria) / CONVERSATIONS >= 0.95


def test_a_failing_tool_is_found():
    assert sum("default.tool_success" in named for named in found(FAILING)) / CONVERSATIONS >= 0.95


def test_nothing_is_found_where_no_fault_was_planted():
    assert found(Release(version="1.1", failures=0)) == [set[object]()] * CONVERSATIONS


def test_the_worse_release_has_each_fault_in_turn():
    assert (WORSE.fault_every, WORSE.faults) == (12, FAULTS)
