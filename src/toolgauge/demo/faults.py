"""Plants one fault in a drawn conversation: a made-up tool, arguments that break the schema, a circle, or a made-up id.

Each changes the spans as an agent with that fault would have written them, in OpenInference's attributes. What the agent
did afterwards stays as it was recorded.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Literal, TypeAlias, get_args

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

Fault: TypeAlias = Literal["invented_tool", "bad_arguments", "repeats", "ungrounded_id"]
FAULTS: tuple[Fault, ...] = get_args(Fault)
_TOOL_NAME, _ARGUMENTS, _OUTPUT = "tool.name", "input.value", "output.value"
_REQUEST = "llm.output_messages.0.message.tool_calls.{}.tool_call."
_REQUEST_ID, _REQUEST_NAME, _REQUEST_ARGUMENTS = (
    _REQUEST.format(0) + name for name in ("id", "function.name", "function.arguments")
)
_COPIES = 4
_CHANGED_TOOL = "refund_order"
_REPEATED_TOOL = "list_orders"


def plant(spans: Sequence[Span], fault: Fault, random: Random) -> list[Span]:
    """Plant a fault where a conversation has the calls for it, and return the spans to add."""
    match fault:
        case "invented_tool":
            _request_unknown_tool(spans)
        case "bad_arguments":
            _change_arguments(spans, "amount", lambda: "everything")
            for span in spans:
                if text_of(span, _TOOL_NAME) == _CHANGED_TOOL:
                    fail(span, "ValidationError", "amount: a number is required")
        case "ungrounded_id":
            _change_arguments(spans, "order_id", lambda: f"A-{random.randrange(10**6, 10**7)}")
        case "repeats":
            return _repeated(spans, random)
    return []


def text_of(span: Span, key: str) -> str | None:
    """Return a text attribute of a span."""
    return next((each.value.string_value for each in span.attributes if each.key == key), None)


def text(key: str, value: str) -> KeyValue:
    """Make a text attribute."""
    return KeyValue(key=key, value=AnyValue(string_value=value))


def fail(span: Span, kind: str, message: str) -> None:
    """Make a tool call one that failed, without a result."""
    kept = [each for each in span.attributes if each.key not in ("gen_ai.tool.call.result", _OUTPUT)]
    del span.attributes[:]
    span.attributes.extend((*kept, text("error.type", kind)))
    exception = span.events.add(name="exception", time_unix_nano=span.end_time_unix_nano)
    exception.attributes.extend((text("exception.type", kind), text("exception.message", message)))
    span.status.code = Status.STATUS_CODE_ERROR
    span.status.message = f"{kind}: {message}"


def _request_unknown_tool(spans: Sequence[Span]) -> None:
    """Request a tool that is not on offer, beside the first call that a model requested."""
    asking = next((span for span in spans if text_of(span, _REQUEST_NAME)), None)
    if asking is not None:
        added = {"id": "call_planted", "function.name": "send_money", "function.arguments": "{}"}
        asking.attributes.extend(text(_REQUEST.format(1) + name, value) for name, value in added.items())


def _change_arguments(spans: Sequence[Span], name: str, value: Callable[[], str]) -> None:
    """Change an argument of the refund, in the request and in the call."""
    changed = value()
    for span in spans:
        is_call = text_of(span, _TOOL_NAME) == _CHANGED_TOOL
        key = _ARGUMENTS if is_call else _REQUEST_ARGUMENTS
        if is_call or text_of(span, _REQUEST_NAME) == _CHANGED_TOOL:
            for each in span.attributes:
                if each.key == key:
                    each.value.string_value = json.dumps({**json.loads(each.value.string_value), name: changed})


def _repeated(spans: Sequence[Span], random: Random) -> list[Span]:
    """Make more of one request and its call, each with a result of its own, and move all later spans."""
    asking = next((span for span in spans if text_of(span, _REQUEST_NAME) == _REPEATED_TOOL), None)
    call = next((span for span in spans if text_of(span, _TOOL_NAME) == _REPEATED_TOOL), None)
    if asking is None or call is None or call.status.code == Status.STATUS_CODE_ERROR:
        return []
    end_ns, length_ns = call.end_time_unix_nano, call.end_time_unix_nano - asking.start_time_unix_nano + 1
    for span in spans:
        if span.start_time_unix_nano >= end_ns:
            span.start_time_unix_nano += _COPIES * length_ns
        if span is not call and span.end_time_unix_nano >= end_ns:
            span.end_time_unix_nano += _COPIES * length_ns
    added: list[Span] = []
    for number in range(1, _COPIES + 1):
        for original in (asking, call):
            copy = Span()
            copy.CopyFrom(original)
            copy.span_id = random.randbytes(8)
            copy.start_time_unix_nano += number * length_ns
            copy.end_time_unix_nano += number * length_ns
            for each in copy.attributes:
                if each.key == _REQUEST_ID:
                    each.value.string_value += f"_{number}"
                elif each.key == _OUTPUT and original is call:
                    each.value.string_value = json.dumps([{"order_id": "A-1001", "total": 42.5, "page": number}])
            added.append(copy)
    return added
