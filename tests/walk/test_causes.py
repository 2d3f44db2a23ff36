"""From spans to the cause of a regression."""

# pyright: reportUnknownMemberType=false

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.walk.support import Walk, key_value


def conversation(number: int, model: str, *, fails: bool) -> bytes:
    """Return the spans of a run with one call of a model and one of a tool."""
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    group.resource.attributes.append(key_value("service.name", "shop"))
    written = (
        ("invoke_agent", {"gen_ai.agent.name": "orders"}),
        ("chat", {"gen_ai.request.model": "large", "gen_ai.response.model": model}),
        ("execute_tool", {"gen_ai.tool.name": "find_order", **({"error.type": "timeout"} if fails else {})}),
    )
    spans = group.scope_spans.add().spans
    for place, (operation, values) in enumerate(written, 1):
        span = Span(trace_id=number.to_bytes(16), span_id=bytes([place] * 8), name=operation)
        span.parent_span_id = b"" if place == 1 else bytes([1] * 8)
        span.start_time_unix_nano, span.end_time_unix_nano = 1_700_000_000_000_000_000, 1_700_000_001_000_000_000
        span.attributes.extend(key_value(*each) for each in (("gen_ai.operation.name", operation), *values.items()))
        if fails and operation == "execute_tool":
            span.status.code = Status.StatusCode.STATUS_CODE_ERROR
        spans.append(span)
    return request.SerializeToString()


def test_an_alarm_names_the_model_that_changed() -> None:
    walk = Walk("watch.baseline_min=50")
    for number in range(1, 201):
        is_new = number > 150
        walk.send(conversation(number, "large-06" if is_new else "large-05", fails=number % (2 if is_new else 15) == 0))
        walk.wait(10)
    began = next(each for each in walk.regressions if each.stream.tool == "find_order")
    assert [change.after for change in began.causes[0].changes] == ["large-06"]
    assert began.causes[0].changes[0].property == "gen_ai.response.model"
