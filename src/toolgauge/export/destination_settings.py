"""What a destination is told to be. Built by `config`; durations are seconds as floats."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from toolgauge.model.delivery import Signal
from toolgauge.net.tls import ClientTls

Protocol: TypeAlias = Literal["grpc", "http"]
Compression: TypeAlias = Literal["gzip", "none"]

_MIB = 1 << 20
# Where the queue is small; metrics, which no span brings, need room as well.
LEAST_OWN_RESERVE_BYTES = 16 * _MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrySettings:
    """Exponential backoff with jitter, as the Collector's. `max_elapsed_time_s` 0 means for ever."""

    initial_interval_s: float = 5.0
    multiplier: float = 1.5
    randomization_factor: float = 0.5
    max_interval_s: float = 30.0
    max_elapsed_time_s: float = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationSettings:
    """One destination.

    `endpoint` is `host:port` or a URL; for HTTP `/v1/<signal>` is appended to it, and `signal_endpoints` are the whole
    URLs of signals where that differs. `endpoint` may be empty then: signals without a URL have nowhere to go, and
    `signals` names those that come here at all. `tls` is `None` for plain text; a scheme in the endpoint decides before it.
    `own_reserve_bytes` is room beyond `queue_max_bytes` that only our own scorecards, events and metrics may use: they speak
    of spans that were already taken, and must not be lost because senders fill the queue. `max_request_bytes` is before
    compression; what is larger is dropped and counted.
    """

    name: str = "otlp"
    endpoint: str
    signal_endpoints: Mapping[Signal, str] = field(default_factory=dict["Signal", str])
    signals: frozenset[Signal] = frozenset(("traces", "metrics", "logs"))
    tls: ClientTls | None = None
    protocol: Protocol = "grpc"
    compression: Compression = "gzip"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    timeout_s: float = 10.0
    retry: RetrySettings = field(default_factory=RetrySettings)
    queue_max_bytes: int = 64 * _MIB
    own_reserve_bytes: int = LEAST_OWN_RESERVE_BYTES
    in_flight: int = 10
    max_request_bytes: int = 128 * _MIB
