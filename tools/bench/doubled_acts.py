"""Makes calls that change state a second time in recorded runs: what a resumed, retried or replayed run does."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from toolgauge.model.content import Recorded
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.criterion import Criterion, ToolKinds
from toolgauge.score.scorer import Scorer
from tools.bench.recorded_runs import ScoredRun, number, word, writes

_SETTING = re.compile(r"(?:set|grant|enable|resume|toggle)_.*|.*_address")
_ID = re.compile(r"(?<=_id\": \")\w{4,40}")


@dataclass(frozen=True)
class Doubled:
    """A call that is made again, behind all messages where it `is_later`, and how that is judged."""

    run: str
    tool: str
    is_later: bool
    has_same_result: bool
    outcome: str
    score: float | None


def doubled(runs: Iterable[ScoredRun], criterion: Criterion) -> Iterator[Doubled]:
    """Make the last call that changes state again, at once and later, with the same result and as a second one would have it."""
    scorer = Scorer((criterion,), ToolKinds())
    for one in runs:
        for trajectory in one.conversations:
            eligible = [call for call in trajectory.calls if _is_eligible(call)]
            for first in eligible[-1:]:
                for again in filter(None, (first, _with_another_result(first, trajectory))):
                    last = len(trajectory.calls) and trajectory.calls[-1].turn + 1
                    is_answered = any(m.role == "user" and m.turn > first.turn for m in trajectory.messages)
                    for turn in (first.turn, last) if is_answered else (first.turn,):
                        second = replace(again, turn=turn, order=len(trajectory.calls))
                        place = trajectory.calls.index(first) + 1 if turn == first.turn else len(trajectory.calls)
                        calls = (*trajectory.calls[:place], second, *trajectory.calls[place:])
                        results = scorer.score(replace(trajectory, calls=calls))
                        (result,) = [result for result in results if result.call is second]
                        is_later, is_same = turn != first.turn, again is first
                        yield Doubled(one.run.name, first.name, is_later, is_same, word(result), number(result))


def _is_eligible(call: ToolCall) -> bool:
    has_arguments = isinstance(call.arguments, Recorded) and bool(call.arguments.value)
    is_answered = isinstance(call.result, Recorded) and not str(call.result.value).startswith("Error")
    return writes(call) and has_arguments and is_answered and not call.has_failed and not _SETTING.fullmatch(call.name)


def _with_another_result(call: ToolCall, trajectory: Trajectory) -> ToolCall | None:
    """Give the call an id that the run had not seen, else one more payment; `None` where its result has neither."""
    value = call.result.value if isinstance(call.result, Recorded) else None
    written = json.dumps(value)
    seen = _text(trajectory, call)
    fresh = next((found for found in _ID.findall(written) if found not in seen), None)
    if fresh is not None:
        changed: Json = json.loads(written.replace(fresh, f"{fresh[:-1]}{'7' if fresh[-1] == '4' else '4'}"))
        return replace(call, result=Recorded(changed))
    payments = value.get("payment_history") if isinstance(value, dict) else None
    if isinstance(value, dict) and isinstance(payments, list) and payments:
        paid: JsonObject = {**value, "payment_history": [*payments, payments[-1]]}
        return replace(call, result=Recorded(paid))
    return None


def _text(trajectory: Trajectory, but: ToolCall) -> str:
    """Write all that the run had seen, but for the result of one call."""
    contents = [call.arguments for call in trajectory.calls]
    contents += [call.result for call in trajectory.calls if call is not but]
    values = [json.dumps(content.value) for content in contents if isinstance(content, Recorded)]
    return "\n".join([*(message.text for message in trajectory.messages), *values])
