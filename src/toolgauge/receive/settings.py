"""How the receivers behave, in plain types; `build` makes these from the configuration."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from toolgauge.model.delivery import Signal
from toolgauge.net.auth import TokenGuard
from toolgauge.net.tls import ServerTls
from toolgauge.receive.cors import Cors

_PATHS: Mapping[str, Signal] = {"/v1/traces": "traces", "/v1/metrics": "metrics", "/v1/logs": "logs"}


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """OTLP over HTTP.

    `read_header_timeout_s` is also how long a new connection may stay silent, `idle_timeout_s` how long one may after
    an answer. `read_timeout_s` is for a body; a long one gets more, as long as its bytes keep coming.
    """

    endpoint: str
    max_request_body_size: int
    paths: Mapping[str, Signal] = field(default_factory=lambda: dict(_PATHS))
    tls: ServerTls | None = None
    guard: TokenGuard | None = None
    cors: Cors | None = None
    read_header_timeout_s: float = 60.0
    read_timeout_s: float = 60.0
    idle_timeout_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Keepalive:
    """HTTP/2 connections of the gRPC server, in milliseconds; `None` leaves gRPC's own default."""

    max_connection_idle_ms: int | None = None
    max_connection_age_ms: int | None = None
    max_connection_age_grace_ms: int | None = None
    time_ms: int | None = None
    timeout_ms: int | None = None
    min_time_ms: int | None = None
    permit_without_stream: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcSettings:
    """OTLP over gRPC. `max_concurrent_streams` is for one connection."""

    endpoint: str
    max_recv_msg_size: int
    tls: ServerTls | None = None
    guard: TokenGuard | None = None
    keepalive: Keepalive = Keepalive()
    max_concurrent_streams: int | None = None
