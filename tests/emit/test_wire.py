"""What is written by hand reads the same as what the stock classes write."""

# pyright: reportUnknownMemberType=false

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from toolgauge.emit.wire import (
    AttributeValue,
    AttributeWriter,
    RequestWriter,
    elements,
    field,
    tag,
    time_field,
    time_tag,
)

ATTRIBUTES = tag(6)


def read(written: bytes) -> list[KeyValue]:
    return list(LogRecord.FromString(elements(ATTRIBUTES, [written])).attributes)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("", AnyValue(string_value="")),
        ("Gdańsk", AnyValue(string_value="Gdańsk")),
        ("a\ud800b", AnyValue(string_value="a?b")),
        *((text, AnyValue(string_value=text)) for text in ("x" * size for size in (100, 127, 128, 16_383, 16_384))),
        (True, AnyValue(bool_value=True)),
        (False, AnyValue(bool_value=False)),
        (0, AnyValue(int_value=0)),
        (128, AnyValue(int_value=128)),
        (2**63 - 1, AnyValue(int_value=2**63 - 1)),
        (-1, AnyValue(int_value=-1)),
        (0.25, AnyValue(double_value=0.25)),
    ],
)
def test_attribute_reads_as_it_was_written(value: AttributeValue, expected: AnyValue):
    assert read(AttributeWriter().one("key", value)) == [KeyValue(key="key", value=expected)]


def test_several_attributes_are_elements_of_one_field():
    writer = AttributeWriter()
    record = LogRecord.FromString(elements(ATTRIBUTES, [writer.one("a", "1"), writer.one("b", 2)]))
    assert [(attribute.key, attribute.value.WhichOneof("value")) for attribute in record.attributes] == [
        ("a", "string_value"),
        ("b", "int_value"),
    ]


def test_repeated_text_is_cut_and_cleaned_like_any_other():
    writer = AttributeWriter()
    for _ in range(2):
        assert [attribute.value.string_value for attribute in read(writer.repeated("key", "abc\x00def", 5))] == [
            "abc\ufffdd"
        ]


def test_the_same_text_under_two_keys_and_beside_a_figure_is_kept_apart():
    writer = AttributeWriter()
    assert [attribute.key for text in ("a", "b") for attribute in read(writer.repeated(text, "1.0", 9))] == ["a", "b"]
    assert read(writer.figure("a", 1.0)) == [KeyValue(key="a", value=AnyValue(double_value=1.0))]


def test_more_texts_than_are_remembered_are_still_written():
    writer = AttributeWriter()
    written = [read(writer.repeated("key", f"text {number}", 20))[0].value.string_value for number in range(5_000)]
    assert written == [f"text {number}" for number in range(5_000)]


def test_time_and_ids_are_fields_of_their_own():
    record = LogRecord.FromString(time_field(time_tag(11), 2**64 - 1) + field(tag(9), bytes(range(16))))
    assert (record.observed_time_unix_nano, record.trace_id) == (2**64 - 1, bytes(range(16)))


def test_requests_are_split_at_the_size_and_say_who_we_are():
    resource, scope = Resource(dropped_attributes_count=3), InstrumentationScope(name="toolgauge", version="0")
    messages = [LogRecord(event_name="x" * size).SerializeToString() for size in (90, 5, 5, 90, 5)]
    bodies = [body for body in RequestWriter(resource, scope, 100).requests(messages) if body is not None]
    sizes: list[list[int]] = []
    for body in bodies:
        (group,) = ExportLogsServiceRequest.FromString(body).resource_logs
        assert group.resource == resource
        (of_scope,) = group.scope_logs
        assert of_scope.scope == scope
        sizes.append([len(record.event_name) for record in of_scope.log_records])
    assert sizes == [[90, 5, 5], [90, 5]]


def test_requests_of_spans_look_the_same():
    (body,) = RequestWriter(Resource(), InstrumentationScope(name="s"), 100).requests([b"\x2a\x01n"])
    assert body is not None
    (group,) = ExportTraceServiceRequest.FromString(body).resource_spans
    assert [span.name for span in group.scope_spans[0].spans] == ["n"]


def test_nothing_to_say_is_no_request():
    assert not list(RequestWriter(Resource(), InstrumentationScope(), 100).requests([]))
