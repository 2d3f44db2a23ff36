"""What judging is told by configuration."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """What a million tokens cost, in any currency."""

    input_per_million: float
    output_per_million: float

    def cost(self, input_tokens: int, output_tokens: int) -> float:
        """Say what a call cost."""
        return (input_tokens * self.input_per_million + output_tokens * self.output_per_million) / 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSettings:
    """The bounds of judging; `None` is no bound.

    `max_queue` counts trajectories and `max_queue_bytes` about what they keep in memory, those being judged included.
    """

    max_concurrent: int = 4
    max_queue: int = 1000
    max_queue_bytes: int = 64 * 2**20
    timeout_s: float = 30.0
    calls_per_minute: int | None = None
    max_cost_per_hour: float | None = None
    max_output_tokens: int = 4096
    prices: Prices = Prices(input_per_million=0.0, output_per_million=0.0)
