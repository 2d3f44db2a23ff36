"""OTLP JSON becomes the same request that the protobuf form is."""

import base64
import json
import time
import tracemalloc
from pathlib import Path

import pytest
from google.protobuf.json_format import MessageToDict
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.rows import each_row
from toolgauge.model.delivery import Signal
from toolgauge.model.errors import DecodeError
from toolgauge.model.json import Json
from toolgauge.otlp.otlp_json import request_from_json, requests_from_json

CORPUS = Path(__file__).parent.parent / "corpus"
_IDS = ("traceId", "spanId", "parentSpanId")


def otlp_json(value: Json) -> Json:
    """Turn protobuf's JSON mapping into OTLP's: ids in hex."""
    if isinstance(value, dict):
        return {
            key: base64.b64decode(item).hex() if key in _IDS and isinstance(item, str) else otlp_json(item)
            for key, item in value.items()
        }
    return [otlp_json(item) for item in value] if isinstance(value, list) else value


def span_document(**fields: Json) -> bytes:
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [fields]}]}]}).encode()


def one_span(**fields: Json) -> ExportTraceServiceRequest:
    return ExportTraceServiceRequest.FromString(request_from_json("traces", span_document(**fields)))


@each_row("folder", ["otel-util-genai", "openai-v2", "openinference-langgraph", "vercel-ai"])
def test_captures_written_as_json_read_back_equal(folder: str):
    for file in sorted((CORPUS / folder).glob("*.otlp.pb")):
        stock = ExportLogsServiceRequest if ".logs." in file.name else ExportTraceServiceRequest
        original = stock.FromString(file.read_bytes())
        text = json.dumps(otlp_json(MessageToDict(original, use_integers_for_enums=True))).encode()
        (request,) = requests_from_json(text)
        assert request[0] == ("logs" if ".logs." in file.name else "traces")
        assert stock.FromString(request[1]) == original


def test_ids_are_hex_in_either_case():
    span = one_span(traceId="0AF7651916CD43DD8448EB211C80319C", spanId="b7ad6b7169203331")
    ids = span.resource_spans[0].scope_spans[0].spans[0]
    assert ids.trace_id.hex() == "0af7651916cd43dd8448eb211c80319c"
    assert ids.span_id.hex() == "b7ad6b7169203331"


@each_row("trace_id", ["abc", "zz" * 16, "00" * 15, "0a f7" * 6, 7, ["00" * 16]])
def test_an_id_that_is_not_hex_of_the_right_length_names_its_path(trace_id: Json):
    with pytest.raises(DecodeError, match=r"resourceSpans\[0\].scopeSpans\[0\].spans\[0\].traceId"):
        one_span(traceId=trace_id)


def test_integers_are_read_from_text_and_number_and_doubles_from_names():
    span = one_span(
        startTimeUnixNano="1700000000000000001",
        endTimeUnixNano=1700000000000000002,
        attributes=[
            {"key": "i", "value": {"intValue": "-9223372036854775808"}},
            {"key": "d", "value": {"doubleValue": "-Infinity"}},
            {"key": "b", "value": {"bytesValue": "AQI="}},
        ],
    )
    view = span.resource_spans[0].scope_spans[0].spans[0]
    assert (view.start_time_unix_nano, view.end_time_unix_nano) == (1700000000000000001, 1700000000000000002)
    assert view.attributes[0].value.int_value == -9223372036854775808
    assert view.attributes[1].value.double_value == float("-inf")
    assert view.attributes[2].value.bytes_value == b"\x01\x02"


@each_row("text", ["+/+/AQ==", "-_-_AQ==", "+/+/AQ", "-_-_AQ"])
def test_bytes_are_base64_of_either_alphabet_padded_or_not(text: str):
    span = one_span(attributes=[{"key": "b", "value": {"bytesValue": text}}])
    value = span.resource_spans[0].scope_spans[0].spans[0].attributes[0].value
    assert value.bytes_value == b"\xfb\xff\xbf\x01"


@each_row("text", ["!!", "A", "AQ=A", "AQ ==", "\u0661\u0661=="])
def test_what_is_no_base64_is_an_error(text: str):
    with pytest.raises(DecodeError, match="must be base64"):
        one_span(attributes=[{"key": "b", "value": {"bytesValue": text}}])


def test_unknown_and_snake_case_keys_are_ignored():
    span = one_span(name="a", start_time_unix_nano="7", future={"deep": [1]})
    view = span.resource_spans[0].scope_spans[0].spans[0]
    assert view.name == "a"
    assert view.start_time_unix_nano == 0


@each_row(
    "fields",
    [{"kind": "SERVER"}, {"kind": "2"}, {"kind": True}, {"startTimeUnixNano": "1e3"}, {"name": 5}, {"attributes": {}},
     {"startTimeUnixNano": -1}, {"startTimeUnixNano": "\u0661"}, {"flags": 1 << 40}, {"status": []}, {"attributes": [3]}],
)  # fmt: skip
def test_a_value_of_the_wrong_type_is_an_error_and_no_crash(fields: dict[str, Json]):
    with pytest.raises(DecodeError):
        one_span(**fields)


def test_names_of_enums_are_read_as_the_collector_reads_them():
    span = one_span(kind="SPAN_KIND_SERVER", status={"code": "STATUS_CODE_ERROR"})
    view = span.resource_spans[0].scope_spans[0].spans[0]
    assert (view.kind, view.status.code) == (2, 2)


@pytest.mark.parametrize("kind", ["intValue", "doubleValue"])
def test_an_integer_that_no_number_of_otlp_holds_is_an_error(kind: str):
    with pytest.raises(DecodeError, match=rf"value.{kind}` is out of range"):
        one_span(attributes=[{"key": "k", "value": {kind: 10**400}}])


def test_an_empty_value_differs_from_a_missing_one():
    span = one_span(attributes=[{"key": "empty", "value": {}}, {"key": "text", "value": {"stringValue": ""}}])
    attributes = span.resource_spans[0].scope_spans[0].spans[0].attributes
    assert attributes[0].HasField("value")
    assert attributes[0].value.WhichOneof("value") is None
    assert attributes[1].value.WhichOneof("value") == "string_value"


def test_a_value_nested_too_deep_is_an_error():
    value: Json = {"stringValue": "x"}
    for _ in range(200):
        value = {"arrayValue": {"values": [value]}}
    with pytest.raises(DecodeError, match="too deep"):
        one_span(attributes=[{"key": "k", "value": value}])


@each_row(
    "text",
    [
        b"",
        b"[]",
        b"null",
        b'{"spans": []}',
        b"{",
        b'{"resourceSpans": 1}',
        b"\xff",
        b'{"resourceSpans": "\xff"}',
        b'{"resourceSpans": "\\ud800"}',
        b'{"future": 1e400}',
        b"[" * 10_000,
        b'{"a":' * 100_000,
    ],
)
def test_what_is_no_otlp_document_is_an_error(text: bytes):
    with pytest.raises(DecodeError):
        requests_from_json(text)


@each_row(
    "inside",
    ["{}," * 20_000, '"attributes":[' + '{"key":"a"},' * 20_000, '"x":"[[{{\\"","y":' + "[" + "[]," * 20_000],
    ids=["spans", "attributes", "unknown"],
)
def test_more_objects_and_lists_than_any_producer_writes_are_an_error(inside: str):
    text = '{"resourceSpans":[{"scopeSpans":[{"spans":[{},' + inside
    with pytest.raises(DecodeError, match="more objects and lists"):
        request_from_json("traces", text.encode())


def test_brackets_in_texts_are_no_objects():
    text = b'{"resourceSpans":[{"schemaUrl":"' + b'[{\\"' * 20_000 + b'"}]}'
    assert b'[{"[{"' in request_from_json("traces", text)


@pytest.mark.parametrize(
    "text", [b'{"' + b'{[\\"' * 50_000, b"x" * 100_000 + b"{" * 50_000 + b'"\\'], ids=["text", "cut"]
)
def test_text_without_an_end_is_searched_in_linear_time(text: bytes):
    began = time.process_time()
    with pytest.raises(DecodeError):
        request_from_json("traces", text)
    assert time.process_time() - began < 1


def test_items_are_decoded_one_at_a_time():
    span = b'{"attributes":[' + b",".join([b'{"key":"k","value":{"stringValue":"some text"}}'] * 100) + b"]}"
    text = b'{"resourceSpans":[{"scopeSpans":[{"spans":[' + b",".join([span] * 200) + b"]}]}]}"
    tracemalloc.start()
    try:
        assert request_from_json("traces", text)
        assert tracemalloc.get_traced_memory()[1] < 2 * len(text)
    finally:
        tracemalloc.stop()


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["resourceSpans", "scopeSpans", "spans", "attributes", "key", "value", "stringValue", "kind"]), inner), max_leaves=20))  # fmt: skip
def test_any_json_is_encoded_or_refused(value: object):
    try:
        request_from_json("traces", json.dumps(value).encode())
    except DecodeError:
        return


@each_row(
    ("written", "read"),
    [
        (r"half \ud83e", "half \ufffd"),
        (r"\udd14 half", "\ufffd half"),
        (r"\uD83E\uDD14", "\U0001f914"),
        (r"\ud83e\ud83e\udd14", "\ufffd\U0001f914"),
        (r"\ud83ex\udd14", "\ufffdx\ufffd"),
        (r"\ud83e\u0041", "\ufffdA"),
        (r"\\ud83e \ud83e", "\\ud83e \ufffd"),
        (r"\\\ud83e", "\\\ufffd"),
        (r"\"\ud83e\"", '"\ufffd"'),
        ("\ud83e", "\ufffd"),
        ("\ud7a3 \ud83e", "\ud7a3 \ufffd"),
    ],
)
def test_a_lone_surrogate_is_read_as_the_replacement_character(written: str, read: str):
    text = (
        '{"resourceSpans":[{"resource":{"attributes":[{"key":"§","value":{"stringValue":"§"}}]},"scopeSpans":[{"scope":{"name":"§"},'
        '"spans":[{"name":"§","attributes":[{"key":"k","value":{"kvlistValue":{"values":[{"key":"§","value":{"stringValue":"§"}}]}}}],'
        '"status":{"message":"§"},"§":[1]},{"name":"whole"}]}]}],"§":1}'
    ).replace("§", written)
    (request,) = requests_from_json(text.encode("utf-8", "surrogatepass"))
    assert request_from_json("traces", text.encode("utf-8", "surrogatepass")) == request[1]
    (group,) = ExportTraceServiceRequest.FromString(request[1]).resource_spans
    first, second = group.scope_spans[0].spans
    (inner,) = first.attributes[0].value.kvlist_value.values
    resource = group.resource.attributes[0]
    texts = (resource.key, resource.value.string_value, group.scope_spans[0].scope.name, first.name, inner.key)
    assert {*texts, inner.value.string_value, first.status.message} == {read}
    assert second.name == "whole"


PIECES = ("a", "\\", '"', "\ud83e", "\udd14", "\u00e9", "u", "d83e", "\U0001f914")


@given(st.lists(st.sampled_from(PIECES)).map("".join))
def test_whatever_stands_around_a_lone_surrogate_stays_as_it_is(name: str):
    read = ExportLogsServiceRequest.FromString(
        request_from_json("logs", json.dumps({"resourceLogs": [{"schemaUrl": name + "\ud83e"}]}).encode())
    )
    # Python keeps two halves that stand side by side apart, and JSON does not.
    expected = json.loads(json.dumps(name + "\ud83e"))
    assert read.resource_logs[0].schema_url == "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in expected)


def test_a_long_text_of_escapes_is_searched_for_surrogates_in_linear_time():
    began = time.process_time()
    with pytest.raises(DecodeError):
        request_from_json("traces", b'{"resourceSpans":"' + b'\\"' * 1_000_000 + b"\\ud83e")
    assert time.process_time() - began < 2


@each_row(
    ("signal", "text", "message"),
    [
        ("traces", '{"resource_spans": []}', "OTLP JSON spells its keys in lowerCamelCase: `resourceSpans`, not `resource_spans`"),
        ("logs", '{"resource_logs": []}', "OTLP JSON spells its keys in lowerCamelCase: `resourceLogs`, not `resource_logs`"),
        ("metrics", '{"resource_metrics": []}', "no `resourceMetrics` in it: OTLP JSON spells its keys in lowerCamelCase"),
        ("traces", '{"spans": []}', "neither `resourceSpans` nor `resourceLogs` in it"),
        ("traces", '{"resourceSpans": [{"scope_spans": []}]}', "`resourceSpans[0]` has no `scopeSpans` in it: OTLP JSON spells"),
        ("logs", '{"resourceLogs": [{"scopeLogs": [{}, {"log_records": []}]}]}', "`resourceLogs[0].scopeLogs[1]` has no `logRecords`"),
    ],
)  # fmt: skip
def test_an_object_with_keys_of_which_none_is_known_is_an_error(signal: Signal, text: str, message: str):
    with pytest.raises(DecodeError) as caught:
        request_from_json(signal, text.encode())
    assert message in str(caught.value)
    assert caught.value.reason == "unknown_keys"


@each_row("text", ["{}", '{"resourceSpans": null, "future": 1}', '{"future": {}, "resourceSpans": [{}]}'])
def test_unknown_keys_beside_a_known_one_are_ignored(text: str):
    assert ExportTraceServiceRequest.FromString(request_from_json("traces", text.encode())) is not None


@each_row(
    ("signal", "text"),
    [
        ("traces", b'{"resourceLogs": []}'),
        ("logs", b'{"resourceSpans": []}'),
        ("logs", b'{"resourceMetrics": []}'),
        ("metrics", b'{"resourceSpans": []}'),
    ],
)
def test_json_of_another_signal_is_an_error(signal: Signal, text: bytes):
    with pytest.raises(DecodeError, match="send it to the endpoint of its own signal") as caught:
        request_from_json(signal, text)
    assert caught.value.reason == "wrong_signal"
