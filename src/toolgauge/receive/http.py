"""OTLP over HTTP: POST of protobuf or JSON bodies on /v1/traces, /v1/metrics and /v1/logs.

On aiohttp's low-level server, because every answer but 200 carries a `google.rpc.Status` in the encoding of the request.
Bodies are bounded before and after decompression, and no client holds a connection open with half a request.
"""

import asyncio
import contextlib
import json
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from aiohttp import web
from aiohttp.web_protocol import RequestHandler
from google.protobuf import json_format
from grpc import StatusCode

from toolgauge.model.delivery import Consumer, Refused
from toolgauge.net.auth import TokenGuard
from toolgauge.net.byte_budget import ByteBudget
from toolgauge.net.listen import Listeners, peer_address
from toolgauge.receive.otlp_handler import (
    HOP_HEADER,
    SLOWEST_BYTES_PER_S,
    FromJson,
    OtlpHandler,
    Unpack,
    Uploads,
    gunzip,
    inflate,
    unzstd,
)
from toolgauge.receive.refusal import LOOP, UNAUTHENTICATED, Refusal, RefusalLog, invalid, refusal, too_large
from toolgauge.receive.settings import HttpSettings
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.settings import SECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class Media:
    """One encoding: its media type, the body of a success, and how a refusal is written."""

    content_type: str
    success: bytes
    status: Callable[[Refusal], bytes]


PROTOBUF = Media(
    content_type="application/x-protobuf",
    success=b"",
    status=lambda refused: refused.status_message().SerializeToString(),
)
JSON = Media(
    content_type="application/json",
    success=b"{}",
    status=lambda refused: json.dumps(json_format.MessageToDict(refused.status_message())).encode(),
)
_MEDIA = {media.content_type: media for media in (PROTOBUF, JSON)}

_SERVER = "toolgauge"
# How long the rest of a refused body is read, so that a sender in the middle of it sees the answer.
_LINGER_S = 3.0


class HttpReceiver:
    """Receives OTLP over HTTP, protobuf and JSON."""

    def __init__(
        self,
        consumer: Consumer,
        settings: HttpSettings,
        *,
        from_json: FromJson,
        metrics: SelfMetrics,
        hop_id: str,
        budget: ByteBudget | None = None,
        refusal_log: RefusalLog | None = None,
    ) -> None:
        limit = settings.max_request_body_size
        log = refusal_log or RefusalLog()
        self._handler = OtlpHandler(
            consumer, transport="http", limit=limit, budget=budget, metrics=metrics, hop_id=hop_id, refusal_log=log
        )
        self._settings = settings
        self._from_json = from_json
        has_memory = self._handler.budget.memory.admits
        self._uploads = Uploads(limit, has_memory, patience_s=settings.read_timeout / SECOND)
        self._guard = TokenGuard.of(settings.auth)
        self._no_such_path = Refusal(
            "unsupported",
            StatusCode.UNIMPLEMENTED,
            404,
            f"no such path; OTLP is served on {', '.join(sorted(settings.paths))}",
        )
        self._protocols: _Server | None = None
        self._listeners: Listeners | None = None
        # Connections with a request under way.
        self._answering: set[RequestHandler] = set()
        # Set when the last of them is answered; `None` unless the receiver stops.
        self._finished: asyncio.Event | None = None

    @property
    def port(self) -> int:
        """The bound port; 0 before the start."""
        return 0 if self._listeners is None else self._listeners.port

    async def start(self) -> None:
        """Bind and serve; raise `StartError` when the endpoint cannot be used."""
        log = self._handler.refusal_log
        protocols = _Server(self._answer, self._settings, log)
        on_failure = partial(log.handshake, "http")
        listeners = Listeners(protocols, self._settings.endpoint, self._settings.tls, on_failure)
        await listeners.start()
        self._protocols, self._listeners = protocols, listeners

    async def stop(self, grace_s: float) -> None:
        """Stop accepting at once; requests under way, half-sent ones among them, get `grace_s` to finish."""
        if self._listeners is not None:
            await self._listeners.stop()
        protocols, self._protocols = self._protocols, None
        if protocols is None:
            return
        for connection in protocols.connections:
            # aiohttp reads nothing more from a connection after its `close`.
            if connection not in self._answering:
                connection.close()
        if self._answering:
            self._finished = asyncio.Event()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace_s / 2):
                    await self._finished.wait()
            self._finished = None
            await self._uploads.give_up_all(refusal(Refused("shutting down")))
        # aiohttp waits twice: for the handler, then for its task.
        await protocols.shutdown(grace_s / 4)

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        if isinstance(request.protocol, _Protocol):
            request.protocol.has_asked = True
        self._answering.add(request.protocol)
        try:
            cors, origin = self._settings.cors, request.headers.get("Origin")
            if cors is None or origin is None or not cors.allows(origin):
                response = await self._answer_post(request)
            elif request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers:
                # A browser asks whether it may send.
                response = web.Response(status=204, headers={**cors.preflight_headers(origin), "Server": _SERVER})
            else:
                response = await self._answer_post(request)
                response.headers.update(cors.answer_headers(origin))
        finally:
            self._answering.discard(request.protocol)
            if self._finished is not None and not self._answering:
                self._finished.set()
        return response if self._finished is None else _closing(response)

    async def _answer_post(self, request: web.BaseRequest) -> web.Response:
        named = _MEDIA.get(request.headers.get("Content-Type", "").partition(";")[0].strip().lower())
        media = named or PROTOBUF
        signal = self._settings.paths.get(request.path)
        peer = _peer(request)
        if signal is None:
            self._handler.refusal_log.path("http", self._no_such_path, peer)
            return _closing(_response(self._no_such_path, media))
        refused = self._precheck(request, named)
        if refused is not None:
            response = _response(self._handler.refuse(signal, refused, peer), media)
            if refused.http_status == 405:
                response.headers["Allow"] = "POST"
            if refused.http_status == 401 and self._guard is not None:
                response.headers["WWW-Authenticate"] = self._guard.challenge
            return _closing(response)
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await self._read(request)
        if isinstance(body, Refusal):
            return _closing(_response(self._handler.refuse(signal, body, peer), media))
        from_json = self._from_json if media is JSON else None
        refused = await self._handler.take(signal, body, peer, _DECODERS[_encoding(request)], from_json)
        if refused is not None:
            return _response(refused, media)
        return web.Response(body=media.success, headers={"Content-Type": media.content_type, "Server": _SERVER})

    def _precheck(self, request: web.BaseRequest, media: Media | None) -> Refusal | None:
        if request.method != "POST":
            return invalid("only POST is served here", http_status=405)
        headers = request.headers
        guard = self._guard
        if guard is not None and not guard.admits(headers.get(guard.header)):
            return UNAUTHENTICATED
        if media is None:
            return invalid(f"only `{PROTOBUF.content_type}` and `{JSON.content_type}` are read here", http_status=415)
        if _encoding(request) not in _DECODERS:
            return invalid(_UNREAD_ENCODING, http_status=415, reason="compression")
        if self._handler.hop_id in headers.getall(HOP_HEADER, ()):
            return LOOP
        if request.content_length is not None and request.content_length > self._handler.limit:
            return too_large(self._handler.limit)
        return None

    async def _read(self, request: web.BaseRequest) -> bytes | Refusal:
        chunks: list[bytes] = []
        size = 0
        silence_s = self._settings.read_timeout / SECOND
        given_up: Refusal | None = None
        deadline = asyncio.timeout(silence_s)

        async def give_up(refused: Refusal) -> None:
            nonlocal given_up
            given_up = refused
            # It cannot be put forward any more where the body has just become whole.
            with contextlib.suppress(RuntimeError):
                deadline.reschedule(asyncio.get_running_loop().time())

        is_begun = False
        try:
            async with deadline:
                while chunk := await request.content.readany():
                    size += len(chunk)
                    when_s = deadline.when()
                    if when_s is not None:
                        # A slow line gets the time that its bytes need, and no line may be silent for longer than `silence_s`.
                        silent_until_s = asyncio.get_running_loop().time() + silence_s
                        deadline.reschedule(min(when_s + len(chunk) / SLOWEST_BYTES_PER_S, silent_until_s))
                    if size > self._handler.limit:
                        return too_large(self._handler.limit)
                    chunks.append(chunk)
                    if not is_begun and not request.content.is_eof():
                        is_begun = True
                        self._uploads.begin(give_up)
        except TimeoutError:
            return given_up or invalid("the body did not come in time", http_status=408)
        except web.RequestPayloadError:
            return invalid("the body is not what its headers say")
        finally:
            self._uploads.end(give_up)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)


class _Server(web.Server):
    def __init__(
        self, answer: Callable[[web.BaseRequest], Awaitable[web.Response]], settings: HttpSettings, log: RefusalLog
    ) -> None:
        super().__init__(answer)
        self._settings = settings
        self._refusal_log = log

    def __call__(self) -> RequestHandler:
        return _Protocol(self, self._loop, self._settings, self._refusal_log)


class _Protocol(RequestHandler):
    """Answers a request that is not HTTP, or that failed inside, in our form too."""

    __slots__ = ("_has_begun", "_is_foreign", "_read_header_timeout_s", "_refusal_log", "has_asked")

    def __init__(
        self, server: web.Server, event_loop: asyncio.AbstractEventLoop, settings: HttpSettings, refusal_log: RefusalLog
    ) -> None:
        super().__init__(
            server,
            loop=event_loop,
            keepalive_timeout=settings.idle_timeout / SECOND,
            lingering_time=_LINGER_S,
            access_log=None,  # pyright: ignore[reportArgumentType] - aiohttp asks `if access_log`
            auto_decompress=False,
        )
        self._read_header_timeout_s = settings.read_header_timeout / SECOND
        self.has_asked = False
        self._has_begun = self._is_foreign = False
        self._refusal_log = refusal_log

    def data_received(self, data: bytes) -> None:
        # Answered like everything that is not HTTP/1: gRPC's clients report that, and wait longer each time.
        if not self._has_begun and self.transport is not None:
            self._has_begun = True
            self._is_foreign = self._refusal_log.first_bytes(
                data,
                peer_address(self.transport.get_extra_info("peername")),
                self.transport.get_extra_info("sockname")[1],
            )
        super().data_received(data)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        # aiohttp bounds the time between requests, the time before the first one as well, but with one number.
        asyncio.get_running_loop().call_later(self._read_header_timeout_s, self._close_if_silent)

    def _close_if_silent(self) -> None:
        if not self.has_asked and self.transport is not None:
            self.transport.close()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - aiohttp's signature; the message may quote the request
    ) -> web.StreamResponse:
        if isinstance(exc, ConnectionError) or request.writer.output_size > 0:
            raise ConnectionError("the connection is gone") from exc
        refused = invalid("the request is not valid HTTP", http_status=status)
        # Of another protocol, its first bytes were logged.
        if not self._is_foreign:
            self._refusal_log.request("http", refused, _peer(request))
        return _closing(_response(refused, PROTOBUF))


_DECODERS: dict[str, Unpack | None] = {
    "": None,
    "identity": None,
    "gzip": gunzip,
    "x-gzip": gunzip,
    "deflate": inflate,
    # The Collector's name for the same.
    "zlib": inflate,
    "zstd": unzstd,
}
_UNREAD_ENCODING = "the `Content-Encoding` of the body is not read here: set `compression` of the exporter to `gzip`, `zstd`, `deflate` or `none`"


def _peer(request: web.BaseRequest) -> str | None:
    return None if request.transport is None else peer_address(request.transport.get_extra_info("peername"))


def _encoding(request: web.BaseRequest) -> str:
    return request.headers.get("Content-Encoding", "").strip().lower()


def _response(refused: Refusal, media: Media) -> web.Response:
    headers = {"Content-Type": media.content_type, "Server": _SERVER}
    if refused.retry_after_s is not None:
        # Whole seconds: rounding down would turn "soon" into "at once".
        headers["Retry-After"] = str(math.ceil(refused.retry_after_s))
    return web.Response(status=refused.http_status, body=media.status(refused), headers=headers)


def _closing(response: web.Response) -> web.Response:
    response.force_close()
    return response
