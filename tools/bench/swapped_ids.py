"""Plants ids of other customers in recorded calls that change state: what a mix-up or an injected target looks like."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

from msgspec.structs import replace

from toolgauge.model.content import Recorded
from toolgauge.model.json import JsonObject
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.criterion import Criterion, ToolKinds
from toolgauge.score.scorer import Scorer
from tools.bench.recorded_runs import ScoredRun, word, writes

_ID = re.compile(r"(reservation|order|user)_id")


@dataclass(frozen=True)
class Swap:
    """One argument of one call with a value from another run, and whether the criterion failed the call for it."""

    run: str
    order: int
    argument: str
    value: str
    is_flagged: bool


def swaps(runs: Iterable[ScoredRun], criterion: Criterion) -> Iterator[Swap]:
    """Swap each id of each call that changes state, one at a time, for one that occurs nowhere in its own run."""
    scored, random = list(runs), Random(1)  # noqa: S311 repeatable
    others = _values(scored)
    scorer = Scorer((criterion,), ToolKinds())
    for one in scored:
        for trajectory in one.conversations:
            text = _text(trajectory)
            for call, argument in _swappable(trajectory.calls):
                strange = [value for value in others[argument] if value not in text]
                if strange:
                    value = random.choice(strange)
                    yield Swap(
                        one.run.name, call.order, argument, value, _flags(scorer, trajectory, call, argument, value)
                    )


def _flags(scorer: Scorer, trajectory: Trajectory, call: ToolCall, argument: str, value: str) -> bool:
    swapped = replace(call, arguments=Recorded({**_arguments(call), argument: value}))
    calls = tuple(swapped if one is call else one for one in trajectory.calls)
    results = scorer.score(replace(trajectory, calls=calls))
    return any(result.call is swapped and word(result) == "fail" for result in results)


def _swappable(calls: Sequence[ToolCall]) -> Iterator[tuple[ToolCall, str]]:
    for call in calls:
        if writes(call):
            yield from ((call, name) for name, value in _arguments(call).items() if _ID.fullmatch(name) and value)


def _arguments(call: ToolCall) -> JsonObject:
    found = call.arguments
    return found.value if isinstance(found, Recorded) and isinstance(found.value, dict) else {}


def _values(runs: Sequence[ScoredRun]) -> dict[str, list[str]]:
    """Collect what was given for each id in any run, sorted."""
    values: dict[str, set[str]] = defaultdict(set)
    for one in runs:
        for trajectory in one.conversations:
            for call in trajectory.calls:
                for name, value in _arguments(call).items():
                    if _ID.fullmatch(name) and isinstance(value, str):
                        values[name].add(value)
    return {name: sorted(found) for name, found in values.items()}


def _text(trajectory: Trajectory) -> str:
    """Write all that was said, called and returned in a run."""
    contents = [part for call in trajectory.calls for part in (call.arguments, call.result)]
    values = [json.dumps(content.value) for content in contents if isinstance(content, Recorded)]
    return "\n".join([*(message.text for message in trajectory.messages), *values])
