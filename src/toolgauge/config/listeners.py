"""What people write about whatever listens: addresses, TLS, who gets in, browsers, time limits."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from toolgauge.settings import (
    MIB,
    MINUTE,
    SECOND,
    Address,
    Count,
    FileName,
    PositiveDuration,
    Secret,
    Secrets,
    Section,
    Size,
    split_address,
)

_LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))


class ServerTlsSection(Section):
    """A server's certificate and key; with `client_ca_file` clients need a certificate of that authority."""

    cert_file: FileName
    key_file: FileName
    client_ca_file: FileName | None = None
    min_version: Literal["1.2", "1.3"] = "1.2"
    reload_interval: PositiveDuration = 10 * SECOND


class Auth(Section):
    """Who gets in: requests with `<header>: <scheme> <token>`."""

    token: Secret | None = Field(default=None, repr=False)
    tokens: Secrets = Field(default=(), repr=False)
    filename: FileName | None = None
    header: Annotated[str, Field(pattern=r"^[A-Za-z0-9-]+$")] = "Authorization"
    scheme: Annotated[str, Field(pattern=r"^[A-Za-z0-9-]*$")] = "Bearer"

    @model_validator(mode="after")
    def _has_a_token(self) -> "Auth":
        if self.token is None and not self.tokens and self.filename is None:
            raise ValueError("needs a `token`, `tokens`, or a `filename` with one token a line")
        return self


class Listener(Section):
    """Something that listens. Beyond loopback it needs `auth`, client certificates, or `insecure: true`."""

    endpoint: Address
    tls: ServerTlsSection | None = None
    auth: Auth | None = None
    insecure: bool = False

    @property
    def is_open(self) -> bool:
        """Return whether strangers on the network could use it although nobody said that they may."""
        host, _ = split_address(self.endpoint)
        guarded = self.auth is not None or (self.tls is not None and self.tls.client_ca_file is not None)
        return not (guarded or self.insecure or host.lower() in _LOOPBACK)


class CorsSection(Section):
    """Browsers that may send: origins, each with at most one `*`."""

    allowed_origins: Annotated[
        tuple[Annotated[str, Field(pattern=r"^[^*]*\*?[^*]*$", min_length=1)], ...], Field(min_length=1)
    ]
    allowed_headers: tuple[Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+$")], ...] = ()
    max_age: Annotated[int, Field(ge=0, le=86_400)] = 0


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


class KeepaliveSection(Section):
    """HTTP/2 keepalive of the gRPC server, as in the Collector."""

    server_parameters: ServerParameters = ServerParameters()
    enforcement_policy: EnforcementPolicy = EnforcementPolicy()


class GrpcListener(Listener):
    """OTLP over gRPC."""

    endpoint: Address = "localhost:4317"
    max_recv_msg_size: Annotated[Size, Field(gt=0)] = 64 * MIB
    max_concurrent_streams: Count | None = None
    keepalive: KeepaliveSection = KeepaliveSection()

    @model_validator(mode="after")
    def _takes_the_versions_that_grpc_takes(self) -> "GrpcListener":
        if self.tls is not None and self.tls.min_version != "1.2":
            raise ValueError("cannot keep gRPC from TLS 1.2: leave `min_version` out of its `tls`")
        return self


UrlPath = Annotated[str, Field(pattern=r"^/[!-~]*$")]


class HttpListener(Listener):
    """OTLP over HTTP."""

    endpoint: Address = "localhost:4318"
    max_request_body_size: Annotated[Size, Field(gt=0)] = 64 * MIB
    traces_url_path: UrlPath = "/v1/traces"
    metrics_url_path: UrlPath = "/v1/metrics"
    logs_url_path: UrlPath = "/v1/logs"
    cors: CorsSection | None = None
    read_header_timeout: PositiveDuration = MINUTE
    read_timeout: PositiveDuration = MINUTE
    idle_timeout: PositiveDuration = MINUTE

    @model_validator(mode="after")
    def _paths_differ(self) -> "HttpListener":
        if len({self.traces_url_path, self.metrics_url_path, self.logs_url_path}) < 3:
            raise ValueError("has one path for two signals")
        return self
