"""One of several requests that were put together is refused for good, and none of the others is lost for it."""

from collections.abc import Iterable

import grpc
import pytest

from tests.export.fakes import OK, Said, Script, always, counted, exchanging, request, until
from tests.otlp import stock
from toolgauge.export.settings import Transport
from toolgauge.model.delivery import Outgoing, Signal

Code = grpc.StatusCode
both = pytest.mark.parametrize("protocol", ["grpc", "http"])
GOOD = [bytes([10, 2, 18, 0]) + bytes([10, 0]) * number for number in range(1, 12)]
BAD = b"\x0a\x02\x18\x07"
ALL = [*GOOD[:5], BAD, *GOOD[5:]]
REFUSED = Said(code=Code.INVALID_ARGUMENT, http_status=400)


def together(bodies: Iterable[bytes], *, signal: Signal = "traces", spans: int = 3) -> Outgoing:
    """Put requests together, each with so many spans."""
    bodies = list(bodies)
    return Outgoing(
        signal=signal,
        body=b"".join(bodies),
        spans=spans * len(bodies),
        own=False,
        parts=tuple((len(body), spans) for body in bodies),
    )


def refusing(bad: bytes, said: Said) -> Script:
    return lambda _count, _what, body: said if bad in body else OK


@both
@pytest.mark.parametrize(
    ("code", "status"),
    [
        (Code.INVALID_ARGUMENT, 400),
        (Code.RESOURCE_EXHAUSTED, 413),
        (Code.INTERNAL, 500),
        (Code.UNKNOWN, 422),
    ],
)
async def test_a_request_that_is_refused_for_one_of_its_parts_loses_that_part_alone(
    protocol: Transport, code: grpc.StatusCode, status: int
):
    refused = Said(code=code, http_status=status)
    async with exchanging(protocol, refusing(BAD, refused)) as (seen, out):
        assert out.destination.put(together(ALL))
        await until(lambda: out.destination.queue.spans == 0)
        assert out.destination.queue.size_bytes == 0
    assert b"".join(body for body in seen.bodies if BAD not in body) == b"".join(GOOD)
    assert seen.bodies.count(BAD) == 1
    reason = code.name.lower() if protocol == "grpc" else f"http_{status}"
    assert out.spans() == {("forwarded", "", "otlp"): 33, ("dropped", reason, "otlp"): 3}


@both
@pytest.mark.parametrize(
    ("code", "status"), [(Code.UNAUTHENTICATED, 401), (Code.NOT_FOUND, 404), (Code.UNIMPLEMENTED, 405)]
)
async def test_what_is_refused_whatever_it_holds_is_not_sent_again_in_parts(
    protocol: Transport, code: grpc.StatusCode, status: int
):
    refused = always(Said(code=code, http_status=status))
    async with exchanging(protocol, refused) as (seen, out):
        out.destination.put(together(ALL))
        await until(lambda: out.destination.queue.spans == 0)
    assert len(seen.arrived) == 1
    assert sum(out.spans().values()) == 36


async def test_what_is_larger_than_the_destination_takes_is_sent_in_parts():
    async with exchanging("grpc", always(OK), max_request_size=40) as (seen, out):
        out.destination.put(together([*GOOD, bytes([10, 0]) * 30]))
        await until(lambda: out.destination.queue.spans == 0)
    assert b"".join(seen.bodies) == b"".join(GOOD)
    assert max(map(len, seen.bodies)) <= 40
    assert out.spans() == {("forwarded", "", "otlp"): 33, ("dropped", "too_large", "otlp"): 3}


@both
async def test_the_end_gives_up_only_parts_that_were_not_delivered(protocol: Transport):
    def script(_count: int, _what: str, body: bytes) -> Said:
        if BAD in body:
            return REFUSED
        return Said(hang=True) if GOOD[-1] in body else OK

    async with exchanging(protocol, script) as (_, out):
        out.destination.put(together(ALL))
        out.destination.put(request(GOOD[0], spans=5))
        await until(lambda: out.spans().get(("forwarded", "", "otlp"), 0) > 5)
        assert (await out.destination.drain(0.3)).spans >= 3
    books = out.spans()
    assert books["dropped", "shutdown", "otlp"] >= 3
    assert sum(books.values()) == 41
    assert out.destination.queue.spans == out.destination.queue.size_bytes == 0


async def test_spans_that_the_destination_cannot_decode_are_counted():
    good, broken = stock.span(stock.key_value("note")).SerializeToString(), stock.field(5, b"\xff\xfe")
    bodies = [stock.request_of([good]), stock.request_of([good, good + broken]), stock.request_of([good])]
    async with exchanging("grpc", refusing(b"\xff\xfe", REFUSED)) as (_, out):
        out.destination.put(together(bodies, spans=1))
        await until(lambda: out.destination.queue.spans == 0)
    assert counted(out.metrics.undecodable) == {("undecodable",): 1}
