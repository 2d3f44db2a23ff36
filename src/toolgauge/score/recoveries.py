"""Which failed calls were made good: the same agent called the same tool again, and it worked."""

from collections import deque
from collections.abc import Sequence

from toolgauge.model.content import NotRecorded
from toolgauge.model.trajectory import ToolCall
from toolgauge.score.selection import has_failed, has_taken_effect


def made_good(calls: Sequence[ToolCall]) -> dict[int, ToolCall]:
    """Map the order of each failed call that was made good to the first success after it."""
    successes: dict[int, ToolCall] = {}
    failed: dict[tuple[str | None, str], deque[ToolCall]] = {}
    for call in calls:
        key = call.agent, call.name
        if has_failed(call):
            failed.setdefault(key, deque()).append(call)
        elif key in failed and has_succeeded(call):
            # Calls of one turn were asked for together: none of them is a retry of another.
            waiting = failed[key]
            while waiting and waiting[0].turn < call.turn:
                successes[waiting.popleft().order] = call
    return successes


def has_succeeded(call: ToolCall) -> bool:
    """Return whether the call was executed, or answered, without an error."""
    return has_taken_effect(call) and (call.state == "executed" or not isinstance(call.result, NotRecorded))
