"""The section `watch`."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from toolgauge.settings import MINUTE, Count, PositiveDuration, Section

Baseline: TypeAlias = Literal["guarded", "conservative"]


class WatchSettings(Section):
    """Detection of regressions: how many false alarms may come in a week, of all streams together."""

    enabled: bool = True
    false_alarms_per_week: Annotated[float, Field(gt=0)] = 1
    conversation_idle: PositiveDuration = 10 * MINUTE
    baseline: Baseline = "guarded"
    baseline_min: Count = 200
    max_streams: Count = 2000
