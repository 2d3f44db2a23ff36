"""Builders of trajectories, calls and references for the tests of scoring."""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from toolgauge.model.content import NOT_RECORDED, Content, Recorded
from toolgauge.model.expected import Expected, ExpectedCall
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.left_out import NOTHING_LEFT_OUT, LeftOut
from toolgauge.model.observations import CallError, ToolDefinition
from toolgauge.model.outcomes import Difference, NotEvaluated, Outcome, Scored
from toolgauge.model.ports import Evaluator
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import CallState, Message, Run, ToolCall, Trajectory, TrajectoryScope

TRACE = "0af7651916cd43dd8448eb211c80319c"


def tool_call(
    name: str,
    args: Json = None,
    *,
    arguments: Content | None = None,
    result: Content = NOT_RECORDED,
    error: CallError | None = None,
    state: CallState = "executed",
    turn: int | None = None,
    call_id: str | None = None,
    agent: str | None = None,
    trace_id: str = TRACE,
    is_joined_by_id: bool = False,
) -> ToolCall:
    """Build one call; `order` and `turn` are filled in by `trajectory`."""
    return ToolCall(
        order=0,
        turn=-1 if turn is None else turn,
        position=0,
        name=name,
        arguments=arguments or Recorded({} if args is None else args),
        result=result,
        error=error,
        call_id=call_id,
        agent=agent,
        agent_path=() if agent is None else (agent,),
        state=state,
        span=SpanRef(trace_id, "b7ad6b7169203331"),
        requested_by=None,
        executed_by=None,
        dialect="genai",
        start_ns=0,
        end_ns=0,
        is_joined_by_id=is_joined_by_id,
    )


def trajectory(
    *calls: ToolCall,
    scope: TrajectoryScope = "trace",
    service: str | None = "shop",
    agents: tuple[str, ...] = ("clerk",),
    offered: Iterable[str] | None = None,
    messages: tuple[Message, ...] = (),
    attributes: Mapping[str, str | int | float | bool] | None = None,
    conversation_id: str | None = None,
    trace_id: str = TRACE,
    writing_tools: Iterable[str] = (),
    left_out: LeftOut = NOTHING_LEFT_OUT,
    incomplete: str | None = None,
) -> Trajectory:
    """Build a closed trajectory; calls are numbered, each a turn of its own unless it says otherwise."""
    numbered = (
        replace(call, order=order, turn=order if call.turn < 0 else call.turn, span=_span(call, order))
        for order, call in enumerate(calls)
    )
    return Trajectory(
        scope=scope,
        trace_id=trace_id,
        conversation_id=conversation_id,
        service=service,
        agents=agents,
        root=SpanRef(trace_id, "00f067aa0ba902b7"),
        calls=tuple(numbered),
        tools_offered=None if offered is None else tuple(ToolDefinition(name=name) for name in offered),
        messages=messages,
        attributes=attributes or {},
        closed_because="run_ended",
        start_ns=0,
        end_ns=1,
        writing_tools=frozenset(writing_tools),
        left_out=left_out,
        incomplete=incomplete,
    )


def _span(call: ToolCall, order: int) -> SpanRef:
    return SpanRef(call.span.trace_id, f"{order + 1:016x}")


def agent_run(
    span: SpanRef,
    above: SpanRef | None = None,
    *,
    agent: str | None = None,
    prompt: str | None = None,
    response: str | None = None,
    tools: tuple[ToolDefinition, ...] | None = None,
    times: tuple[int, int] = (0, 9),
    is_agent: bool = True,
) -> Run:
    start_ns, end_ns = times
    return Run(
        span=span,
        above=above,
        agent=agent,
        prompt=prompt,
        response=response,
        tools_offered=tools,
        start_ns=start_ns,
        end_ns=end_ns,
        is_agent=is_agent,
    )


def user(text: str, turn: int) -> Message:
    return Message(role="user", text=text, turn=turn)


def expect(
    name: str, args: JsonObject | None = None, *, optional: bool = False, repeat: tuple[int, int] = (1, 1)
) -> ExpectedCall:
    return ExpectedCall(name=name, args=args, optional=optional, repeat=repeat)


def expected(*calls: ExpectedCall) -> Expected:
    return Expected(turns=(calls,))


def expected_turns(*turns: tuple[ExpectedCall, ...]) -> Expected:
    return Expected(turns=turns, per_turn=True)


def judge(evaluator: Evaluator, judged: Trajectory, reference: Expected | None = None) -> list[Outcome]:
    """Run an evaluator to its end and return its outcomes."""
    return [evaluation[1] for evaluation in evaluator.evaluate(judged, reference) if evaluation is not None]


def scored(evaluator: Evaluator, judged: Trajectory, reference: Expected | None = None) -> Scored:
    """Return the only outcome, which must be a score."""
    (outcome,) = judge(evaluator, judged, reference)
    assert isinstance(outcome, Scored), outcome
    return outcome


def not_evaluated(evaluator: Evaluator, judged: Trajectory, reference: Expected | None = None) -> str:
    """Return the reason of the only outcome, which must be that there is none."""
    (outcome,) = judge(evaluator, judged, reference)
    assert isinstance(outcome, NotEvaluated), outcome
    return outcome.reason


def sides(difference: Difference) -> tuple[Json, Json]:
    """Return both values of a difference, "<absent>" where there is none."""
    return (
        "<absent>" if difference.expected is None else difference.expected.value,
        "<absent>" if difference.actual is None else difference.actual.value,
    )
