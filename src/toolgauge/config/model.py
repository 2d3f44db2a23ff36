"""The whole configuration, key for key as people write it, with its defaults.

Durations are integer nanoseconds and sizes bytes once they are here. A section left empty (`grpc:`) has its
defaults, as in the Collector; under `exporters`, null means none. Keys whose function does not exist are
listed in `checks.py`, so that setting one is an error rather than a wish.
"""

from typing import Annotated, Literal

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    InstanceOf,
    PlainSerializer,
    model_validator,
)

from toolgauge.config.fields import Address, Headers, NotYet, Url
from toolgauge.config.judge import JudgeSection
from toolgauge.config.listeners import GrpcListener, HttpListener, Listener
from toolgauge.config.nodes import Node, Place, nearest, plain, written
from toolgauge.config.section import Section
from toolgauge.config.units import Count, Duration, PositiveDuration, Size
from toolgauge.model.delivery import Signal

_SECOND = 1_000_000_000
_MINUTE = 60 * _SECOND
_HOUR = 60 * _MINUTE
_MIB = 2**20


class Protocols(Section):
    """Transports of the OTLP receiver."""

    grpc: GrpcListener = GrpcListener()
    http: HttpListener = HttpListener()


class OtlpReceiver(Section):
    """The OTLP receiver."""

    protocols: Protocols = Protocols()


class Receivers(Section):
    """Ways in."""

    otlp: OtlpReceiver = OtlpReceiver()


class Retry(Section):
    """Exponential backoff with jitter. `max_elapsed_time` 0 means for ever."""

    initial_interval: PositiveDuration = 5 * _SECOND
    multiplier: Annotated[float, Field(ge=1, le=100)] = 1.5
    randomization_factor: Annotated[float, Field(ge=0, le=1)] = 0.5
    max_interval: PositiveDuration = 30 * _SECOND
    max_elapsed_time: Duration = 300 * _SECOND


class Queue(Section):
    """What waits to be sent."""

    max_bytes: Annotated[Size, Field(gt=0)] = 64 * _MIB


def _protocol(value: object) -> object:
    return "http" if value == "http/protobuf" else value


class OtlpExporter(Section):
    """One destination. For HTTP, `endpoint` is the base URL; the form with a signal is used as it is."""

    endpoint: Url | None = None
    traces_endpoint: Url | None = None
    protocol: Annotated[Literal["grpc", "http"], BeforeValidator(_protocol)] = "grpc"
    compression: Literal["gzip", "none"] = "gzip"
    headers: Headers = Field(default_factory=dict[str, str], repr=False)
    tls: NotYet = Field(default=None, repr=False)
    timeout: PositiveDuration = 10 * _SECOND
    retry: Retry = Retry()
    queue: Queue = Queue()

    @model_validator(mode="after")
    def _has_an_endpoint(self) -> "OtlpExporter":
        if self.endpoint is None and self.traces_endpoint is None:
            raise ValueError("needs an `endpoint`, such as `localhost:4317`")
        if self.protocol == "grpc" and self.traces_endpoint is not None:
            raise ValueError("has `traces_endpoint`, which is for `protocol: http` only")
        if self.protocol == "http" and any("://" not in url for url in (self.endpoint, self.traces_endpoint) if url):
            raise ValueError("needs URLs for `protocol: http`, such as `http://localhost:4318`")
        return self

    def url(self, signal: Signal) -> str | None:
        """Tell where a signal goes: the whole URL for HTTP, the target for gRPC; `None` when nowhere."""
        if self.protocol == "grpc":
            return self.endpoint
        if signal == "traces" and self.traces_endpoint is not None:
            return self.traces_endpoint
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


class Prometheus(Listener):
    """The scrape endpoint: score metrics and our own."""

    endpoint: Address = "localhost:9464"


class Exporters(Section):
    """Ways out. `otlp` holds no destination by default; `prometheus: null` opens no port."""

    otlp: Destinations = ()
    prometheus: Prometheus | None = Prometheus()


class Defaults(Section):
    """The criteria that need no reference."""

    enabled: bool = True


class Tools(Section):
    """Globs of tool names; null leaves the decision to the built-in list of reading verbs."""

    read_only: tuple[str, ...] | None = None
    writes: tuple[str, ...] | None = None


class LateMemory(Section):
    """How many closed traces are remembered, and for how long, so that late spans are known as such."""

    model_config = ConfigDict(serialize_by_alias=True)

    traces: Count = 100_000
    for_: Annotated[PositiveDuration, Field(alias="for")] = 10 * _MINUTE


class Assemble(Section):
    """When a trajectory closes, and how many may be open."""

    run_end_grace: Duration = 6 * _SECOND
    idle_timeout: PositiveDuration = 30 * _SECOND
    open_idle_timeout: PositiveDuration = 15 * _MINUTE
    conversation_idle_timeout: PositiveDuration = 10 * _MINUTE
    max_duration: PositiveDuration = 4 * _HOUR
    max_open: Count = 20_000
    max_open_bytes: Annotated[Size, Field(gt=0)] = 256 * _MIB
    max_content_bytes: Size = 1 * _MIB
    late_memory: LateMemory = LateMemory()


class Hold(Section):
    """How long spans may wait for their scores."""

    timeout: Duration = 30 * _SECOND
    max_bytes: Size = 64 * _MIB


class Metrics(Section):
    """Bounds on label values, and how often metrics are pushed."""

    max_services: Count = 50
    max_agents: Count = 50
    max_tools: Count = 200
    max_label_sets: Count = 2000
    interval: PositiveDuration = 15 * _SECOND


class Redact(Section):
    """What of a span's values may be shown in events and scorecards."""

    values: Literal["hide", "show"] = "hide"
    patterns: tuple[str, ...] = ("default",)


class Watch(Section):
    """Detection of regressions."""

    enabled: bool = True
    false_alarms_per_week: Annotated[float, Field(gt=0)] = 1


class Web(Section):
    """The web view."""

    endpoint: Address = "localhost:8317"


class Admin(Listener):
    """Health."""

    endpoint: Address = "localhost:13133"


class State(Section):
    """What outlives the process."""

    directory: str | None = None


class Memory(Section):
    """Bound on the memory of the process."""

    limit: Annotated[Size, Field(gt=0)] = 512 * _MIB


class Log(Section):
    """Our own log, on stderr."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["text", "json"] = "text"


def _criterion_node(value: object) -> object:
    return value if isinstance(value, Node) else written(value, Place("criteria"))


def _as_written(node: Node) -> object:
    """Write a criterion so that it can be read from anywhere: its reference file by its whole path."""
    values = plain(node)
    reference = values.get("reference") if isinstance(values, dict) else None
    file = reference.get("file") if isinstance(reference, dict) else None
    if isinstance(values, dict) and isinstance(reference, dict) and isinstance(file, str):
        path = nearest(node, ("reference", "file")).place.directory / file
        return {**values, "reference": {**reference, "file": str(path.absolute())}}
    return values


# Kept as written, with their places, until `criteria.py` reads them together with those from files.
CriterionNode = Annotated[
    InstanceOf[Node], BeforeValidator(_criterion_node), PlainSerializer(_as_written, when_used="json")
]


class Config(Section):
    """The configuration of one process."""

    receivers: Receivers = Receivers()
    exporters: Exporters = Exporters()
    criteria: tuple[CriterionNode, ...] = ()
    criteria_files: tuple[str, ...] = ()
    defaults: Defaults = Defaults()
    tools: Tools = Tools()
    assemble: Assemble = Assemble()
    annotate: Literal["both", "hold", "scorecard", "off"] = "both"
    hold: Hold = Hold()
    events: Literal["scored", "failed", "all"] = "scored"
    metrics: Metrics = Metrics()
    redact: Redact = Redact()
    watch: Watch = Watch()
    judge: JudgeSection | None = None
    web: Web = Web()
    admin: Admin = Admin()
    state: State = State()
    memory: Memory = Memory()
    log: Log = Log()
