"""Collects the messages and calls of a case and makes a trajectory of them, as if recorded live."""

from dataclasses import dataclass

from msgspec.structs import replace

from toolgauge.assemble.mcp_failures import mcp_failure
from toolgauge.model.content import NOT_RECORDED, Content, Recorded
from toolgauge.model.json import Json
from toolgauge.model.observations import CallError, ToolDefinition
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import CASE_DIALECT, Message, ToolCall, Trajectory
from toolgauge.recognize.values import arguments as read_arguments

SECOND_NS = 1_000_000_000

_TRACE_ID = f"{1:032x}"
_ROOT = SpanRef(_TRACE_ID, f"{1:016x}")
_FIRST_CALL = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ActualCall:
    """One call as a case describes it. `arguments` and `result` are read already."""

    name: str
    arguments: Content = NOT_RECORDED
    result: Content = NOT_RECORDED
    error: CallError | None = None
    call_id: str | None = None
    agent: str | None = None
    start_ns: int | None = None
    end_ns: int | None = None


class TrajectoryBuilder:
    """Calls and messages in their order; every `begin_turn` is one output of the model."""

    def __init__(self) -> None:
        self._calls: list[ToolCall] = []
        self._messages: list[Message] = []
        self._position = 0
        self._turns = 0

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls so far."""
        return tuple(self._calls)

    def begin_turn(self) -> None:
        """Begin a turn: calls added from here on were requested together."""
        if self._position:
            self._turns += 1
            self._position = 0

    def call(self, made: ActualCall) -> None:
        """Add a call to the turn that is open."""
        order = len(self._calls)
        span = SpanRef(_TRACE_ID, f"{order + _FIRST_CALL:016x}")
        start_ns = order * SECOND_NS if made.start_ns is None else made.start_ns
        self._calls.append(
            ToolCall(
                order=order,
                turn=self._turns,
                position=self._position,
                name=made.name,
                arguments=made.arguments,
                result=made.result,
                error=made.error or mcp_failure(made.result),
                call_id=made.call_id,
                agent=made.agent,
                agent_path=() if made.agent is None else (made.agent,),
                state="executed",
                span=span,
                requested_by=None,
                executed_by=span,
                dialect=CASE_DIALECT,
                start_ns=start_ns,
                end_ns=start_ns + SECOND_NS // 2 if made.end_ns is None else made.end_ns,
                result_turn=self._turns + 1,
            )
        )
        self._position += 1

    def answer(self, result: Content, call_id: str | None) -> None:
        """Give a result to the call of this id, else to the first one that has none."""
        waiting = [call for call in self._calls if call.result == NOT_RECORDED]
        named = [call for call in waiting if call_id is not None and call.call_id == call_id]
        unnamed = [call for call in waiting if call_id is None or call.call_id is None]
        for call in [*named, *unnamed][:1]:
            self._calls[call.order] = replace(call, result=result, error=call.error or mcp_failure(result))

    def add(self, message: Message) -> None:
        """Add a message whose turn is known."""
        self._messages.append(message)

    def user(self, text: str) -> None:
        """Add a message of the user; calls added next are a new turn."""
        self.begin_turn()
        self._messages.append(Message(role="user", text=text, turn=self._turns))

    def assistant(self, text: str) -> None:
        """Add a message of the agent."""
        turn = self._turns + 1 if self._position else self._turns
        self._messages.append(Message(role="assistant", text=text, turn=turn))

    def system(self, text: str) -> None:
        """Add instructions."""
        self._messages.append(Message(role="system", text=text, turn=self._turns))

    def trajectory(self, tools_offered: tuple[ToolDefinition, ...] | None = None) -> Trajectory:
        """Make the trajectory."""
        return Trajectory(
            scope="trace",
            trace_id=_TRACE_ID,
            conversation_id=None,
            service=None,
            agents=tuple(dict.fromkeys(call.agent for call in self._calls if call.agent is not None)),
            root=_ROOT,
            calls=self.calls,
            tools_offered=tools_offered,
            messages=tuple(self._messages),
            attributes={},
            closed_because="run_ended",
            start_ns=0,
            end_ns=max((call.end_ns for call in self._calls), default=0),
        )


# The arguments of a call, as agents and other evaluation packages name them. A text under the second names is no JSON text
# of arguments but may be anything.
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
