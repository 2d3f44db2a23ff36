"""OTLP over HTTP (protobuf) to a destination."""

import asyncio
import contextlib
import errno
import ssl
import time
import zlib
from datetime import UTC
from email.utils import parsedate_to_datetime

import aiohttp

from toolgauge.export.sender import (
    CONNECTION_REFUSED,
    MAX_RESPONSE_BYTES,
    UNKNOWN_HOST,
    Permanent,
    Transient,
    Verdict,
    delivered,
    proxy_of,
)
from toolgauge.export.settings import SIGNALS, DestinationSettings
from toolgauge.model.delivery import Signal
from toolgauge.net.tls import WatchedFiles, client_context
from toolgauge.settings import SECOND

_PROTOBUF = "application/x-protobuf"
_TRANSIENT = frozenset({429, 502, 503, 504})
_LASTING = frozenset({301, 302, 303, 307, 308, 401, 403, 404, 405, 407, 415})
# 400 is what the protocol asks for; a Collector answers 500 to what the next one refuses for good.
_ABOUT_CONTENT = frozenset({400, 413, 422, 500})
_GZIP = 31  # zlib's number for "gzip header, largest window"
# Span batches are repetitive: the fastest level already takes nine tenths off, at a third of the time.
_LEVEL = 1
# So much is compressed in one or two milliseconds; zlib works on more without the interpreter.
_LARGE_BYTES = 256 * 1024


# What an attempt may raise that has not arrived, or whose answer has not.
FAILURES = (
    TimeoutError,
    aiohttp.ClientConnectionError,
    aiohttp.ClientHttpProxyError,
    aiohttp.ClientResponseError,
    aiohttp.ClientPayloadError,
)


def failed(error: Exception) -> Transient:
    """Make the verdict of an attempt that raised one of `FAILURES`."""
    match error:
        case TimeoutError():  # before a lost connection: running out of time while connecting is both
            return Transient("timeout")
        case aiohttp.ClientSSLError():
            return Transient("tls")
        case aiohttp.ClientHttpProxyError():
            return Transient(f"proxy_{error.status}")
        case aiohttp.ClientResponseError():
            # Whoever answered was not the destination: a balancer that restarts, or another protocol.
            return Transient("not_http", cause="is `protocol: grpc` meant?")
        case aiohttp.ClientConnectorDNSError():
            return Transient("connection", cause=UNKNOWN_HOST)
        case aiohttp.ClientConnectorError(errno=errno.ECONNREFUSED):
            return Transient("connection", cause=CONNECTION_REFUSED)
        case _:
            # Where the answer broke off it is not known what became of the request, and a duplicate beats a gap.
            return Transient("connection")


class HttpSender:
    """One connection pool."""

    def __init__(
        self, settings: DestinationSettings, *, metadata: tuple[tuple[str, str], ...], user_agent: str
    ) -> None:
        self._settings = settings
        self._gzip = settings.compression == "gzip"
        self._headers = {
            **dict(metadata),
            "Content-Type": _PROTOBUF,
            "User-Agent": f"{user_agent} {aiohttp.http.SERVER_SOFTWARE}",
            **({"Content-Encoding": "gzip"} if self._gzip else {}),
        }
        self._urls: dict[Signal, str] = {signal: url for signal in SIGNALS if (url := settings.url(signal)) is not None}
        self._proxies: dict[Signal, str | None] = {}
        self._tls = settings.client_tls
        self._server_name = None if self._tls is None else self._tls.server_name_override
        self._session: aiohttp.ClientSession | None = None
        self._replaced: aiohttp.ClientSession | None = None
        self._watched: WatchedFiles | None = None

    async def start(self) -> None:
        """Open the pool; it connects with the first request. Raise `StartError` when a TLS file or the proxy cannot be used."""
        self._proxies = {signal: proxy_of(url) for signal, url in self._urls.items()}
        self._watched = None if self._tls is None else WatchedFiles(self._tls.files)
        self._session = self._opened()

    def _opened(self) -> aiohttp.ClientSession:
        secure: ssl.SSLContext | bool = True if self._tls is None else client_context(self._tls)
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._settings.queue.num_consumers, ssl=secure),
            timeout=aiohttp.ClientTimeout(total=self._settings.timeout / SECOND),
            headers=self._headers,
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def renew(self) -> None:
        """Use files that have changed from now on; requests under way may end in the pool they began in."""
        if self._watched is None or not self._watched.changed():
            return
        replaced, (self._session, self._replaced) = self._replaced, (self._opened(), self._session)
        if replaced is not None:
            await replaced.close()

    async def send(self, signal: Signal, body: bytes) -> Verdict:
        """Send once."""
        session = self._session
        if session is None:
            return Transient("closed")
        url = self._urls.get(signal)
        if url is None:
            return Permanent("no_endpoint")
        data = await compressed(body) if self._gzip else body
        try:
            async with session.post(
                url,
                data=data,
                allow_redirects=False,
                server_hostname=self._server_name,
                proxy=self._proxies.get(signal),
            ) as response:
                return await _verdict(signal, response)
        except FAILURES as error:
            return failed(error)

    async def close(self) -> None:
        """Close the pools."""
        sessions = (self._session, self._replaced)
        self._session = self._replaced = None
        for session in sessions:
            if session is not None:
                await session.close()


def retry_after_s(value: str | None, now_s: float) -> float | None:
    """Read a Retry-After header: seconds or an HTTP date; `None` when absent or neither."""
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    moment_s = _moment_s(text)
    return None if moment_s is None else max(0.0, moment_s - now_s)


def asked_wait_s(response: aiohttp.ClientResponse) -> float | None:
    """Read how long an answer asks to be left alone; `None` when it does not."""
    # A date is meant by the clock of whoever answers. By ours, set wrong, it could be later than any retry.
    its_now_s = _moment_s(response.headers.get("Date", ""))
    now_s = time.time() if its_now_s is None else its_now_s
    return retry_after_s(response.headers.get("Retry-After"), now_s)


def _moment_s(date: str) -> float | None:
    try:
        moment = parsedate_to_datetime(date)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp()


async def _verdict(signal: Signal, response: aiohttp.ClientResponse) -> Verdict:
    status = response.status
    if status in _TRANSIENT:
        return Transient(f"http_{status}", asked_wait_s(response))
    if not 200 <= status < 300:
        return Permanent(f"http_{status}", is_lasting=status in _LASTING, is_about_content=status in _ABOUT_CONTENT)
    body = await _read(response.content)
    if body is None:
        return Permanent("response_too_large")
    return delivered(signal, body) if response.content_type == _PROTOBUF else delivered(signal, b"")


async def _read(content: aiohttp.StreamReader) -> bytes | None:
    """Read an answer; `None` when it is larger than any answer may be."""
    body = b""
    while chunk := await content.readany():
        body += chunk
        if len(body) > MAX_RESPONSE_BYTES:
            return None
    return body


async def compressed(body: bytes) -> bytes:
    """Compress, a large body in a thread: it may hold everything that a second has brought."""
    if len(body) > _LARGE_BYTES:
        # An application that is ending starts no more threads.
        with contextlib.suppress(RuntimeError):
            return await asyncio.to_thread(_compressed, body)
    return _compressed(body)


def _compressed(body: bytes) -> bytes:
    return zlib.compress(body, _LEVEL, _GZIP)
