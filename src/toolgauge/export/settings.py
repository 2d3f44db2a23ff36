"""The configuration sections for exports: `exporters.*`, `metrics`, `redact`, `events`, `annotate`."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias, TypeVar
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    PlainSerializer,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import CoreSchema

from toolgauge.export.recording_file import recording_ending
from toolgauge.model.delivery import OtlpSignal
from toolgauge.model.errors import ConfigError
from toolgauge.model.observations import RunProperty
from toolgauge.model.records import ENVIRONMENT, VERSION
from toolgauge.net.settings import ClientTls, KafkaClientSettings, ListenerSettings, Topic
from toolgauge.settings import (
    MIB,
    MINUTE,
    REDACTED,
    SECOND,
    Address,
    Count,
    Duration,
    FileName,
    Headers,
    PositiveDuration,
    Section,
    Size,
    Url,
)

EventsMode: TypeAlias = Literal["scored", "failed", "all"]
# Attribute names that stay different from each other in Prometheus, where all but letters and digits is an underscore.
AttributeKey: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_./-]{0,127}$")]
MAX_ATTRIBUTES = 8
_TAKEN_LABELS = (
    "le job instance toolgauge_service gen_ai_agent_name gen_ai_tool_name gen_ai_evaluation_name error_type "
    "toolgauge_criterion_revision toolgauge_level toolgauge_enforce toolgauge_outcome toolgauge_not_evaluated_reason "
    "toolgauge_state"
)
AnnotateMode: TypeAlias = Literal["both", "hold", "scorecard", "off"]
AnnotateForm: TypeAlias = Literal["toolgauge", "openinference"]
Transport: TypeAlias = Literal["grpc", "http"]
Compression: TypeAlias = Literal["gzip", "none"]
DestinationName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_./-]{1,64}$")]
SIGNALS: tuple[OtlpSignal, ...] = ("traces", "metrics", "logs")


# Binary headers (`-bin`) would need bytes, and `grpc-` belongs to the protocol.
_HEADER_NAME = re.compile(r"(?!grpc-)[a-z0-9_.-]+(?<!-bin)")


def _with_ours(forms: tuple[AnnotateForm, ...]) -> tuple[AnnotateForm, ...]:
    if "toolgauge" not in forms:
        raise ValueError("must contain `toolgauge`; `openinference` is added to it")
    return forms


AnnotateForms = Annotated[tuple[AnnotateForm, ...], AfterValidator(_with_ours)]


def _label(key: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_]+", "_", key)


class MetricsSettings(Section):
    """Labels and bounds on their values, and how often metrics are pushed.

    `resource_attributes` of the producers are labels of scores, evaluations and tool calls, and attributes of events and
    scorecards. `run_attributes` are labels of the same metrics: properties of a run, such as its model.
    """

    resource_attributes: Annotated[tuple[AttributeKey, ...], Field(max_length=MAX_ATTRIBUTES)] = (
        VERSION,
        ENVIRONMENT,
    )
    run_attributes: Annotated[tuple[RunProperty, ...], Field(max_length=MAX_ATTRIBUTES)] = ()
    max_services: Count = 50
    max_agents: Count = 50
    max_tools: Count = 200
    max_label_sets: Count = 2000
    interval: PositiveDuration = 15 * SECOND

    @field_validator("resource_attributes", "run_attributes")
    @classmethod
    def _are_labels_of_their_own(cls, keys: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        earlier: tuple[str, ...] = info.data.get("resource_attributes", ())
        taken = {*_TAKEN_LABELS.split(), *map(_label, earlier)}
        for key in keys:
            label = _label(key)
            if label in taken:
                raise ValueError(f"has `{key}`, which Prometheus would call `{label}` as it calls another label")
            taken.add(label)
        return keys


class LabelQueue(Section):
    """Runs for people to label: a `share` of the runs that the first fitting entry takes, in the backend `to`.

    `queue` is the id of an annotation queue there; without one the run is only marked. `criteria` (globs) decide what failed.
    """

    to: DestinationName
    queue: Annotated[str, Field(min_length=1)] | None = None
    when: Literal["failed", "uncertain", "all"] = "failed"
    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    criteria: tuple[Annotated[str, Field(min_length=1)], ...] = ()


class RedactSettings(Section):
    """Which values of spans are shown in events and scorecards."""

    values: Literal["hide", "show"] = "hide"
    patterns: tuple[str, ...] = ("default",)


class PrometheusSettings(ListenerSettings):
    """The scrape endpoint: score metrics and our own."""

    endpoint: Address = "localhost:9464"


class FileSettings(Section):
    """What arrives, as a recording. A file of `max_bytes` is moved aside for the next one, and so is one at the start.

    Of the files that were moved aside, the newest `max_backups` are kept.
    """

    path: FileName
    max_bytes: Annotated[Size, Field(gt=0)] = 256 * MIB
    max_backups: Annotated[int, Field(ge=0)] = 9

    @field_validator("path")
    @classmethod
    def _is_the_name_of_a_recording(cls, path: str) -> str:
        recording_ending(path)
        return path


class RetrySettings(Section):
    """Exponential backoff with jitter. `max_elapsed_time` counts from the first attempt; 0 means for ever."""

    initial_interval: PositiveDuration = 5 * SECOND
    multiplier: Annotated[float, Field(ge=1, le=100)] = 1.5
    randomization_factor: Annotated[float, Field(ge=0, le=1)] = 0.5
    max_interval: PositiveDuration = 30 * SECOND
    max_elapsed_time: Duration = 300 * SECOND


class QueueSettings(Section):
    """What waits to be sent; `num_consumers` requests are on their way at a time."""

    max_bytes: Annotated[Size, Field(gt=0)] = 64 * MIB
    num_consumers: Annotated[Count, Field(le=1000)] = 10


Share = Annotated[float, Field(ge=0, le=1)]


class SlowSettings(Section):
    """Runs that took longer than `over`."""

    over: PositiveDuration
    share: Share = 1.0


class KeepSettings(Section):
    """Which traces go to a destination: of the rules that a trace meets, the largest share counts.

    A trace waits for its results, for `wait` at most; once `max_bytes` wait, new requests are sent unsampled. `scorecards` selects
    the traces whose scorecards, events and scores go out.
    """

    failed: Share = 1.0
    error: Share = 1.0
    slow: SlowSettings | None = None
    first_of: tuple[Literal["tool", "version"], ...] = ()
    passed: Share
    not_agent: Share = 1.0
    scorecards: Literal["kept", "all"] = "kept"
    wait: PositiveDuration = 10 * MINUTE
    max_bytes: Annotated[Size, Field(gt=0)] = 64 * MIB


def _protocol(value: object) -> object:
    return "http" if value == "http/protobuf" else value


class DestinationSettings(Section):
    """One OTLP destination, an entry of `exporters.otlp`.

    `endpoint` is `host:port` or a URL, whose scheme decides about TLS before `tls` does. For HTTP it is the base URL; the
    forms with a signal are used as they are. `max_request_size` is before compression; larger requests are dropped and counted.
    """

    name: DestinationName | None = None
    endpoint: Url | None = None
    traces_endpoint: Url | None = None
    metrics_endpoint: Url | None = None
    logs_endpoint: Url | None = None
    signals: Annotated[tuple[OtlpSignal, ...], Field(min_length=1)] = SIGNALS
    protocol: Annotated[
        Transport, BeforeValidator(_protocol, json_schema_input_type=Literal["grpc", "http", "http/protobuf"])
    ] = "grpc"
    compression: Compression = "gzip"
    headers: Headers = Field(default_factory=dict[str, str], repr=False)
    tls: ClientTls | None = None
    timeout: PositiveDuration = 10 * SECOND
    retry: RetrySettings = RetrySettings()
    queue: QueueSettings = QueueSettings()
    max_request_size: Annotated[Size, Field(gt=0)] = 128 * MIB
    keep: KeepSettings | None = None

    @model_validator(mode="after")
    def _keeps_traces(self) -> "DestinationSettings":
        if self.keep is not None and "traces" not in self.signals:
            raise ValueError("has `keep`, which is for traces, and `signals` without `traces`")
        return self

    @model_validator(mode="after")
    def _has_an_endpoint(self) -> "DestinationSettings":
        if self.endpoint is None and not self.signal_endpoints:
            raise ValueError("needs an `endpoint`, such as `localhost:4317`")
        if self.protocol == "grpc" and self.signal_endpoints:
            key = f"{next(iter(self.signal_endpoints))}_endpoint"
            raise ValueError(f"has `{key}`, which is for `protocol: http` only")
        if self.protocol == "http" and any("://" not in url for url in self.endpoints):
            raise ValueError("needs URLs for `protocol: http`, such as `http://localhost:4318`")
        return self

    @model_validator(mode="after")
    def _transport_can_do_it(self) -> "DestinationSettings":
        if self.protocol == "grpc" and self.tls is not None:
            if self.tls.insecure_skip_verify:
                raise ValueError("needs `protocol: http` to skip verification; with `grpc`, set `tls.ca_file` instead")
            if self.tls.min_version != "1.2":
                raise ValueError("needs `protocol: http` for a `tls.min_version` above 1.2")
        return self

    @property
    def signal_endpoints(self) -> dict[OtlpSignal, str]:
        """Whole URLs by signal, where given."""
        urls: dict[OtlpSignal, str | None] = {
            "traces": self.traces_endpoint,
            "metrics": self.metrics_endpoint,
            "logs": self.logs_endpoint,
        }
        return {signal: url for signal, url in urls.items() if url is not None}

    @property
    def endpoints(self) -> tuple[str, ...]:
        """Every address that it sends to."""
        return (*(() if self.endpoint is None else (self.endpoint,)), *self.signal_endpoints.values())

    @property
    def client_tls(self) -> ClientTls | None:
        """How TLS is spoken; `None` for plain text."""
        return None if self.tls is None or self.tls.insecure else self.tls

    def url(self, signal: OtlpSignal) -> str | None:
        """Return the whole URL of a signal for HTTP, the target for gRPC; `None` when the signal is not sent here."""
        if signal not in self.signals:
            return None
        if self.protocol == "grpc":
            return self.endpoint
        whole = self.signal_endpoints.get(signal)
        if whole is not None:
            return whole
        return None if self.endpoint is None else f"{self.endpoint.rstrip('/')}/v1/{signal}"


KafkaCompression: TypeAlias = Literal["none", "gzip", "snappy", "lz4", "zstd"]


class KafkaProducerSettings(Section):
    """How messages are written. `max_message_bytes` is before compression: larger traces are divided between their spans."""

    max_message_bytes: Annotated[Size, Field(gt=0, le=1_000_000_000)] = 1_000_000
    compression: KafkaCompression = "none"


class KafkaTopics(Section):
    """The topic of each signal, by the Collector's default names."""

    traces: Topic = "otlp_spans"
    metrics: Topic = "otlp_metrics"
    logs: Topic = "otlp_logs"


class KafkaExporterSettings(KafkaClientSettings):
    """Messages as the Collector's kafka exporter writes them with `partition_traces_by_id`: one a trace and request."""

    signals: Annotated[tuple[OtlpSignal, ...], Field(min_length=1)] = SIGNALS
    topics: KafkaTopics = KafkaTopics()
    producer: KafkaProducerSettings = KafkaProducerSettings()
    timeout: PositiveDuration = 10 * SECOND
    retry: RetrySettings = RetrySettings()
    queue: QueueSettings = QueueSettings()

    @property
    def as_destination(self) -> DestinationSettings:
        """The settings of its queue and retries. Not validated: brokers are not endpoints of OTLP."""
        return DestinationSettings.model_construct(
            name="kafka",
            endpoint=", ".join(self.brokers),
            signals=self.signals,
            tls=self.tls,
            timeout=self.timeout,
            retry=self.retry,
            queue=self.queue,
        )


def _redacted_path(url: str) -> str:
    """Show the host, and hide the rest: many services ask for no secret but the path."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/{REDACTED}"


class WebhookSettings(Section):
    """Where regressions are announced, and runs that fail one of the criteria `notify`, an entry of `exporters.webhook`.

    JSON is posted when an incident begins, when it changes, and when it ends.
    """

    name: DestinationName | None = None
    url: Annotated[Url, PlainSerializer(_redacted_path, when_used="json")] = Field(repr=False)
    # Names and globs; without them the criteria with `notify: true`.
    notify: tuple[str, ...] | None = None
    headers: Headers = Field(default_factory=dict[str, str], repr=False)
    tls: ClientTls | None = None
    timeout: PositiveDuration = 10 * SECOND
    retry: RetrySettings = RetrySettings()

    @model_validator(mode="after")
    def _has_a_scheme(self) -> "WebhookSettings":
        if "://" not in self.url:
            raise ValueError("needs a URL, such as `https://chat.example/hook`")
        return self

    @property
    def client_tls(self) -> ClientTls | None:
        """How TLS is spoken where the URL asks for it; `None` with the usual authorities."""
        return None if self.tls is None or self.tls.insecure else self.tls


def checked_headers(headers: Mapping[str, str], destination: str) -> Iterator[tuple[str, str]]:
    """Check headers that would fail with every request. Values may be secret and are not shown."""
    for key, value in headers.items():
        if not _HEADER_NAME.fullmatch(key.lower()):
            raise ConfigError(f"header `{key}` of destination `{destination}` is no legal header name")
        if not (value.isascii() and value.isprintable()):
            raise ConfigError(
                f"the value of header `{key}` of destination `{destination}` holds characters a header cannot carry",
                hint="use printable ASCII",
            )
        yield key.lower(), value


class _OneOrMore:
    """Adds one section alone, and null, to the JSON Schema of a list."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        several = handler(schema)
        return {"anyOf": [several["items"], several, {"type": "null"}]}


def _as_list(value: object) -> object:
    if value is None:
        return ()
    return value if isinstance(value, list | tuple) else (value,)  # pyright: ignore[reportUnknownVariableType]


def _as_written(value: Sequence[Section]) -> object:
    dumped = [exporter.model_dump(mode="json") for exporter in value]
    return dumped if len(dumped) > 1 else dumped[0] if dumped else None


_Section = TypeVar("_Section", bound=Section)
# Written as one section, a list of sections, or null for none.
OneOrMore: TypeAlias = Annotated[
    tuple[_Section, ...], BeforeValidator(_as_list), PlainSerializer(_as_written, when_used="json"), _OneOrMore()
]
