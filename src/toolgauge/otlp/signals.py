"""Recognizes requests that were sent to the endpoint of another signal.

Spans, log records and metrics have the same envelope on the wire, so a request of log records parses as one of spans. Acknowledged
as such it would be lost: nothing in it can be read, and a destination refuses it.
"""

from toolgauge.model.delivery import Signal
from toolgauge.model.errors import DecodeError
from toolgauge.otlp.messages import (
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

    Its first item decides: it is of another signal when one of its fields has a wire type that no item of this signal has there.
    An item that cannot be parsed decides nothing.
    """
    raw = next(
        (scope.items[0] for group in request.resource_groups for scope in group.scope_groups if scope.items), None
    )
    if raw is None:
        return
    try:
        match signal:
            case "traces":
                is_foreign = _is_no_span(raw)
            case "logs":
                is_foreign = bool(parse(FOREIGN_TO_LOGS, raw).ListFields())
            case "metrics":
                is_foreign = bool(parse(FOREIGN_TO_METRICS, raw).ListFields())
    except DecodeError:
        return
    if is_foreign:
        problem = f"it holds no {_ITEMS[signal]}: send each signal to its own endpoint"
        raise DecodeError(problem, reason="wrong_signal")


def _is_no_span(raw: bytes) -> bool:
    signs = parse(SPAN_SIGNS, raw)
    if signs.start_time_unix_nano or signs.end_time_unix_nano or len(signs.span_id) == _SPAN_ID_BYTES:
        return False
    if parse(FOREIGN_TO_SPANS, raw).ListFields():
        return True
    # Gauges, histograms and summaries differ from spans in nothing but the name that they have in place of a trace id.
    name = signs.trace_id
    return bool(name) and not signs.kind and (len(name) != _TRACE_ID_BYTES or name.isascii())
