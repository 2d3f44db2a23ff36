"""The sections `metrics` and `redact`, and the choices of `events` and `annotate`."""

from typing import Literal, TypeAlias

from toolgauge.settings import SECOND, Count, PositiveDuration, Section

EventsMode: TypeAlias = Literal["scored", "failed", "all"]
AnnotateMode: TypeAlias = Literal["both", "hold", "scorecard", "off"]


class MetricsSettings(Section):
    """Bounds on label values, and how often metrics are pushed."""

    max_services: Count = 50
    max_agents: Count = 50
    max_tools: Count = 200
    max_label_sets: Count = 2000
    interval: PositiveDuration = 15 * SECOND


class RedactSettings(Section):
    """What of a span's values may be shown in events and scorecards."""

    values: Literal["hide", "show"] = "hide"
    patterns: tuple[str, ...] = ("default",)
