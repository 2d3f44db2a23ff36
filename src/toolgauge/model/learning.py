"""What a running process and `toolgauge learn --live` send each other."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta, Struct

_SECOND = 1_000_000_000
SHORTEST_NS = _SECOND
LONGEST_NS = 24 * 3600 * _SECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSummary:
    """What was learned of one service."""

    service: str | None
    runs: int
    calls: int
    criteria: int
    needed: int
    alarms: int
    versions: Mapping[str, int]


class BeginLearning(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Asks to learn for so long."""

    duration_ns: Annotated[int, Meta(ge=SHORTEST_NS, le=LONGEST_NS)]


class EndLearning(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Asks for what was learned, with the options of `toolgauge learn` that decide which rules are written."""

    id: str
    min_runs: Annotated[int, Meta(ge=2)]
    tolerance: Annotated[float, Meta(ge=0, le=0.5)]
    false_alarms: Annotated[float, Meta(ge=0, le=1)]


class LearningState(Struct, frozen=True, kw_only=True):
    """How far learning has come. `left_ns` is 0 when it takes no more runs."""

    left_ns: int
    runs: int
    calls: int
    skipped: int


class Learned(Struct, frozen=True, kw_only=True):
    """What was learned: the text of a criteria file, and what it is made of.

    `skipped` runs were left out because learning from them would have taken too much time, `cut_short` ones were not seen
    to their end.
    """

    text: str
    services: tuple[ServiceSummary, ...]
    runs: int
    calls: int
    skipped: int
    cut_short: int
