"""The section `judge`: the model that evaluators ask, its place, and its bounds."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, model_validator

from toolgauge.settings import MIB, SECOND, Count, PositiveDuration, Prices, Secret, Section, Size, Url

# How a verdict is asked for: as the arguments of a tool, as JSON, or in plain text.
Output: TypeAlias = Literal["tool", "json", "text"]


class JudgeSettings(Section):
    """The model that evaluators ask, and the bounds of asking; `None` is no bound.

    `base_url` is any OpenAI-compatible endpoint. `output` is how a verdict is asked for; `None` is the first of `tool`,
    `json` and `text` that the provider accepts. `max_queue` counts trajectories and `max_queue_bytes` about what they
    keep in memory, those being judged included.
    """

    model: Annotated[str, Field(min_length=1)]
    base_url: Url | None = None
    api_key: Secret | None = Field(default=None, repr=False)
    output: Output | None = None
    timeout: PositiveDuration = 30 * SECOND
    max_concurrent: Annotated[Count, Field(le=1000)] = 4
    max_queue: Count = 1000
    max_queue_bytes: Annotated[Size, Field(gt=0)] = 64 * MIB
    calls_per_minute: Count | None = None
    max_cost_per_hour: Annotated[float, Field(gt=0)] | None = None
    prices: Prices | None = None
    max_output_tokens: Count = 4096
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None

    @model_validator(mode="after")
    def _can_be_asked(self) -> "JudgeSettings":
        if self.max_cost_per_hour is not None and self.prices is None:
            raise ValueError("has `max_cost_per_hour`, which needs `prices`")
        if self.base_url is None and ":" not in self.model:
            raise ValueError("needs a `model` with its provider, such as `openai:gpt-5-mini`, or a `base_url`")
        if self.base_url is not None and "://" not in self.base_url:
            raise ValueError("needs a URL as `base_url`, such as `http://localhost:11434/v1`")
        return self

    def cost(self, input_tokens: int, output_tokens: int) -> float:
        """Return the cost of a call; 0 where prices are not known."""
        return 0.0 if self.prices is None else self.prices.cost(input_tokens, output_tokens)
