"""One attempt to send a request: the interface of both transports, and how an attempt ends.

Whether an error may be retried is decided when it becomes a verdict.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import asyncio
import contextlib
import errno
import re
import ssl
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Protocol, TypeAlias
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from grpc import StatusCode
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from toolgauge.export.settings import SIGNALS, DestinationSettings
from toolgauge.model.delivery import Signal
from toolgauge.model.errors import StartError
from toolgauge.model.ports import Exporter
from toolgauge.net.settings import ClientTls
from toolgauge.net.throttle import Throttle
from toolgauge.net.tls import client_context, handshake_cause, read_pem, tls_cause
from toolgauge.otlp.request import SERVICES
from toolgauge.settings import SECOND, file_path

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
        """Send once; the destination counts whatever else the exporter raises."""
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


class Handshakes:
    """Finds the cause of failed TLS connections for the log, by a handshake of its own at most once a minute."""

    def __init__(self, tls: ClientTls | None, protocol: str) -> None:
        self._tls = tls or ClientTls()
        self._protocol = protocol
        self._throttle = Throttle()
        self._lock = asyncio.Lock()
        self._cause = ""

    async def cause(self, address: str) -> str:
        """Return the cause that was found last, after another look when it is time; empty through a proxy."""
        # Senders that fail meanwhile wait for the cause, too.
        async with self._lock:
            with contextlib.suppress(StartError):
                if proxy_of(f"https://{address}") is None and self._throttle.suppressed("") is not None:
                    self._cause = await handshake_cause(self._tls, address, [self._protocol])
        return self._cause


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
        self._handshakes = Handshakes(self._tls, "http/1.1")
        self._session: aiohttp.ClientSession | None = None
        self._replaced: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        """Open the pool; it connects with the first request. Raise `StartError` when a TLS file or the proxy cannot be used."""
        self._proxies = {signal: proxy_of(url) for signal, url in self._urls.items()}
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
        """Use changed TLS files from now on; requests under way may end in the pool they began in."""
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
                status = response.status
                if status in _TRANSIENT:
                    return Transient(f"http_{status}", asked_wait_s(response))
                if not 200 <= status < 300:
                    is_about_content = status in _ABOUT_CONTENT
                    return Permanent(f"http_{status}", status in _LASTING, is_about_content)
                answer = b""
                while chunk := await response.content.readany():
                    answer += chunk
                    if len(answer) > MAX_RESPONSE_BYTES:
                        return Permanent("response_too_large")
                return delivered(signal, answer if response.content_type == _PROTOBUF else b"")
        except FAILURES as error:
            verdict = failed(error)
            if url.startswith("https://") and verdict == Transient("connection"):
                return Transient("connection", cause=await self._handshakes.cause(target(url)))
            return verdict

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
    """Read the wait that a response asks for; `None` without one."""
    # A date follows the server's clock: by ours, set wrong, it could be later than any retry.
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


async def compressed(body: bytes) -> bytes:
    """Compress the body, in a thread if it is large."""
    compress = partial(zlib.compress, body, _LEVEL, _GZIP)
    if len(body) > _LARGE_BYTES:
        # An application that is ending starts no more threads.
        with contextlib.suppress(RuntimeError):
            return await asyncio.to_thread(compress)
    return compress()


_TRANSIENT_CODES = ("cancelled", "deadline_exceeded", "aborted", "out_of_range", "unavailable", "data_loss")
_LASTING_CODES = ("unauthenticated", "permission_denied", "unimplemented", "not_found")
# INVALID_ARGUMENT is what the protocol asks for; gRPC itself answers the others to bytes that it cannot decode, or too many.
_CODES_ABOUT_CONTENT = ("invalid_argument", "resource_exhausted", "internal", "unknown")
_MAX_METADATA_BYTES = 1 << 20
# Details of gRPC's connection errors: the code is the same for a closed port and for a bad certificate.
_TLS_FAILED = re.compile(r"failed to connect.*(?:handshake failed|hostname verification)", re.IGNORECASE | re.DOTALL)
_NO_CONNECTION = ("failed to connect", "errors resolving", "DNS resolution failed")
# Texts in these details, and their meaning.
_CAUSES = {
    "http1.x server": "it answers in HTTP/1, not gRPC: is `protocol: http` meant?",
    "Connection refused": CONNECTION_REFUSED,
    "hostname lookup": UNKNOWN_HOST,
    "DNS resolution failed": UNKNOWN_HOST,
}


class GrpcSender:
    """One channel; gRPC reconnects by itself."""

    def __init__(
        self, settings: DestinationSettings, *, metadata: tuple[tuple[str, str], ...], user_agent: str
    ) -> None:
        self._settings = settings
        self._endpoint = settings.endpoint or ""
        self._timeout_s = settings.timeout / SECOND
        # Made once: gRPC would make one of the same of them with every call.
        self._metadata = grpc.aio.Metadata(*metadata)
        self._user_agent = user_agent
        self._channel: grpc.aio.Channel | None = None
        self._calls: dict[Signal, grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]] = {}
        # The URL's scheme decides; without one the settings do.
        self._tls = settings.client_tls
        if self._endpoint.startswith(("https://", "http://")):
            self._tls = (self._tls or ClientTls()) if self._endpoint.startswith("https://") else None
        self._handshakes = Handshakes(self._tls, "h2")

    async def start(self) -> None:
        """Open the channel; it connects with the first request. Raise `StartError` when a TLS file cannot be used."""
        tls, address = self._tls, target(self._endpoint)
        gzip = self._settings.compression == "gzip"
        compression = grpc.Compression.Gzip if gzip else grpc.Compression.NoCompression
        options = tuple(self._options(address))
        if tls is None:
            channel = grpc.aio.insecure_channel(address, compression=compression, options=options)
        else:
            # gRPC takes any text for a certificate and fails with each request; OpenSSL looks at it now.
            client_context(tls)
            files = (tls.ca_file, tls.key_file, tls.cert_file)
            pems = [None if file is None else read_pem(file_path(file)) for file in files]
            credentials = grpc.ssl_channel_credentials(*pems)
            channel = grpc.aio.secure_channel(address, credentials, compression=compression, options=options)
        self._calls = {signal: channel.unary_unary(f"/{service}/Export") for signal, service in SERVICES.items()}
        self._channel = channel

    def _options(self, address: str) -> Iterator[tuple[str, int | str]]:
        yield "grpc.primary_user_agent", self._user_agent
        yield "grpc.max_send_message_length", -1
        yield "grpc.max_receive_message_length", MAX_RESPONSE_BYTES
        # An answer with a longer message would be taken for RESOURCE_EXHAUSTED, whatever its code is; gRPC allows 8 KiB.
        yield "grpc.max_metadata_size", _MAX_METADATA_BYTES
        yield "grpc.absolute_max_metadata_size", _MAX_METADATA_BYTES
        # Retries are the queue's, which counts them.
        yield "grpc.enable_retries", 0
        # A destination that is back should be found within seconds; gRPC would take up to two minutes.
        yield "grpc.initial_reconnect_backoff_ms", 250
        yield "grpc.min_reconnect_backoff_ms", 2000
        yield "grpc.max_reconnect_backoff_ms", 2000
        yield "grpc.use_local_subchannel_pool", 1
        # With `http_proxy` in the environment gRPC asks the proxy even for this machine's own ports.
        yield "grpc.enable_http_proxy", int(not is_on_this_machine(address))
        if self._tls is not None and self._tls.server_name_override is not None:
            yield "grpc.ssl_target_name_override", self._tls.server_name_override

    async def renew(self) -> None:
        """Use changed TLS files from now on; requests under way end over the channel they began on."""
        old = self._channel
        await self.start()
        if old is not None:
            await old.close(self._timeout_s)

    async def send(self, signal: Signal, body: bytes) -> Verdict:
        """Send once."""
        call = self._calls.get(signal)
        if call is None:
            return Transient("closed")
        try:
            response = await call(body, timeout=self._timeout_s, metadata=self._metadata)
        except grpc.aio.AioRpcError as error:
            code, details = error.code(), error.details() or ""
            reason = code.name.lower()
            retry_after_s = _retry_after_s(error)
            if reason in _TRANSIENT_CODES or (code is StatusCode.RESOURCE_EXHAUSTED and retry_after_s is not None):
                if code is StatusCode.UNAVAILABLE and details.startswith(_NO_CONNECTION):
                    reason, cause = await self._no_connection(details)
                    return Transient(reason, retry_after_s, cause)
                return Transient(reason, retry_after_s)
            return Permanent(
                reason, is_lasting=reason in _LASTING_CODES, is_about_content=reason in _CODES_ABOUT_CONTENT
            )
        return delivered(signal, response)

    async def _no_connection(self, details: str) -> tuple[str, str]:
        """Return the reason and the cause of a failed connection."""
        cause = next((cause for words, cause in _CAUSES.items() if words in details), "")
        if cause or self._tls is None:
            return "unavailable", cause
        cause = tls_cause(details)
        is_tls = bool(cause) or _TLS_FAILED.match(details) is not None
        return "tls" if is_tls else "unavailable", cause or await self._handshakes.cause(target(self._endpoint))

    async def close(self) -> None:
        """Close the channel and drop it: gRPC keeps a thread and sockets for as long as there is one."""
        channel, self._channel = self._channel, None
        self._calls = {}
        if channel is not None:
            await channel.close(None)


def target(endpoint: str) -> str:
    """Make the channel's target of `host:port` or a URL; a URL without a port has the one of its scheme."""
    scheme, separator, rest = endpoint.partition("://")
    if not separator:
        return endpoint
    address = rest.partition("/")[0].rpartition("@")[2]
    has_port = ":" in address.rpartition("]")[2]
    return address if has_port else f"{address}:{443 if scheme == 'https' else 80}"


def _retry_after_s(error: grpc.aio.AioRpcError) -> float | None:
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin" and isinstance(value, bytes):
            info = RetryInfo()
            with contextlib.suppress(DecodeError):
                if any(detail.Unpack(info) for detail in Status.FromString(value).details):
                    return max(0.0, info.retry_delay.seconds + info.retry_delay.nanos / 1e9)
    return None
