"""Many spans of one trace, and many traces that are due at the same moment."""

import itertools

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.walk.support import SECOND, Walk, key_value


def request(trace: bytes, tools: int, first: int = 1) -> bytes:
    body = ExportTraceServiceRequest()
    spans = body.resource_spans.add().scope_spans.add().spans
    for number in range(first, first + tools):
        span = spans.add(trace_id=trace * 16, span_id=number.to_bytes(8, "big"), name="execute_tool look")
        span.attributes.append(key_value("gen_ai.operation.name", "execute_tool"))
        span.attributes.append(key_value("gen_ai.tool.name", "look"))
    return body.SerializeToString()


def test_a_large_trace_is_scored_once_and_what_comes_after_it_closed_is_sent_on():
    walk = Walk()
    walk.send(request(b"a", 2000))
    while walk.pipeline.tick(walk.now_ns + 100 * SECOND):
        pass
    walk.send(request(b"a", 1, first=5000))
    walk.wait(100)
    assert len(walk.scorecards()) == 1
    assert len(walk.arrived()) == 2001
    assert walk.books()["balance"] == 0


def test_a_tick_ends_in_time_when_very_many_trajectories_are_due_and_the_next_one_goes_on():
    readings = itertools.count(step=30_000_000)
    walk = Walk(clock=lambda: next(readings))
    for trace in b"abcdefgh":
        walk.send(request(bytes([trace]), 3))
    late = walk.now_ns + 100 * SECOND
    assert walk.pipeline.tick(late)
    assert 0 < walk.pipeline.trajectories_open < 8
    while walk.pipeline.tick(late):
        assert walk.books()["balance"] == 0
    walk.pipeline.flush()
    assert len(walk.scorecards()) == 8


def test_closing_everything_is_not_forgotten_over_a_tick_that_ended_early():
    readings = itertools.count(step=60_000_000)
    walk = Walk(clock=lambda: next(readings))
    for trace in b"abcd":
        walk.send(request(bytes([trace]), 3))
    walk.pipeline.close_open(walk.now_ns)
    while walk.pipeline.tick(walk.now_ns):
        pass
    walk.pipeline.flush()
    assert sorted({span.trace_id[:1] for span in walk.scorecards()}) == [b"a", b"b", b"c", b"d"]
