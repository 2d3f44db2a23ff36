"""What follows scoring takes its turns: the books balance between any two, and an interruption counts nothing twice."""

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from tests.walk.support import Walk, key_value

CALLS = 900


def large_run() -> bytes:
    spans = [
        Span(
            trace_id=b"t" * 16,
            span_id=(number + 1).to_bytes(8, "big"),
            parent_span_id=b"rootroot",
            name="execute_tool",
            start_time_unix_nano=number,
            end_time_unix_nano=number + 1,
            attributes=[
                key_value("gen_ai.operation.name", "execute_tool"),
                key_value("gen_ai.tool.name", f"t{number}"),
            ],
        )
        for number in range(CALLS)
    ]
    root = Span(trace_id=b"t" * 16, span_id=b"rootroot", name="invoke_agent", end_time_unix_nano=CALLS)
    root.attributes.append(key_value("gen_ai.operation.name", "invoke_agent"))
    groups = [ResourceSpans(scope_spans=[ScopeSpans(spans=[*spans, root])])]
    return ExportTraceServiceRequest(resource_spans=groups).SerializeToString()


def begun() -> Walk:
    """A walk with a run that is due."""
    walk = Walk()
    walk.send(large_run())
    walk.now_ns += 20_000_000_000
    walk.pipeline.tick(walk.now_ns)
    return walk


def test_the_books_balance_between_any_two_turns():
    walk = begun()
    turns = 0
    while walk.pipeline.score(1):
        turns += 1
        assert walk.books()["balance"] == 0
        walk.pipeline.flush_some(1)
        assert walk.books()["balance"] == 0
    while walk.pipeline.flush_some(1):
        turns += 1
    assert turns > 10
    assert len(walk.arrived()) == CALLS + 1
    assert len(walk.scorecards()) == 1
    assert walk.books()["held"] == 0


def test_an_interruption_between_any_two_turns_makes_one_scorecard():
    for turns in range(0, 150, 8):
        walk = begun()
        for _ in range(turns):
            walk.pipeline.score(1)
        walk.pipeline.close(walk.now_ns)
        walk.pipeline.interrupt()
        while walk.pipeline.score(1_000_000):
            pass
        walk.pipeline.release()
        walk.pipeline.flush()
        assert len(walk.scorecards()) == 1
        assert len(walk.arrived()) == CALLS + 1
        assert walk.books()["balance"] == 0
