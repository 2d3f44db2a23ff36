"""The section `judge`: the model that evaluators ask, its place, and its bounds, which `RateLimit` and `Budget` keep."""

import math
from collections import deque
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


_MINUTE_S = 60.0
_HOUR_S = 3600.0
# Costs are kept by the tenth of a minute: an hour has 600 of them, however many calls there were.
_STEP_S = 6.0


class RateLimit:
    """At most `per_minute` calls in any minute; `None` sets no bound."""

    def __init__(self, per_minute: int | None) -> None:
        self._per_minute = per_minute
        self._begun: deque[float] = deque()

    def wait_s(self, now_s: float) -> float:
        """Return how long to wait for the next call; 0 takes the place."""
        if self._per_minute is None:
            return 0.0
        while self._begun and now_s - self._begun[0] >= _MINUTE_S:
            self._begun.popleft()
        if len(self._begun) < self._per_minute:
            self._begun.append(now_s)
            return 0.0
        return self._begun[0] + _MINUTE_S - now_s


class Budget:
    """At most `per_hour` in any hour, reservations included; `None` sets no bound."""

    def __init__(self, per_hour: float | None) -> None:
        self._per_hour = math.inf if per_hour is None else per_hour
        self._reserved = 0.0
        self._steps: deque[tuple[float, float]] = deque()

    def reserve(self, cost: float, now_s: float) -> bool:
        """Reserve the highest possible cost of a call; False when the budget does not allow it."""
        while self._steps and now_s - self._steps[0][0] >= _HOUR_S + _STEP_S:
            self._steps.popleft()
        # Summed again: the rounding of years of additions would not be forgotten otherwise.
        if sum(spent for _, spent in self._steps) + self._reserved + cost > self._per_hour:
            return False
        self._reserved += cost
        return True

    def charge(self, reserved: float, cost: float, now_s: float) -> None:
        """Replace the reservation of a call by its actual cost."""
        self._reserved = max(0.0, self._reserved - reserved)
        if cost <= 0:
            return
        step = now_s - now_s % _STEP_S
        if self._steps and self._steps[-1][0] == step:
            cost += self._steps.pop()[1]
        self._steps.append((step, cost))
