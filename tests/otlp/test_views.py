"""Views give what the stock classes give, one look-up at a time."""

import math
from collections.abc import Mapping

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.trace.v1 import trace_pb2

from tests.otlp import stock
from tests.rows import each_row
from toolgauge.model.records import Resource, Scope, Span
from toolgauge.otlp.decoder import Decoder
from toolgauge.otlp.views import Attributes, Values, Views

KINDS = ["unspecified", "internal", "server", "client", "producer", "consumer"]
STATUS_CODES = ["unset", "ok", "error"]


def view(raw: bytes) -> Span:
    return Views([]).span(raw, Resource(service=None, attributes={}), Scope(name="", version=""))


def test_view_equals_the_stock_classes_for_all_recorded_spans():
    raws = stock.recorded_spans()
    assert len(raws) > 1500
    for raw in raws:
        expected = trace_pb2.Span.FromString(raw)
        viewed = view(raw)
        assert viewed.attributes == stock.plain_attributes(expected.attributes)
        assert (viewed.ref.trace_id, viewed.ref.span_id) == (expected.trace_id.hex(), expected.span_id.hex())
        assert viewed.parent_span_id == (expected.parent_span_id.hex() or None)
        assert (viewed.name, viewed.kind) == (expected.name, KINDS[expected.kind])
        assert (viewed.start_ns, viewed.end_ns) == (expected.start_time_unix_nano, expected.end_time_unix_nano)
        assert (viewed.status, viewed.status_message) == (STATUS_CODES[expected.status.code], expected.status.message)
        assert viewed.size_bytes == len(raw)
        assert [(event.name, event.time_ns, event.attributes) for event in viewed.events] == [
            (event.name, event.time_unix_nano, stock.plain_attributes(event.attributes)) for event in expected.events
        ]


def test_types_of_values_stay_apart_also_where_they_are_remembered():
    values = Values()
    for _ in range(2):
        for message, expected in (
            (AnyValue(bool_value=True), True),
            (AnyValue(int_value=1), 1),
            (AnyValue(double_value=1.0), 1.0),
            (AnyValue(double_value=math.inf), math.inf),
            (AnyValue(string_value="1"), "1"),
            (AnyValue(bytes_value=b"1"), b"1"),
            (AnyValue(), None),
        ):
            found = values.decode(message.SerializeToString())
            assert (type(found), found) == (type(expected), expected)


def test_looking_up_a_missing_key_changes_nothing():
    attributes = view(stock.span(stock.key_value("here")).SerializeToString()).attributes
    assert attributes.get("missing") is None
    assert attributes.get("missing", "default") == "default"
    assert "missing" not in attributes
    with pytest.raises(KeyError):
        attributes["missing"]
    assert list(attributes) == ["here"]
    assert len(attributes) == 1


def test_values_that_never_repeat_take_bounded_memory():
    values = Values()
    for number in range(3000):
        text = AnyValue(string_value=f"{number:01000}").SerializeToString()
        assert values.attributes({"key": text, "id": b"\x0a\x04%04d" % number}, 1100)["key"] == f"{number:01000}"
        assert sum(map(len, values.known)) < 1 << 20


def test_attributes_of_a_large_record_are_decoded_when_they_are_looked_up():
    broken = {"broken": b"\x0a", "text": AnyValue(string_value="x" * 20_000).SerializeToString()}
    for size_bytes in (20_010, 2 << 20):
        values = Values()
        attributes = values.attributes(broken, size_bytes)
        assert (values.undecodable, list(attributes)) == (0, ["broken", "text"])
        assert (attributes["text"], values.undecodable) == ("x" * 20_000, 0)
        assert (attributes.get("broken"), values.undecodable) == (None, 1)


def test_a_nested_value_that_nobody_looks_at_is_not_decoded():
    nested = AnyValue(array_value=ArrayValue(values=[AnyValue()] * 15_000)).SerializeToString()
    values = Values()
    attributes = values.attributes({"nested": nested, "text": AnyValue(string_value="x").SerializeToString()}, 45_000)
    assert isinstance(attributes, Attributes)
    assert attributes["text"] == "x"


def test_two_spans_share_no_list():
    array = AnyValue(array_value=ArrayValue(values=[AnyValue(int_value=1)]))
    raw, views = stock.span(KeyValue(key="a", value=array)).SerializeToString(), Views([])
    first, second = (views.span(raw, Resource(service=None, attributes={}), Scope(name="", version="")) for _ in "ab")
    changed = first.attributes["a"]
    assert isinstance(changed, list)
    changed.append(2)
    assert second.attributes["a"] == [1]


def test_value_nested_too_deep_reads_as_none_and_is_counted():
    def nested(depth: int) -> bytes:
        raw = AnyValue(int_value=1).SerializeToString()
        for _ in range(depth):
            raw = stock.field(5, stock.field(1, raw))
        return raw

    values = Values()
    attributes = Attributes(("deep", "fine"), {"deep": nested(500), "fine": nested(48)}, values)
    assert (attributes["deep"], values.undecodable) == (None, 1)
    assert str(attributes["fine"]) == "[" * 48 + "1" + "]" * 48


LARGE_VALUES = {
    "list": AnyValue(array_value=ArrayValue(values=[AnyValue()] * 105_000)),
    "object": AnyValue(kvlist_value=KeyValueList(values=[KeyValue(key="a")] * 53_000)),
    "bytes in a list": AnyValue(array_value=ArrayValue(values=[AnyValue(bytes_value=bytes(4 << 20))])),
}


@each_row("large", LARGE_VALUES.values(), ids=LARGE_VALUES.keys())
def test_a_nested_value_larger_than_any_producer_writes_reads_as_none_and_is_counted(large: AnyValue):
    values = Values()
    assert Attributes(("large",), {"large": large.SerializeToString()}, values)["large"] is None
    assert values.undecodable == 1


def test_cut_off_event_is_left_out_and_counted():
    good = trace_pb2.Span.Event(name="good", time_unix_nano=5).SerializeToString()
    raw = stock.span().SerializeToString() + stock.field(11, b"\x0a") + stock.field(11, good)
    views = Views([])
    events = views.span(raw, Resource(service=None, attributes={}), Scope(name="", version="")).events
    assert [event.name for event in events] == ["good"]
    assert events[0].time_ns == 5
    assert views.values.undecodable == 1


def labels_of(*attributes: KeyValue, keys: tuple[str, ...] = ()) -> Mapping[str, str]:
    group = trace_pb2.ResourceSpans()
    group.resource.attributes.extend(attributes)
    group.scope_spans.add().spans.append(stock.span(stock.key_value("gen_ai.a")))
    body = ExportTraceServiceRequest(resource_spans=[group]).SerializeToString()
    return stock.read_traces(Decoder(["gen_ai."], [], labels=keys), body).viewed[0].span.resource.labels


def test_labels_of_a_resource_are_short_texts():
    attributes = (
        stock.key_value("service.version", "1" * 200),
        stock.key_value("deployment.environment.name", "a\nb"),
        KeyValue(key="canary", value=AnyValue(bool_value=True)),
        KeyValue(key="build", value=AnyValue(int_value=17)),
        KeyValue(key="regions", value=AnyValue(array_value=ArrayValue(values=[AnyValue(string_value="a")]))),
        stock.key_value("other", "x"),
    )
    assert labels_of(*attributes, keys=("canary", "build", "regions", "absent")) == {
        "service.version": "1" * 128,
        "deployment.environment.name": "a\ufffdb",
        "canary": "true",
        "build": "17",
    }


def test_the_older_name_of_the_environment_stands_in_for_the_newer():
    older, newer = (stock.key_value(f"deployment.environment{end}", end or "old") for end in ("", ".name"))
    assert labels_of(older) == {"deployment.environment.name": "old"}
    assert labels_of(older, newer) == {"deployment.environment.name": ".name"}
