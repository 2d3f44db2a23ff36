"""Trajectories that a contract checker puts in front of an evaluator, made to meet every state a call can be in."""

from toolgauge.model.content import NOT_RECORDED, Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.expected import Expected, ExpectedCall
from toolgauge.model.observations import CallError, ToolDefinition
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import CallState, Message, ToolCall, Trajectory
from toolgauge.score.contracts import BY_NAME
from toolgauge.score.criterion import with_neutral_tools, with_writing_tools

# A value that no explanation may repeat: explanations leave the house, values do so only where allowed.
SECRET = "zq7-secret-value"  # noqa: S105 - a marker, no password

TRACE_ID = "5b8efff798038103d269b633813fc60c"
TOOLS = (
    ToolDefinition(
        name="find_order",
        description="Finds an order.",
        parameters={"type": "object", "properties": {"order_id": {"type": "string"}}, "required": ["order_id"]},
    ),
    ToolDefinition(name="refund_order"),
)


def sample_call(
    order: int,
    name: str = "find_order",
    *,
    arguments: Content | None = None,
    result: Content = NOT_RECORDED,
    error: CallError | None = None,
    state: CallState = "executed",
) -> ToolCall:
    """Return a call; calls with different `order` are turns of their own."""
    span = SpanRef(TRACE_ID, f"{order + 1:016x}")
    return ToolCall(
        order=order,
        turn=order,
        position=0,
        name=name,
        arguments=Recorded({"order_id": SECRET}) if arguments is None else arguments,
        result=result,
        error=error,
        call_id=f"call_{order}",
        agent="support",
        agent_path=("support",),
        state=state,
        span=span,
        requested_by=None,
        executed_by=span if state == "executed" else None,
        dialect="genai",
        start_ns=order * 1_000_000,
        end_ns=order * 1_000_000 + 500_000,
    )


def sample_trajectory(*calls: ToolCall, tools: tuple[ToolDefinition, ...] | None = TOOLS) -> Trajectory:
    """Return a closed trajectory with these calls, with the tools that change state or are neutral by their names, as when it is scored."""
    trajectory = Trajectory(
        scope="trace",
        trace_id=TRACE_ID,
        conversation_id=None,
        service="shop",
        agents=("support",),
        root=SpanRef(TRACE_ID, "ffffffffffffffff"),
        calls=calls,
        tools_offered=tools,
        messages=(Message(role="user", text="Where is my order?", turn=0),),
        attributes={},
        closed_because="run_ended",
        start_ns=0,
        end_ns=10_000_000,
    )
    return with_writing_tools(with_neutral_tools(trajectory, BY_NAME), (), BY_NAME)


def sample_trajectories() -> tuple[Trajectory, ...]:
    """Return trajectories from empty to full, with every kind of content and every state."""
    failed = CallError(kind="ValueError", message=SECRET)
    states = (
        sample_call(0),
        sample_call(1, result=Recorded({"order": SECRET})),
        sample_call(2, "refund_order", arguments=Recorded({"order_id": SECRET, "amount": 12.5}), error=failed),
        sample_call(3, "cancel_order", state="rejected", error=failed),
        sample_call(4, arguments=Unparsed('{"order_id": "' + SECRET), state="rejected"),
        sample_call(5, arguments=Unparsed('{"order_id": "' + SECRET, "truncated")),
        sample_call(6, arguments=NOT_RECORDED, result=Recorded(None)),
        sample_call(7, arguments=NotRecorded("redacted"), result=NotRecorded("redacted")),
        sample_call(8, arguments=Recorded([SECRET]), state="requested_only"),
        sample_call(9, arguments=Recorded({})),
    )
    single = tuple(sample_trajectory(call) for call in states)
    return (
        sample_trajectory(),
        sample_trajectory(tools=None),
        *single,
        sample_trajectory(*states),
        sample_trajectory(*states, tools=None),
        sample_trajectory(*(sample_call(order) for order in range(100))),
    )


def sample_expectations() -> tuple[Expected | None, ...]:
    """Return no reference, an empty one, and ones that the sample calls meet in part."""
    find = ExpectedCall(name="find_order", args={"order_id": SECRET})
    refund = ExpectedCall(name="refund_order", args={"order_id": SECRET, "amount": 13}, optional=True)
    return (
        None,
        Expected(turns=((),)),
        Expected(turns=((find,),)),
        Expected(turns=((find, refund, ExpectedCall(name="never_called")),)),
        Expected(turns=((find,), (refund, ExpectedCall(name="find_order", repeat=(0, 3)))), per_turn=True),
    )
