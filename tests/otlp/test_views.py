"""Views give what the stock classes give, one look-up at a time."""

import math
import struct
from collections.abc import Mapping

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.trace.v1 import trace_pb2

from tests.otlp import stock
from tests.rows import each_row
from toolgauge.model.json import Value
from toolgauge.model.records import Resource, Scope, Span
from toolgauge.otlp.decoder import Decoder
from toolgauge.otlp.views import Attributes, Values, Views, value
from toolgauge.otlp.wire_pb2 import AnyValueMessage

KINDS = ["unspecified", "internal", "server", "client", "producer", "consumer"]
STATUS_CODES = ["unset", "ok", "error"]


def view(raw: bytes) -> Span:
    return Views([]).span(raw, Resource(service=None, attributes={}), Scope(name="", version=""))


def view_of(*entries: KeyValue) -> dict[str, Value]:
    return dict(view(stock.span(*entries).SerializeToString()).attributes)


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


def test_types_of_values_stay_apart():
    attributes = view_of(
        KeyValue(key="bool", value=AnyValue(bool_value=True)),
        KeyValue(key="int", value=AnyValue(int_value=1)),
        KeyValue(key="float", value=AnyValue(double_value=1.0)),
        KeyValue(key="text", value=AnyValue(string_value="1")),
        KeyValue(key="bytes", value=AnyValue(bytes_value=b"1")),
    )
    assert {key: (type(found), found) for key, found in attributes.items()} == {
        "bool": (bool, True),
        "int": (int, 1),
        "float": (float, 1.0),
        "text": (str, "1"),
        "bytes": (bytes, b"1"),
    }


@each_row("number", [0, 1, 127, 128, 300, 2**31, 2**63 - 1, -1, -(2**63)])
def test_integers_of_every_size_are_read(number: int):
    assert value(AnyValue(int_value=number).SerializeToString()) == number


@each_row("number", [0.0, -0.5, 1e308, math.inf])
def test_floats_are_read(number: float):
    assert value(AnyValue(double_value=number).SerializeToString()) == number


def test_nan_stays_nan():
    found = value(AnyValue(double_value=math.nan).SerializeToString())
    assert isinstance(found, float)
    assert math.isnan(found)


@each_row("size", [0, 1, 126, 127, 128, 129, 16_383, 16_384, 2_097_151, 2_097_152])
def test_text_of_every_length_is_read(size: int):
    text = "é" * (size // 2) + "x" * (size % 2)
    assert value(AnyValue(string_value=text).SerializeToString()) == text


def test_nested_values_become_lists_and_dicts():
    inner = KeyValueList(values=[KeyValue(key="b", value=AnyValue(bool_value=False)), KeyValue(key="none")])
    array = ArrayValue(values=[AnyValue(int_value=2), AnyValue(kvlist_value=inner), AnyValue()])
    assert view_of(KeyValue(key="a", value=AnyValue(array_value=array))) == {"a": [2, {"b": False, "none": None}, None]}


def test_absent_empty_and_empty_text_and_missing_key_are_told_apart():
    attributes = view_of(
        KeyValue(key="absent"),
        KeyValue(key="empty", value=AnyValue()),
        KeyValue(key="empty text", value=AnyValue(string_value="")),
    )
    assert attributes == {"absent": None, "empty": None, "empty text": ""}


def test_looking_up_a_missing_key_changes_nothing():
    attributes = view(stock.span(stock.key_value("here")).SerializeToString()).attributes
    assert attributes.get("missing") is None
    assert attributes.get("missing", "default") == "default"
    assert "missing" not in attributes
    with pytest.raises(KeyError):
        attributes["missing"]
    assert list(attributes) == ["here"]
    assert len(attributes) == 1


def test_attributes_iterate_in_the_order_of_their_keys():
    assert list(view_of(*[stock.key_value(key) for key in "cab"])) == ["a", "b", "c"]


def test_list_from_a_look_up_is_not_shared():
    array = AnyValue(array_value=ArrayValue(values=[AnyValue(int_value=1)]))
    attributes = view(stock.span(KeyValue(key="a", value=array)).SerializeToString()).attributes
    first = attributes["a"]
    assert isinstance(first, list)
    first.append(2)
    assert attributes["a"] == [1]


def test_remembered_values_of_equal_number_keep_their_types():
    values = Values()
    one, true, real = AnyValue(int_value=1), AnyValue(bool_value=True), AnyValue(double_value=1.0)
    for _ in range(2):
        found = [values.decode(message.SerializeToString()) for message in (one, true, real)]
        assert [type(each) for each in found] == [int, bool, float]


def long_text(number: int, size: int = 2000) -> bytes:
    return AnyValue(string_value=f"{number}".ljust(size, "é")).SerializeToString()


def test_a_list_of_texts_that_comes_again_belongs_to_who_asks():
    raw = AnyValue(array_value=ArrayValue(values=[AnyValue(string_value="tool_calls"), AnyValue(string_value="stop")]))
    values = Values()
    for _ in range(3):
        found = values.decode(raw.SerializeToString())
        assert found == ["tool_calls", "stop"]
        assert isinstance(found, list)
        found.append("mine")


def test_value_nested_too_deep_reads_as_none_and_is_counted():
    raw = AnyValue(int_value=1).SerializeToString()
    for _ in range(500):
        raw = stock.field(5, stock.field(1, raw))
    values = Values()
    attributes = Attributes({"deep": raw, "fine": AnyValue(int_value=7).SerializeToString()}, values)
    assert attributes["deep"] is None
    assert attributes["fine"] == 7
    assert values.undecodable == 1


def test_arrays_48_deep_are_read():
    raw = AnyValue(int_value=1).SerializeToString()
    expected: Value = 1
    for _ in range(48):
        raw, expected = stock.field(5, stock.field(1, raw)), [expected]
    assert value(raw) == expected


def test_bad_utf8_in_a_value_becomes_replacement_characters():
    assert value(stock.field(1, b"caf\xe9")) == "caf\ufffd"


LARGE_VALUES = {
    "list": AnyValue(array_value=ArrayValue(values=[AnyValue()] * 105_000)),
    "object": AnyValue(kvlist_value=KeyValueList(values=[KeyValue(key="a")] * 53_000)),
    "lists in a list": AnyValue(
        array_value=ArrayValue(values=[AnyValue(array_value=ArrayValue(values=[AnyValue()] * 5_000))] * 21)
    ),
    "bytes in a list": AnyValue(array_value=ArrayValue(values=[AnyValue(bytes_value=bytes(4 << 20))])),
}


@each_row("large", LARGE_VALUES.values(), ids=LARGE_VALUES.keys())
def test_a_nested_value_larger_than_any_producer_writes_reads_as_none_and_is_counted(large: AnyValue):
    values = Values()
    assert Attributes({"large": large.SerializeToString()}, values)["large"] is None
    assert values.undecodable == 1


def test_as_many_elements_as_are_read_are_read():
    raw = AnyValue(array_value=ArrayValue(values=[AnyValue(int_value=1)] * 50_000)).SerializeToString()
    assert value(raw) == [1] * 50_000


@pytest.mark.parametrize("single", [AnyValue(string_value="x" * (5 << 20)), AnyValue(bytes_value=b"x" * (5 << 20))])
def test_a_long_text_is_read_however_long_it_is(single: AnyValue):
    expected = single.string_value or single.bytes_value
    assert value(single.SerializeToString()) == expected


def test_cut_off_event_is_left_out_and_counted():
    good = trace_pb2.Span.Event(name="good", time_unix_nano=5).SerializeToString()
    raw = stock.span().SerializeToString() + stock.field(11, b"\x0a") + stock.field(11, good)
    views = Views([])
    events = views.span(raw, Resource(service=None, attributes={}), Scope(name="", version="")).events
    assert [event.name for event in events] == ["good"]
    assert events[0].time_ns == 5
    assert views.values.undecodable == 1


def test_unknown_kind_and_status_read_as_unspecified_and_unset():
    raw = stock.span().SerializeToString() + b"\x30\x63" + stock.field(15, b"\x18\x63")
    viewed = view(raw)
    assert (viewed.kind, viewed.status) == ("unspecified", "unset")


@each_row(("flags", "expected"), [(0, None), (1, None), (0x101, False), (0x301, True), (0x201, None)])
def test_remote_parent_is_known_only_when_the_flags_say_so(*, flags: int, expected: bool | None):
    raw = stock.span(parent=stock.PARENT_ID).SerializeToString() + b"\x85\x01" + struct.pack("<I", flags)
    assert view(raw).parent_is_remote is expected


def test_service_and_scope_are_read():
    resource = stock.field(1, stock.key_value("service.name", "shop").SerializeToString())
    scope = stock.field(1, b"my.scope") + stock.field(2, b"1.2")
    raw = stock.span(stock.key_value("gen_ai.a")).SerializeToString()
    body = stock.field(1, stock.field(1, resource) + stock.field(2, stock.field(1, scope) + stock.field(2, raw)))
    viewed = stock.read_traces(Decoder(["gen_ai."], []), body).viewed[0].span
    assert viewed.resource.service == "shop"
    assert viewed.resource.attributes == {"service.name": "shop"}
    assert (viewed.scope.name, viewed.scope.version) == ("my.scope", "1.2")


def test_resource_without_a_service_name_says_so():
    body = stock.request_of([stock.span(stock.key_value("gen_ai.a")).SerializeToString()])
    assert stock.read_traces(Decoder(["gen_ai."], []), body).viewed[0].span.resource.service is None


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


def test_repeated_resource_and_scope_are_the_same_objects():
    decoder = Decoder(["gen_ai."], [])
    body = stock.request_of([stock.span(stock.key_value("gen_ai.a")).SerializeToString()])
    first, second = (stock.read_traces(decoder, body).viewed[0].span for _ in range(2))
    assert first.resource is second.resource
    assert first.scope is second.scope


@each_row("number", [0, 1, 127, 128, 16_383, 16_384, 2**28, 2**63 - 1, -1, -(2**63)])
def test_whole_numbers_of_all_sizes_are_read(number: int):
    assert value(AnyValue(int_value=number).SerializeToString()) == number


def test_short_cuts_agree_with_the_message_class_on_all_recorded_values():
    for raw in stock.recorded_spans():
        for entry in trace_pb2.Span.FromString(raw).attributes:
            encoded = entry.value.SerializeToString()
            assert value(encoded) == stock.plain_value(entry.value)
            assert AnyValueMessage.FromString(encoded).SerializeToString() == encoded
