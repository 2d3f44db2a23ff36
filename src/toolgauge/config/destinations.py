"""What people write about where things are sent: addresses, TLS, retries, queues."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from toolgauge.model.delivery import Signal
from toolgauge.settings import MIB, SECOND, Count, Duration, FileName, Headers, PositiveDuration, Section, Size, Url

SIGNALS: tuple[Signal, ...] = ("traces", "metrics", "logs")


class Retry(Section):
    """Exponential backoff with jitter. `max_elapsed_time` 0 means for ever."""

    initial_interval: PositiveDuration = 5 * SECOND
    multiplier: Annotated[float, Field(ge=1, le=100)] = 1.5
    randomization_factor: Annotated[float, Field(ge=0, le=1)] = 0.5
    max_interval: PositiveDuration = 30 * SECOND
    max_elapsed_time: Duration = 300 * SECOND


class Queue(Section):
    """What waits to be sent; `num_consumers` requests are on their way at a time."""

    max_bytes: Annotated[Size, Field(gt=0)] = 64 * MIB
    num_consumers: Annotated[Count, Field(le=1000)] = 10


class ClientTlsSection(Section):
    """TLS to a destination, with the Collector's names. `insecure: true` is plain text."""

    insecure: bool = False
    insecure_skip_verify: bool = False
    ca_file: FileName | None = None
    cert_file: FileName | None = None
    key_file: FileName | None = None
    server_name_override: Annotated[str, Field(min_length=1)] | None = None
    min_version: Literal["1.2", "1.3"] = "1.2"
    reload_interval: PositiveDuration = 10 * SECOND

    @model_validator(mode="after")
    def _key_belongs_to_certificate(self) -> "ClientTlsSection":
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("needs `cert_file` and `key_file` together")
        return self


def _protocol(value: object) -> object:
    return "http" if value == "http/protobuf" else value


class OtlpExporter(Section):
    """One destination. For HTTP, `endpoint` is the base URL; the forms with a signal are used as they are."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_./-]{1,64}$")] | None = None
    endpoint: Url | None = None
    traces_endpoint: Url | None = None
    metrics_endpoint: Url | None = None
    logs_endpoint: Url | None = None
    signals: Annotated[tuple[Signal, ...], Field(min_length=1)] = SIGNALS
    protocol: Annotated[Literal["grpc", "http"], BeforeValidator(_protocol)] = "grpc"
    compression: Literal["gzip", "none"] = "gzip"
    headers: Headers = Field(default_factory=dict[str, str], repr=False)
    tls: ClientTlsSection | None = None
    timeout: PositiveDuration = 10 * SECOND
    retry: Retry = Retry()
    queue: Queue = Queue()
    max_request_size: Annotated[Size, Field(gt=0)] = 128 * MIB

    @model_validator(mode="after")
    def _has_an_endpoint(self) -> "OtlpExporter":
        if self.endpoint is None and not self.signal_endpoints:
            raise ValueError("needs an `endpoint`, such as `localhost:4317`")
        if self.protocol == "grpc" and self.signal_endpoints:
            key = f"{next(iter(self.signal_endpoints))}_endpoint"
            raise ValueError(f"has `{key}`, which is for `protocol: http` only")
        if self.protocol == "http" and any("://" not in url for url in self.endpoints):
            raise ValueError("needs URLs for `protocol: http`, such as `http://localhost:4318`")
        return self

    @model_validator(mode="after")
    def _transport_can_do_it(self) -> "OtlpExporter":
        if self.protocol == "grpc" and self.tls is not None:
            if self.tls.insecure_skip_verify:
                raise ValueError("cannot skip verification with `protocol: grpc`; name the authority in `tls.ca_file`")
            if self.tls.min_version != "1.2":
                raise ValueError("cannot be kept from TLS 1.2 with `protocol: grpc`")
        return self

    @property
    def signal_endpoints(self) -> dict[Signal, str]:
        """Whole URLs by signal, where given."""
        urls: dict[Signal, str | None] = {
            "traces": self.traces_endpoint,
            "metrics": self.metrics_endpoint,
            "logs": self.logs_endpoint,
        }
        return {signal: url for signal, url in urls.items() if url is not None}

    @property
    def endpoints(self) -> tuple[str, ...]:
        """Every address that it sends to."""
        return (*(() if self.endpoint is None else (self.endpoint,)), *self.signal_endpoints.values())

    def url(self, signal: Signal) -> str | None:
        """Tell where a signal goes: the whole URL for HTTP, the target for gRPC; `None` when nowhere."""
        if signal not in self.signals:
            return None
        if self.protocol == "grpc":
            return self.endpoint
        whole = self.signal_endpoints.get(signal)
        if whole is not None:
            return whole
        return None if self.endpoint is None else f"{self.endpoint.rstrip('/')}/v1/{signal}"


def _destinations(value: object) -> object:
    match value:
        case None:
            return ()
        case list() | tuple():
            return value  # pyright: ignore[reportUnknownVariableType]
        case one:
            return (one,)


def _as_people_write(value: tuple[OtlpExporter, ...]) -> object:
    dumped = [exporter.model_dump(mode="json") for exporter in value]
    return dumped if len(dumped) > 1 else dumped[0] if dumped else None


Destinations = Annotated[
    tuple[OtlpExporter, ...],
    BeforeValidator(_destinations),
    PlainSerializer(_as_people_write, when_used="json"),
]
