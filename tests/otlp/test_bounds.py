"""What has more fields than any producer writes costs nobody but its sender."""

import os
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from tests.otlp import stock
from tests.otlp.stock import field
from toolgauge.model.errors import DecodeError
from toolgauge.otlp.decoder import Decoder
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
    "attributes under padded tags": lambda: SPAN + b"\xca\x80\x00\x80\x00" * 110_000,
    "attributes in groups": lambda: SPAN + b"\xc3\x0c" + attributes(110_000) + b"\xc4\x0c",
    "events": lambda: SPAN + field(11, b"") * 110_000,
    "events with names": lambda: SPAN + field(11, field(2, b"a name of some length")) * 10_001,
    "links": lambda: SPAN + field(13, b"") * 110_000,
    "attributes of an event": lambda: SPAN + field(11, attributes(110_000, 3)),
    "attributes of many events": lambda: SPAN + field(11, attributes(500, 3)) * 220,
    "fields that nobody knows": lambda: SPAN + b"\xc0\x0c\x07" * 110_000,
    "numbers": lambda: SPAN + b"\x30\x01" * 110_000,
    "a name": lambda: SPAN + field(5, NAME),
}


@pytest.mark.parametrize("kind", BROKEN_SPANS)
def test_a_span_beyond_the_bounds_goes_on_unread_and_is_counted(kind: str):
    broken = BROKEN_SPANS[kind]()
    body = stock.request_of([broken, SPAN])
    decoded = stock.read_traces(decoder(), body)
    assert [viewed.raw for viewed in decoded.viewed] == [SPAN]
    assert decoded.reasons == {"too_many_fields": 1}
    assert decoded.body() == body


@pytest.mark.parametrize("excess", [lambda: attributes(10_001, 6), lambda: field(12, NAME)])
def test_a_log_record_beyond_the_bounds_is_unread_and_counted(excess: Callable[[], bytes]):
    decoded = decoder().logs(stock.request_of([LOG_RECORD + excess(), LOG_RECORD]))
    assert (len([*decoded.viewed]), dict(decoded.undecodable)) == (1, {"too_many_fields": 1})


def test_a_resource_or_scope_beyond_the_bounds_reads_as_empty():
    body = field(1, field(1, attributes(10_001, 1)) + field(2, field(1, field(1, NAME)) + field(2, SPAN)))
    [viewed] = stock.read_traces(decoder(), body).viewed
    assert viewed.span.resource.attributes == {}
    assert viewed.span.scope.name == ""


def test_an_event_whose_name_is_too_long_is_left_out_and_counted():
    reader = decoder()
    raw = SPAN + field(11, field(2, NAME)) + field(11, field(2, b"good"))
    [viewed] = stock.read_traces(reader, stock.request_of([raw])).viewed
    assert [event.name for event in viewed.span.events] == ["good"]
    assert reader.values.undecodable == 1


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
    with pytest.raises(DecodeError, match="more fields than any producer writes"):
        value(field(5, elements))


def test_as_many_numbers_as_a_long_embedding_has_are_read():
    assert value(field(5, field(1, b"\x18\x01") * 50_000)) == [1] * 50_000


BROKEN_REQUESTS = {
    "resource groups": field(1, b"") * 600_000,
    "scope groups": field(1, field(2, b"") * 600_000),
    "spans": field(1, field(2, field(2, b"") * 600_000)),
    "scopes": field(1, field(2, field(1, b"") * 600_000 + field(2, SPAN))),
    "resources": field(1, field(1, b"") * 600_000 + field(2, field(2, SPAN))),
}


@pytest.mark.parametrize("kind", BROKEN_REQUESTS)
def test_a_request_with_more_groups_or_spans_than_its_size_has_room_for_is_broken(kind: str):
    with pytest.raises(DecodeError, match="more fields than any producer writes"):
        stock.read_traces(decoder(), BROKEN_REQUESTS[kind])


def test_a_request_of_very_many_spans_is_read():
    spans = [stock.span().SerializeToString()] * 40_000
    assert stock.read_traces(decoder(), stock.request_of(spans)).span_count == 40_000


@pytest.mark.parametrize(
    "broken",
    [b"\x80" * 100_000, b"\x00" + b"\xff" * 100_000, b"J\xff\xff\xff\xff\x0f" + bytes(100_000), b"J" * 100_001],
    ids=["tag", "number", "length", "cut off"],
)
def test_bytes_that_are_no_fields_are_counted_in_linear_time(broken: bytes):
    began = time.process_time()
    assert stock.read_traces(decoder(), stock.request_of([SPAN + broken])).undecodable == 1
    assert time.process_time() - began < 1


# How far memory grows while a request is read and decoded, as a share of its size.
GROWTH = """
import sys
from pathlib import Path
from tests.otlp import stock
from tests.otlp.test_bounds import SPAN, attributes, decoder
from toolgauge.otlp.request import read_request

def peak():
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) << 10

spans, count = map(int, sys.argv[1:])
body = stock.request_of([SPAN + attributes(count)] * spans)
Path("/proc/self/clear_refs").write_text("5")
before = peak()
request = read_request("traces", body, 0)
decoded = decoder().traces(body, None, request.envelope)
print(sum(1 for _ in decoded.viewed), decoded.undecodable.total(), (peak() - before) / len(body))
"""


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="this system does not report a peak")
@pytest.mark.parametrize(("spans", "attributes", "viewed"), [(1, 1_000_000, 0), (150, 9_999, 150)])
def test_a_request_takes_three_times_its_size_beside_its_bytes_however_many_attributes_its_spans_have(
    spans: int, attributes: int, viewed: int
):
    command = [sys.executable, "-c", GROWTH, str(spans), str(attributes)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert (int(printed[0]), int(printed[1])) == (viewed, spans - viewed)
    assert float(printed[2]) < 3.2
