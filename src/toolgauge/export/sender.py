"""One attempt to send a request: the interface of both transports, and how an attempt ends.

Whether an error may be retried is decided when it becomes a verdict.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import asyncio
import contextlib
import errno
import ssl
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Protocol, TypeAlias
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from toolgauge.export.settings import SIGNALS, DestinationSettings
from toolgauge.model.delivery import Signal
from toolgauge.model.errors import StartError
from toolgauge.model.ports import Exporter
from toolgauge.net.settings import ClientTls
from toolgauge.net.tls import CLOSED, client_context, tls_cause
from toolgauge.settings import SECOND

# A larger response is an attack, or another protocol.
MAX_RESPONSE_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Delivered:
    """The destination accepted the request, except `rejected` items, which it refuses for good (`partial_success`)."""

    rejected: int = 0


@dataclass(frozen=True, slots=True)
class Transient:
    """A temporary failure; `retry_after_s` is the wait that the destination asked for. `cause` is for the log, `reason` for a label."""

    reason: str
    retry_after_s: float | None = None
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Permanent:
    """A permanent failure. `is_lasting`: later requests fail too (a token, a path). `is_about_content`: a part may succeed."""

    reason: str
    is_lasting: bool = False
    is_about_content: bool = False


Verdict: TypeAlias = Delivered | Transient | Permanent

DELIVERED = Delivered()
CONNECTION_REFUSED = "connection refused"
UNKNOWN_HOST = "the name of the host cannot be resolved"


class Sender(Protocol):
    """Sends one request once."""

    async def start(self) -> None:
        """Open what needs a running event loop; connects lazily."""

    async def renew(self) -> None:
        """Use changed TLS files; raise `StartError` when they cannot be used (the old ones stay in use)."""

    async def send(self, signal: Signal, body: bytes) -> Verdict:
        """Send the body and return how that ended."""
        ...

    async def close(self) -> None:
        """Close the connections; may be called twice and without a start."""


class ExporterSender:
    """Sends through an exporter of another package."""

    def __init__(self, exporter: Exporter, timeout_s: float) -> None:
        self._exporter = exporter
        self._timeout_s = timeout_s

    async def start(self) -> None:
        """Start the exporter."""
        await self._exporter.start()

    async def renew(self) -> None:
        """Do nothing: TLS is the exporter's own."""

    async def send(self, signal: Signal, body: bytes) -> Verdict:
        """Send once; the destination counts all other errors of the exporter."""
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._exporter.send(signal, body)
        except OSError as error:
            return Transient(type(error).__name__)
        return DELIVERED

    async def close(self) -> None:
        """Close the exporter."""
        await self._exporter.close()


_REJECTED: dict[Signal, Callable[[bytes], int]] = {
    "traces": lambda raw: ExportTraceServiceResponse.FromString(raw).partial_success.rejected_spans,
    "metrics": lambda raw: ExportMetricsServiceResponse.FromString(raw).partial_success.rejected_data_points,
    "logs": lambda raw: ExportLogsServiceResponse.FromString(raw).partial_success.rejected_log_records,
}


def delivered(signal: Signal, response: bytes) -> Delivered:
    """Make the verdict of a success. An unreadable response is still a success."""
    if not response:
        return DELIVERED
    try:
        return Delivered(rejected=max(0, _REJECTED[signal](response)))
    except DecodeError:
        return DELIVERED


def is_on_this_machine(address: str) -> bool:
    """Return whether the `host:port` is a loopback address."""
    host = address.rpartition(":")[0].strip("[]").lower()
    return host in ("localhost", "::1") or host.startswith("127.")


def proxy_of(url: str) -> str | None:
    """Return the proxy for a URL, `None` on this machine; raise `StartError` for a proxy that is not asked over HTTP."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    is_local = is_on_this_machine(f"{host}:{parts.port or 0}")
    if is_local or proxy_bypass(f"{host}:{parts.port}" if parts.port else host):
        return None
    proxies = getproxies()
    named = proxies.get(parts.scheme) or proxies.get("all")
    if named is None:
        return None
    proxy = named if "://" in named else f"http://{named}"
    if urlsplit(proxy).scheme not in ("http", "https"):
        raise StartError(
            f"the proxy that the environment names for `{parts.scheme}` is not an HTTP proxy",
            hint=f"name another one, or `{host}` in `no_proxy`",
        )
    return proxy


_PROTOBUF = "application/x-protobuf"
_TRANSIENT = frozenset({429, 502, 503, 504})
_LASTING = frozenset({301, 302, 303, 307, 308, 401, 403, 404, 405, 407, 415})
# 400 is what the protocol asks for; a Collector answers 500 when the next one refuses for good.
_ABOUT_CONTENT = frozenset({400, 413, 422, 500})
_GZIP = 31  # zlib's number for "gzip header, largest window"
# Span batches are repetitive: the fastest level already takes nine tenths off, at a third of the time.
_LEVEL = 1
# This much is compressed in one or two milliseconds; for more, zlib releases the interpreter's lock.
_LARGE_BYTES = 256 * 1024

# Errors of an attempt whose request or response did not arrive.
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
        case aiohttp.ClientSSLError() | aiohttp.ClientOSError(__cause__=ssl.SSLError()):
            return Transient("tls", cause=tls_cause(str(error.__cause__ or error)))
        case aiohttp.ClientHttpProxyError():
            return Transient(f"proxy_{error.status}")
        case aiohttp.ClientResponseError():
            # The response is not the destination's: a balancer restarts, or it is another protocol.
            return Transient("not_http", cause="is `protocol: grpc` meant?")
        case aiohttp.ClientConnectorDNSError():
            return Transient("connection", cause=UNKNOWN_HOST)
        case aiohttp.ClientConnectorError(errno=errno.ECONNREFUSED):
            return Transient("connection", cause=CONNECTION_REFUSED)
        case _:
            # The response broke off, so the outcome is unknown: a duplicate is better than a gap.
            return Transient("connection")


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A whole response; `retry_after_s` is the wait that it asks for."""

    status: int
    body: bytes
    content_type: str
    retry_after_s: float | None = None

    @property
    def verdict(self) -> Verdict:
        """Judge the request by the status alone."""
        if 200 <= self.status < 300:
            return DELIVERED
        reason = f"http_{self.status}"
        if self.status in _TRANSIENT:
            return Transient(reason, self.retry_after_s)
        return Permanent(reason, self.status in _LASTING, self.status in _ABOUT_CONTENT)


class HttpClient:
    """One connection pool. Of refusals the body is read where the client `reads_errors`."""

    def __init__(
        self,
        tls: ClientTls | None,
        timeout_ns: int,
        *,
        connections: int,
        headers: Mapping[str, str],
        reads_errors: bool = False,
    ) -> None:
        self._tls, self._timeout_s, self._connections = tls, timeout_ns / SECOND, connections
        self._headers = headers
        self._reads_errors = reads_errors
        self._proxies: dict[str, str | None] = {}
        self._server_name = None if tls is None else tls.server_name_override
        self._session: aiohttp.ClientSession | None = None
        self._replaced: aiohttp.ClientSession | None = None

    async def start(self, urls: Iterable[str]) -> None:
        """Open the pool; it connects with the first request. Raise `StartError` when a TLS file or the proxy cannot be used."""
        self._proxies = {_origin(url): proxy_of(url) for url in urls}
        self._session = self._opened()

    def _opened(self) -> aiohttp.ClientSession:
        secure: ssl.SSLContext | bool = True if self._tls is None else client_context(self._tls)
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._connections, ssl=secure),
            timeout=aiohttp.ClientTimeout(total=self._timeout_s),
            headers=self._headers,
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def renew(self) -> None:
        """Use changed TLS files from now on; requests under way may end in the pool they began in."""
        replaced, (self._session, self._replaced) = self._replaced, (self._opened(), self._session)
        if replaced is not None:
            await replaced.close()

    async def exchange(self, method: str, url: str, data: bytes | None) -> HttpAnswer | Transient | Permanent:
        """Send once and return the response, or a verdict without one."""
        session = self._session
        if session is None:
            return Transient("closed")
        try:
            async with session.request(
                method,
                url,
                data=data,
                allow_redirects=False,
                server_hostname=self._server_name,
                proxy=self._proxies.get(_origin(url)),
            ) as response:
                body = b""
                while (response.ok or self._reads_errors) and (chunk := await response.content.readany()):
                    body += chunk
                    if len(body) > MAX_RESPONSE_BYTES:
                        return Permanent("response_too_large")
                # A date follows the server's clock: by ours, set wrong, it could be later than any retry.
                its_now_s = _moment_s(response.headers.get("Date", ""))
                now_s = time.time() if its_now_s is None else its_now_s
                wait_s = retry_after_s(response.headers.get("Retry-After"), now_s)
                return HttpAnswer(response.status, body, response.content_type, wait_s)
        except FAILURES as error:
            if url.startswith("https://") and isinstance(error.__cause__, ConnectionResetError):
                return Transient("connection", cause=CLOSED)
            return failed(error)

    async def close(self) -> None:
        """Close the pools."""
        sessions = (self._session, self._replaced)
        self._session = self._replaced = None
        for session in sessions:
            if session is not None:
                await session.close()


def _origin(url: str) -> str:
    return "://".join(urlsplit(url)[:2])


class HttpSender:
    """Sends OTLP over HTTP."""

    def __init__(
        self, settings: DestinationSettings, *, metadata: tuple[tuple[str, str], ...], user_agent: str
    ) -> None:
        self._gzip = settings.compression == "gzip"
        headers = {
            **dict(metadata),
            "Content-Type": _PROTOBUF,
            "User-Agent": f"{user_agent} {aiohttp.http.SERVER_SOFTWARE}",
            **({"Content-Encoding": "gzip"} if self._gzip else {}),
        }
        self._urls: dict[Signal, str] = {signal: url for signal in SIGNALS if (url := settings.url(signal)) is not None}
        self._client = HttpClient(
            settings.client_tls, settings.timeout, connections=settings.queue.num_consumers, headers=headers
        )
        self.renew, self.close = self._client.renew, self._client.close

    async def start(self) -> None:
        """Open the pool, as `HttpClient.start`."""
        await self._client.start(self._urls.values())

    async def send(self, signal: Signal, body: bytes) -> Verdict:
        """Send once."""
        url = self._urls.get(signal)
        if url is None:
            return Permanent("no_endpoint")
        answer = await self._client.exchange("POST", url, await compressed(body) if self._gzip else body)
        if not isinstance(answer, HttpAnswer):
            return answer
        is_read = isinstance(answer.verdict, Delivered) and answer.content_type == _PROTOBUF
        return delivered(signal, answer.body) if is_read else answer.verdict


def retry_after_s(value: str | None, now_s: float) -> float | None:
    """Read a Retry-After header: seconds or an HTTP date; `None` when absent or neither."""
    text = "" if value is None else value.strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    moment_s = _moment_s(text)
    return None if moment_s is None else max(0.0, moment_s - now_s)


def _moment_s(date: str) -> float | None:
    try:
        moment = parsedate_to_datetime(date)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp()


async def compressed(body: bytes) -> bytes:
    """Compress the body, in a thread if it is large."""
    compress = partial(zlib.compress, body, _LEVEL, _GZIP)
    if len(body) > _LARGE_BYTES:
        # An application that is ending starts no more threads.
        with contextlib.suppress(RuntimeError):
            return await asyncio.to_thread(compress)
    return compress()


def target(endpoint: str) -> str:
    """Make the channel's target of `host:port` or a URL; a URL without a port has its scheme's port."""
    scheme, separator, rest = endpoint.partition("://")
    if not separator:
        return endpoint
    address = rest.partition("/")[0].rpartition("@")[2]
    has_port = ":" in address.rpartition("]")[2]
    return address if has_port else f"{address}:{443 if scheme == 'https' else 80}"
