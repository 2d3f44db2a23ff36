# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# prometheus_client's OpenMetrics parser is not annotated.


from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tests.export.scorecards import call, call_result, emitter, scorecard, span_attributes, trajectory
from toolgauge.export.prometheus import render
from toolgauge.export.redact import Redactor
from toolgauge.export.results import EmitSettings
from toolgauge.model.metrics import MetricRegistry, snapshot
from toolgauge.model.outcomes import Difference, Errored, Outcome, Scored, Side
from toolgauge.model.records import SpanRef

ANY_TEXT = st.text(alphabet=st.characters(), max_size=40) | st.sampled_from(
    ["\ud800", "\x00", "x" * 5000, '"\n\\', "\u202e", "<script>", "[" * 3000]
)
ANY_TIME = st.integers(min_value=-(2**70), max_value=2**70)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=8,
)


@st.composite
def any_outcome(draw: st.DrawFn) -> Outcome:
    if draw(st.booleans()):
        return Errored(error_type=draw(ANY_TEXT), message=draw(ANY_TEXT))
    difference = Difference(
        where=draw(ANY_TEXT),
        rule=draw(ANY_TEXT),
        expected=Side(value=draw(ANY_JSON)),
        actual=Side(value=draw(ANY_JSON)),
    )
    return Scored(
        value=draw(st.floats()), explanation=draw(ANY_TEXT), differences=(difference,), passed=draw(st.booleans())
    )


@given(
    name=ANY_TEXT, agent=ANY_TEXT, call_id=ANY_TEXT, service=ANY_TEXT, conversation=ANY_TEXT, span_id=ANY_TEXT,
    end_ns=ANY_TIME, scored_at_ns=ANY_TIME, outcome=any_outcome(), show_values=st.booleans(),
)  # fmt: skip
def test_whatever_spans_hold_can_be_sent_and_scraped(
    name: str, agent: str, call_id: str, service: str, conversation: str, span_id: str,
    end_ns: int, scored_at_ns: int, outcome: Outcome, show_values: bool,  # noqa: FBT001 # drawn by hypothesis
) -> None:  # fmt: skip
    judged = replace(call(name, SpanRef("0" * 32, span_id)), agent=agent, call_id=call_id, end_ns=end_ns)
    of = replace(trajectory(judged), service=service, conversation_id=conversation, root=SpanRef("zz", span_id))
    card = replace(scorecard(call_result(outcome, judged), of=of), scored_at_ns=scored_at_ns)
    registry = MetricRegistry()
    emitting = emitter(EmitSettings(events="all"), registry, Redactor(show_values=show_values))
    emitting.record(card)
    span_attributes(card)
    traces, logs = emitting.requests([card])
    assert len(ExportTraceServiceRequest.FromString(traces.body).resource_spans[0].scope_spans[0].spans) == 1
    (record,) = ExportLogsServiceRequest.FromString(logs.body).resource_logs[0].scope_logs[0].log_records
    assert record.ByteSize() < 16_384
    ExportMetricsServiceRequest.FromString(emitting.metrics(scored_at_ns).body)
    text, _ = render(snapshot(registry), emitting.resource, accept="application/openmetrics-text", start_ns=0)
    assert list(text_string_to_metric_families(text.decode()))
