"""How much of a known run a recording holds: its calls, arguments, results and failures, the offered tools, the conversation.

One comparison makes the table of producers from captures and the row of `toolgauge doctor --conformance`, whose scenario is
`conformance.json`: the tools, and what users ask, the model calls and the tools return.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from toolgauge.model.content import Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.errors import RecordingError
from toolgauge.model.json import JsonObject
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.recognize.shortfalls import Producer
from toolgauge.report.terminal import shortened
from toolgauge.score.recorded_values import result_value

SCENARIO = Path(__file__).with_suffix(".json")
# The columns that decide whether a run can be rebuilt.
COLUMNS: tuple[str, ...] = ("calls", "arguments", "results", "failures", "offers", "conversation")

# More trajectories than any recording of the scenario has.
_MAX_TRAJECTORIES, _NAME_LENGTH = 100, 200
# So many tools of the scenario are known by name, unless a recording is of something else.
_LEAST_TOOLS = 2
_ABSENT, _DIFFERENT, _NOT_FOUND = "not recorded", "another value", "not found"


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
    """One value of a run; `wrong` describes its fault, if any."""

    column: str
    call: str
    wrong: str = ""


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
            right=sum(not one.wrong for one in values),
            absent=sum(one.wrong == _ABSENT for one in values),
            of=len(values),
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
        is_right = ids == {conversation_id}
        yield Compared("conversation", "", _unless(is_right, _ABSENT if ids == {None} else _DIFFERENT))
    for made in run.tool_calls:
        call = taken(made, left)
        yield Compared("calls", made.name, _unless(call is not None, _NOT_FOUND))
        yield from _of_call(made, call)
        if made.executed and made.kind == "function":
            wrong = _NOT_FOUND if call is None or offers else _ABSENT
            yield Compared("offers", made.name, _unless(made.name in offered, wrong))
    yield from (Compared("calls", call.name, "never made") for call in left)


def _of_call(made: MadeCall, call: ToolCall | None) -> Iterator[Compared]:
    if call is None:
        shows = {"arguments": True, "results": made.result is not None, "failures": made.error or made.rejected}
        yield from (Compared(column, made.name, _NOT_FOUND) for column, is_shown in shows.items() if is_shown)
        return
    yield Compared("arguments", made.name, _unless(has_arguments(made, call), _absent(call.arguments)))
    if made.result is not None:
        yield Compared("results", made.name, _unless(_has_result(made.result, call), _absent(call.result)))
    if made.executed and made.error:
        yield Compared("failures", made.name, _unless(call.error is not None, "not known to have failed"))
    elif made.rejected and not made.executed:
        yield Compared("failures", made.name, _unless(call.state == "rejected", "not known to be rejected"))
    elif made.executed and call.has_failed:
        yield Compared("failures", made.name, "taken for a failure")
    if made.call_id:
        yield Compared("ids", made.name, _unless(call.call_id == made.call_id, _DIFFERENT if call.call_id else _ABSENT))
    if made.agent:
        yield Compared("agents", made.name, _unless(call.agent is not None, _ABSENT))


def _unless(is_right: object, wrong: str) -> str:
    return "" if is_right else wrong


def _absent(content: Content) -> str:
    return _ABSENT if isinstance(content, NotRecorded) else _DIFFERENT


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


class Conformance(Struct, frozen=True, kw_only=True):
    """A recording of the fixed scenario, compared with what really happened in it."""

    producers: tuple[str, ...]
    row: dict[str, Cell]
    wrong: tuple[Compared, ...]

    @property
    def is_whole(self) -> bool:
        """Return whether the run can be rebuilt."""
        return all(cell.word == "yes" for cell in self.row.values())


def conformance(trajectories: Iterable[Trajectory], producers: Iterable[Producer]) -> Conformance:
    """Compare a recording of the fixed scenario; `producers` are read once the trajectories are taken."""
    found = tuple(islice(trajectories, _MAX_TRAJECTORIES + 1))
    if len(found) > _MAX_TRAJECTORIES:
        raise RecordingError(f"more than {_MAX_TRAJECTORIES} trajectories: record the scenario alone")
    truth = msgspec.json.decode(SCENARIO.read_bytes(), type=Truth)
    calls = tuple(chain.from_iterable(run.tool_calls for run in truth.traces))
    made = {call.name for one in found for call in one.calls}
    if made and len(made & {call.name for call in calls}) < _LEAST_TOOLS:
        raise RecordingError(
            "this is no recording of the fixed scenario, whose tools were not called: docs/producers.md has it"
        )
    wanted = shared_conversation(found) or truth.conversation_id
    values = tuple(compared(MadeRun(tool_calls=calls), found, wanted))
    names = (" ".join((one.scope or "(no scope)", one.version)).strip() for one in sorted(producers))
    return Conformance(
        producers=tuple(dict.fromkeys(shortened(name, _NAME_LENGTH) for name in names)),
        row=cells(values),
        wrong=tuple(one for one in values if one.wrong),
    )


def conformance_object(found: Conformance) -> JsonObject:
    """Describe it for `doctor --conformance --json`."""
    return {
        "ok": found.is_whole,
        "producers": [*found.producers],
        "rebuilt": {
            column: {
                "answer": cell.word.partition(" ")[0] if cell.right else cell.word,
                "right": cell.right,
                "of": cell.of,
            }
            for column, cell in found.row.items()
        },
        "wrong": [{"what": one.column, "call": one.call or None, "wrong": one.wrong} for one in found.wrong],
    }


def conformance_lines(found: Conformance) -> Iterator[str]:
    """Write the row of the table of producers, and a line for each fault."""
    names = ", ".join(found.producers).replace("|", "\\|") or "no producer is recognised"
    yield f"| producer | {' | '.join(found.row)} |"
    yield "|---" * (len(found.row) + 1) + "|"
    yield f"| {names} | {' | '.join(cell.word for cell in found.row.values())} |"
    for one in found.wrong:
        of = f" of `{shortened(one.call, _NAME_LENGTH)}`" if one.call else ""
        yield f"{one.column}{of}: {one.wrong}"
