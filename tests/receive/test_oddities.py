"""HTTP as attackers and broken proxies write it: whoever cannot tell where a request ends must not guess."""

import asyncio
import socket
from contextlib import suppress

import pytest

from tests.receive.fakes import Reply, post, raw, receiving
from tests.rows import each_row
from toolgauge.net.settings import Auth
from toolgauge.receive.settings import Cors

HEAD = b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"
BODY = b"\n\0"
SMUGGLED = b"POST /v1/logs HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nContent-Length: 2\r\n\r\n\n\0"


async def everything(port: int, data: bytes) -> bytes:
    """Send bytes as they are and read until the connection is closed: reset, where the server has not read them all."""
    loop, said = asyncio.get_running_loop(), b""
    # Not a stream reader: it loses what came before a reset.
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setblocking(False)
        await loop.sock_sendall(connection, data)
        with suppress(ConnectionResetError):
            async with asyncio.timeout(60):
                while chunk := await loop.sock_recv(connection, 1 << 16):
                    said += chunk
    return said


@pytest.mark.parametrize(
    "framing",
    [
        b"Content-Length: 2\r\nContent-Length: 90\r\n",
        b"Content-Length: 2, 90\r\n",
        b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n",
        b"Content-Length: +2\r\n",
        b"Content-Length: -2\r\n",
        b"Content-Length: 0x2\r\n",
        b"Content-Length: 2_0\r\n",
        b"Content-Length : 2\r\n",
        b" Content-Length: 2\r\n",
        b"Transfer-Encoding: chunked, identity\r\nContent-Length: 2\r\n",
        b"Transfer-Encoding: xchunked\r\n",
    ],
)
async def test_two_ways_to_tell_the_length_are_refused_and_nothing_is_smuggled(framing: bytes):
    async with receiving(idle_timeout_s=0.3) as receivers:
        said = await everything(receivers.http.port, HEAD + framing + b"\r\n" + BODY + SMUGGLED)
        assert (await post(receivers.http.port, BODY)).status == 200
    assert said.startswith((b"HTTP/1.1 400", b"HTTP/1.0 400")), said
    assert said.count(b"HTTP/1.") == 1
    assert [signal for signal, _ in receivers.consumer.taken] == ["traces"]


@pytest.mark.parametrize(
    "chunk", [b"2x\r\n\n\0\r\n0\r\n\r\n", b"-2\r\n\n\0\r\n0\r\n\r\n", b"2\r\n\n\0XX0\r\n\r\n", b"zz\r\n"]
)
async def test_broken_chunks_are_refused(chunk: bytes):
    async with receiving(idle_timeout_s=0.3) as receivers:
        said = await everything(receivers.http.port, HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunk)
    assert said[:12] in (b"HTTP/1.1 400", b"HTTP/1.0 400"), said
    assert receivers.consumer.taken == []


async def test_endless_headers_are_refused():
    async with receiving() as receivers:
        lines = b"".join(b"X-%d: 1\r\n" % number for number in range(20_000))
        reply = await raw(receivers.http.port, HEAD + lines + b"Content-Length: 2\r\n\r\n" + BODY)
        assert (await post(receivers.http.port, BODY)).status == 200
    assert reply.status in (0, 400)


async def test_garbage_behind_a_request_ends_the_connection_and_what_is_answered_200_was_taken():
    async with receiving(idle_timeout_s=0.3) as receivers:
        said = await everything(receivers.http.port, HEAD + b"Content-Length: 2\r\n\r\n" + BODY + b"garbage\r\n\r\n")
    assert b" 400 " in said
    assert len(receivers.consumer.taken) == said.count(b"HTTP/1.1 200")


async def expecting(port: int, headers: bytes) -> Reply:
    """Send headers that ask whether the body may be sent."""
    return await raw(port, b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n" + headers + b"\r\n")


PROTOBUF = b"Content-Type: application/x-protobuf\r\n"


@pytest.mark.parametrize(
    ("auth", "headers", "status"),
    [
        (None, b"Content-Type: text/plain\r\nContent-Length: 2\r\n", 415),
        (None, PROTOBUF + b"Content-Length: 9999999\r\n", 413),
        (None, PROTOBUF + b"Content-Encoding: br\r\nContent-Length: 2\r\n", 415),
        (Auth(tokens=("s3cret",)), PROTOBUF + b"Content-Length: 2\r\n", 401),
    ],
)
async def test_refused_request_is_never_asked_to_continue(auth: Auth | None, headers: bytes, status: int):
    async with receiving(auth=auth) as receivers:
        assert (await expecting(receivers.http.port, headers)).status == status


async def test_browsers_question_needs_no_token_but_the_request_does():
    cors = Cors(allowed_origins=("https://app.example.com",))
    origin = "https://app.example.com"
    async with receiving(cors=cors, auth=Auth(tokens=("s3cret",))) as receivers:
        asked = await post(
            receivers.http.port, b"", method="OPTIONS", Origin=origin, Access_Control_Request_Method="POST"
        )
        sent = await post(receivers.http.port, BODY, Origin=origin)
    assert asked.status == 204
    # Without the header the page could not even read that a token is missing.
    assert (sent.status, sent.headers["access-control-allow-origin"]) == (401, origin)
    assert receivers.consumer.taken == []


@each_row(
    ("allowed", "origin", "may"),
    [
        ("https://*.example.com", "https://a.example.com", True),
        ("https://*.example.com", "https://A.Example.COM", True),
        ("https://*.example.com", "https://.example.com", True),
        ("https://*.example.com", "https://example.com", False),
        ("https://*.example.com", "https://a.example.com:8443", False),
        ("https://app.example.com*", "https://app.example.com:8443", True),
        ("https://ab*ba.example", "https://aba.example", False),
        ("*", "https://anything.example", True),
        ("https://*", "https://anything.example:8443", True),
        ("http*.example.com", "https://evil.example.com", False),
        ("https://*.example.com", "https://evil.org/.example.com", False),
        ("http*://app.example.com", "https://app.example.com", True),
        ("*", "null", True),
        ("https://app.example.com", "null", False),
        ("null", "null", True),
    ],
)
def test_star_stands_for_any_text_once(allowed: str, origin: str, *, may: bool):
    assert Cors(allowed_origins=(allowed,)).allows(origin) is may
