"""Scorecards to emit, and what was emitted as plain values."""

from collections.abc import Iterable

from msgspec.structs import replace
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from toolgauge.export.emitter import Emitter
from toolgauge.export.redact import Redactor
from toolgauge.export.results import Annotations, EmitSettings
from toolgauge.model.content import NOT_RECORDED
from toolgauge.model.metrics import MetricRegistry
from toolgauge.model.observations import CallError
from toolgauge.model.outcomes import Outcome, Result, Scorecard, Scored
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.selfmetrics import SelfMetrics

TRACE = "0af7651916cd43dd8448eb211c80319c"
ROOT = SpanRef(TRACE, "b7ad6b7169203331")
TOOL_SPAN = SpanRef(TRACE, "00f067aa0ba902b7")
OTHER_TOOL_SPAN = SpanRef(TRACE, "00f067aa0ba902b8")
START_NS = 1_700_000_000_000_000_000
SCORED_NS = 1_700_000_060_000_000_000
CALL_END_NS = 1_700_000_001_500_000_000
END_NS = 1_700_000_002_000_000_000


def call(name: str = "issue_refund", span: SpanRef = TOOL_SPAN, error: CallError | None = None) -> ToolCall:
    return ToolCall(
        order=0,
        turn=0,
        position=0,
        name=name,
        arguments=NOT_RECORDED,
        result=NOT_RECORDED,
        error=error,
        call_id="call_1",
        agent="refund-agent",
        agent_path=("refund-agent",),
        state="executed",
        span=span,
        requested_by=None,
        executed_by=span,
        dialect="genai",
        start_ns=START_NS,
        end_ns=CALL_END_NS,
    )


def trajectory(*calls: ToolCall) -> Trajectory:
    return Trajectory(
        scope="trace",
        trace_id=TRACE,
        conversation_id="conv-7",
        service="support",
        agents=("triage", "refund-agent"),
        root=ROOT,
        calls=calls,
        tools_offered=None,
        messages=(),
        attributes={},
        closed_because="run_ended",
        start_ns=START_NS,
        end_ns=END_NS,
    )


def call_result(outcome: Outcome, judged: ToolCall | None = None, criterion: str = "refund-arguments") -> Result:
    judged = judged if judged is not None else call()
    return Result(
        criterion=criterion,
        revision="9f86d081884c",
        evaluator="tool_call_args",
        version="2",
        level="call",
        enforce="live",
        target=judged.span,
        call=judged,
        outcome=outcome,
    )


def trajectory_result(outcome: Outcome, criterion: str = "refund-f1") -> Result:
    return replace(
        call_result(outcome, criterion=criterion), evaluator="tool_call_f1", level="trajectory", target=ROOT, call=None
    )


def shadow(result: Result) -> Result:
    return replace(result, enforce="shadow")


def scorecard(*results: Result, of: Trajectory | None = None) -> Scorecard:
    calls = tuple(result.call for result in results if result.call is not None)
    return Scorecard(trajectory=of if of is not None else trajectory(*calls), results=results, scored_at_ns=SCORED_NS)


def passed(value: float = 1.0, explanation: str = "all arguments agree") -> Scored:
    return Scored(value=value, explanation=explanation, passed=True)


def failed(value: float = 0.25, explanation: str = "`amount` differs") -> Scored:
    return Scored(value=value, explanation=explanation, passed=False)


def emitter(
    settings: EmitSettings | None = None,
    registry: MetricRegistry | None = None,
    redactor: Redactor | None = None,
    selfmetrics: SelfMetrics | None = None,
) -> Emitter:
    registry = registry if registry is not None else MetricRegistry()
    return Emitter(
        settings if settings is not None else EmitSettings(events="scored"),
        registry,
        selfmetrics if selfmetrics is not None else SelfMetrics(registry),
        redactor if redactor is not None else Redactor(show_values=False),
        "instance-1",
        "0.1.0",
        {"deployment.environment.name": "test"},
        start_ns=START_NS,
    )


def annotations(*, show_values: bool = False) -> Annotations:
    return Annotations(Redactor(show_values=show_values))


def span_attributes(card: Scorecard, by: Annotations | None = None) -> dict[str, dict[str, str | bool | int | float]]:
    """Read what is said on the spans that a scorecard names, by span id."""
    said = (by if by is not None else annotations()).collect(card)
    read = {span_id: plain(Span.FromString(on_span).attributes) for span_id, on_span in said.items()}
    return {span_id: attributes for span_id, attributes in read.items() if attributes}


def plain(attributes: Iterable[KeyValue]) -> dict[str, str | bool | int | float]:
    """Read attributes; a key that is there twice fails."""
    read: dict[str, str | bool | int | float] = {}
    for attribute in attributes:
        assert attribute.key not in read
        read[attribute.key] = _plain_value(attribute.value)
    return read


def _plain_value(value: AnyValue) -> str | bool | int | float:
    match value.WhichOneof("value"):
        case "string_value":
            return value.string_value
        case "bool_value":
            return value.bool_value
        case "int_value":
            return value.int_value
        case "double_value":
            return value.double_value
        case other:
            raise AssertionError(f"unexpected kind of value: {other}")
