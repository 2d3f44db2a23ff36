"""Who we say we are to destinations, and how patient we are by default."""

import re

import pytest

from tests.export.fakes import OK, always, request, sending, sink, until
from toolgauge.config.destinations import OtlpExporter
from toolgauge.export.sender import RetrySettings, Transport
from toolgauge.service.exporters import destination_settings

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
    settings = destination_settings(OtlpExporter(endpoint="localhost:4317"))
    assert settings.retry == RetrySettings(
        initial_interval_s=5.0,
        multiplier=1.5,
        randomization_factor=0.5,
        max_interval_s=30.0,
        max_elapsed_time_s=300.0,
    )
    # Per attempt; what the specification of the SDK's exporters says.
    assert settings.timeout_s == 10.0
    assert settings.in_flight == 10
