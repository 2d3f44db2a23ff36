"""OTLP JSON becomes the same request that the protobuf form is."""

import base64
import json
import re
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


@each_row("trace_id", ["abc", "zz" * 16, "00" * 15, "0a f7" * 6, 7, ["00" * 16]])
def test_an_id_that_is_not_hex_of_the_right_length_names_its_path(trace_id: Json):
    with pytest.raises(DecodeError, match=r"resourceSpans\[0\].scopeSpans\[0\].spans\[0\].traceId"):
        one_span(traceId=trace_id)


def test_integers_are_read_from_text_and_number_and_doubles_from_names():
    span = one_span(
        traceId="0AF7651916CD43DD8448EB211C80319C",
        startTimeUnixNano="1700000000000000001",
        endTimeUnixNano=1700000000000000002,
        kind="SPAN_KIND_SERVER",
        status={"code": "STATUS_CODE_ERROR"},
        start_time_unix_nano="7",
        future={"deep": [1]},
        attributes=[
            {"key": "i", "value": {"intValue": "-9223372036854775808"}},
            {"key": "d", "value": {"doubleValue": "-Infinity"}},
            {"key": "b", "value": {"bytesValue": "AQI="}},
        ],
    )
    view = span.resource_spans[0].scope_spans[0].spans[0]
    assert (view.start_time_unix_nano, view.end_time_unix_nano) == (1700000000000000001, 1700000000000000002)
    assert (view.trace_id.hex(), view.kind, view.status.code) == ("0af7651916cd43dd8448eb211c80319c", 2, 2)
    integer, double, data = (attribute.value for attribute in view.attributes)
    assert (integer.int_value, double.double_value, data.bytes_value) == (-(2**63), float("-inf"), b"\x01\x02")


def test_bytes_are_base64_of_either_alphabet_padded_or_not():
    for text in ("+/+/AQ==", "-_-_AQ==", "+/+/AQ", "-_-_AQ"):
        span = one_span(attributes=[{"key": "b", "value": {"bytesValue": text}}])
        assert span.resource_spans[0].scope_spans[0].spans[0].attributes[0].value.bytes_value == b"\xfb\xff\xbf\x01"
    for text in ("!!", "A", "AQ=A", "AQ ==", "\u0661\u0661=="):
        with pytest.raises(DecodeError, match="must be base64"):
            one_span(attributes=[{"key": "b", "value": {"bytesValue": text}}])


@each_row(
    "fields",
    [{"kind": "SERVER"}, {"kind": "2"}, {"kind": True}, {"startTimeUnixNano": "1e3"}, {"name": 5}, {"attributes": {}},
     {"startTimeUnixNano": -1}, {"startTimeUnixNano": "\u0661"}, {"flags": 1 << 40}, {"status": []}, {"attributes": [3]}],
)  # fmt: skip
def test_a_value_of_the_wrong_type_is_an_error_and_no_crash(fields: dict[str, Json]):
    with pytest.raises(DecodeError):
        one_span(**fields)


def test_an_integer_that_no_number_of_otlp_holds_is_an_error():
    for kind, number in (("intValue", 10**400), ("doubleValue", 10**400)):
        with pytest.raises(DecodeError, match=rf"value.{kind}` is out of range"):
            one_span(attributes=[{"key": "k", "value": {kind: number}}])
    with pytest.raises(DecodeError):
        one_span(startTimeUnixNano="\u0661\u0662")


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
        b"null",
        b"{",
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
    with pytest.raises(DecodeError, match="too many objects and lists"):
        request_from_json("traces", text.encode())


def test_brackets_in_texts_are_no_objects():
    text = b'{"resourceSpans":[{"schemaUrl":"' + b'[{\\"' * 20_000 + b'"}]}'
    assert b'[{"[{"' in request_from_json("traces", text)


@each_row(
    ("written", "read"),
    [
        (r"half \ud83e", "half \ufffd"),
        (r"\udd14 half", "\ufffd half"),
        (r"\uD83E\uDD14", "\U0001f914"),
        (r"\ud83e\u0041", "\ufffdA"),
        (r"\\ud83e \ud83e", "\\ud83e \ufffd"),
        (r"\\\ud83e", "\\\ufffd"),
        ("\ud83e", "\ufffd"),
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


@each_row(
    ("signal", "text", "noun", "reason"),
    [
        ("traces", '{"resource_spans": []}', "`resourceSpans`, not `resource_spans`", "unknown_keys"),
        ("metrics", '{"resource_metrics": []}', "no `resourceMetrics` in it", "unknown_keys"),
        ("traces", '{"spans": []}', "neither `resourceSpans` nor `resourceLogs`", "unknown_keys"),
        ("traces", '{"resourceSpans": [{"scope_spans": []}]}', "`resourceSpans[0]` has no `scopeSpans`", "unknown_keys"),
        ("logs", '{"resourceLogs": [{"scopeLogs": [{}, {"log_records": []}]}]}', "`resourceLogs[0].scopeLogs[1]`", "unknown_keys"),
        ("traces", '{"resourceLogs": []}', "endpoint", "wrong_signal"),
        ("logs", '{"resourceMetrics": []}', "endpoint", "wrong_signal"),
        ("metrics", '{"resourceSpans": []}', "endpoint", "wrong_signal"),
    ],
)  # fmt: skip
def test_a_document_of_other_keys_or_of_another_signal_is_an_error(signal: Signal, text: str, noun: str, reason: str):
    with pytest.raises(DecodeError, match=re.escape(noun)) as caught:
        request_from_json(signal, text.encode())
    assert caught.value.reason == reason
