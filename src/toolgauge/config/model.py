"""The whole configuration, key for key as people write it, with its defaults.

Durations are nanoseconds and sizes bytes. An empty section (`grpc:`) has its defaults; under `exporters`, null means none.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Annotated, Any, Literal, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    InstanceOf,
    PlainSerializer,
    create_model,
    model_validator,
)

from toolgauge import plugins
from toolgauge.assemble.settings import AssembleSettings
from toolgauge.backends.settings import (
    VENDORS,
    BackendSettings,
    DatadogSettings,
    LangfuseSettings,
    LangsmithSettings,
    MlflowSettings,
    OpikSettings,
    PhoenixSettings,
    named_backends,
)
from toolgauge.config.problems import Node, Place, nearest, plain, written
from toolgauge.export.run_usage import CostSettings
from toolgauge.export.settings import (
    AnnotateForms,
    AnnotateMode,
    DestinationSettings,
    EventsMode,
    FileSettings,
    KafkaExporterSettings,
    LabelQueue,
    MetricsSettings,
    OneOrMore,
    PrometheusSettings,
    RedactSettings,
    WebhookSettings,
)
from toolgauge.judge.settings import JudgeSettings
from toolgauge.model.errors import ConfigError
from toolgauge.model.trajectory import TrajectoryScope
from toolgauge.net.settings import ListenerSettings
from toolgauge.receive.settings import GrpcSettings, HttpSettings, KafkaReceiverSettings
from toolgauge.recognize.mapped_dialect import MappedDialectSettings
from toolgauge.score.contracts import MAX_CONTRACTS, MAX_NAME, Contract
from toolgauge.score.patterns import Globs
from toolgauge.settings import MIB, MINUTE, SECOND, Address, Duration, PositiveDuration, Section, Size, TraceUrl
from toolgauge.state.settings import StateSettings
from toolgauge.watch.settings import WatchSettings

_DIALECT_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


class Protocols(Section):
    """Transports of the OTLP receiver."""

    grpc: GrpcSettings = GrpcSettings()
    http: HttpSettings = HttpSettings()


class OtlpReceiver(Section):
    """The OTLP receiver."""

    protocols: Protocols = Protocols()


class Receivers(Section):
    """Ways in."""

    otlp: OtlpReceiver = OtlpReceiver()
    kafka: KafkaReceiverSettings | None = None


class Exporters(Section):
    """Ways out. None but `prometheus` is open by default; `prometheus: null` opens no port."""

    file: FileSettings | None = None
    otlp: OneOrMore[DestinationSettings] = ()
    kafka: KafkaExporterSettings | None = None
    webhook: OneOrMore[WebhookSettings] = ()
    phoenix: OneOrMore[PhoenixSettings] = ()
    langfuse: OneOrMore[LangfuseSettings] = ()
    mlflow: OneOrMore[MlflowSettings] = ()
    langsmith: OneOrMore[LangsmithSettings] = ()
    opik: OneOrMore[OpikSettings] = ()
    datadog: OneOrMore[DatadogSettings] = ()
    prometheus: PrometheusSettings | None = PrometheusSettings()


def _default_criterion(value: object) -> object:
    if isinstance(value, bool | Node):
        return value
    if not isinstance(value, dict):
        raise ValueError("must be true, false, or a mapping of what its criterion sets")
    return written(cast("object", value), Place("criteria"))  # narrowed from object, whose entries have no type


# On, off, or on with settings; kept as written until `criteria.py` reads it.
DefaultCriterion = Annotated[
    bool | InstanceOf[Node],
    BeforeValidator(_default_criterion, json_schema_input_type=bool | dict[str, Any]),
    PlainSerializer(lambda setting: plain(setting) if isinstance(setting, Node) else setting, when_used="json"),
]


class Defaults(Section):
    """The criteria that need no reference, each by its evaluator."""

    enabled: bool = True
    scope: TrajectoryScope = "trace"
    run_completed: DefaultCriterion = True
    tool_success: DefaultCriterion = True
    tool_contract: DefaultCriterion = True
    known_tool: DefaultCriterion = True
    arguments_schema: DefaultCriterion = True
    grounded_arguments: DefaultCriterion = True
    one_effect: DefaultCriterion = True
    grounded_answer: DefaultCriterion = True
    repeated_calls: DefaultCriterion = True
    error_handling: DefaultCriterion = True
    honest_answer: DefaultCriterion = True
    tool_use: DefaultCriterion = True
    coverage: DefaultCriterion = True


def _tool_names(contracts: dict[str, Contract]) -> dict[str, Contract]:
    try:
        Globs([*contracts])
    except ConfigError as error:
        raise ValueError(f"has names that are too long ({error.message[:100]})") from error
    return contracts


_ContractMap = dict[str, Contract]
# By names and globs of tools; files of contracts are read in `load.py`.
Contracts = Annotated[
    dict[Annotated[str, Field(min_length=1, max_length=MAX_NAME)], Contract],
    BeforeValidator(
        lambda written: {} if written is None else written,
        json_schema_input_type=_ContractMap | str | tuple[str | _ContractMap, ...],
    ),
    AfterValidator(_tool_names),
    Field(max_length=MAX_CONTRACTS),
]


class ErrorPolicy(Section):
    """Which errors of parts count as unwell, with the Collector's names; recoverable ones after a while only."""

    include_permanent_errors: bool = False
    include_recoverable_errors: bool = False
    recovery_duration: PositiveDuration = MINUTE


class Admin(ListenerSettings):
    """Health, and the API about regressions."""

    endpoint: Address = "localhost:13133"
    component_health: ErrorPolicy = ErrorPolicy()


class Web(ListenerSettings):
    """The web view: its address, and the bounds on the trajectories that it keeps."""

    endpoint: Address = "localhost:8317"
    max_trajectories: Annotated[int, Field(gt=0)] = 500
    max_bytes: Annotated[Size, Field(gt=0)] = 32 * MIB


class InboxSettings(Section):
    """Requests that are acknowledged and not yet read."""

    max_bytes: Annotated[Size, Field(gt=0)] = 64 * MIB


class HoldSettings(Section):
    """How long spans may wait for their scores, and their bytes at most."""

    timeout: Duration = 30 * SECOND
    max_bytes: Size = 64 * MIB


class Memory(Section):
    """Bound on the memory of the process."""

    limit: Annotated[Size, Field(gt=0)] = 512 * MIB

    def limit_of(self, workers: int) -> int:
        """Return the limit for all workers together: the default has 128 MiB more for each worker beyond the first."""
        return self.limit if "limit" in self.model_fields_set else self.limit + (workers - 1) * 128 * MIB


class FeedbackSettings(Section):
    """Verdicts of people: how often they are read from the backends in `exporters`; null for never."""

    pull: Annotated[PositiveDuration, Field(ge=10 * SECOND)] | None = None


class Log(Section):
    """Our own log, on stderr."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["text", "json"] = "text"


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
    InstanceOf[Node],
    BeforeValidator(
        lambda value: value if isinstance(value, Node) else written(value, Place("criteria")),
        json_schema_input_type=dict[str, Any],
    ),
    PlainSerializer(_as_written, when_used="json"),
]


def _well_named(dialects: dict[str, MappedDialectSettings]) -> dict[str, MappedDialectSettings]:
    for name in dialects:
        if not _DIALECT_NAME.fullmatch(name):
            raise ValueError(
                f"`{name}` is no name of a dialect; write one in small letters, digits and `_`, like `my_framework`"
            )
        if name in plugins.names(plugins.DIALECTS):
            raise ValueError(f"`{name}` is an installed dialect; take another name")
    return dialects


class Config(Section):
    """The configuration of one `toolgauge serve`."""

    workers: Annotated[int, Field(ge=1, le=256)] | Literal["auto"] = 1
    receivers: Receivers = Receivers()
    inbox: InboxSettings = InboxSettings()
    exporters: Exporters = Exporters()
    criteria: tuple[CriterionNode, ...] = ()
    criteria_files: tuple[str, ...] = ()
    defaults: Defaults = Defaults()
    tools: Contracts = Field(default_factory=dict[str, Contract])
    # Globs of files with definitions of tools, for traffic that does not show what was on offer.
    tool_definitions: tuple[str, ...] = ()
    dialects: Annotated[dict[str, MappedDialectSettings], AfterValidator(_well_named)] = Field(default_factory=dict)
    assemble: AssembleSettings = AssembleSettings()
    annotate: AnnotateMode = "both"
    annotate_form: AnnotateForms = ("toolgauge",)
    hold: HoldSettings = HoldSettings()
    events: EventsMode = "failed"
    metrics: MetricsSettings = MetricsSettings()
    costs: CostSettings = CostSettings()
    redact: RedactSettings = RedactSettings()
    watch: WatchSettings = WatchSettings()
    feedback: FeedbackSettings = FeedbackSettings()
    queues: tuple[LabelQueue, ...] = ()
    trace_url: TraceUrl | None = None
    judge: JudgeSettings | None = None
    web: Web | None = Web()
    admin: Admin | None = Admin()
    state: StateSettings = StateSettings()
    memory: Memory = Memory()
    log: Log = Log()

    @model_validator(mode="after")
    def _queues_have_backends(self) -> "Config":
        known = {name for name, backend in backends(self.exporters).items() if backend.vendor != "datadog"}
        for number, queue in enumerate(self.queues):
            if queue.to not in known:
                names = ", ".join(f"`{name}`" for name in sorted(known)) or "none"
                raise ValueError(
                    f"has `queues[{number}].to: {queue.to}`, which is no backend in `exporters`; there is {names}"
                )
        return self


def config_model(root: Node) -> type[Config]:
    """Make the model of a configuration that has these keys; raise `ConfigError` when a plug-in cannot be loaded."""

    def named(section: Node | None, group: str) -> tuple[str, ...]:
        keys = section.value if section is not None and isinstance(section.value, dict) else ()
        return tuple(name for name in plugins.additional(group) if name in keys)

    receivers = named(root.child("receivers"), plugins.RECEIVERS)
    return _model(receivers, named(root.child("exporters"), plugins.EXPORTERS))


def installed_model() -> type[Config]:
    """Make the model of a configuration that may have a section for each plug-in that is installed."""
    return _model(plugins.additional(plugins.RECEIVERS), plugins.additional(plugins.EXPORTERS))


def backends(exporters: Exporters) -> dict[str, BackendSettings]:
    """Return the backends that take scores, by their names."""
    return named_backends(getattr(exporters, vendor) for vendor in VENDORS)


def extensions(section: Receivers | Exporters) -> Iterator[tuple[str, BaseModel]]:
    """Yield the names and settings of plug-ins that are in use."""
    built_in = Receivers.model_fields if isinstance(section, Receivers) else Exporters.model_fields
    for name in type(section).model_fields:
        settings: object = getattr(section, name)
        if name not in built_in and isinstance(settings, BaseModel):
            yield name, settings


# Two configurations with the same plug-ins have one model, or every value of theirs would seem to differ.
@lru_cache(maxsize=16)
def _model(receivers: tuple[str, ...], exporters: tuple[str, ...]) -> type[Config]:
    if not receivers and not exporters:
        return Config
    of_receivers = _extended(Receivers, {name: plugins.receiver(name) for name in receivers})
    of_exporters = _extended(Exporters, {name: plugins.exporter(name) for name in exporters})
    return create_model(
        "Config", __base__=Config, receivers=(of_receivers, of_receivers()), exporters=(of_exporters, of_exporters())
    )


def _extended(section: type[Section], loaded: dict[str, type[Any]]) -> type[Section]:
    fields: dict[str, Any] = {name: (plug_in.Settings | None, None) for name, plug_in in loaded.items()}
    return create_model(section.__name__, __base__=section, __doc__=section.__doc__, **fields)
