"""How well `grounded_arguments` tells invented and foreign values from those that agents had seen, on recorded runs.

    TOOLGAUGE_RECORDINGS=.../replay python -m tools.bench.grounded [--cost]

The recordings are not in this repository: a folder with `tau` and `bfcl`, and in each `genai`, `openinference` and
`manifest.jsonl.xz`, which holds a verdict on each run. Printed: runs with a state-changing call that is flagged, passed and not
passed; the share of planted values that are flagged, where the id of a reservation, an order or a user is that of another run;
results that both dialects of a run agree on; what came of single traces; and with `--cost` what a call costs.
"""

import argparse
import json
import lzma
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from msgspec.structs import replace

from toolgauge.config.load import load
from toolgauge.evaluators.grounded_arguments import GroundedArguments
from toolgauge.model.content import Recorded
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.outcomes import NotEvaluated, Outcome, Scored
from toolgauge.model.trajectory import Message, ToolCall, Trajectory, TrajectoryScope
from toolgauge.recordings.recorded_requests import read, scorecards
from toolgauge.score.criterion import Criterion, with_writing_tools
from toolgauge.service.pipeline_factory import offline_pipeline, tool_kinds
from toolgauge.testing.samples import sample_call

DIALECTS = ("genai", "openinference")
PLANTED = ("reservation_id", "order_id", "user_id")
SCOPES: tuple[TrajectoryScope, ...] = ("trace", "conversation")


class Plant(NamedTuple):
    """A trajectory in which one call got the id of another run, and that call."""

    trajectory: Trajectory
    call: ToolCall


def trajectories(folder: Path, scope: TrajectoryScope) -> list[Trajectory]:
    """All trajectories of the recordings in a folder, as a live pipeline would have assembled them."""
    config = load([], (), {})
    evaluator = GroundedArguments()
    criteria = [Criterion(name="g", evaluator_name="g", evaluator=evaluator, revision="", scope=scope)]
    make = offline_pipeline(config, criteria)
    kinds = tool_kinds(config)
    found: list[Trajectory] = []
    for file in sorted(folder.glob("*.otlp.xz")):
        closed = (one.trajectory for one in scorecards(read([str(file)], lambda _: None), make))
        found += [with_writing_tools(one, (), kinds) for one in closed if one.scope == scope]
    return found


def verdicts(folder: Path) -> dict[str, bool | None]:
    """Whether the run of each conversation passed, by somebody else's verdict."""
    found: dict[str, bool | None] = {}
    with lzma.open(folder / "manifest.jsonl.xz", "rt") as lines:
        for row in map(json.loads, lines):
            for recorded in row["otlp"].values():
                found[recorded["conversation_id"]] = row["verdict"].get("passed")
    return found


def planted(conversations: Sequence[Trajectory], names: Sequence[str] = PLANTED, seed: int = 1) -> Iterator[Plant]:
    """Yield each state-changing call with the id of another run in place of its own.

    An id that occurs in the conversation by chance is not taken.
    """
    random = Random(seed)  # noqa: S311 repeatable
    ids = {name: sorted({str(value) for one in conversations for value in _ids(one, name)}) for name in names}
    for trajectory in conversations:
        text = _text(trajectory)
        for place, call in enumerate(trajectory.calls):
            arguments = call.arguments.value if isinstance(call.arguments, Recorded) else None
            if call.name not in trajectory.writing_tools or not isinstance(arguments, dict):
                continue
            for name in names:
                others = [one for one in ids[name] if one.casefold() not in text] if name in arguments else []
                if others:
                    swapped = replace(call, arguments=Recorded({**arguments, name: random.choice(others)}))
                    calls = (*trajectory.calls[:place], swapped, *trajectory.calls[place + 1 :])
                    yield Plant(replace(trajectory, calls=calls), swapped)


def _ids(trajectory: Trajectory, name: str) -> Iterator[object]:
    for call in trajectory.calls:
        if isinstance(call.arguments, Recorded) and isinstance(call.arguments.value, dict):
            value = call.arguments.value.get(name)
            if call.error is None and value is not None:
                yield value


def _text(trajectory: Trajectory) -> str:
    contents = [message.text for message in trajectory.messages]
    contents += [repr((call.arguments, call.result)) for call in trajectory.calls]
    return "\n".join(contents).casefold()


def outcomes(trajectory: Trajectory) -> list[tuple[ToolCall | None, Outcome]]:
    """What the evaluator yields with its default parameters."""
    return [one for one in GroundedArguments().evaluate(trajectory, None) if one is not None]


def is_flagged(outcome: Outcome) -> bool:
    """Whether the outcome is a fail at the default threshold."""
    return isinstance(outcome, Scored) and outcome.value < 1


def flagged_runs(
    conversations: Iterable[Trajectory], verdict_of: dict[str, bool | None]
) -> Counter[tuple[object, str]]:
    """Count runs, and those with a flagged call that changes state or that does not, by verdict."""
    counted = Counter[tuple[object, str]]()
    for trajectory in conversations:
        passed = verdict_of.get(trajectory.conversation_id or "")
        counted[passed, "runs"] += 1
        kinds = {
            "writing" if call.name in trajectory.writing_tools else "reading"
            for call, outcome in outcomes(trajectory)
            if call is not None and is_flagged(outcome)
        }
        counted.update((passed, kind) for kind in kinds)
    return counted


def results(trajectory: Trajectory) -> dict[int | None, str | float]:
    """The value of each judged call, or the reason why it has none, by its order."""
    return {
        None if call is None else call.order: outcome.reason if isinstance(outcome, NotEvaluated) else outcome.value
        for call, outcome in outcomes(trajectory)
        if isinstance(outcome, NotEvaluated | Scored)
    }


def agreement(one: Sequence[Trajectory], other: Sequence[Trajectory]) -> float:
    """The share of results that two recordings of the same runs agree on."""
    others = {trajectory.conversation_id: results(trajectory) for trajectory in other}
    same = total = 0
    for trajectory in one:
        mine, theirs = results(trajectory), others.get(trajectory.conversation_id, {})
        same += len(mine.items() & theirs.items())
        total += len(mine.keys() | theirs.keys())
    return same / total if total else 1.0


def summary(trajectories: Iterable[Trajectory]) -> Counter[str]:
    """Count the outcomes."""
    return Counter(
        outcome.reason if isinstance(outcome, NotEvaluated) else "fail" if is_flagged(outcome) else "pass"
        for trajectory in trajectories
        for _, outcome in outcomes(trajectory)
    )


def large(calls: int, result_bytes: int) -> Trajectory:
    """A conversation in which each call returns records, and every second changes one that was returned before."""
    record: JsonObject = {
        "order_id": "W1000000",
        "status": "delivered",
        "total": 129.5,
        "customer": {"name": "Ann Lee", "zip": "10001"},
    }
    many = max(1, result_bytes // len(json.dumps(record)))
    made: list[ToolCall] = []
    sample = sample_call(0)
    for order in range(calls):
        first = 1_000_000 + order * many
        result: list[Json] = [{**record, "order_id": f"W{first + number}"} for number in range(many)]
        wanted = f"W{1_000_000 + (order - 1) * many + many // 2}" if order % 2 else "A-17"
        made.append(
            replace(
                sample,
                order=order,
                turn=order,
                result_turn=order + 1,
                name="refund_order" if order % 2 else "get_order",
                arguments=Recorded(
                    {"order_id": wanted, "reason": "arrived broken", "amount": 129.5}
                    if order % 2
                    else {"order_id": wanted}
                ),
                result=Recorded(result),
            )
        )
    return Trajectory(
        scope="conversation", trace_id="1" * 32, conversation_id="c", service="shop", agents=("support",), root=None, calls=tuple(made),
        tools_offered=None, messages=(Message("user", "Please look at my order A-17.", 0),), attributes={},
        closed_because="conversation_idle", start_ns=0, end_ns=1, writing_tools=frozenset(("refund_order",)),
    )  # fmt: skip


def microseconds(trajectories: Sequence[Trajectory], rounds: int = 5) -> float:
    """The least CPU time a tool call over some rounds."""
    calls = sum(len(trajectory.calls) for trajectory in trajectories)
    best = float("inf")
    for _ in range(rounds):
        began = time.process_time()
        for trajectory in trajectories:
            outcomes(trajectory)
        best = min(best, time.process_time() - began)
    return best / calls * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cost", action="store_true", help="measure what a call costs as well")
    arguments = parser.parse_args()
    recordings = Path(os.environ["TOOLGAUGE_RECORDINGS"])
    verdict_of = verdicts(recordings / "tau")
    recorded = {dialect: trajectories(recordings / "tau" / dialect, "conversation") for dialect in DIALECTS}
    for dialect, conversations in recorded.items():
        counted = flagged_runs(conversations, verdict_of)
        for passed in (True, False):
            runs, writing, reading = (counted[passed, kind] for kind in ("runs", "writing", "reading"))
            print(f"{dialect}: passed {passed}: {writing} of {runs} runs flagged, {reading} for a call that only reads")
        for failed in (False, True):
            plants = [plant for plant in planted(conversations) if (plant.call.error is not None) == failed]
            found = sum(
                any(call == plant.call and is_flagged(outcome) for call, outcome in outcomes(plant.trajectory))
                for plant in plants
            )
            print(
                f"{dialect}: {found} of {len(plants)} planted ids flagged ({found / max(1, len(plants)):.1%}), calls that failed: {failed}"
            )
    print(f"tau: {agreement(*recorded.values()):.2%} of results alike in both dialects")
    for folder in ("tau", "tau-content-full"):
        print(f"single traces of {folder}: {dict(summary(trajectories(recordings / folder / 'genai', 'trace')))}")
    for folder in ("tau-content-none", "tau-content-full", "bfcl"):
        both = [trajectories(recordings / folder / dialect, "conversation") for dialect in DIALECTS]
        print(f"{folder}: {dict(summary(both[0]))}, {agreement(*both):.2%} alike in both dialects")
    print(f"bfcl by verdict: {dict(flagged_runs(both[0], verdicts(recordings / 'bfcl')))}")
    if arguments.cost:
        print(f"recorded: {microseconds(recorded['genai']):.1f} us a call")
        for calls, size in ((20, 1_000), (20, 100_000), (200, 100_000)):
            print(f"{calls} calls, results of {size} bytes: {microseconds([large(calls, size)], 3):.1f} us a call")


if __name__ == "__main__":
    main()
