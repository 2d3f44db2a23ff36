"""OTLP over gRPC: raw request bytes in, an empty response or a status with details out.

Messages stay bytes (no deserialiser), and decompression is done here: what gRPC does with a message that
grows beyond its limit differs between versions, and would not be counted.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Awaitable, Callable
from typing import NoReturn, TypeAlias

import grpc
import grpc.aio

from toolgauge.listen import close_all, listen
from toolgauge.model.delivery import Consumer, Signal
from toolgauge.model.errors import StartError
from toolgauge.receive.door import HOP_HEADER, Door
from toolgauge.receive.gunzip import BrokenBodyError, gunzip, inflate
from toolgauge.receive.refusal import Refusal, loop
from toolgauge.selfmetrics import SelfMetrics

_SERVICES: dict[Signal, str] = {
    "traces": "opentelemetry.proto.collector.trace.v1.TraceService",
    "metrics": "opentelemetry.proto.collector.metrics.v1.MetricsService",
    "logs": "opentelemetry.proto.collector.logs.v1.LogsService",
}
_MAX_RESPONSE = 4 << 20
_Handler: TypeAlias = "grpc.RpcMethodHandler[bytes, bytes]"


class GrpcReceiver:
    """One gRPC server; `port` is known once it has started."""

    def __init__(
        self,
        consumer: Consumer,
        *,
        endpoint: str,
        max_recv_msg_size: int,
        clock: Callable[[], int],
        metrics: SelfMetrics,
        hop_id: str,
    ) -> None:
        self._door = Door(
            consumer, transport="grpc", limit=max_recv_msg_size, clock=clock, metrics=metrics, hop_id=hop_id
        )
        self._endpoint = endpoint
        self._server: grpc.aio.Server | None = None
        self._port = 0

    @property
    def port(self) -> int:
        """The bound port; 0 before the start."""
        return self._port

    async def start(self) -> None:
        """Bind and serve; raise `StartError` when the endpoint cannot be had."""
        # gRPC says only "failed to bind" and binds half of `localhost` without complaint: try by hand first.
        sockets = listen(self._endpoint)
        addresses = [sock.getsockname()[:2] for sock in sockets]
        close_all(sockets)
        server = grpc.aio.server(
            options=(
                # With reuse on, a second process would silently take half of the connections.
                ("grpc.so_reuseport", 0),
                ("grpc.max_receive_message_length", self._door.limit),
                ("grpc.max_send_message_length", _MAX_RESPONSE),
                ("grpc.per_message_decompression", 0),
            )
        )
        server.add_generic_rpc_handlers((_Methods(self._door),))
        for host, port in addresses:
            try:
                server.add_insecure_port(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
            except RuntimeError as error:
                await server.stop(None)
                raise StartError(f"cannot listen on `{self._endpoint}`: the port is in use") from error
        await server.start()
        self._port = addresses[0][1]
        self._server = server

    async def stop(self, grace_s: float) -> None:
        """Stop accepting at once; requests being handled get `grace_s` to finish."""
        server, self._server = self._server, None
        if server is not None:
            await server.stop(grace_s)


class _Methods(grpc.GenericRpcHandler):
    """Finds the handler of a method; refuses what carries our own hop id before its message is read."""

    def __init__(self, door: Door) -> None:
        self._own_hop = (HOP_HEADER, door.hop_id)
        self._export: dict[str, _Handler] = {}
        self._loop: dict[str, _Handler] = {}
        for signal, service in _SERVICES.items():
            path = f"/{service}/Export"
            self._export[path] = grpc.unary_unary_rpc_method_handler(_export(door, signal))
            self._loop[path] = grpc.unary_unary_rpc_method_handler(_refuse_loop(door, signal))

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "_Handler | None":
        """Choose by method and metadata; `None` is UNIMPLEMENTED."""
        if self._own_hop in handler_call_details.invocation_metadata:
            return self._loop.get(handler_call_details.method)
        return self._export.get(handler_call_details.method)


_Context: TypeAlias = "grpc.aio.ServicerContext[bytes, bytes]"


def _export(door: Door, signal: Signal) -> Callable[[bytes, _Context], Awaitable[bytes]]:
    async def export(body: bytes, context: _Context) -> bytes:
        # The first byte tells: 0x1f is no legal tag of a protobuf message, 0x78 a rare one.
        told = door.take(signal, body, _decompress if body[:1] in (b"\x1f", b"\x78") else None)
        if told is not None:
            await _abort(context, told)
        return b""

    return export


def _refuse_loop(door: Door, signal: Signal) -> Callable[[bytes, _Context], Awaitable[bytes]]:
    async def refuse(_body: bytes, context: _Context) -> bytes:
        await _abort(context, door.refuse(signal, loop()))

    return refuse


def _decompress(body: bytes, limit: int) -> bytes:
    if body[:2] == b"\x1f\x8b":
        return gunzip(body, limit)
    # 0x78 begins a zlib stream and could begin an unknown field 15 as well.
    if int.from_bytes(body[:2], "big") % 31 == 0:
        try:
            return inflate(body, limit)
        except BrokenBodyError:
            return body
    return body


async def _abort(context: _Context, told: Refusal) -> NoReturn:
    await context.abort(told.code, told.short_message(), (("grpc-status-details-bin", told.status()),))
    raise AssertionError("abort always raises")
