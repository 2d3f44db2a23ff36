"""Messages with too many fields cost nobody but their sender."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.otlp import stock
from tests.otlp.stock import field
from tests.rows import each_row
from toolgauge.model.errors import DecodeError
from toolgauge.otlp.decoder import Decoder
from toolgauge.otlp.otlp_json import request_from_json
from toolgauge.otlp.request import Divider, read_request
from toolgauge.otlp.views import value

SPAN = stock.span(stock.key_value("gen_ai.tool.name")).SerializeToString()
LOG_RECORD = field(6, stock.key_value("gen_ai.tool.name").SerializeToString())
# A name of at most 16 KiB is one that somebody might write.
NAME = b"n" * ((1 << 14) + 1)


def attributes(count: int, number: int = 9) -> bytes:
    return b"".join(field(number, field(1, b"%x" % index)) for index in range(count))


def decoder() -> Decoder:
    return Decoder(["gen_ai."], [])


BROKEN_SPANS: dict[str, Callable[[], bytes]] = {
    "attributes": lambda: SPAN + attributes(10_000),
    "attributes with one key": lambda: SPAN + field(9, b"") * 110_000,
    "attributes in groups": lambda: SPAN + b"\xc3\x0c" + attributes(110_000) + b"\xc4\x0c",
    "events": lambda: SPAN + field(11, b"") * 110_000,
    "events with names": lambda: SPAN + field(11, field(2, b"a name of some length")) * 10_001,
    "attributes of an event": lambda: SPAN + field(11, attributes(110_000, 3)),
    "fields that nobody knows": lambda: SPAN + b"\xc0\x0c\x07" * 110_000,
    "a name": lambda: SPAN + field(5, NAME),
}


@each_row("kind", BROKEN_SPANS)
def test_a_span_beyond_the_bounds_goes_on_unread_and_is_counted(kind: str):
    broken = BROKEN_SPANS[kind]()
    body = stock.request_of([broken, SPAN])
    decoded = stock.read_traces(decoder(), body)
    assert [viewed.raw for viewed in decoded.viewed] == [SPAN]
    assert decoded.reasons == {"too_many_fields": 1}
    assert decoded.body() == body


def test_a_log_record_beyond_the_bounds_is_unread_and_counted():
    for excess in (attributes(10_001, 6), field(12, NAME)):
        decoded = decoder().logs(stock.request_of([LOG_RECORD + excess, LOG_RECORD]))
        assert (len([*decoded.viewed]), dict(decoded.undecodable)) == (1, {"too_many_fields": 1})


def test_a_resource_or_scope_beyond_the_bounds_reads_as_empty():
    body = field(1, field(1, attributes(10_001, 1)) + field(2, field(1, field(1, NAME)) + field(2, SPAN)))
    [viewed] = stock.read_traces(decoder(), body).viewed
    assert viewed.span.resource.attributes == {}
    assert viewed.span.scope.name == ""


def test_as_many_attributes_and_events_as_a_long_conversation_has_are_read():
    entries = [stock.key_value(f"llm.input_messages.{index}.message.content") for index in range(9_999)]
    raw = (
        stock.span(*entries, stock.key_value("k")).SerializeToString()
        + field(11, field(2, b"a name of some length")) * 10_000
    )
    [viewed] = stock.read_traces(Decoder(["llm."], []), stock.request_of([raw])).viewed
    assert (len(viewed.span.attributes), len(viewed.span.events)) == (10_000, 10_000)


def test_elements_of_a_list_in_an_object_in_a_list_are_counted():
    elements = field(1, field(6, field(1, field(1, b"key") + field(2, field(5, field(1, b"") * 105_000)))))
    with pytest.raises(DecodeError, match="too many fields"):
        value(field(5, elements))


BROKEN_REQUESTS = {
    "resource groups": field(1, b"") * 600_000,
    "scope groups": field(1, field(2, b"") * 600_000),
    "spans": field(1, field(2, field(2, b"") * 600_000)),
    "scopes": field(1, field(2, field(1, b"") * 600_000 + field(2, SPAN))),
    "resources": field(1, field(1, b"") * 600_000 + field(2, field(2, SPAN))),
}


@each_row("kind", BROKEN_REQUESTS)
def test_a_request_with_more_groups_or_spans_than_its_size_has_room_for_is_broken(kind: str):
    with pytest.raises(DecodeError, match="too many fields"):
        stock.read_traces(decoder(), BROKEN_REQUESTS[kind])


# The same for what a function makes of a body.
GROWTH_OF_WORK = """
import json
from pathlib import Path
from tests.otlp.test_bounds import WORK, peak

grown = {}
for kind, (make, work) in WORK.items():
    body = make()
    Path("/proc/self/clear_refs").write_text("5")
    before = peak()
    work(body)
    grown[kind] = (peak() - before) / len(body)
print(json.dumps(grown))
"""
JSON = b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"t","attributes":[%s]}]}]}]}'


def peak() -> int:
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) << 10


def json_of(attribute: bytes, count: int) -> bytes:
    return JSON % b",".join([attribute] * count)


def from_json(text: bytes) -> None:
    with suppress(DecodeError):
        request_from_json("traces", text)


WORK: dict[str, tuple[Callable[[], bytes], Callable[[bytes], object]]] = {
    "attributes": (lambda: json_of(b'{"key":"abc","value":{"intValue":"1"}}', 50_000), from_json),
    "halves of surrogates": (
        lambda: JSON % (b'{"key":"a","value":{"stringValue":"%s"}}' % (rb"\ud800" * 300_000)),
        from_json,
    ),
    "groups of workers": (
        lambda: field(1, field(2, field(2, SPAN))) * 60_000,
        lambda body: Divider(2).divide("traces", body),
    ),
    "attributes of spans": (
        lambda: stock.request_of([SPAN + attributes(9_999)] * 50),
        lambda body: sum(1 for _ in decoder().traces(body, None, read_request("traces", body, 0).envelope).viewed),
    ),
}


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="this system does not report a peak")
def test_a_request_takes_six_times_its_size_beside_its_bytes_whatever_is_in_it():
    printed = subprocess.run([sys.executable, "-c", GROWTH_OF_WORK], capture_output=True, text=True, check=True)
    assert {kind: grown for kind, grown in json.loads(printed.stdout).items() if grown > 6.2} == {}


def test_a_large_span_in_json_is_written_as_a_small_one_is():
    attribute = b'{"key":"abc","value":{"kvlistValue":{"values":[{"key":"k","value":{"arrayValue":null}}]}}}'
    one, many = (
        ExportTraceServiceRequest.FromString(request_from_json("traces", json_of(attribute, count)))
        for count in (1, 5_000)
    )
    first, second = (each.resource_spans[0].scope_spans[0].spans[0].attributes for each in (one, many))
    assert (len(second), second[-1]) == (5_000, first[0])


@each_row(
    ("text", "problem"),
    [
        (json_of(b'{"key":"abc","value":{"intValue":"x"}}', 10_000), r"`resourceSpans\[0\]\.scopeSpans\[0\]\.spans\[0\]"
         r"\.attributes\[0\]\.value\.intValue` must be an integer"),
        (json_of(b'{"key":"abc","value":1}', 20_000), r"attributes\[0\]\.value` must be an object"),
        (b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"attributes":{"x":"%s"}}]}]}]}' % (b"x" * (1 << 18)), "must be an array"),
        (JSON % (b'{"key":"a","value":' + b'{"arrayValue":{"values":[' * 12 + b'{"stringValue":"%s"}' % (b"x" * (1 << 18))
                 + b"]}}" * 12 + b"}"), "nested too deep"),
    ],
    ids=["scalar", "message", "array", "depth"],
)  # fmt: skip
def test_a_wrong_value_in_a_large_span_is_named_as_in_a_small_one(text: bytes, problem: str):
    with pytest.raises(DecodeError, match=problem):
        request_from_json("traces", text)
