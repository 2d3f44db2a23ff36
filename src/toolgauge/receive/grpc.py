"""OTLP over gRPC: raw request bytes in, an empty response or a status with details out.

Decompression is done here: what gRPC does with a message over its limit differs by version, and would not be counted.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportAttributeAccessIssue=false

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import NoReturn, TypeAlias
from urllib.parse import unquote

import grpc
import grpc.aio
from grpc_health.v1 import health
from grpc_health.v1.health_pb2 import HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import add_HealthServicer_to_server

from toolgauge.model.delivery import Consumer, Signal
from toolgauge.model.errors import StartError
from toolgauge.net.auth import TokenGuard
from toolgauge.net.byte_budget import ByteBudget
from toolgauge.net.listen import close_all, listen
from toolgauge.net.settings import ServerTls
from toolgauge.net.tls import WatchedFiles, read_pem, server_context
from toolgauge.otlp.request import SERVICES
from toolgauge.receive.otlp_handler import HOP_HEADER, OtlpHandler, Uploads, decompress_message
from toolgauge.receive.refusal import LOOP, UNAUTHENTICATED, Refusal, RefusalLog, invalid, too_large
from toolgauge.receive.settings import GrpcSettings
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.settings import SECOND, file_path

_log = logging.getLogger("toolgauge.receive")


def server_credentials(tls: ServerTls) -> grpc.ServerCredentials:
    """Make credentials from files; raise `StartError` when one cannot be used."""
    watched, looked_s = WatchedFiles(tls.files), time.monotonic()

    def renewed() -> grpc.ServerCertificateConfiguration | None:
        """Return changed certificates; called in gRPC's threads, at the beginning of each handshake."""
        nonlocal looked_s
        now_s = time.monotonic()
        if now_s - looked_s < tls.reload_interval / SECOND:
            return None
        looked_s = now_s
        if not watched.changed():
            return None
        try:
            return _certificates(tls)
        except StartError as error:
            _log.error("%s; the certificate in use stays", error.message)
            return None

    return grpc.dynamic_ssl_server_credentials(
        _certificates(tls),
        renewed,  # pyright: ignore[reportArgumentType] - `None` is "no change" (gRPC's documentation)
        require_client_authentication=tls.client_ca_file is not None,
    )


def _certificates(tls: ServerTls) -> grpc.ServerCertificateConfiguration:
    # gRPC takes any text for a certificate and fails at the first handshake; OpenSSL looks at it now.
    server_context(tls)
    pair = (read_pem(file_path(tls.key_file)), read_pem(file_path(tls.cert_file)))
    client_ca = None if tls.client_ca_file is None else read_pem(file_path(tls.client_ca_file))
    return grpc.ssl_server_certificate_configuration([pair], client_ca)


_MAX_RESPONSE = 4 << 20
_Handler: TypeAlias = "grpc.RpcMethodHandler[bytes, bytes]"
_Context: TypeAlias = "grpc.aio.ServicerContext[bytes, bytes]"


class GrpcReceiver:
    """Receives OTLP over gRPC; all receivers share the `budget`."""

    def __init__(
        self,
        consumer: Consumer,
        settings: GrpcSettings,
        *,
        metrics: SelfMetrics,
        hop_id: str,
        budget: ByteBudget | None = None,
        refusal_log: RefusalLog | None = None,
    ) -> None:
        limit = settings.max_recv_msg_size
        log = refusal_log or RefusalLog()
        self._handler = OtlpHandler(
            consumer, transport="grpc", limit=limit, budget=budget, metrics=metrics, hop_id=hop_id, refusal_log=log
        )
        self._uploads = Uploads(limit, self._handler.budget.memory.admits)
        self._settings = settings
        self._server: grpc.aio.Server | None = None
        # Known once it has started.
        self.port = 0

    async def start(self) -> None:
        """Bind and serve; raise `StartError` when the endpoint cannot be used."""
        # Without files that can be used, no port is bound.
        tls = self._settings.tls
        credentials = None if tls is None else server_credentials(tls)
        # gRPC reports only "failed to bind" and binds half of `localhost` without complaint: try by hand first.
        sockets = listen(self._settings.endpoint)
        addresses = [sock.getsockname()[:2] for sock in sockets]
        close_all(sockets)
        server = grpc.aio.server(options=tuple(_options(self._settings)))
        self._health = health.aio.HealthServicer()
        add_HealthServicer_to_server(self._health, server)
        # Handlers are asked in the order in which they are added, and this one knows all methods.
        methods = _Methods(self._handler, TokenGuard.of(self._settings.auth), self._uploads)
        server.add_generic_rpc_handlers((methods,))
        for host, port in addresses:
            address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            try:
                if tls is None or credentials is None:
                    server.add_insecure_port(address)
                else:
                    server.add_secure_port(address, credentials)
                    # gRPC takes credentials that fetch their certificates for one address only.
                    credentials = server_credentials(tls)
            except RuntimeError as error:
                await server.stop(None)
                raise StartError(
                    f"cannot listen on `{self._settings.endpoint}`, address `{address}`: {error}"
                ) from error
        await server.start()
        # The server as a whole is the service "".
        for service in ("", *SERVICES.values()):
            await self._health.set(service, HealthCheckResponse.SERVING)
        self.port = addresses[0][1]
        self._server = server

    async def stop(self, grace_s: float) -> None:
        """Stop accepting at once; requests being handled get `grace_s` to finish."""
        server, self._server = self._server, None
        if server is not None:
            # Watching clients hear of it before the handler is closed.
            await self._health.enter_graceful_shutdown()
            await server.stop(grace_s)


def _options(settings: GrpcSettings) -> Iterator[tuple[str, int]]:
    # With reuse on, a second process would silently take half of the connections.
    yield "grpc.so_reuseport", 0
    yield "grpc.max_receive_message_length", settings.max_recv_msg_size
    yield "grpc.max_send_message_length", _MAX_RESPONSE
    yield "grpc.per_message_decompression", 0
    if settings.max_concurrent_streams is not None:
        yield "grpc.max_concurrent_streams", settings.max_concurrent_streams
    yield from settings.keepalive.options()


_NO_SUCH_METHOD = Refusal(
    outcome="unsupported",
    code=grpc.StatusCode.UNIMPLEMENTED,
    http_status=404,
    message="no such method; OTLP is served as `Export` of its services for traces, metrics and logs",
)


class _Methods(grpc.GenericRpcHandler):
    """Finds the handler of a method; refuses strangers and our own hop id, as streams: before a message is read.
    Answers UNIMPLEMENTED to unknown methods as gRPC would, and logs them.
    """

    def __init__(self, handler: OtlpHandler, guard: TokenGuard | None, uploads: Uploads) -> None:
        self._handler = handler
        self._guard = guard
        self._uploads = uploads
        self._signals: dict[str, Signal] = {f"/{service}/Export": signal for signal, service in SERVICES.items()}

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> _Handler:
        """Choose by method and metadata."""
        signal = self._signals.get(handler_call_details.method)
        if signal is None:
            return grpc.stream_unary_rpc_method_handler(self._refuse_unknown)
        metadata = handler_call_details.invocation_metadata
        guard = self._guard
        if guard is not None:
            shown = (value for key, value in metadata if key == guard.header and isinstance(value, str))
            if not guard.admits(next(shown, None)):
                return grpc.stream_unary_rpc_method_handler(partial(self._refuse, signal, UNAUTHENTICATED))
        if (HOP_HEADER, self._handler.hop_id) in metadata:
            return grpc.stream_unary_rpc_method_handler(partial(self._refuse, signal, LOOP))
        return grpc.stream_unary_rpc_method_handler(partial(self._take, signal))

    async def _refuse(
        self, signal: Signal, refused: Refusal, _bodies: AsyncIterator[bytes], context: _Context
    ) -> bytes:
        await _abort(context, self._handler.refuse(signal, refused, _address(context.peer())))

    async def _refuse_unknown(self, _bodies: AsyncIterator[bytes], context: _Context) -> bytes:
        self._handler.refusal_log.path("grpc", _NO_SUCH_METHOD, _address(context.peer()))
        await _abort(context, _NO_SUCH_METHOD)

    async def _take(self, signal: Signal, _bodies: AsyncIterator[bytes], context: _Context) -> bytes:
        # A call that is over has no peer any more.
        peer = _address(context.peer())
        body = await self._read(signal, context, peer)
        # The first byte decides: 0x1f is not a legal tag of a protobuf message, 0x78 a rare one.
        unpack = decompress_message if body[:1] in (b"\x1f", b"\x78") else None
        refused = await self._handler.take(signal, body, peer, unpack)
        if refused is not None:
            # Raised through this frame, which then hangs in a cycle: a refused request would stay in memory with it.
            del body
            await _abort(context, refused)
        return b""

    async def _read(self, signal: Signal, context: _Context, peer: str) -> bytes:
        async def give_up(refused: Refusal) -> None:
            # Answered now, which frees the message; cancelling the wait could leave a whole message in memory for ever.
            with contextlib.suppress(grpc.aio.BaseError):
                await _abort(context, self._handler.refuse(signal, refused, peer))

        self._uploads.begin(give_up)
        try:
            body = await context.read()
        except asyncio.CancelledError:
            # The sender went away.
            self._handler.miss(signal)
            raise
        finally:
            self._uploads.end(give_up)
        if isinstance(body, bytes):  # pyright: ignore[reportUnnecessaryIsInstance] - the stubs know no `EOF`
            return body
        self._handler.miss(signal)
        refused = invalid("the request has no message")
        try:
            await _abort(context, refused)
        except grpc.aio.InternalError:
            # The call is over. gRPC forgets the peer of a call that it ended itself, because of a message over the limit, and
            # with few exceptions knows that of a sender that went away.
            if not context.peer():
                self._handler.refusal_log.request("grpc", too_large(self._handler.limit), peer)
            raise asyncio.CancelledError from None
        except grpc.aio.AbortError:
            self._handler.refusal_log.request("grpc", refused, peer)
            raise


def _address(peer: str) -> str:
    """Write gRPC's name of a peer, such as `ipv6:%5B::1%5D:4242`, as `[::1]:4242`."""
    return unquote(peer.partition(":")[2])


async def _abort(context: _Context, refused: Refusal) -> NoReturn:
    await context.abort(
        refused.code,
        refused.short_message(),
        (("grpc-status-details-bin", refused.status_message().SerializeToString()),),
    )
    raise AssertionError("abort always raises")
