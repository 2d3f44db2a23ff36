"""OTLP over gRPC to a destination, as raw bytes."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import math

import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from grpc import StatusCode

from toolgauge.forward.partial import MAX_RESPONSE_BYTES, delivered
from toolgauge.forward.settings import DestinationSettings
from toolgauge.forward.verdict import DELIVERED, Permanent, Transient, Verdict
from toolgauge.model.delivery import Signal

_METHODS: dict[Signal, str] = {
    "traces": "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    "metrics": "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
    "logs": "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
}
_TRANSIENT = frozenset(
    {
        StatusCode.CANCELLED,
        StatusCode.DEADLINE_EXCEEDED,
        StatusCode.ABORTED,
        StatusCode.OUT_OF_RANGE,
        StatusCode.UNAVAILABLE,
        StatusCode.DATA_LOSS,
    }
)


class GrpcSender:
    """One channel; gRPC reconnects by itself."""

    def __init__(
        self, settings: DestinationSettings, *, metadata: tuple[tuple[str, str], ...], user_agent: str
    ) -> None:
        self._settings = settings
        self._metadata = metadata
        self._user_agent = user_agent
        self._channel: grpc.aio.Channel | None = None
        self._calls: dict[Signal, grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]] = {}

    async def start(self) -> None:
        """Open the channel; it connects with the first request."""
        gzip = self._settings.compression == "gzip"
        address = target(self._settings.endpoint)
        channel = grpc.aio.insecure_channel(
            address,
            compression=grpc.Compression.Gzip if gzip else grpc.Compression.NoCompression,
            options=(
                ("grpc.primary_user_agent", self._user_agent),
                ("grpc.max_send_message_length", -1),
                ("grpc.max_receive_message_length", MAX_RESPONSE_BYTES),
                # Retries are the queue's, which counts them.
                ("grpc.enable_retries", 0),
                # A destination that is back should be found within seconds; gRPC would take up to two minutes.
                ("grpc.initial_reconnect_backoff_ms", 250),
                ("grpc.min_reconnect_backoff_ms", 2000),
                ("grpc.max_reconnect_backoff_ms", 2000),
                ("grpc.use_local_subchannel_pool", 1),
                # With `http_proxy` in the environment gRPC asks the proxy even for this machine's own ports.
                ("grpc.enable_http_proxy", int(not is_on_this_machine(address))),
            ),
        )
        self._calls = {signal: channel.unary_unary(method) for signal, method in _METHODS.items()}
        self._channel = channel

    async def send(self, signal: Signal, body: bytes) -> Verdict:
        """Send once."""
        try:
            response = await self._calls[signal](body, timeout=self._settings.timeout_s, metadata=self._metadata)
        except grpc.aio.AioRpcError as error:
            return _verdict(error)
        return delivered(signal, response) if response else DELIVERED

    async def close(self) -> None:
        """Close the channel."""
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close(None)


def target(endpoint: str) -> str:
    """Make the channel's target of `host:port` or `http://host:port/`."""
    return endpoint.removeprefix("http://").partition("/")[0] if endpoint.startswith("http://") else endpoint


def is_on_this_machine(address: str) -> bool:
    """Tell whether the `host:port` is a loopback address."""
    host = address.rpartition(":")[0].strip("[]").lower()
    return host in ("localhost", "::1") or host.startswith("127.")


def _verdict(error: grpc.aio.AioRpcError) -> Verdict:
    code = error.code()
    reason = code.name.lower()
    told_s = _told_s(error)
    if code in _TRANSIENT or (code is StatusCode.RESOURCE_EXHAUSTED and told_s is not None):
        return Transient(reason, told_s)
    return Permanent(reason)


def _told_s(error: grpc.aio.AioRpcError) -> float | None:
    """Find the RetryInfo among the status details."""
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin" and isinstance(value, bytes):
            try:
                return _retry_delay_s(Status.FromString(value))
            except DecodeError:
                return None
    return None


def _retry_delay_s(status: Status) -> float | None:
    info = RetryInfo()
    for detail in status.details:
        if detail.Unpack(info):
            delay_s = info.retry_delay.seconds + info.retry_delay.nanos / 1e9
            return delay_s if math.isfinite(delay_s) and delay_s > 0 else 0.0
    return None
