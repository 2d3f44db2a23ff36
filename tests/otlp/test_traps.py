"""What senders do to the wire format, legally or not. Nothing of it may cost another span anything."""

import gc

from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans, Span

from tests.otlp import stock
from tests.rows import each_row
from toolgauge.model.json import Value
from toolgauge.otlp.decoder import Decoder, ViewedSpan
from toolgauge.otlp.envelope import encode_spans
from toolgauge.otlp.wire_pb2 import RequestMessage

MARKED = stock.span(stock.key_value("gen_ai.tool.name", "search"), name="marked").SerializeToString()
PLAIN = stock.span(stock.key_value("http.route"), name="plain").SerializeToString()


def decode(*raws: bytes, scope: bytes = b"") -> stock.ReadTraces:
    return stock.read_traces(Decoder(["gen_ai."], ["named."]), stock.request_of(raws, scope))


def viewed_attributes(raw: bytes) -> dict[str, Value]:
    [viewed] = decode(raw).viewed
    assert viewed.raw == raw
    return dict(viewed.span.attributes)


def test_resource_and_scope_twice_are_merged_as_the_stock_class_merges_them():
    service = Resource(attributes=[stock.key_value("service.name", "shop")]).SerializeToString()
    region = Resource(attributes=[stock.key_value("region", "north")]).SerializeToString()
    name, version = (InstrumentationScope(name="s").SerializeToString(), stock.field(2, b"1"))
    scope_group = stock.field(1, name) + stock.field(1, version) + stock.field(2, MARKED)
    body = stock.field(1, stock.field(1, service) + stock.field(1, region) + stock.field(2, scope_group))
    [viewed] = stock.read_traces(Decoder(["gen_ai."], []), body).viewed
    assert viewed.span.resource.attributes == {"service.name": "shop", "region": "north"}
    assert (viewed.span.scope.name, viewed.span.scope.version) == ("s", "1")
    assert encode_spans([(viewed.container, viewed.raw)]) == body


def test_broken_resource_and_scope_cost_only_themselves():
    broken = b"\x0a\x7fcut off"
    body = stock.field(1, stock.field(1, broken) + stock.field(2, stock.field(1, broken) + stock.field(2, MARKED)))
    [viewed] = stock.read_traces(Decoder(["gen_ai."], []), body).viewed
    assert viewed.span.resource.service is None
    assert viewed.span.resource.attributes == {}
    assert viewed.span.scope.name == ""


UNKNOWN = {
    "field": stock.field(200, b"future"),
    "number": b"\xc0\x0c\x07",
    "group": b"\xc3\x0c\x08\x01\xc4\x0c",
}


@each_row("kind", UNKNOWN)
def test_unknown_fields_and_groups_in_a_span_are_kept(kind: str):
    raw = MARKED + UNKNOWN[kind]
    decoded = decode(raw, PLAIN)
    assert decoded.viewed[0].raw == raw
    assert decoded.viewed[0].span.attributes["gen_ai.tool.name"] == "search"
    assert UNKNOWN[kind] in (decoded.body([(0, 0, 1)]) or b"")


BROKEN = {
    "cut off": b"\x2a\x7fcut off",
    "wire type 6": b"\x36",
    "field number 0": b"\x02\x00",
    "unterminated group": b"\xc3\x0c\x08\x01",
    "end of a group that never began": b"\xc4\x0c",
    "11-byte varint": b"\x30" + b"\xff" * 10 + b"\x01",
    "bad UTF-8 in a key": stock.field(9, stock.field(1, b"caf\xe9")),
    "cut off attribute": stock.field(9, b"\x0a\x7fx"),
    "cut off status": stock.field(15, b"\x12\x7fx"),
}


@each_row("damage", BROKEN)
def test_marked_span_broken_inside_goes_on_unread_and_costs_no_other_span(damage: str):
    broken = MARKED + BROKEN[damage]
    decoded = decode(MARKED, broken, PLAIN, MARKED)
    assert [viewed.place for viewed in decoded.viewed] == [(0, 0, 0), (0, 0, 3)]
    assert (decoded.span_count, decoded.undecodable) == (4, 1)
    assert decoded.body([(0, 0, 0), (0, 0, 3)]) == stock.request_of([broken, PLAIN])
    unmarked = decode(PLAIN + BROKEN[damage], PLAIN)
    assert (unmarked.span_count, unmarked.viewed, unmarked.undecodable) == (2, (), 0)
    assert unmarked.body() is unmarked.request


def test_bad_utf8_in_name_value_and_status_becomes_replacement_characters():
    entry = stock.field(1, b"gen_ai.a") + stock.field(2, stock.field(1, b"caf\xe9"))
    raw = MARKED + stock.field(5, b"\xff") + stock.field(9, entry) + stock.field(15, stock.field(2, b"\xfe!"))
    [viewed] = decode(raw).viewed
    assert (viewed.span.name, viewed.span.status_message) == ("\ufffd", "\ufffd!")
    assert viewed.span.attributes["gen_ai.a"] == "caf\ufffd"
    assert viewed.raw == raw


NO_IDS = {
    "no ids": Span(),
    "no span id": Span(trace_id=stock.TRACE_ID),
    "short trace id": Span(trace_id=b"short", span_id=stock.SPAN_ID),
    "long span id": Span(trace_id=stock.TRACE_ID, span_id=b"123456789"),
    "zero trace id": Span(trace_id=bytes(16), span_id=stock.SPAN_ID),
    "zero span id": Span(trace_id=stock.TRACE_ID, span_id=bytes(8)),
}


@each_row("case", NO_IDS)
def test_marked_span_without_valid_ids_goes_on_unread(case: str):
    span = Span.FromString(NO_IDS[case].SerializeToString())
    span.attributes.append(stock.key_value("gen_ai.a"))
    decoded = decode(span.SerializeToString(), MARKED)
    assert (len(decoded.viewed), decoded.undecodable, decoded.heads) == (1, 1, ())


def test_the_last_of_two_values_keys_or_equal_attributes_wins_and_a_missing_key_is_empty_text():
    one, two = (stock.field(2, stock.field(1, text)) for text in (b"one", b"two"))
    entries = (stock.field(1, b"k") + one + two, stock.field(1, b"a") + stock.field(1, b"b") + one, one)
    raw = MARKED + b"".join(stock.field(9, entry) for entry in entries)
    raw += stock.field(9, stock.field(1, b"gen_ai.tool.name") + two)
    assert viewed_attributes(raw) == {"gen_ai.tool.name": "two", "k": "two", "b": "one", "": "one"}
    # Indexes into a table of texts read as missing or empty.
    key_index = stock.field(9, b"\x18\x05" + one)
    value_index = stock.field(9, stock.field(1, b"k") + stock.field(2, b"\x40\x05"))
    assert viewed_attributes(MARKED + key_index + value_index) == {"gen_ai.tool.name": "search", "k": None}


def test_a_held_span_keeps_nothing_of_its_request_alive():
    attributes = [stock.key_value("gen_ai.a"), stock.key_value("gen_ai.b", "x" * 1000)]
    body = stock.request(ScopeSpans(spans=[stock.span(*attributes)] * 100)).SerializeToString()
    decoded = stock.read_traces(Decoder(["gen_ai."], []), body)
    held: ViewedSpan = decoded.viewed[0]
    reachable = reachable_from(held)
    assert not any(found is body for found in reachable)
    assert not any(isinstance(found, memoryview) for found in reachable)
    of_requests = {
        type(RequestMessage()),
        *(type(RequestMessage().resource_groups.add()), type(RequestMessage().resource_groups)),
    }
    assert not any(type(found) in of_requests for found in reachable)


def reachable_from(start: object) -> list[object]:
    seen: dict[int, object] = {}
    waiting = [start]
    while waiting:
        found = waiting.pop()
        if id(found) in seen or isinstance(found, type):
            continue
        seen[id(found)] = found
        waiting.extend(gc.get_referents(found))
    return list(seen.values())
