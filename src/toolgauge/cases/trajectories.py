"""Trajectories of cases: built call by call, or read from sessions as Strands writes them (one trace a user turn).

In a session, a call knows the results that ended at or before its start; a turn of calls ends where more is known.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from msgspec.structs import replace

from toolgauge.assemble.failures import mcp_failure
from toolgauge.cases.case import CaseError
from toolgauge.model.content import NOT_RECORDED, Content, Recorded
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.observations import OTHER_ERROR, CallError, ToolDefinition
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import CASE_DIALECT, Message, Run, ToolCall, Trajectory
from toolgauge.recognize.values import arguments as read_arguments
from toolgauge.recognize.values import as_list, as_object, as_str, identifier, result
from toolgauge.settings import SECOND

_TRACE_ID = f"{1:032x}"
_ROOT = SpanRef(_TRACE_ID, f"{1:016x}")
_FIRST_CALL = 2


def case_call(
    name: str,
    *,
    arguments: Content = NOT_RECORDED,
    result: Content = NOT_RECORDED,
    call_id: str | None = None,
    tool_id: str | None = None,
    tool_type: str = "",
) -> ToolCall:
    """Make a call without times and without a place among the others."""
    return ToolCall(
        order=0,
        turn=0,
        position=0,
        name=name,
        arguments=arguments,
        result=result,
        error=None,
        call_id=call_id,
        agent=None,
        agent_path=(),
        state="executed",
        span=_ROOT,
        requested_by=None,
        executed_by=None,
        dialect=CASE_DIALECT,
        start_ns=0,
        end_ns=0,
        tool_id=tool_id,
        tool_type=tool_type,
    )


class TrajectoryBuilder:
    """Calls and messages in their order; every `begin_turn` is one output of the model."""

    def __init__(self) -> None:
        self._calls: list[ToolCall] = []
        self._messages: list[Message] = []
        self._position = 0
        self._turns: int = 0

    def begin_turn(self) -> None:
        """Begin a turn: calls added from here on were requested together."""
        if self._position:
            self._turns += 1
            self._position = 0

    def call(self, made: ToolCall) -> None:
        """Add a call to the turn that is open; the next turn knows its result."""
        order, turn = len(self._calls), self._turns
        span, error = SpanRef(_TRACE_ID, f"{order + _FIRST_CALL:016x}"), made.error or mcp_failure(made.result)
        placed = replace(made, order=order, turn=turn, position=self._position, result_turn=turn + 1)
        self._calls.append(replace(placed, span=span, error=error))
        self._position += 1

    def answer(self, result: Content, call_id: str | None, error: CallError | None = None) -> None:
        """Give a result to the call of this id, else to the first one that has none."""
        waiting = [call for call in self._calls if call.result == NOT_RECORDED]
        named = [call for call in waiting if call_id is not None and call.call_id == call_id]
        unnamed = [call for call in waiting if call_id is None or call.call_id is None]
        for call in [*named, *unnamed][:1]:
            self._calls[call.order] = replace(call, result=result, error=call.error or error or mcp_failure(result))

    def message(self, role: Literal["system", "user", "assistant"], text: str) -> None:
        """Add a message. Calls added after one of the user are a new turn; one of the agent comes after the calls of its turn."""
        if role == "user":
            self.begin_turn()
        turn = self._turns + (role == "assistant" and self._position > 0)
        self._messages.append(Message(role=role, text=text, turn=turn))

    def trajectory(
        self, properties: Mapping[str, str] | None = None, tools: tuple[ToolDefinition, ...] | None = None
    ) -> Trajectory:
        """Make the trajectory."""
        return Trajectory(
            scope="trace",
            trace_id=_TRACE_ID,
            conversation_id=None,
            service=None,
            agents=(),
            root=_ROOT,
            calls=tuple(self._calls),
            tools_offered=tools,
            messages=tuple(self._messages),
            attributes={},
            closed_because="run_ended",
            start_ns=0,
            end_ns=0,
            properties=properties or {},
        )


def tool_type(written: JsonObject) -> str:
    """Return the kind of tool that DeepEval's `type` of a call names, empty for a function."""
    return "MCP" if written.get("type") == "MCP" else ""


# The arguments of a call, as agents and other evaluation packages name them. A text under the second names
# may be anything, not only arguments as JSON.
_ARGUMENTS = ("args", "arguments", "input_parameters")
_ARGUMENT_OBJECTS = ("parameters", "input", "tool_args", "tool_input")
ARGUMENT_KEYS = _ARGUMENTS + _ARGUMENT_OBJECTS


def given_arguments(call: dict[str, Json]) -> Content:
    """Read the arguments of a written call: `args` is a value, `arguments` may be text as the model wrote it."""
    for key in ARGUMENT_KEYS:
        value = call.get(key)
        if key in _ARGUMENTS and isinstance(value, str):
            return read_arguments(value)
        if isinstance(value, dict) or (key in _ARGUMENTS and key in call):
            return Recorded(value)
    return NOT_RECORDED


_MAX_SECONDS = 1e12


def of_traces(written: Json) -> Trajectory:
    """Make one trajectory of a session; of several traces it is a conversation."""
    session = _Session()
    traces = as_list(written)
    if not isinstance(written, list) or not all(isinstance(trace, dict) for trace in traces):
        raise CaseError("`traces` must be a list of objects with `spans`")
    for number, trace in enumerate(traces, 1):
        spans = as_list(as_object(trace).get("spans"))
        found = [span for span in spans if isinstance(span, dict) and span.get("type") in ("agent", "tool")]
        if len(found) != len(spans):
            raise CaseError("`type` of a span of a trace must be agent or tool")
        session.add(f"{number:032x}", found)
    return session.of_session(len(traces))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Timed:
    """One span with its times; an end before the start is the start."""

    ref: SpanRef
    parent_id: str | None
    written: JsonObject
    start_ns: int
    end_ns: int

    @property
    def is_tool(self) -> bool:
        return self.written.get("type") == "tool"


class _Session(TrajectoryBuilder):
    def __init__(self) -> None:
        super().__init__()
        self._runs: list[Run] = []
        self._times: list[int] = []

    def add(self, trace_id: str, written: Sequence[JsonObject]) -> None:
        spans: list[_Timed] = []
        for number, span in enumerate(written, 1):
            start_ns, end_ns = (_nanoseconds(span, key) for key in ("start", "end"))
            # Ids are texts of any form in a case; the place in the list tells spans apart.
            ref, parent_id = SpanRef(trace_id, f"{number:016x}"), as_str(span.get("parent_span_id"))
            timed = _Timed(ref=ref, parent_id=parent_id, written=span, start_ns=start_ns, end_ns=max(start_ns, end_ns))
            spans.append(timed)
        by_id = {as_str(span.written.get("span_id")): span for span in spans}
        self._times += [time for span in spans for time in (span.start_ns, span.end_ns)]
        agents = [span for span in spans if not span.is_tool]
        for span in agents:
            above, error = _run_above(span, by_id), as_str(span.written.get("error"))
            run = Run(
                span=span.ref,
                above=None if above is None else above.ref,
                agent=_agent(span),
                prompt=as_str(span.written.get("user")),
                response=as_str(span.written.get("response")),
                tools_offered=tools(span.written.get("available_tools")),
                start_ns=span.start_ns,
                end_ns=span.end_ns,
                error=CallError(kind=OTHER_ERROR, message=error) if above is None and error is not None else None,
            )
            self._runs.append(run)
        roots = (span for span in agents if span.parent_id not in by_id)
        root = min(roots, key=lambda span: span.start_ns, default=None)
        asked, answered = (None if root is None else as_str(root.written.get(key)) for key in ("user", "response"))
        if asked:
            self._messages.append(Message(role="user", text=asked, turn=self._turns))
        self._add_calls([span for span in spans if span.is_tool], by_id)
        if answered:
            self._messages.append(Message(role="assistant", text=answered, turn=self._turns))

    def _add_calls(self, spans: Sequence[_Timed], by_id: dict[str | None, _Timed]) -> None:
        """Add the calls in the order of the list, each in the turn that its time gives it."""
        starts = [(span.start_ns, number) for number, span in enumerate(spans)]
        ends = [(span.end_ns, number) for number, span in enumerate(spans)]
        # The calls that had ended when each call started.
        known = [{end[1] for end in ends if end[1] != start[1] and end < start} for start in starts]
        turns = [self._turns] * len(spans)
        before: int | None = None
        for number in sorted(range(len(spans)), key=lambda number: spans[number].start_ns):
            if before is not None and known[number] != known[before]:
                self._turns += 1
            turns[number] = self._turns
            before = number
        self._turns += bool(spans)
        for number, span in enumerate(spans):
            knowing = [turn for turn, seen in zip(turns, known, strict=True) if number in seen]
            answer, run, turn = span.written.get("result"), _run_above(span, by_id), turns[number]
            content = result(answer) if isinstance(answer, str) else Recorded(answer)
            made = case_call(
                as_str(span.written.get("name")) or "",
                arguments=given_arguments(span.written),
                result=content if "result" in span.written else NOT_RECORDED,
                call_id=identifier(span.written.get("call_id")),
            )
            agent, position = _agent(run), turns[:number].count(turn)
            made = replace(made, order=len(self._calls), turn=turn, position=position, span=span.ref)
            made = replace(made, executed_by=span.ref, start_ns=span.start_ns, end_ns=span.end_ns)
            made = replace(made, result_turn=min(knowing, default=self._turns))
            path = () if agent is None else (agent,)
            self._calls.append(replace(made, agent=agent, agent_path=path, run=None if run is None else run.ref))

    def of_session(self, traces: int) -> Trajectory:
        outermost = [run for run in self._runs if run.above is None]
        offered = [run.tools_offered for run in outermost if run.tools_offered is not None]
        last = outermost[-1] if outermost else None
        return replace(
            self.trajectory(tools=offered[-1] if offered else None),
            scope="conversation" if traces > 1 else "trace",
            trace_id=f"{max(traces, 1):032x}",
            conversation_id="case" if traces > 1 else None,
            agents=tuple(dict.fromkeys(run.agent for run in self._runs if run.agent is not None)),
            root=None if last is None else last.span,
            start_ns=min(self._times, default=0),
            end_ns=max(self._times, default=0),
            runs=tuple(self._runs),
        )


def _nanoseconds(written: JsonObject, key: str) -> int:
    seconds = written.get(key)
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not abs(seconds) < _MAX_SECONDS:
        raise CaseError(f"`{key}` of a span of a trace must be a number of seconds")
    return round(seconds * SECOND)


def _run_above(span: _Timed, by_id: dict[str | None, _Timed]) -> _Timed | None:
    """Find the nearest agent above a span; a circle of parents ends the search."""
    seen: set[str] = set()
    parent = span.parent_id
    while parent is not None and parent not in seen and (above := by_id.get(parent)) is not None:
        if not above.is_tool:
            return above
        seen.add(parent)
        parent = above.parent_id
    return None


def _agent(span: _Timed | None) -> str | None:
    return None if span is None else as_str(span.written.get("name")) or as_str(span.written.get("agent"))


def tools(written: Json) -> tuple[ToolDefinition, ...] | None:
    """Read tools on offer; `None` where none are written."""
    if not isinstance(written, list):
        return None
    return tuple(
        ToolDefinition(
            name=as_str(tool.get("name")) or "",
            description=as_str(tool.get("description")),
            parameters=as_object(tool["parameters"]) if "parameters" in tool else None,
        )
        for tool in written
        if isinstance(tool, dict)
    )
