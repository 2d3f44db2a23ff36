"""The settings of receivers: `receivers.otlp.protocols.grpc` and `.http`, and `receivers.kafka`."""

import re
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, model_validator

from toolgauge.model.delivery import Signal
from toolgauge.net.settings import KafkaClientSettings, ListenerSettings, Topic
from toolgauge.settings import MIB, MINUTE, SECOND, Address, Count, PositiveDuration, Section, Size

_SAFE_HEADERS = ("Accept", "Content-Type", "X-Requested-With")
_MILLISECOND = 1_000_000


class Cors(Section):
    """Browsers that may send. They may remember an answer for `max_age` seconds.

    An origin has at most one `*`, which means a part without `/`; alone it means all origins. Browsers may send credentials
    from origins that are written out, without `*`: `navigator.sendBeacon` with JSON does nothing else.
    """

    allowed_origins: Annotated[
        tuple[Annotated[str, Field(pattern=r"^[^*]*\*?[^*]*$", min_length=1)], ...], Field(min_length=1)
    ]
    allowed_headers: tuple[Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+$")], ...] = ()
    max_age: Annotated[int, Field(ge=0, le=86_400)] = 0

    def allows(self, origin: str) -> bool:
        """Return whether pages of the origin may send."""
        patterns = (re.escape(pattern.lower()).replace(r"\*", "[^/]*") for pattern in self.allowed_origins)
        return "*" in self.allowed_origins or any(re.fullmatch(pattern, origin.lower()) for pattern in patterns)

    def answer_headers(self, origin: str) -> dict[str, str]:
        """Name the headers of an answer to a page that may send."""
        headers = {"Access-Control-Allow-Origin": origin, "Vary": "Origin"}
        if origin.lower() in {pattern.lower() for pattern in self.allowed_origins if "*" not in pattern}:
            headers["Access-Control-Allow-Credentials"] = "true"
        return headers

    def preflight_headers(self, origin: str) -> dict[str, str]:
        """Name the headers of the answer to the question that comes before a request."""
        headers = self.answer_headers(origin)
        headers["Access-Control-Allow-Methods"] = "POST"
        headers["Access-Control-Allow-Headers"] = ", ".join((*_SAFE_HEADERS, *self.allowed_headers))
        if self.max_age:
            headers["Access-Control-Max-Age"] = str(self.max_age)
        return headers


class ServerParameters(Section):
    """When the gRPC server ends a connection, and when it asks whether the other side is still there."""

    max_connection_idle: PositiveDuration | None = None
    max_connection_age: PositiveDuration | None = None
    max_connection_age_grace: PositiveDuration | None = None
    time: PositiveDuration | None = None
    timeout: PositiveDuration | None = None


class EnforcementPolicy(Section):
    """How often clients may ask whether we are still there."""

    min_time: PositiveDuration | None = None
    permit_without_stream: bool = False


class Keepalive(Section):
    """HTTP/2 keepalive of the gRPC server, as in the Collector; `null` leaves gRPC's own default."""

    server_parameters: ServerParameters = ServerParameters()
    enforcement_policy: EnforcementPolicy = EnforcementPolicy()

    def options(self) -> Iterator[tuple[str, int]]:
        """Yield the options of a gRPC server."""
        server, policy = self.server_parameters, self.enforcement_policy
        durations = {
            "grpc.max_connection_idle_ms": server.max_connection_idle,
            "grpc.max_connection_age_ms": server.max_connection_age,
            "grpc.max_connection_age_grace_ms": server.max_connection_age_grace,
            "grpc.keepalive_time_ms": server.time,
            "grpc.keepalive_timeout_ms": server.timeout,
            "grpc.http2.min_ping_interval_without_data_ms": policy.min_time,
        }
        for name, duration in durations.items():
            if duration is not None:
                yield name, max(1, duration // _MILLISECOND)
        if policy.permit_without_stream:
            yield "grpc.keepalive_permit_without_calls", 1


class GrpcSettings(ListenerSettings):
    """OTLP over gRPC. `max_concurrent_streams` is for one connection."""

    endpoint: Address = "localhost:4317"
    max_recv_msg_size: Annotated[Size, Field(gt=0)] = 64 * MIB
    max_concurrent_streams: Count | None = 100
    keepalive: Keepalive = Keepalive()

    @model_validator(mode="after")
    def _takes_the_versions_that_grpc_takes(self) -> "GrpcSettings":
        if self.tls is not None and self.tls.min_version != "1.2":
            raise ValueError("cannot refuse TLS 1.2 over gRPC: leave `min_version` out of its `tls`")
        return self


UrlPath = Annotated[str, Field(pattern=r"^/[!-~]*$")]


class HttpSettings(ListenerSettings):
    """OTLP over HTTP.

    `read_header_timeout` is also how long a new connection may stay silent, `idle_timeout` how long one may after
    an answer. `read_timeout` is for a body; a long one gets more, as long as its bytes keep coming.
    """

    endpoint: Address = "localhost:4318"
    max_request_body_size: Annotated[Size, Field(gt=0)] = 64 * MIB
    traces_url_path: UrlPath = "/v1/traces"
    metrics_url_path: UrlPath = "/v1/metrics"
    logs_url_path: UrlPath = "/v1/logs"
    cors: Cors | None = None
    read_header_timeout: PositiveDuration = MINUTE
    read_timeout: PositiveDuration = MINUTE
    idle_timeout: PositiveDuration = MINUTE

    @model_validator(mode="after")
    def _paths_differ(self) -> "HttpSettings":
        if len(self.paths) < 3:
            raise ValueError("has the same path for two signals")
        return self

    @property
    def paths(self) -> dict[str, Signal]:
        """The signal of each path."""
        return {self.traces_url_path: "traces", self.metrics_url_path: "metrics", self.logs_url_path: "logs"}


class ConsumedTopics(Section):
    """The topic of each signal that is read, by the Collector's default names; `null` for one that is not read."""

    traces: Topic | None = "otlp_spans"
    logs: Topic | None = "otlp_logs"


class ClosedTraces(Section):
    """The compacted topic with ids of closed traces, for the next owner of their partition; made when it is missing."""

    topic: Topic = "toolgauge_closed_traces"


class KafkaReceiverSettings(KafkaClientSettings):
    """Messages as the Collector's kafka exporter writes them with `partition_traces_by_id`, read in a consumer group.

    After `max_uncommitted` a message is committed although a trajectory that needs it is open.
    """

    topics: ConsumedTopics = ConsumedTopics()
    group_id: Annotated[str, Field(min_length=1)] = "toolgauge"
    group_instance_id: Annotated[str, Field(min_length=1)] | None = None
    initial_offset: Literal["latest", "earliest"] = "latest"
    session_timeout: Annotated[PositiveDuration, Field(ge=1_000_000_000)] = 10 * SECOND
    heartbeat_interval: Annotated[PositiveDuration, Field(ge=1_000_000)] = 3 * SECOND
    max_uncommitted: PositiveDuration = 15 * MINUTE
    closed_traces: ClosedTraces = ClosedTraces()

    @model_validator(mode="after")
    def _reads_something(self) -> "KafkaReceiverSettings":
        if not self.signals:
            raise ValueError("reads nothing: `topics.traces` and `topics.logs` are both null")
        if self.topics.traces == self.topics.logs:
            raise ValueError("has one topic for two signals")
        if self.heartbeat_interval >= self.session_timeout:
            raise ValueError("needs a `heartbeat_interval` below its `session_timeout`")
        return self

    @property
    def signals(self) -> dict[str, Signal]:
        """The signal of each topic."""
        named: dict[str | None, Signal] = {self.topics.traces: "traces", self.topics.logs: "logs"}
        return {topic: signal for topic, signal in named.items() if topic is not None}
