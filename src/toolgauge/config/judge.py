"""What people write about judges: which model, where it is, and what it may cost."""

from typing import Annotated

from pydantic import Field, model_validator

from toolgauge.config.fields import Url
from toolgauge.config.listeners import Secret
from toolgauge.config.section import Section
from toolgauge.config.units import Count, PositiveDuration, Size

_SECOND = 1_000_000_000
_Price = Annotated[float, Field(ge=0)]


class PricesSection(Section):
    """What a million tokens cost, in the currency of `max_cost_per_hour`."""

    input_per_million: _Price
    output_per_million: _Price


class JudgeSection(Section):
    """The model that evaluators ask, and the bounds of asking. `base_url` is any OpenAI-compatible endpoint."""

    model: Annotated[str, Field(min_length=1)]
    base_url: Url | None = None
    api_key: Secret | None = Field(default=None, repr=False)
    timeout: PositiveDuration = 30 * _SECOND
    max_concurrent: Annotated[Count, Field(le=1000)] = 4
    max_queue: Count = 1000
    max_queue_bytes: Annotated[Size, Field(gt=0)] = 64 * 2**20
    calls_per_minute: Count | None = None
    max_cost_per_hour: Annotated[float, Field(gt=0)] | None = None
    prices: PricesSection | None = None
    max_output_tokens: Count = 4096
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None

    @model_validator(mode="after")
    def _can_be_asked(self) -> "JudgeSection":
        if self.max_cost_per_hour is not None and self.prices is None:
            raise ValueError("has `max_cost_per_hour`, which needs `prices`")
        if self.base_url is None and ":" not in self.model:
            raise ValueError("needs a `model` with its provider, such as `openai:gpt-5-mini`, or a `base_url`")
        if self.base_url is not None and "://" not in self.base_url:
            raise ValueError("needs a URL as `base_url`, such as `http://localhost:11434/v1`")
        return self
