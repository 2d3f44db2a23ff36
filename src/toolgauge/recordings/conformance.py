"""How much of a known run a recording holds: its calls, arguments, results and failures, the offered tools, the conversation.

One comparison makes the table of producers from captures and the row of `toolgauge doctor --conformance`, whose scenario is
`conformance.json`: the tools, and what users ask, the model calls and the tools return.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from toolgauge.model.content import Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.recorded_values import result_value

SCENARIO = Path(__file__).with_suffix(".json")
# The columns that decide whether a run can be rebuilt.
COLUMNS = ("calls", "arguments", "results", "failures", "offers", "conversation")


class MadeCall(Struct, frozen=True, kw_only=True):
    """A call that really happened; where `result` is `None` there is none to compare."""

    name: str
    arguments: object = None
    # What the tool received, where that differs.
    effective_arguments: object = None
    result: object = None
    error: object = None
    executed: bool = True
    rejected: object = False
    call_id: str | None = None
    agent: str | None = None
    kind: str = "function"


class MadeRun(Struct, frozen=True, kw_only=True):
    """A run that really happened, in one trace or several."""

    tool_calls: tuple[MadeCall, ...]
    trace_id: str = ""
    other_trace_ids: tuple[str, ...] = ()
    conversation_id: str | None = None


class Truth(Struct, frozen=True, kw_only=True):
    """The runs of one scenario."""

    traces: tuple[MadeRun, ...]
    scenario: str = ""
    conversation_id: str | None = None
    conversation_id_in_capture: bool | None = None
    session_id: str | None = None
    versions: dict[str, str] = {}


class Compared(NamedTuple):
    """One value of a run; `is_absent` where the call was found without it."""

    column: str
    call: str
    is_right: bool
    is_absent: bool = False


class Cell(Struct, frozen=True, kw_only=True):
    """How many values of one column are right, and how many of the others are absent."""

    right: int
    absent: int
    of: int

    @property
    def word(self) -> str:
        """Answer whether the column can be rebuilt; `-` where there was nothing to find."""
        if self.right == self.of:
            return "yes" if self.of else "-"
        if self.right:
            return f"partly {self.right}/{self.of}"
        return "not recorded" if self.absent == self.of else "no"


def cells(compared_values: Iterable[Compared], columns: Sequence[str] = COLUMNS) -> dict[str, Cell]:
    """Sum up compared values by column."""
    by_column: dict[str, list[Compared]] = {column: [] for column in columns}
    for one in compared_values:
        if one.column in by_column:
            by_column[one.column].append(one)
    return {
        column: Cell(
            right=sum(one.is_right for one in values), absent=sum(one.is_absent for one in values), of=len(values)
        )
        for column, values in by_column.items()
    }


def compared(run: MadeRun, found: Sequence[Trajectory], conversation_id: str | None) -> Iterator[Compared]:
    """Compare a run with the trajectories of its traces, value by value."""
    left = [call for trajectory in found for call in trajectory.calls if call.kind == "tool"]
    offers = [trajectory.tools_offered for trajectory in found if trajectory.tools_offered is not None]
    offered = {tool.name for tools in offers for tool in tools}
    if conversation_id is not None and found:
        ids = {one.conversation_id for one in found if one.calls} or {one.conversation_id for one in found}
        yield Compared("conversation", "", ids == {conversation_id}, ids == {None})
    for made in run.tool_calls:
        call = taken(made, left)
        yield Compared("calls", made.name, call is not None)
        yield from _of_call(made, call)
        if made.executed and made.kind == "function":
            yield Compared("offers", made.name, made.name in offered, call is not None and not offers)
    yield from (Compared("calls", call.name, is_right=False) for call in left)


def _of_call(made: MadeCall, call: ToolCall | None) -> Iterator[Compared]:
    def is_absent(content: Content) -> bool:
        return isinstance(content, NotRecorded)

    if call is None:
        # Nothing of it can be rebuilt.
        shows = {"arguments": True, "results": made.result is not None, "failures": made.error or made.rejected}
        yield from (Compared(column, made.name, is_right=False) for column, is_shown in shows.items() if is_shown)
        return
    yield Compared("arguments", made.name, has_arguments(made, call), is_absent(call.arguments))
    if made.result is not None:
        yield Compared("results", made.name, _has_result(made.result, call), is_absent(call.result))
    if made.executed and made.error:
        yield Compared("failures", made.name, call.error is not None)
    elif made.rejected and not made.executed:
        yield Compared("failures", made.name, call.state == "rejected")
    elif made.executed and call.has_failed:
        yield Compared("failures", made.name, is_right=False)
    if made.call_id:
        yield Compared("ids", made.name, call.call_id == made.call_id, call.call_id is None)
    if made.agent:
        yield Compared("agents", made.name, call.agent is not None, call.agent is None)


def taken(made: MadeCall, left: list[ToolCall]) -> ToolCall | None:
    """Take the found call that is meant: of this name, preferably with these arguments."""
    named = [call for call in left if call.name == made.name]
    best = next((call for call in named if has_arguments(made, call)), named[0] if named else None)
    if best is not None:
        left.remove(best)
    return best


def has_arguments(made: MadeCall, call: ToolCall) -> bool:
    """Return whether the call has the arguments that the model wrote or the tool received."""
    options = (made.arguments, *((made.effective_arguments,) if made.effective_arguments is not None else ()))
    match call.arguments:
        case Recorded(value=value):
            return value in options
        case Unparsed(text=text):
            return any(isinstance(option, str) and option.strip() == text.strip() for option in options)
        case NotRecorded():
            return False


def _has_result(made: object, call: ToolCall) -> bool:
    match call.result:
        case Recorded(value=value):
            found = result_value(value)
        case Unparsed(text=text):
            found = text
        case NotRecorded():
            return False
    # Frameworks put words of their own around a text.
    return found == made or (isinstance(made, str) and made in str(found))


def shared_conversation(found: Iterable[Trajectory]) -> str | None:
    """Return the only conversation id of the trajectories with calls; some frameworks choose it themselves."""
    ids = {one.conversation_id for one in found if one.calls}
    return ids.pop() if len(ids) == 1 else None


def conformance(found: Sequence[Trajectory]) -> tuple[Compared, ...]:
    """Compare a recording of the fixed scenario."""
    truth = msgspec.json.decode(SCENARIO.read_bytes(), type=Truth)
    calls = tuple(chain.from_iterable(run.tool_calls for run in truth.traces))
    return tuple(compared(MadeRun(tool_calls=calls), found, shared_conversation(found) or truth.conversation_id))
