"""A large trace is joined in slices between which everything else goes on."""

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.walk.support import Walk, key_value


def request(trace: bytes, tools: int, first: int = 1) -> bytes:
    body = ExportTraceServiceRequest()
    spans = body.resource_spans.add().scope_spans.add().spans
    for number in range(first, first + tools):
        span = spans.add(trace_id=trace * 16, span_id=number.to_bytes(8, "big"), name="execute_tool look")
        span.attributes.append(key_value("gen_ai.operation.name", "execute_tool"))
        span.attributes.append(key_value("gen_ai.tool.name", "look"))
    return body.SerializeToString()


def test_a_large_trace_is_joined_in_slices_and_scored_once():
    walk = Walk()
    walk.send(request(b"a", 2000))
    walk.pipeline.tick(walk.now_ns + 100_000_000_000)
    assert walk.pipeline.score(0)
    assert walk.pipeline.score(0)
    # Comes while the trace is being joined: too late, and sent on.
    walk.send(request(b"a", 1, first=5000))
    walk.wait(100)
    assert len(walk.scorecards()) == 1
    assert len(walk.arrived()) == 2001
    assert walk.books()["balance"] == 0


def test_closing_everything_is_not_forgotten_over_a_trace_that_is_being_joined():
    walk = Walk()
    walk.send(request(b"a", 2000))
    walk.pipeline.tick(walk.now_ns + 100_000_000_000)
    walk.pipeline.score(0)
    walk.send(request(b"b", 3))
    walk.pipeline.close_open(walk.now_ns + 100_000_000_000)
    while walk.pipeline.score(0):
        pass
    walk.pipeline.flush()
    assert sorted({span.trace_id for span in walk.scorecards()}) == [b"a" * 16, b"b" * 16]
