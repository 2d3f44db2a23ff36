"""The section `watch`."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from toolgauge.settings import MINUTE, Count, PositiveDuration, Section

Baseline: TypeAlias = Literal["guarded", "conservative"]
# Tools used or not, the tool before another, and the number of calls.
BehaviourKind: TypeAlias = Literal["used", "before", "calls"]


class WatchSettings(Section):
    """Detection of regressions: how many false alarms may come in a week, of all streams together.

    `baseline_min` is how many conversations a baseline needs; null: 200, or 1000 where the run length is 100,000 or more.
    `behaviour` is watched beside scores, but not of the agents and tools whose names match a glob of `behaviour_except`.
    """

    enabled: bool = True
    false_alarms_per_week: Annotated[float, Field(gt=0)] = 1
    conversation_idle: PositiveDuration = 10 * MINUTE
    baseline: Baseline = "guarded"
    baseline_min: Count | None = None
    max_streams: Count = 2000
    behaviour: Literal["off"] | tuple[BehaviourKind, ...] = ("used", "before", "calls")
    behaviour_except: tuple[str, ...] = ()
