"""How the receivers behave, in plain types; `build` makes these from the configuration."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from toolgauge.model.delivery import Signal
from toolgauge.net.auth import TokenGuard
from toolgauge.net.tls import ServerTls

_SAFE_HEADERS = ("Accept", "Content-Type", "X-Requested-With")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cors:
    """Who may send from a page. An origin may hold one `*`; `max_age_s` is how long a browser may remember the answer."""

    allowed_origins: Sequence[str]
    allowed_headers: Sequence[str] = ()
    max_age_s: int = 0

    def allows(self, origin: str) -> bool:
        """Return whether pages of the origin may send."""
        return any(_matches(pattern.lower(), origin.lower()) for pattern in self.allowed_origins)

    def answer_headers(self, origin: str) -> dict[str, str]:
        """Name the headers of an answer to a page that may send."""
        return {"Access-Control-Allow-Origin": origin, "Vary": "Origin"}

    def preflight_headers(self, origin: str) -> dict[str, str]:
        """Name the headers of the answer to the question that comes before a request."""
        headers = self.answer_headers(origin)
        headers["Access-Control-Allow-Methods"] = "POST"
        headers["Access-Control-Allow-Headers"] = ", ".join((*_SAFE_HEADERS, *self.allowed_headers))
        if self.max_age_s:
            headers["Access-Control-Max-Age"] = str(self.max_age_s)
        return headers


def _matches(pattern: str, origin: str) -> bool:
    start, star, end = pattern.partition("*")
    if not star:
        return pattern == origin
    return len(origin) >= len(start) + len(end) and origin.startswith(start) and origin.endswith(end)


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
