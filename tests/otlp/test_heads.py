"""Ids of spans that nobody views, by fixed offsets or through the message class."""

from collections.abc import Callable

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.otlp import stock
from tests.rows import each_row
from toolgauge.model.records import PackedHead, SpanHead
from toolgauge.otlp.decoder import Decoder
from toolgauge.otlp.envelope import read_head

KINDS_WITH_REMOTE_PARENT = (Span.SPAN_KIND_SERVER, Span.SPAN_KIND_CONSUMER)


def facts(packed: PackedHead | None) -> tuple[bytes, bytes, bytes, bool | None] | None:
    if packed is None:
        return None
    head = SpanHead(*packed)
    return head.trace_id, head.span_id, head.parent_span_id, head.parent_is_remote


def child(flags: int = 0, kind: Span.SpanKind.ValueType = Span.SPAN_KIND_INTERNAL) -> bytes:
    span = stock.span(stock.key_value("k"), parent=stock.PARENT_ID)
    span.kind = kind
    span.flags = flags
    return span.SerializeToString()


@pytest.mark.parametrize("written", [Span.SerializeToString, stock.back_to_front], ids=["in order", "back to front"])
def test_heads_of_recorded_spans_equal_the_stock_class(written: Callable[[Span], bytes]):
    spans = [Span.FromString(recorded) for recorded in stock.recorded_spans()[::5]]
    for expected in spans:
        remote = bool(expected.flags & 0x200) if expected.flags & 0x100 else expected.kind in KINDS_WITH_REMOTE_PARENT
        assert facts(read_head(written(expected))) == (
            expected.trace_id,
            expected.span_id,
            expected.parent_span_id,
            remote if expected.parent_span_id else None,
        )
    raws = [*map(written, spans)]
    assert heads_of(*raws) == [facts(read_head(raw)) for raw in raws]


@each_row(
    ("flags", "kind", "is_remote"),
    [
        (0x100, Span.SPAN_KIND_SERVER, False),
        (0x300, Span.SPAN_KIND_INTERNAL, True),
        (0x3FF, Span.SPAN_KIND_CLIENT, True),
        (0x001, Span.SPAN_KIND_SERVER, True),
        (0, Span.SPAN_KIND_SERVER, True),
        (0, Span.SPAN_KIND_CONSUMER, True),
        (0x200, Span.SPAN_KIND_CLIENT, False),
    ],
)
def test_remote_parent_comes_from_the_flags_else_from_the_kind(
    *, flags: int, kind: Span.SpanKind.ValueType, is_remote: bool
):
    head = read_head(child(flags, kind))
    assert head is not None
    assert SpanHead(*head).parent_is_remote is is_remote


@each_row("length", [b"\x08", b"\x88\x00", b"\x88\x80\x00"])
def test_a_parent_behind_everything_else_is_found_however_its_length_is_written(length: bytes):
    raw = stock.span(stock.key_value("k")).SerializeToString() + b'"' + length + stock.PARENT_ID
    assert facts(read_head(raw)) == (stock.TRACE_ID, stock.SPAN_ID, stock.PARENT_ID, False)


def test_the_ids_that_a_collector_writes_last_are_read_whatever_the_flags_are():
    for flags in (0, 0x100, 0x300, 0x1FF, 0x10100):
        raw = stock.back_to_front(Span.FromString(child(flags, Span.SPAN_KIND_CLIENT)))
        assert raw.endswith(b"\x12\x08" + stock.SPAN_ID + b"\x0a\x10" + stock.TRACE_ID)
        assert facts(read_head(raw)) == (stock.TRACE_ID, stock.SPAN_ID, stock.PARENT_ID, flags & 0x300 == 0x300)


@each_row("raw", [b"", b"\x0a", b"\xff" * 60, b"\x0a\x10" + bytes(16) + b"\x12\x08" + bytes(8)])
def test_span_without_ids_has_no_head(raw: bytes):
    assert read_head(raw) is None


def test_ids_of_zeros_or_another_length_are_none():
    for trace_id, span_id in ((bytes(16), stock.SPAN_ID), (stock.TRACE_ID, bytes(8)), (b"short", stock.SPAN_ID)):
        span = Span(trace_id=trace_id, span_id=span_id, parent_span_id=stock.PARENT_ID, flags=0x100)
        assert read_head(span.SerializeToString()) is None
    # Those that were widened with zeros are ids.
    raw = Span(trace_id=bytes(8) + b"12345678", span_id=stock.SPAN_ID).SerializeToString()
    assert heads_of(raw, raw) == [(bytes(8) + b"12345678", stock.SPAN_ID, b"", None)] * 2


def heads_of(*spans: bytes) -> list[tuple[bytes, bytes, bytes, bool | None] | None]:
    """Have the heads read together, as of a request in which nobody has an interest."""
    group = b"".join(stock.field(2, raw) for raw in spans)
    body = stock.field(1, stock.field(2, stock.field(1, stock.field(1, b"scope")) + group))
    return [facts(SpanHead(*head)) for head in stock.read_traces(Decoder([], []), body).heads]


ODD = {
    "broken": child() + b"\x4b",
    "no trace id": Span(span_id=stock.SPAN_ID).SerializeToString(),
    "empty": b"",
    "zero ids": Span(trace_id=bytes(16), span_id=stock.SPAN_ID).SerializeToString(),
    "long span id": Span(trace_id=stock.TRACE_ID, span_id=b"123456789").SerializeToString(),
    "trace id that holds a whole head": Span(trace_id=b"\x12\x1c" + child()[:28], span_id=b"s" * 8).SerializeToString(),
}


@each_row("odd", ODD.values(), ids=ODD)
def test_an_odd_span_costs_no_other_span_its_head(odd: bytes):
    plain = (stock.TRACE_ID, stock.SPAN_ID, stock.PARENT_ID, False)
    assert heads_of(child(), odd, child(0x100)) == [plain, plain]


@each_row(
    ("raw", "parent", "is_remote"),
    [
        (stock.span(parent=b"longer than it may be").SerializeToString(), b"", None),
        (stock.span(parent=bytes(8)).SerializeToString(), b"", None),
        (child(kind=-1), stock.PARENT_ID, False),  # pyright: ignore[reportArgumentType] - no kind, yet legal bytes
        (child(0x300, kind=Span.SPAN_KIND_CLIENT), stock.PARENT_ID, True),
        (child(kind=Span.SPAN_KIND_SERVER), stock.PARENT_ID, True),
        (child(0x100, kind=Span.SPAN_KIND_SERVER), stock.PARENT_ID, False),
    ],
)
def test_parents_read_together_are_those_read_alone(*, raw: bytes, parent: bytes, is_remote: bool | None):
    assert heads_of(raw) == [(stock.TRACE_ID, stock.SPAN_ID, parent, is_remote)]
    assert facts(read_head(raw)) == (stock.TRACE_ID, stock.SPAN_ID, parent, is_remote)
