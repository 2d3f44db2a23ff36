"""From spans to the events of changed tools."""

# pyright: reportUnknownMemberType=false

import json

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.walk.support import Walk, key_value
from toolgauge.model.json import JsonObject
from toolgauge.model.tool_changes import ToolDefinitionChange


def run(number: int, version: str, *required: str, written: str = "parameters") -> bytes:
    """Return the spans of a run of an agent that is offered one tool, and does not call it."""
    schema: JsonObject = {"type": "object", "properties": {"id": {"type": "string"}}, "required": [*required]}
    offer = [{"type": "function", "name": "find_order", "description": "Find.", written: schema}]
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    group.resource.attributes.extend((key_value("service.name", "shop"), key_value("service.version", version)))
    values = {
        "invoke_agent": {"gen_ai.agent.name": "orders"},
        "chat": {"gen_ai.request.model": "large", "gen_ai.tool.definitions": json.dumps(offer)},
    }
    spans = group.scope_spans.add().spans
    for place, (operation, more) in enumerate(values.items(), 1):
        span = Span(trace_id=number.to_bytes(16), span_id=bytes([place] * 8), name=operation)
        span.parent_span_id = b"" if place == 1 else bytes([1] * 8)
        span.start_time_unix_nano, span.end_time_unix_nano = 1_700_000_000_000_000_000, 1_700_000_001_000_000_000
        span.attributes.extend(key_value(*each) for each in (("gen_ai.operation.name", operation), *more.items()))
        spans.append(span)
    return request.SerializeToString()


def test_a_changed_schema_is_found_in_spans() -> None:
    walk = Walk()
    changes: list[ToolDefinitionChange] = []
    assert walk.watcher is not None
    walk.watcher.on_tool_changes = lambda found, _capped: changes.extend(found)
    for number, body in enumerate(
        (run(1, "1.0"), run(2, "1.0", written="inputSchema"), run(3, "1.1", "id"), run(4, "1.0"), run(5, "1.1", "id"))
    ):
        walk.send(body)
        walk.wait(60 + number)
    assert [(one.kind, one.service, one.agent, one.version, one.tool, one.path) for one in changes] == [
        ("breaking", "shop", "orders", "1.1", "find_order", "$.parameters.required.id")
    ]
