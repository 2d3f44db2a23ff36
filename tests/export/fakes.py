"""Destinations that answer what a test tells them to, over real sockets."""
# pyright: reportUnknownVariableType=false

import asyncio
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field

import grpc
import grpc.aio
from aiohttp import web
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from tests.wire.support import free_port
from toolgauge.export.destination import Destination, otlp_destination
from toolgauge.export.settings import DestinationSettings, RetrySettings, Transport
from toolgauge.model.delivery import Outgoing, Signal
from toolgauge.model.metrics import Counter, Labels, MetricRegistry
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.settings import SECOND

OWN_HOP = "11111111-2222-4333-8444-555555555555"
MS = SECOND // 1000
FAST = RetrySettings(initial_interval=10 * MS, max_interval=20 * MS, max_elapsed_time=30 * SECOND)


@dataclass(frozen=True)
class Said:
    """One scripted answer. `hang` never answers; `cut` closes the connection (HTTP)."""

    code: grpc.StatusCode = grpc.StatusCode.OK
    message: str = "scripted"
    http_status: int = 200
    response: bytes = b""
    retry_after: str | None = None
    date: str | None = None
    retry_s: float | None = None
    hang: bool = False
    cut: bool = False


OK = Said()
Script = Callable[[int, str, bytes], Said]


@dataclass
class Seen:
    """What arrived: signal or method, body (decompressed), and headers."""

    script: Script
    arrived: list[tuple[str, bytes]] = field(default_factory=list[tuple[str, bytes]])
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    times_s: list[float] = field(default_factory=list[float])
    endpoint: str = ""
    # What hangs ends with the destination.
    over: asyncio.Event = field(default_factory=asyncio.Event)

    def next(self, what: str, body: bytes, headers: dict[str, str]) -> Said:
        self.arrived.append((what, body))
        self.headers.append(headers)
        self.times_s.append(asyncio.get_running_loop().time())
        return self.script(len(self.arrived), what, body)

    @property
    def bodies(self) -> list[bytes]:
        return [body for _, body in self.arrived]


def always(said: Said) -> Script:
    """Answer the same each time."""
    return lambda _count, _what, _body: said


def first(count: int, said: Said) -> Script:
    """Answer so the first times, then take everything."""
    return lambda number, _what, _body: said if number <= count else OK


class _Scripted(grpc.GenericRpcHandler):
    def __init__(self, seen: Seen) -> None:
        self._seen = seen

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes]":
        method = handler_call_details.method

        async def answer(body: bytes, context: "grpc.aio.ServicerContext[bytes, bytes]") -> bytes:
            headers = {key: str(value) for key, value in context.invocation_metadata() or ()}
            said = self._seen.next(method, body, headers)
            if said.hang:
                await self._seen.over.wait()
            if said.code is not grpc.StatusCode.OK:
                trailing = () if said.retry_s is None else (("grpc-status-details-bin", _details(said)),)
                await context.abort(said.code, said.message, trailing)
            return said.response

        return grpc.unary_unary_rpc_method_handler(answer)


def _details(said: Said) -> bytes:
    status = Status(code=said.code.value[0], message="scripted")
    info = RetryInfo()
    info.retry_delay.FromMilliseconds(int((said.retry_s or 0) * 1000))
    status.details.add().Pack(info)
    return status.SerializeToString()


@asynccontextmanager
async def grpc_sink(
    script: Script, port: int = 0, credentials: grpc.ServerCredentials | None = None
) -> AsyncGenerator[Seen, None]:
    """Run a gRPC destination."""
    seen = Seen(script)
    server = grpc.aio.server(options=(("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", -1)))
    server.add_generic_rpc_handlers((_Scripted(seen),))
    address = f"127.0.0.1:{port}"
    bound = server.add_insecure_port(address) if credentials is None else server.add_secure_port(address, credentials)
    seen.endpoint = f"127.0.0.1:{bound}" if credentials is None else f"localhost:{bound}"
    await server.start()
    try:
        yield seen
    finally:
        seen.over.set()
        await server.stop(0)


@asynccontextmanager
async def http_sink(script: Script, context: ssl.SSLContext | None = None) -> AsyncGenerator[Seen, None]:
    """Run an HTTP destination."""
    seen = Seen(script)

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        said = seen.next(request.path, await request.read(), {k.lower(): v for k, v in request.headers.items()})
        if said.hang:
            await seen.over.wait()
        if said.cut and request.transport is not None:
            request.transport.abort()
        headers = {"Content-Type": "application/x-protobuf"}
        if said.retry_after is not None:
            headers["Retry-After"] = said.retry_after
        if said.date is not None:
            headers["Date"] = said.date
        return web.Response(status=said.http_status, body=said.response, headers=headers)

    server = web.Server(answer)
    listener = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0, ssl=context)
    port = listener.sockets[0].getsockname()[1]
    seen.endpoint = f"http://127.0.0.1:{port}" if context is None else f"https://localhost:{port}"
    try:
        yield seen
    finally:
        seen.over.set()
        listener.close()
        await server.shutdown(0.01)


def counted(counter: Counter) -> dict[Labels, float]:
    """The cells that have counted anything."""
    return {labels: value for labels, value in counter.cells.items() if value}


@dataclass
class Sending:
    """A destination under test, with its books."""

    destination: Destination
    metrics: SelfMetrics

    def spans(self) -> dict[tuple[str, ...], float]:
        return counted(self.metrics.spans)

    def own_dropped(self) -> dict[tuple[str, ...], float]:
        return counted(self.metrics.own_dropped)

    def failures(self) -> dict[tuple[str, ...], float]:
        return dict(self.metrics.send_failures.cells)


@asynccontextmanager
async def sending(
    endpoint: str,
    *,
    protocol: Transport = "grpc",
    retry: RetrySettings = FAST,
    **settings: object,
) -> AsyncGenerator[Sending, None]:
    """Run a destination; by default without compression and with fast retries."""
    metrics = SelfMetrics(MetricRegistry())
    chosen = DestinationSettings(endpoint=endpoint, protocol=protocol, retry=retry, compression="none")
    destination = otlp_destination(chosen.model_copy(update=settings), metrics, OWN_HOP, "toolgauge/0.1.0")
    await destination.start()
    try:
        yield Sending(destination, metrics)
    finally:
        await destination.close()


@asynccontextmanager
async def exchanging(
    protocol: Transport, script: Script, **settings: object
) -> AsyncGenerator[tuple[Seen, Sending], None]:
    """Run a destination of requests, and send to it."""
    async with sink(protocol, script) as seen, sending(seen.endpoint, protocol=protocol, **settings) as out:  # pyright: ignore[reportArgumentType] - settings
        yield seen, out


def nowhere(protocol: Transport) -> str:
    """Return the endpoint of a destination that is not there."""
    return at_port(protocol, free_port())


def at_port(protocol: Transport, port: int) -> str:
    """Return the endpoint of a destination at this port."""
    return f"127.0.0.1:{port}" if protocol == "grpc" else f"http://127.0.0.1:{port}"


def sink(protocol: Transport, script: Script) -> AbstractAsyncContextManager[Seen]:
    """Run a destination that speaks the protocol."""
    return grpc_sink(script) if protocol == "grpc" else http_sink(script)


def request(body: bytes, *, spans: int = 1, signal: Signal = "traces", own: bool = False) -> Outgoing:
    """Make one request."""
    return Outgoing(signal=signal, body=body, spans=spans, own=own)


async def until(holds: Callable[[], bool], *, within_s: float = 60) -> None:
    """Poll until it holds."""
    async with asyncio.timeout(within_s):
        while not holds():
            await asyncio.sleep(0.005)
