"""Recognizes requests that were sent to the endpoint of another signal.

Spans, log records and metrics have the same envelope on the wire, so a request of log records parses as one of spans. Acknowledged
as such it would be lost: nothing in it can be read, and a destination refuses it.
"""

from toolgauge.model.delivery import Signal
from toolgauge.model.errors import DecodeError
from toolgauge.otlp.messages import (
    ANY_VALUE,
    FOREIGN_TO_LOGS,
    FOREIGN_TO_METRICS,
    FOREIGN_TO_SPANS,
    SPAN_SIGNS,
    RequestMessage,
    parse,
)

_ITEMS = {"traces": "spans", "logs": "log records", "metrics": "metrics"}
_SPAN_ID_BYTES, _TRACE_ID_BYTES = 8, 16


def check_signal(signal: Signal, request: RequestMessage) -> None:
    """Raise `DecodeError` when the request is of another signal than that of its endpoint.

    Rule: the first item with fields that only one signal has decides. It is of another signal when one of its fields has a wire
    type that no item of this signal has there. An item that is empty or cannot be parsed decides nothing.
    """
    items = (raw for group in request.resource_groups for scope in group.scope_groups for raw in scope.items if raw)
    is_foreign = next((found for raw in items if (found := _is_foreign(signal, raw)) is not None), False)
    if is_foreign:
        problem = f"it holds no {_ITEMS[signal]}: send each signal to its own endpoint"
        raise DecodeError(problem, reason="wrong_signal")


def _is_foreign(signal: Signal, raw: bytes) -> bool | None:
    """Return whether an item is of another signal; `None` where nothing in it decides."""
    try:
        match signal:
            case "traces":
                return _is_no_span(raw)
            case "logs":
                if parse(FOREIGN_TO_LOGS, raw).ListFields():
                    return True
                return False if parse(FOREIGN_TO_SPANS, raw).ListFields() else None
            case "metrics":
                return bool(parse(FOREIGN_TO_METRICS, raw).ListFields())
    except DecodeError:
        return None


def _is_no_span(raw: bytes) -> bool | None:
    signs = parse(SPAN_SIGNS, raw)
    if signs.start_time_unix_nano or signs.end_time_unix_nano or len(signs.span_id) == _SPAN_ID_BYTES:
        return False
    if parse(FOREIGN_TO_SPANS, raw).ListFields():
        return True
    # Gauges, histograms and summaries differ from spans in nothing but the name that they have in place of a trace id.
    name = signs.trace_id
    if signs.kind:
        return False
    if name:
        return len(name) != _TRACE_ID_BYTES or name.isascii()
    # A log record may have only its body, under the field number of a span's name.
    return True if _is_body(signs.name) else None


def _is_body(name: bytes) -> bool:
    """Return whether the name of a span is the body of a log record: no span has a name with the bytes of such a value."""
    if not name:
        return False
    try:
        return parse(ANY_VALUE, name).WhichOneof("value") is not None
    except DecodeError:
        return False
