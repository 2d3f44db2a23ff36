from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from tests.rows import each_row
from toolgauge.otlp.encode import NEVER, request_with_sampling, sampling_of, threshold_of, with_sampling


def span(trace_state: str = "") -> bytes:
    return Span(trace_id=b"1" * 16, span_id=b"2" * 8, name="chat", trace_state=trace_state).SerializeToString()


def state_of(raw: bytes) -> str:
    read = Span.FromString(raw)
    assert (read.trace_id, read.span_id, read.name) == (b"1" * 16, b"2" * 8, "chat")
    return read.trace_state


@each_row(
    ("share", "threshold"),
    [(1.0, 0), (0.5, 0x80000000000000), (0.25, 0xC0000000000000), (0.0, NEVER), (1e-30, NEVER - 1)],
)
def test_a_share_has_the_threshold_below_which_the_others_fall(share: float, threshold: int):
    assert threshold_of(share) == threshold


def test_randomness_that_is_not_the_trace_s_own_is_written_beside_the_threshold():
    written = with_sampling(span(), threshold_of(0.5), 0xAB)
    assert state_of(written) == "ot=th:8;rv:000000000000ab"
    assert sampling_of(written) == (0x80000000000000, 0xAB)


def test_other_members_and_fields_of_a_tracestate_stay():
    before = "vendor=a,ot=th:4;p:8;rv:00000000000123, other=b"
    assert state_of(with_sampling(span(before), threshold_of(0.5), 7)) == (
        "ot=th:8;p:8;rv:00000000000123,vendor=a,other=b"
    )


def test_a_tracestate_keeps_to_the_32_members_that_it_may_have():
    before = ",".join(f"v{number}=1" for number in range(40))
    members = state_of(with_sampling(span(before), threshold_of(0.5), None)).split(",")
    assert (len(members), members[0], members[-1]) == (32, "ot=th:8", "v30=1")


def test_broken_spans_and_those_that_were_sampled_more_strictly_stay_as_they_are():
    assert sampling_of(b"\xff\xff\xff") == (None, None)
    for kept in (span() + b"\x2a\x40name", span("ot=th:c")):
        assert with_sampling(kept, threshold_of(0.5), 7) == kept


def test_randomness_that_is_none_gives_way_to_what_decided():
    assert state_of(with_sampling(span("ot=rv:12;p:8"), threshold_of(0.5), 7)) == "ot=th:8;rv:00000000000007;p:8"


def test_all_spans_of_a_request_are_written():
    scopes = [ScopeSpans(spans=[Span.FromString(span())] * 2), ScopeSpans(spans=[Span.FromString(span("ot=th:c"))])]
    body = ExportTraceServiceRequest(resource_spans=[ResourceSpans(scope_spans=scopes)]).SerializeToString()
    written = ExportTraceServiceRequest.FromString(request_with_sampling(body, threshold_of(0.5), None))
    states = [one.trace_state for group in written.resource_spans for scope in group.scope_spans for one in scope.spans]
    assert states == ["ot=th:8", "ot=th:8", "ot=th:c"]
