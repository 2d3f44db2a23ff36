"""Builds the ids of model outputs without a span, which were restored from the history of a later one."""

from toolgauge.model.records import SpanRef

_MARK = "<"


def restored_ref(given: SpanRef, number: int) -> SpanRef:
    """Return the id of a restored output: the span with the history, and a number."""
    return SpanRef(given.trace_id, f"{given.span_id}{_MARK}{number}")


def is_restored(ref: SpanRef) -> bool:
    """Return whether the id names a restored output."""
    return _MARK in ref.span_id
