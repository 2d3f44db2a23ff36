import asyncio
import gzip
from collections.abc import AsyncIterator

import aiohttp
import pytest

from tests.export.scorecards import START_NS, TRACE, call_result, emitter, failed, scorecard
from toolgauge.export.prometheus import MetricsEndpoint
from toolgauge.export.settings import PrometheusSettings
from toolgauge.model.metrics import MetricRegistry
from toolgauge.net.settings import Auth


def endpoint_at(address: str, *, auth: Auth | None = None, idle_timeout_s: float = 60) -> MetricsEndpoint:
    registry = MetricRegistry()
    emitter(registry=registry).record(scorecard(call_result(failed())))
    return MetricsEndpoint(
        PrometheusSettings(endpoint=address, auth=auth),
        registry,
        {"service.name": "toolgauge"},
        start_ns=START_NS,
        idle_timeout_s=idle_timeout_s,
    )


@pytest.fixture
async def endpoint() -> AsyncIterator[MetricsEndpoint]:
    serving = endpoint_at("localhost:0")
    await serving.start()
    yield serving
    await serving.stop()


@pytest.fixture
async def client(endpoint: MetricsEndpoint) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(f"http://localhost:{endpoint.port}") as session:
        yield session


async def test_prometheus_gets_exemplars(client: aiohttp.ClientSession):
    accept = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
    async with client.get("/metrics", headers={"Accept": accept}) as response:
        assert response.status == 200
        assert response.headers["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
        text = await response.text()
    assert f'trace_id="{TRACE}"' in text
    assert text.endswith("# EOF\n")


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [("gzip", "gzip"), ("deflate, gzip;q=0.5", "gzip"), ("gzip;q=0", None), ("deflate", None), ("", None)],
)
async def test_metrics_are_compressed_for_those_that_ask(
    endpoint: MetricsEndpoint, accepted: str, encoding: str | None
):
    url = f"http://127.0.0.1:{endpoint.port}/metrics"
    async with (
        aiohttp.ClientSession(auto_decompress=False) as session,
        session.get(url, headers={"Accept-Encoding": accepted}) as response,
    ):
        assert response.headers.get("Content-Encoding") == encoding
        assert response.headers["Vary"] == "Accept, Accept-Encoding"
        body = await response.read()
    text = gzip.decompress(body) if encoding else body
    assert b"toolgauge_evaluation_score_count{" in text


@pytest.mark.parametrize("sent", [b"", b"GET /met"])
async def test_a_client_that_says_nothing_keeps_no_connection(sent: bytes):
    serving = endpoint_at("127.0.0.1:0", idle_timeout_s=0.1)
    await serving.start()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", serving.port)
        writer.write(sent)
        async with asyncio.timeout(60):
            assert await reader.read() == b""
        writer.close()
    finally:
        await serving.stop()


async def test_a_token_is_asked_for():
    serving = endpoint_at("127.0.0.1:0", auth=Auth(tokens=("s3cret",)))
    await serving.start()
    url = f"http://127.0.0.1:{serving.port}/metrics"
    try:
        async with aiohttp.ClientSession() as session:
            async with session.get(url) as response:
                assert (response.status, response.headers["WWW-Authenticate"]) == (401, "Bearer")
                assert await response.json() == {"error": "a valid token is needed"}
            async with session.get(url, headers={"Authorization": "Bearer s3cret"}) as response:
                assert response.status == 200
    finally:
        await serving.stop()
