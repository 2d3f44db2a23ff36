"""OTLP over HTTP: POST of protobuf bodies on /v1/traces, /v1/metrics and /v1/logs.

aiohttp's low-level server, because everything above it (routing, middlewares, its own error pages) would
only have to be undone: every answer but 200 carries a `google.rpc.Status`. Bodies are bounded before and
after decompression, and nobody holds a connection open with half a request.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.web_protocol import RequestHandler
from grpc import StatusCode

from toolgauge.listen import listen
from toolgauge.model.delivery import Consumer, Signal
from toolgauge.receive.door import HOP_HEADER, Decode, Door
from toolgauge.receive.gunzip import gunzip, inflate
from toolgauge.receive.refusal import Refusal, invalid, loop, too_large
from toolgauge.selfmetrics import SelfMetrics

_PATHS: dict[str, Signal] = {"/v1/traces": "traces", "/v1/metrics": "metrics", "/v1/logs": "logs"}
_PROTOBUF = "application/x-protobuf"
_SERVER = "toolgauge"
# How long the rest of a refused body is read, so that a sender in the middle of it sees the answer.
_LINGER_S = 3.0
_SLOWEST_BYTES_PER_S = 64 * 1024


class HttpReceiver:
    """One HTTP server; `port` is known once it has started.

    `idle_timeout_s` also bounds how long a connection may take to send its headers.
    """

    def __init__(
        self,
        consumer: Consumer,
        *,
        endpoint: str,
        max_request_body_size: int,
        clock: Callable[[], int],
        metrics: SelfMetrics,
        hop_id: str,
        idle_timeout_s: float = 60.0,
        body_timeout_s: float = 60.0,
    ) -> None:
        door = Door(
            consumer, transport="http", limit=max_request_body_size, clock=clock, metrics=metrics, hop_id=hop_id
        )
        self._requests = _Requests(door, body_timeout_s)
        self._endpoint = endpoint
        self._idle_timeout_s = idle_timeout_s
        self._protocols: _Server | None = None
        self._listeners: list[asyncio.Server] = []
        self._port = 0

    @property
    def port(self) -> int:
        """The bound port; 0 before the start."""
        return self._port

    async def start(self) -> None:
        """Bind and serve; raise `StartError` when the endpoint cannot be had."""
        sockets = listen(self._endpoint)
        self._port = sockets[0].getsockname()[1]
        self._protocols = _Server(self._requests.answer, self._idle_timeout_s)
        event_loop = asyncio.get_running_loop()
        self._listeners = [await event_loop.create_server(self._protocols, sock=sock) for sock in sockets]

    async def stop(self, grace_s: float) -> None:
        """Stop accepting at once; requests being handled get `grace_s` to finish."""
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener.close()
        protocols, self._protocols = self._protocols, None
        if protocols is not None:
            protocols.pre_shutdown()
            # aiohttp waits twice: for the handler, then for its task.
            await protocols.shutdown(grace_s / 2)


class _Server(web.Server):
    """Makes one protocol a connection."""

    def __init__(self, answer: Callable[[web.BaseRequest], Awaitable[web.Response]], idle_timeout_s: float) -> None:
        super().__init__(answer)
        self._idle_timeout_s = idle_timeout_s

    def __call__(self) -> RequestHandler:
        return _Protocol(
            self,
            loop=self._loop,
            keepalive_timeout=self._idle_timeout_s,
            lingering_time=_LINGER_S,
            access_log=None,  # pyright: ignore[reportArgumentType] - aiohttp asks `if access_log`
            auto_decompress=False,
        )


class _Protocol(RequestHandler):
    """Answers what is not HTTP at all, and what failed on the way, in our form too."""

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - aiohttp's signature; the message may quote the request
    ) -> web.StreamResponse:
        if isinstance(exc, ConnectionError) or request.writer.output_size > 0:
            raise ConnectionError("the connection is gone") from exc
        return _closing(_told(invalid("the request is not valid HTTP", http_status=status)))


class _Requests:
    """Answers requests."""

    def __init__(self, door: Door, body_timeout_s: float) -> None:
        self._door = door
        self._limit = door.limit
        self._body_timeout_s = body_timeout_s

    async def answer(self, request: web.BaseRequest) -> web.Response:
        """Answer one request."""
        signal = _PATHS.get(request.path)
        if signal is None:
            return _closing(_told(_no_such_path()))
        told = self._precheck(request)
        if told is not None:
            response = _closing(_told(self._door.refuse(signal, told)))
            if told.http_status == 405:
                response.headers["Allow"] = "POST"
            return response
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await self._read(request)
        if isinstance(body, Refusal):
            return _closing(_told(self._door.refuse(signal, body)))
        told = self._door.take(signal, body, _DECODERS[_encoding(request)])
        if told is not None:
            return _told(told)
        return web.Response(body=b"", headers={"Content-Type": _PROTOBUF, "Server": _SERVER})

    def _precheck(self, request: web.BaseRequest) -> Refusal | None:
        """Refuse what the headers alone condemn, before a byte of the body is read."""
        if request.method != "POST":
            return invalid("only POST is served here", http_status=405)
        headers = request.headers
        if headers.get("Content-Type", "").partition(";")[0].strip().lower() != _PROTOBUF:
            return invalid(f"only `{_PROTOBUF}` is read here", http_status=415)
        if _encoding(request) not in _DECODERS:
            return invalid("only gzip, deflate and identity are read here", http_status=415)
        if self._door.hop_id in headers.getall(HOP_HEADER, ()):
            return loop()
        if request.content_length is not None and request.content_length > self._limit:
            return too_large(self._limit)
        return None

    async def _read(self, request: web.BaseRequest) -> bytes | Refusal:
        """Read the body up to the limit, whatever its declared length; in bounded time, longer for a long body."""
        chunks: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._body_timeout_s) as deadline:
                while chunk := await request.content.readany():
                    size += len(chunk)
                    _extend(deadline, len(chunk))
                    if size > self._limit:
                        return too_large(self._limit)
                    chunks.append(chunk)
        except TimeoutError:
            return invalid("the body did not come in time", http_status=408)
        except web.RequestPayloadError:
            return invalid("the body is not what its headers say")
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)


_DECODERS: dict[str, Decode | None] = {
    "": None,
    "identity": None,
    "gzip": gunzip,
    "x-gzip": gunzip,
    "deflate": inflate,
}


def _extend(deadline: asyncio.Timeout, size: int) -> None:
    """Allow a slow line the time that its bytes need."""
    when_s = deadline.when()
    if when_s is not None:
        deadline.reschedule(when_s + size / _SLOWEST_BYTES_PER_S)


def _encoding(request: web.BaseRequest) -> str:
    return request.headers.get("Content-Encoding", "").strip().lower()


def _no_such_path() -> Refusal:
    return Refusal(
        outcome="unsupported",
        code=StatusCode.UNIMPLEMENTED,
        http_status=404,
        message="no such path; OTLP is served on /v1/traces, /v1/metrics and /v1/logs",
    )


def _told(told: Refusal) -> web.Response:
    headers = {"Content-Type": _PROTOBUF, "Server": _SERVER}
    if told.retry_after_s is not None:
        # Whole seconds: rounding down would turn "soon" into "at once".
        headers["Retry-After"] = str(math.ceil(told.retry_after_s))
    return web.Response(status=told.http_status, body=told.status(), headers=headers)


def _closing(response: web.Response) -> web.Response:
    """Close the connection behind the answer: the rest of the body is of no interest."""
    response.force_close()
    return response
