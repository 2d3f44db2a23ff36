"""The configuration sections of backends that keep scores in a table of their own: `exporters.phoenix` and the like."""

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, ClassVar, Literal, Self, TypeAlias, get_args

from pydantic import Field, field_validator, model_validator

from toolgauge.export.results import ScoreFilter
from toolgauge.export.settings import (
    DestinationName,
    DestinationSettings,
    EventsMode,
    QueueSettings,
    RetrySettings,
)
from toolgauge.net.settings import ClientTls, read_token
from toolgauge.settings import (
    MIB,
    MINUTE,
    SECOND,
    Count,
    FileName,
    Headers,
    PositiveDuration,
    Secret,
    Section,
    Size,
    Url,
    file_path,
)

Vendor: TypeAlias = Literal["phoenix", "langfuse", "mlflow", "langsmith", "opik", "datadog"]
VENDORS: tuple[Vendor, ...] = get_args(Vendor)


class ScoreQueueSettings(QueueSettings):
    """Scores that wait to be sent; `num_consumers` requests are under way at a time."""

    max_bytes: Annotated[Size, Field(gt=0)] = 16 * MIB
    num_consumers: Annotated[Count, Field(le=1000)] = 2


class BackendSettings(Section):
    """A backend that takes scores.

    `results` and `criteria` (globs) choose them: without `results`, scored results of trajectories and failed results of
    calls. A score whose span the backend does not have is sent again for `late`.
    """

    vendor: ClassVar[Vendor]
    # The header that carries the key, and the text before the key.
    key_header: ClassVar[tuple[str, str]] = ("authorization", "Bearer ")
    # After a failure all of a request is sent again: few scores where each takes requests of its own.
    most_together: ClassVar[int] = 1000
    name: DestinationName | None = None
    endpoint: Url
    api_key: Secret | None = Field(default=None, repr=False)
    api_key_file: FileName | None = None
    headers: Headers = Field(default_factory=dict[str, str], repr=False)
    results: EventsMode | None = None
    criteria: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    late: PositiveDuration = 10 * MINUTE
    tls: ClientTls | None = None
    timeout: PositiveDuration = 10 * SECOND
    retry: RetrySettings = RetrySettings()
    queue: ScoreQueueSettings = ScoreQueueSettings()

    @model_validator(mode="after")
    def _has_one_key(self) -> Self:
        if self.api_key is not None and self.api_key_file is not None:
            raise ValueError("has both `api_key` and `api_key_file`")
        return self

    @field_validator("endpoint")
    @classmethod
    def _is_a_url(cls, endpoint: str) -> str:
        if "://" not in endpoint:
            raise ValueError("needs a URL, such as `http://localhost:6006`")
        return endpoint.rstrip("/")

    @property
    def scores(self) -> ScoreFilter:
        """What the backend takes."""
        return ScoreFilter(self.results, self.criteria)

    @property
    def with_key(self) -> Self:
        """The same with the key of its file. Raises `ConfigError` when that cannot be read."""
        if self.api_key_file is None:
            return self
        return self.model_copy(update={"api_key": read_token(file_path(self.api_key_file))})

    @property
    def authorization(self) -> Mapping[str, str]:
        """The headers that carry the key."""
        header, before = self.key_header
        return {} if self.api_key is None else {header: before + self.api_key}

    def as_destination(self, name: str) -> DestinationSettings:
        """The settings of its queue and retries. Not validated: its endpoint takes no OTLP."""
        return DestinationSettings.model_construct(
            name=name,
            endpoint=self.endpoint,
            signals=("scores",),
            tls=self.tls,
            timeout=self.timeout,
            retry=self.retry,
            queue=self.queue,
        )


class PhoenixSettings(BackendSettings):
    """Arize Phoenix: annotations of spans, traces and sessions. People's verdicts are read from `project`."""

    vendor = "phoenix"
    endpoint: Url = "http://localhost:6006"
    project: Annotated[str, Field(min_length=1)] = "default"


class LangfuseSettings(BackendSettings):
    """Langfuse: scores of traces, observations and sessions. `api_key` is the secret key of the pair."""

    vendor = "langfuse"
    endpoint: Url = "https://cloud.langfuse.com"
    public_key: Annotated[str, Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _has_both_keys(self) -> "LangfuseSettings":
        if self.public_key is None or (self.api_key is None and self.api_key_file is None):
            raise ValueError("needs `public_key` and `api_key`, the secret key of the pair")
        return self

    @property
    def authorization(self) -> Mapping[str, str]:
        """The pair of keys, as HTTP has it."""
        pair = b64encode(f"{self.public_key}:{self.api_key}".encode()).decode()
        return {"authorization": f"Basic {pair}"}


class MlflowSettings(BackendSettings):
    """MLflow 3: assessments of traces and their spans. People's verdicts are read from the ids of `experiments`."""

    vendor = "mlflow"
    most_together = 50
    endpoint: Url = "http://localhost:5000"
    experiments: Annotated[tuple[str, ...], Field(min_length=1)] = ("0",)


class LangsmithSettings(BackendSettings):
    """LangSmith: feedback on runs. The spans go to `project`."""

    vendor = "langsmith"
    key_header = ("x-api-key", "")
    most_together = 20
    endpoint: Url = "https://api.smith.langchain.com"
    project: Annotated[str, Field(min_length=1)] | None = None


class OpikSettings(BackendSettings):
    """Opik: feedback scores of traces, spans and threads of one `project`."""

    vendor = "opik"
    endpoint: Url = "https://www.comet.com/opik/api"
    project: Annotated[str, Field(min_length=1)] = "Default Project"
    workspace: Annotated[str, Field(min_length=1)] | None = None

    @property
    def authorization(self) -> Mapping[str, str]:
        """The headers that carry key and workspace."""
        headers = {"authorization": self.api_key, "comet-workspace": self.workspace}
        return {name: value for name, value in headers.items() if value is not None}


class DatadogSettings(BackendSettings):
    """Datadog LLM Observability: external evaluations. Without `ml_app` it is the service of the spans."""

    vendor = "datadog"
    key_header = ("dd-api-key", "")
    endpoint: Url = "https://api.datadoghq.com"
    ml_app: Annotated[str, Field(min_length=1)] | None = None


def named_backends(sections: Iterable[Sequence[BackendSettings]]) -> dict[str, BackendSettings]:
    """Name all backends; one without a name has its vendor's, and a number from the second on."""
    names: dict[str, BackendSettings] = {}
    for section in sections:
        for number, backend in enumerate(section, 1):
            names[backend.name or (backend.vendor if number == 1 else f"{backend.vendor}/{number}")] = backend
    return names
