"""The configuration sections of backends that keep scores in a table of their own: `exporters.phoenix` and the like."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, TypeVar

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler, PlainSerializer, field_validator
from pydantic_core import CoreSchema

from toolgauge.export.results import ScoreFilter
from toolgauge.export.settings import (
    DestinationName,
    DestinationSettings,
    EventsMode,
    QueueSettings,
    RetrySettings,
    as_list,
    as_written,
)
from toolgauge.net.settings import ClientTls
from toolgauge.settings import MIB, MINUTE, SECOND, Count, Headers, PositiveDuration, Secret, Section, Size, Url

Vendor: TypeAlias = Literal["phoenix"]
VENDORS: tuple[Vendor, ...] = ("phoenix",)


class ScoreQueueSettings(QueueSettings):
    """Scores that wait to be sent; `num_consumers` requests are on their way at a time."""

    max_bytes: Annotated[Size, Field(gt=0)] = 16 * MIB
    num_consumers: Annotated[Count, Field(le=1000)] = 2


class BackendSettings(Section):
    """A backend that takes scores.

    `results` and `criteria` (globs) choose them: without `results`, those of trajectories that were scored and those of
    calls that failed. A score whose span the backend does not have is sent again for `late`.
    """

    vendor: ClassVar[Vendor]
    name: DestinationName | None = None
    endpoint: Url
    api_key: Secret | None = Field(default=None, repr=False)
    headers: Headers = Field(default_factory=dict[str, str], repr=False)
    results: EventsMode | None = None
    criteria: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    late: PositiveDuration = 10 * MINUTE
    tls: ClientTls | None = None
    timeout: PositiveDuration = 10 * SECOND
    retry: RetrySettings = RetrySettings()
    queue: ScoreQueueSettings = ScoreQueueSettings()

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
    def authorization(self) -> Mapping[str, str]:
        """The headers that carry the key."""
        return {} if self.api_key is None else {"authorization": f"Bearer {self.api_key}"}

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
    """Arize Phoenix: annotations of spans, traces and sessions."""

    vendor = "phoenix"
    endpoint: Url = "http://localhost:6006"


class _OneOrMore:
    """Adds the forms of `as_list` to a JSON Schema."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        several = handler(schema)
        return {"anyOf": [several["items"], several, {"type": "null"}]}


_Backend = TypeVar("_Backend", bound=BackendSettings)
Backends: TypeAlias = Annotated[
    tuple[_Backend, ...], BeforeValidator(as_list), PlainSerializer(as_written, when_used="json"), _OneOrMore()
]


def named_backends(sections: Iterable[Sequence[BackendSettings]]) -> dict[str, BackendSettings]:
    """Name all backends; one without a name has its vendor's, and a number from the second on."""
    names: dict[str, BackendSettings] = {}
    for section in sections:
        for number, backend in enumerate(section, 1):
            names[backend.name or (backend.vendor if number == 1 else f"{backend.vendor}/{number}")] = backend
    return names
