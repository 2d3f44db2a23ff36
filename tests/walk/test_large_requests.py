"""Large requests, and requests of many groups: nothing is lost and the books balance."""

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from tests.walk.support import Walk, key_value
from toolgauge.model.delivery import Accepted
from toolgauge.otlp.request import read_request


def agent_spans(count: int) -> bytes:
    """One request of tool calls, each in a trace of its own."""
    spans = [
        Span(
            trace_id=number.to_bytes(16),
            span_id=number.to_bytes(8),
            name="execute_tool look",
            start_time_unix_nano=1,
            end_time_unix_nano=2,
            attributes=[key_value("gen_ai.operation.name", "execute_tool"), key_value("gen_ai.tool.name", "look")],
        )
        for number in range(1, count + 1)
    ]
    return ExportTraceServiceRequest(
        resource_spans=[ResourceSpans(scope_spans=[ScopeSpans(spans=spans)])]
    ).SerializeToString()


def test_a_request_that_finds_no_room_any_more_costs_no_span():
    walk = Walk("annotate=off")
    request = read_request("traces", agent_spans(300), walk.now_ns)
    assert walk.pipeline.admission.admit(request) == Accepted()
    # Others took the room meanwhile.
    walk.bag.room = 0
    walk.pipeline.process(request)
    assert (walk.books()["held"], walk.books()["balance"]) == (300, 0)
    walk.bag.room = 10
    walk.pipeline.flush()
    assert (walk.books()["held"], walk.books()["balance"]) == (0, 0)
    assert len(walk.arrived()) == 300


def test_a_request_that_waits_to_be_read_counts_as_held():
    walk = Walk()
    request = read_request("traces", agent_spans(3), walk.now_ns)
    walk.pipeline.admission.admit(request)
    assert (walk.books()["held"], walk.books()["balance"]) == (3, 0)


def spans_of_others(count: int, trace: int | None = None) -> bytes:
    """One request of spans that no dialect reads, of one trace or each of its own."""
    spans = [
        Span(trace_id=(trace or number).to_bytes(16), span_id=number.to_bytes(8), name="GET /", start_time_unix_nano=1)
        for number in range(1, count + 1)
    ]
    return ExportTraceServiceRequest(
        resource_spans=[ResourceSpans(scope_spans=[ScopeSpans(spans=spans)])]
    ).SerializeToString()


def agent_spans_in_groups(count: int) -> bytes:
    """One request of tool calls that are held, each in a scope group of its own, and one span of somebody else."""
    held = ExportTraceServiceRequest.FromString(agent_spans(count)).resource_spans[0].scope_spans[0].spans
    other = ExportTraceServiceRequest.FromString(spans_of_others(1)).resource_spans[0].scope_spans[0].spans
    groups = [ScopeSpans(spans=[span]) for span in (*other, *held)]
    return ExportTraceServiceRequest(resource_spans=[ResourceSpans(scope_spans=groups)]).SerializeToString()


def test_held_spans_are_taken_out_of_a_request_of_many_groups():
    walk = Walk()
    walk.send(agent_spans_in_groups(300))
    assert [span.name for span in walk.arrived()] == ["GET /"]
    assert (walk.books()["held"], walk.books()["balance"]) == (300, 0)
    walk.wait(60)
    assert len(walk.arrived()) == 301
