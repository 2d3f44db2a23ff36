"""What is written by hand reads the same as what the stock classes write."""

# pyright: reportUnknownMemberType=false

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from tests.rows import each_row
from toolgauge.otlp.encode import (
    AttributeValue,
    RequestWriter,
    attribute,
    elements,
    field,
    fixed64,
    tag,
    text_attribute,
    time_tag,
)

ATTRIBUTES = tag(6)


def read(written: bytes) -> list[KeyValue]:
    return list(LogRecord.FromString(elements(ATTRIBUTES, [written])).attributes)


@each_row(
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
    assert read(attribute("key", value)) == [KeyValue(key="key", value=expected)]


def test_a_text_is_cut_and_cleaned():
    (written,) = read(text_attribute("key", "abc\x00" + "d" * 300))
    assert written.value.string_value == "abc\ufffd" + "d" * 252
    (written,) = read(text_attribute("key", "a\ud800b"))
    assert written.value.string_value == "a\ufffdb"


def test_an_integer_of_too_many_bits_is_the_largest_there_is():
    assert read(attribute("key", 2**70))[0].value.int_value == 2**63 - 1


def test_time_and_ids_are_fields_of_their_own():
    record = LogRecord.FromString(time_tag(11) + fixed64(2**64 - 1) + field(tag(9), bytes(range(16))))
    assert (record.observed_time_unix_nano, record.trace_id) == (2**64 - 1, bytes(range(16)))


def test_a_request_holds_its_items_and_says_who_we_are():
    resource, scope = Resource(dropped_attributes_count=3), InstrumentationScope(name="toolgauge", version="0")
    messages = [LogRecord(event_name="x" * size).SerializeToString() for size in (0, 1, 90, 127, 128, 70_000)]
    body = RequestWriter(resource, scope).request([field(tag(2), each) for each in messages])
    (group,) = ExportLogsServiceRequest.FromString(body).resource_logs
    assert group.resource == resource
    (of_scope,) = group.scope_logs
    assert of_scope.scope == scope
    assert [len(record.event_name) for record in of_scope.log_records] == [0, 1, 90, 127, 128, 70_000]
