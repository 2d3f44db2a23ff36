import asyncio
import base64
import contextlib
import os
from collections.abc import AsyncGenerator

import pytest

from tests.export.fakes import request, sending, until
from toolgauge.export.sender import proxy_of
from toolgauge.model.errors import StartError

PROXY = "http://proxy.test:3128"
ACCEPTED = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


@pytest.fixture(autouse=True)
def without_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in tuple(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("environment", "url", "proxy"),
    [
        ({}, "https://collector.test/v1/traces", None),
        ({"https_proxy": PROXY}, "https://collector.test/v1/traces", PROXY),
        ({"HTTPS_PROXY": PROXY}, "https://collector.test/v1/traces", PROXY),
        ({"HTTPS_PROXY": "proxy.test:3128"}, "https://collector.test/v1/traces", PROXY),
        ({"https_proxy": PROXY}, "http://collector.test:4318/v1/traces", None),
        ({"http_proxy": PROXY}, "http://collector.test:4318/v1/traces", PROXY),
        ({"all_proxy": PROXY}, "http://collector.test:4318/v1/traces", PROXY),
        ({"all_proxy": PROXY, "no_proxy": "other.test,collector.test"}, "https://collector.test/v1/traces", None),
        ({"all_proxy": PROXY, "no_proxy": ".test"}, "https://collector.test/v1/traces", None),
        ({"all_proxy": PROXY, "no_proxy": "collector.test:4318"}, "http://collector.test:4318/v1/traces", None),
        ({"all_proxy": PROXY, "no_proxy": "*"}, "https://collector.test/v1/traces", None),
        ({"all_proxy": PROXY}, "http://localhost:4318/v1/traces", None),
        ({"all_proxy": PROXY}, "http://127.0.0.1:4318/v1/traces", None),
        ({"all_proxy": PROXY}, "http://[::1]:4318/v1/traces", None),
    ],
)
def test_the_proxy_is_the_one_that_the_environment_names(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], url: str, proxy: str | None
):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert proxy_of(url) == proxy


def test_a_proxy_of_another_kind_is_an_error_that_keeps_its_password(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("all_proxy", "socks5://me:secret@proxy.test:1080")
    with pytest.raises(StartError) as raised:
        proxy_of("https://collector.test/v1/traces")
    assert "secret" not in str(raised.value)


async def test_requests_go_through_the_proxy_with_its_password(monkeypatch: pytest.MonkeyPatch):
    async with proxy(ACCEPTED) as (port, heads):
        monkeypatch.setenv("http_proxy", f"http://me:secret@127.0.0.1:{port}")
        async with sending("http://collector.test:4318", protocol="http") as out:
            out.destination.put(request(b"\n\0", spans=2))
            await until(lambda: out.destination.queue.spans == 0)
    assert out.spans() == {("forwarded", "", "otlp"): 2}
    first, *headers = heads[0].decode().split("\r\n")
    assert first == "POST http://collector.test:4318/v1/traces HTTP/1.1"
    assert f"Proxy-Authorization: Basic {base64.b64encode(b'me:secret').decode()}" in headers


async def test_a_proxy_that_opens_no_tunnel_is_asked_again(monkeypatch: pytest.MonkeyPatch):
    async with proxy(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n") as (port, heads):
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{port}")
        async with sending("https://collector.test", protocol="http") as out:
            out.destination.put(request(b"\n\0", spans=2))
            await until(lambda: len(heads) >= 2)
            failures = out.failures()
    assert heads[0].startswith(b"CONNECT collector.test:443 HTTP/1.1\r\n")
    assert failures[("otlp", "traces", "proxy_503")] >= 1


@contextlib.asynccontextmanager
async def proxy(answer: bytes) -> AsyncGenerator[tuple[int, list[bytes]]]:
    """Answer every request with these bytes; yields the port and the heads of what was asked."""
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], heads
    finally:
        server.close()
