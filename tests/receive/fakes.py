"""A consumer that answers what a test tells it to, and clients that speak raw bytes."""
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import asyncio
import gzip
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import grpc
import grpc.aio

from toolgauge.model.delivery import Accepted, Answer, Signal
from toolgauge.model.metrics import MetricRegistry
from toolgauge.net.byte_budget import ByteBudget, Memory
from toolgauge.net.settings import Auth, ServerTls
from toolgauge.otlp.otlp_json import request_from_json
from toolgauge.receive.grpc import GrpcReceiver
from toolgauge.receive.http import HttpReceiver
from toolgauge.receive.otlp_handler import FromJson
from toolgauge.receive.settings import Cors, GrpcSettings, HttpSettings
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.settings import SECOND

TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
LOGS = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
METRICS = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
OWN_HOP = "11111111-2222-4333-8444-555555555555"


class FakeConsumer:
    """Keeps what it is given; answers with `answer`, or raises `fault`."""

    def __init__(self) -> None:
        self.answer: Answer = Accepted()
        self.fault: Exception | None = None
        self.pauses = 0
        self.begun = 0
        self.taken: list[tuple[Signal, bytes]] = []
        self.senders: list[str | None] = []

    async def consume(self, signal: Signal, body: bytes, sender: str | None) -> Answer:
        if self.fault is not None:
            raise self.fault
        self.begun += 1
        for _ in range(self.pauses):
            await asyncio.sleep(0)
        self.taken.append((signal, body))
        self.senders.append(sender)
        return self.answer


@dataclass
class Receivers:
    """Both receivers over one consumer, on ephemeral ports."""

    consumer: FakeConsumer
    metrics: SelfMetrics
    grpc: GrpcReceiver
    http: HttpReceiver

    def outcomes(self) -> dict[tuple[str, ...], float]:
        """The request counter by transport, signal and outcome."""
        return dict(self.metrics.requests.cells)

    def reasons(self) -> dict[tuple[str, ...], float]:
        """The counter of invalid requests by transport, signal and reason."""
        return dict(self.metrics.requests_invalid.cells)


class FakeMemory(Memory):
    """Memory that is short when `has_memory` says so, and of which a process may have `limit_bytes` for requests."""

    def __init__(self, has_memory: Callable[[int], bool], limit_bytes: int = sys.maxsize) -> None:
        self._has_memory = has_memory
        self._limit_bytes = limit_bytes

    def admits(self, size_bytes: int) -> bool:
        return self._has_memory(size_bytes)

    def fits(self, size_bytes: int) -> bool:
        return size_bytes <= self._limit_bytes

    def could_fit(self, size_bytes: int) -> bool:
        return size_bytes <= self._limit_bytes


@asynccontextmanager
async def receiving(
    *,
    limit: int = 1 << 20,
    idle_timeout_s: float = 60,
    body_timeout_s: float = 60,
    read_header_timeout_s: float = 60,
    tls: ServerTls | None = None,
    auth: Auth | None = None,
    cors: Cors | None = None,
    from_json: FromJson = request_from_json,
    has_memory: Callable[[int], bool] = lambda _size_bytes: True,
    budget: ByteBudget | None = None,
    consumer: FakeConsumer | None = None,
) -> AsyncGenerator[Receivers, None]:
    """Run both receivers."""
    consumer = consumer or FakeConsumer()
    metrics = SelfMetrics(MetricRegistry())
    shared = budget or ByteBudget(memory=FakeMemory(has_memory))
    grpc_settings = GrpcSettings(endpoint="127.0.0.1:0", max_recv_msg_size=limit, tls=tls, auth=auth)
    grpc_receiver = GrpcReceiver(consumer, grpc_settings, metrics=metrics, hop_id=OWN_HOP, budget=shared)
    http_settings = HttpSettings(
        endpoint="127.0.0.1:0",
        max_request_body_size=limit,
        tls=tls,
        auth=auth,
        cors=cors,
        read_header_timeout=int(read_header_timeout_s * SECOND),
        read_timeout=int(body_timeout_s * SECOND),
        idle_timeout=int(idle_timeout_s * SECOND),
    )
    http_receiver = HttpReceiver(
        consumer,
        http_settings,
        from_json=from_json,
        metrics=metrics,
        hop_id=OWN_HOP,
        budget=shared,
    )
    await grpc_receiver.start()
    await http_receiver.start()
    try:
        yield Receivers(consumer=consumer, metrics=metrics, grpc=grpc_receiver, http=http_receiver)
    finally:
        await grpc_receiver.stop(0.5)
        await http_receiver.stop(0.5)


@dataclass
class ClaimedAct:
    """What a gRPC client saw: the code, and the status details as they travelled."""

    code: grpc.StatusCode
    response: bytes = b""
    message: str = ""
    details: bytes | None = None


async def call(
    channel: grpc.aio.Channel, body: bytes, *, method: str = TRACES, metadata: tuple[tuple[str, str], ...] = ()
) -> ClaimedAct:
    """Call once over an open channel."""
    try:
        response = await channel.unary_unary(method)(body, timeout=60, metadata=metadata)
    except grpc.aio.AioRpcError as error:
        trailing = dict(error.trailing_metadata() or ())
        details = trailing.get("grpc-status-details-bin")
        return ClaimedAct(error.code(), b"", error.details() or "", details if isinstance(details, bytes) else None)
    return ClaimedAct(grpc.StatusCode.OK, response)


async def call_once(
    port: int,
    body: bytes,
    *,
    method: str = TRACES,
    metadata: tuple[tuple[str, str], ...] = (),
    compression: grpc.Compression = grpc.Compression.NoCompression,
) -> ClaimedAct:
    """Call once over a connection of its own."""
    options = (("grpc.max_send_message_length", -1),)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", compression=compression, options=options) as channel:
        return await call(channel, body, method=method, metadata=metadata)


@dataclass
class Reply:
    """What an HTTP client saw."""

    status: int
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""


async def post(port: int, body: bytes, *, path: str = "/v1/traces", method: str = "POST", **headers: str) -> Reply:
    """Send one request over a connection of its own; `Content_Type` in `headers` overrides protobuf."""
    named = {"Content-Type": "application/x-protobuf", "Content-Length": str(len(body))}
    named.update({key.replace("_", "-"): value for key, value in headers.items()})
    lines = [f"{method} {path} HTTP/1.1", "Host: x", *(f"{key}: {value}" for key, value in named.items() if value)]
    return await raw(port, "\r\n".join(lines).encode() + b"\r\n\r\n" + body)


async def raw(port: int, data: bytes) -> Reply:
    """Send bytes as they are and read one answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        return await read_reply(reader)
    finally:
        writer.close()


async def read_reply(reader: asyncio.StreamReader) -> Reply:
    """Read one answer; status 0 when the connection was closed without one."""
    async with asyncio.timeout(60):
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return Reply(0)
        headers = {key.lower(): value for key, _, value in (line.partition(": ") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Reply(int(head[0].split()[1]), headers, body)


def gzipped(body: bytes) -> bytes:
    """Compress as a sender would."""
    return gzip.compress(body, 6, mtime=0)
