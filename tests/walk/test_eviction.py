"""Runs that have to give way to others: what waits to be scored then is bounded too."""

# pyright: reportUnknownMemberType=false

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.walk.support import START_NS, Walk, attributes, key_value


def trace_id(number: int) -> bytes:
    return (number + 1).to_bytes(16, "big")


def call(number: int, result: str = "{}") -> bytes:
    """A request with a run that has ended, of which the span above is missing, and one executed call in it."""
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    run = spans.add(
        trace_id=trace_id(number),
        span_id=b"rootroot",
        parent_span_id=b"neverend",
        start_time_unix_nano=START_NS,
        end_time_unix_nano=START_NS + 1,
    )
    run.attributes.append(key_value("gen_ai.operation.name", "invoke_agent"))
    span = spans.add(
        trace_id=trace_id(number),
        span_id=b"tooltool",
        parent_span_id=b"rootroot",
        start_time_unix_nano=START_NS,
        end_time_unix_nano=START_NS + 1,
    )
    span.attributes.append(key_value("gen_ai.operation.name", "execute_tool"))
    span.attributes.append(key_value("gen_ai.tool.name", "find_order"))
    span.attributes.append(key_value("gen_ai.tool.call.result", result))
    return request.SerializeToString()


def reasons(walk: Walk) -> dict[int, object]:
    """Why each trace was not judged by `default.tool_success`; `None` where it was."""
    return {
        int.from_bytes(event.trace_id, "big") - 1: attributes(event).get("toolgauge.not_evaluated.reason")
        for event in walk.events()
        if attributes(event)["gen_ai.evaluation.name"] == "default.tool_success"
    }


def test_evicted_runs_that_take_too_much_leave_unscored_until_the_rest_may_wait():
    # 250 KiB of them may wait; each takes about 100.
    walk = Walk("assemble.max_open=1", "assemble.max_open_bytes=1MiB", "events=all")
    for number in range(8):
        walk.send(call(number, "r" * 100_000))
    walk.wait(1000)
    assert reasons(walk) == dict.fromkeys(range(4), "overload") | dict.fromkeys(range(4, 8))
    assert walk.books()["balance"] == 0


def test_evicted_runs_that_take_little_are_all_scored():
    walk = Walk("assemble.max_open=1", "assemble.max_open_bytes=1MiB", "events=all")
    for number in range(8):
        walk.send(call(number))
    walk.wait(1000)
    assert reasons(walk) == dict.fromkeys(range(8))
