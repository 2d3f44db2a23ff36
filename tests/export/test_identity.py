"""Who we say we are to destinations, and how patient we are by default."""

import re

import pytest

from tests.export.fakes import OK, always, request, sending, sink, until
from toolgauge.export.settings import DestinationSettings, RetrySettings, Transport
from toolgauge.settings import SECOND

BODY = b"\n\0"


@pytest.mark.parametrize(("protocol", "library"), [("grpc", "grpc-python-asyncio/"), ("http", "aiohttp/")])
async def test_requests_tell_who_sends_them(protocol: Transport, library: str):
    async with sink(protocol, always(OK)) as seen, sending(seen.endpoint, protocol=protocol) as out:
        assert out.destination.put(request(BODY))
        await until(lambda: bool(seen.headers))
    agent = seen.headers[0]["user-agent"]
    assert re.match(r"toolgauge/\d+\.\d+\.\d+ ", agent)
    assert library in agent


def test_waits_by_default_are_those_of_the_collector():
    settings = DestinationSettings(endpoint="localhost:4317")
    assert settings.retry == RetrySettings(
        initial_interval=5 * SECOND,
        multiplier=1.5,
        randomization_factor=0.5,
        max_interval=30 * SECOND,
        max_elapsed_time=300 * SECOND,
    )
    # Per attempt; what the specification of the SDK's exporters says.
    assert settings.timeout == 10 * SECOND
    assert settings.queue.num_consumers == 10
