"""Decoding random spans gives what the stock classes give; decoding random bytes never raises anything of its own."""

from collections.abc import Callable, Mapping

from google.protobuf.message import DecodeError as ProtobufError
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.otlp import stock
from toolgauge.model.json import Value
from toolgauge.model.records import SpanHead
from toolgauge.otlp.decoder import Decoder
from toolgauge.otlp.encode import annotate
from toolgauge.otlp.envelope import encode_spans, read_head
from toolgauge.otlp.marks import span_marks
from toolgauge.otlp.views import Values
from toolgauge.otlp.views import value as decode_value

MARKS = ("gen_ai.", "a", "名")
WANTED = ("session.id", "k" * 128)

texts = st.text(max_size=200) | st.sampled_from(["J\n\x05gen_ai.", "", "x" * 127, "x" * 128, "é" * 8192])
key_texts = st.sampled_from([*MARKS, *WANTED, "gen_ai.tool.name", "toolgauge.x", "b", ""]) | st.text(max_size=12)
scalars = (
    st.builds(AnyValue, string_value=texts)
    | st.builds(AnyValue, bool_value=st.booleans())
    | st.builds(AnyValue, int_value=st.integers(-(2**63), 2**63 - 1))
    | st.builds(AnyValue, double_value=st.floats(allow_nan=False))
    | st.builds(AnyValue, bytes_value=st.binary(max_size=80))
    | st.builds(AnyValue)
)


def array(values: list[AnyValue]) -> AnyValue:
    return AnyValue(array_value=ArrayValue(values=values))


def key_values(entries: list[KeyValue]) -> AnyValue:
    return AnyValue(kvlist_value=KeyValueList(values=entries))


def nested(inner: st.SearchStrategy[AnyValue]) -> st.SearchStrategy[AnyValue]:
    entries = st.lists(st.builds(KeyValue, key=key_texts, value=inner), max_size=3)
    return st.builds(array, st.lists(inner, max_size=3)) | st.builds(key_values, entries)


any_values = st.recursive(scalars, nested, max_leaves=6)
attribute_lists = st.lists(st.builds(KeyValue, key=key_texts, value=any_values), max_size=6)
spans = st.builds(
    Span,
    trace_id=st.just(stock.TRACE_ID),
    span_id=st.just(stock.SPAN_ID),
    parent_span_id=st.sampled_from([b"", stock.PARENT_ID]),
    trace_state=st.sampled_from(["", "a=b"]),
    name=texts,
    kind=st.integers(0, 5),
    attributes=attribute_lists,
    events=st.lists(st.builds(Span.Event, name=texts, attributes=attribute_lists), max_size=2),
    flags=st.sampled_from([0, 1, 0x100, 0x301]),
)


def same_types(found: Value, expected: Value) -> bool:
    if isinstance(found, Mapping) and isinstance(expected, Mapping):
        return found.keys() == expected.keys() and all(same_types(found[key], expected[key]) for key in found)
    if isinstance(found, list) and isinstance(expected, list):
        return len(found) == len(expected) and all(map(same_types, found, expected))
    return type(found) is type(expected) and found == expected


either_order = st.sampled_from([Span.SerializeToString, stock.back_to_front])


@given(spans, either_order)
def test_view_of_any_span_equals_the_stock_class(span: Span, written: Callable[[Span], bytes]):
    raw = written(span)
    [viewed] = stock.read_traces(Decoder([], [""]), stock.request_of([raw])).viewed
    assert same_types(dict(viewed.span.attributes), stock.plain_attributes(span.attributes))
    assert [event.name for event in viewed.span.events] == [event.name for event in span.events]
    for event, expected in zip(viewed.span.events, span.events, strict=True):
        assert same_types(dict(event.attributes), stock.plain_attributes(expected.attributes))
    packed = read_head(raw)
    assert packed is not None
    head = SpanHead(*packed)
    assert (head.trace_id, head.span_id, head.parent_span_id) == (span.trace_id, span.span_id, span.parent_span_id)


@given(spans, either_order)
def test_filter_finds_every_mark_and_both_engines_agree(span: Span, written: Callable[[Span], bytes]):
    raw = written(span)
    marks = span_marks(MARKS, WANTED)
    has_key = any(entry.key.startswith(MARKS) or entry.key in WANTED for entry in span.attributes)
    found = marks.found_in(raw)
    # Text may hold bytes that look like an attribute; then the span is viewed for nothing.
    assert found or not has_key
    assert marks.found_in_request(raw, [raw]) is found


@given(spans, attribute_lists)
def test_annotated_span_is_the_original_without_our_keys_and_with_new_ones(span: Span, added: list[KeyValue]):
    new = [KeyValue(key=f"toolgauge.{entry.key}", value=entry.value) for entry in added]
    annotated = Span.FromString(annotate(span.SerializeToString(), Span(attributes=new).SerializeToString()))
    kept = [entry for entry in span.attributes if not entry.key.startswith("toolgauge.")]
    assert list(annotated.attributes) == [*kept, *new]
    del annotated.attributes[:]
    del span.attributes[:]
    assert annotated == span


@given(st.lists(spans, max_size=8), st.data())
def test_taken_and_left_spans_are_together_all_spans(given_spans: list[Span], data: st.DataObject):
    body = stock.request_of([span.SerializeToString() for span in given_spans])
    decoded = stock.read_traces(Decoder(MARKS, [], WANTED), body)
    assert decoded.span_count == len(decoded.viewed) + len(decoded.heads) == len(given_spans)
    taken = data.draw(st.lists(st.sampled_from(decoded.viewed), unique_by=id)) if decoded.viewed else []
    rest = decoded.body({viewed.place for viewed in taken})
    released = encode_spans((viewed.container, viewed.raw) for viewed in taken)
    left = list(stock.raw_items(rest)) if rest else []
    assert sorted([*left, *stock.raw_items(released)]) == sorted(stock.raw_items(body))


@given(st.binary(max_size=80))
def test_short_cuts_for_values_agree_with_the_stock_class(raw: bytes):
    values = Values()
    try:
        expected = stock.plain_value(AnyValue.FromString(raw))
    except ProtobufError:
        values.decode(raw)
        return
    assert repr(decode_value(raw)) == repr(expected)
    assert repr(values.decode(raw)) == repr(values.decode(raw)) == repr(expected)
