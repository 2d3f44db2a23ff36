"""Conversations as spans in OpenTelemetry's conventions for generative AI: one trace each, with a span for each model call and tool call."""

import json

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from planting import Conversation, Message, calls_of, text_of

SECOND = 1_000_000_000
START = 1_800_000_000 * SECOND


def spans_of_conversation(messages: Conversation, number: int, tools: list[str]) -> ExportTraceServiceRequest:
    """Write a conversation; `number` makes its ids and its time, and `tools` were on offer."""
    offered = json.dumps([{"type": "function", "name": name} for name in tools])
    trace_id, root, start = (number + 1).to_bytes(16, "big"), (1).to_bytes(8, "big"), START + number * 600 * SECOND
    asked: list[dict[str, object]] = []
    functions: dict[str, dict[str, str]] = {}
    spans: list[Span] = []
    for message in messages:
        if message["role"] == "assistant":
            functions |= {str(call["id"]): call["function"] for call in calls_of(message)}
            content = {
                "gen_ai.input.messages": json.dumps(asked),
                "gen_ai.output.messages": json.dumps([_part(message)]),
            }
            spans.append(_span("chat", {"gen_ai.tool.definitions": offered, **content}))
            asked = []
            continue
        asked.append(_part(message))
        if message["role"] == "tool":
            spans.append(_tool_span(message, functions[str(message["tool_call_id"])]))
    for at, span in enumerate(spans):
        span.trace_id, span.parent_span_id, span.span_id = trace_id, root, (at + 2).to_bytes(8, "big")
        span.start_time_unix_nano, span.end_time_unix_nano = start + at * SECOND, start + (at + 1) * SECOND
    agent = _span("invoke_agent", {"gen_ai.agent.name": "agent", "gen_ai.conversation.id": f"run-{number}"})
    agent.trace_id, agent.span_id = trace_id, root
    agent.start_time_unix_nano, agent.end_time_unix_nano = start, start + len(spans) * SECOND
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    group.resource.attributes.append(_text("service.name", "yardstick"))
    group.scope_spans.add().spans.extend([*spans, agent])
    return request


def _tool_span(message: Message, function: dict[str, str]) -> Span:
    span = _span(
        "execute_tool",
        {
            "gen_ai.tool.name": function["name"],
            "gen_ai.tool.call.id": str(message["tool_call_id"]),
            "gen_ai.tool.call.arguments": function["arguments"],
            "gen_ai.tool.call.result": text_of(message),
        },
    )
    if text_of(message).startswith("Error"):
        span.status.CopyFrom(Status(code=Status.STATUS_CODE_ERROR, message=text_of(message)))
    return span


def _span(operation: str, attributes: dict[str, str]) -> Span:
    named = {"gen_ai.operation.name": operation, **attributes}
    return Span(name=operation, attributes=[_text(key, value) for key, value in named.items()])


def _part(message: Message) -> dict[str, object]:
    parts: list[dict[str, object]] = [{"type": "text", "content": text_of(message)}] if text_of(message) else []
    if message["role"] == "tool":
        parts = [{"type": "tool_call_response", "id": message["tool_call_id"], "response": text_of(message)}]
    for call in calls_of(message):
        arguments = json.loads(call["function"]["arguments"])
        parts.append({"type": "tool_call", "id": call["id"], "name": call["function"]["name"], "arguments": arguments})
    return {"role": message["role"], "parts": parts}


def _text(key: str, value: str) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(string_value=value))
