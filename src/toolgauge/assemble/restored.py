"""Names the readings that stand for outputs of models of which no span came: restored from a history, they have ids of their own."""

from toolgauge.model.records import SpanRef

_MARK = "<"


def restored_ref(given: SpanRef, number: int) -> SpanRef:
    """Return the id of the output of this number that the history of a span holds."""
    return SpanRef(given.trace_id, f"{given.span_id}{_MARK}{number}")


def is_restored(ref: SpanRef) -> bool:
    """Return whether the id is that of a restored output."""
    return _MARK in ref.span_id
