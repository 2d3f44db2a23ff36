"""Finds recovered failures: the same agent called the same tool again, and it worked."""

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from itertools import islice
from operator import attrgetter, itemgetter

from toolgauge.model.content import NotRecorded, Recorded
from toolgauge.model.trajectory import ToolCall, Trajectory

# The share of a failed step's lines that are in the later step, for both to be the same cell.
_SAME_CELL = 0.5
# So many steps after a failed one are compared with it: each with each would take a minute for a trace of 10,000.
_MAX_LATER = 50


def made_good(calls: Sequence[ToolCall]) -> dict[int, ToolCall]:
    """Map the order of each failed call of a tool that was made good to the first success after it."""
    successes: dict[int, ToolCall] = {}
    failed: dict[tuple[str | None, str], deque[ToolCall]] = {}
    for call in calls:
        if call.kind == "code":
            continue
        key = call.agent, call.name
        if call.has_failed:
            failed.setdefault(key, deque()).append(call)
        elif key in failed and has_succeeded(call):
            # Calls of one turn were asked for together: none of them is a retry of another.
            waiting = failed[key]
            while waiting and waiting[0].turn < call.turn:
                successes[waiting.popleft().order] = call
    return successes


def repaired_code(trajectory: Trajectory) -> frozenset[int]:
    """Return the orders of failed code steps followed by a working step of the same agent with at least half of their lines."""
    failed = [call for call in trajectory.calls if call.kind == "code" and call.has_failed]
    if not failed:
        return frozenset()
    worked: dict[tuple[str, str | None], list[tuple[int, frozenset[str]]]] = {}
    for step in sorted(trajectory.code_steps, key=attrgetter("start_ns")):
        if step.code is not None and not step.has_failed:
            worked.setdefault((step.name, step.agent), []).append((step.start_ns, _lines(step.code)))
    return frozenset(call.order for call in failed if _is_repaired(call, worked.get((call.name, call.agent), ())))


def _is_repaired(call: ToolCall, worked: Sequence[tuple[int, frozenset[str]]]) -> bool:
    written = call.arguments.value if isinstance(call.arguments, Recorded) else None
    code = written.get("code") if isinstance(written, dict) else None
    lines = _lines(code if isinstance(code, str) else "")
    first = bisect_left(worked, call.end_ns, key=itemgetter(0))
    return bool(lines) and any(
        len(lines & later) >= _SAME_CELL * len(lines) for _, later in islice(worked, first, first + _MAX_LATER)
    )


def recovered(trajectory: Trajectory) -> frozenset[int]:
    """Return the orders of all failed calls that were made good."""
    if not any(call.has_failed for call in trajectory.calls):
        return frozenset()
    return repaired_code(trajectory).union(made_good(trajectory.calls))


def has_succeeded(call: ToolCall) -> bool:
    """Return whether the call was executed, or answered, without an error."""
    if call.error is not None:
        return False
    return call.state == "executed" or (call.state == "requested_only" and not isinstance(call.result, NotRecorded))


def _lines(code: str) -> frozenset[str]:
    stripped = (line.strip() for line in code.splitlines())
    return frozenset(line for line in stripped if line and not line.startswith("#"))
