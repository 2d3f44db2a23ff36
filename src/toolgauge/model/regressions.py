"""Streams of scores and the state of the detectors on them, and changes of tool definitions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from msgspec import Struct

from toolgauge.model.outcomes import Level

# `recovered` watches as `watching` does: the last alarm has ended, and the baseline is the one from before it.
StreamState: TypeAlias = Literal["learning", "watching", "alarm", "recovered"]


class Stream(Struct, frozen=True, kw_only=True, gc=False):
    """Scores watched together, across versions; `None` if not recorded. `tool` is `None` for all tools together, and for whole runs."""

    service: str | None
    environment: str | None
    agent: str | None
    tool: str | None
    criterion: str
    revision: str
    level: Level


# Criteria of behaviour, at level `trajectory`: the share of conversations that use a tool or do not, that call the tool named by the
# revision before it, or whose number of calls is in the range named by the revision. `USUAL` holds the place of streams to come.
USED, UNUSED, BEFORE, CALLS, USUAL = (f"behaviour.{name}" for name in ("used", "unused", "before", "calls", "usual"))
# In a sentence.
BEHAVIOUR: Mapping[str, str] = {
    USED: "{tool} used",
    UNUSED: "{tool} not used",
    BEFORE: "{revision} before {tool}",
    CALLS: "{revision} calls",
}


class Change(Struct, frozen=True, kw_only=True, gc=False):
    """A property of runs, or `of` one tool or library, with its usual value before and since; `None` where it was not recorded."""

    property: str
    of: str | None
    before: str | None
    after: str


class Cause(Struct, frozen=True, kw_only=True, gc=False):
    """Properties that moved together and explain a drop: scores differ between their new values and all others.

    `since_ns` is the first sight of the new values, `None` where they were in use before, and only became more frequent.
    `conversations` of `of` have had them since then, or else since the onset. `mean` and `others` are the mean scores with and
    without them; `evidence` is the natural logarithm of a likelihood ratio.
    """

    changes: tuple[Change, ...]
    since_ns: int | None
    conversations: int
    of: int
    mean: float
    others: float
    evidence: float


class Regression(Struct, frozen=True, kw_only=True, gc=False):
    """The mean of a stream has dropped (`began`), has another likeliest cause than announced (`updated`), or is as before (`ended`).

    An observation is the mean score of one conversation. `incident` is shared by streams of one service whose alarms began
    together. Times are wall-clock nanoseconds; `onset_ns` is the estimated start of the drop, `observations` how many
    observations have been made since then, `current` their mean and `interval` its 95 % confidence interval. `evidence` is
    ln E / ln A: 1 where the alarm is raised. `causes` are what explains the drop, the likeliest first, out of `properties` that
    are recorded. `before` and `after` are trace ids of at most five conversations each: the newest before the drop, and the
    worst since. `acknowledged`: it ended because people, or other criteria, gave up its baseline.
    """

    phase: Literal["began", "updated", "ended"]
    stream: Stream
    incident: str
    at_ns: int
    onset_ns: int
    observations: int
    baseline: float
    current: float
    interval: tuple[float, float]
    evidence: float
    causes: tuple[Cause, ...] = ()
    properties: int = 0
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    acknowledged: bool = False


class StreamStatus(Struct, frozen=True, kw_only=True, gc=False):
    """The state of one stream's detector, which learns from `needed` observations first. A current alarm began at `since_ns`; alarms
    of one service that began together are of one `incident`.
    """

    stream: Stream
    state: StreamState
    observations: int
    needed: int
    baseline: float | None
    current: float | None
    evidence: float
    since_ns: int | None
    incident: str = ""


class Arm(Struct, frozen=True, kw_only=True, gc=False):
    """All observations of one stream under one version of the service: their number, sum and sum of squares."""

    stream: Stream
    version: str | None
    observations: int
    sum: float
    sum_of_squares: float
    first_seen_ns: int
    last_seen_ns: int


class ScoreBucket(Struct, frozen=True, kw_only=True, gc=False):
    """Observations of one stream between two moments, both of them observed: their number and the sum of their scores."""

    start_ns: int
    end_ns: int
    observations: int
    sum: float


class AlarmPeriod(Struct, frozen=True, kw_only=True, gc=False):
    """A regression that has ended; `current` is the mean when it was raised. `acknowledged`: its baseline was given up."""

    onset_ns: int
    raised_ns: int
    ended_ns: int
    baseline: float
    current: float
    acknowledged: bool


class StreamHistory(Struct, frozen=True, kw_only=True, gc=False):
    """One stream for people: its scores over time, and its alarms meanwhile.

    `missing` observations are needed before an alarm is possible. `alarm` is the regression that is on, `past` the ended
    ones, the newest last, `arms` the newest versions. Buckets are in order; times are wall-clock, from the
    conversations' first spans.
    """

    status: StreamStatus
    missing: int
    buckets: tuple[ScoreBucket, ...]
    alarm: Regression | None
    past: tuple[AlarmPeriod, ...]
    arms: tuple[Arm, ...]


# Breaking: arguments that were valid before no longer are. Additive: all that were valid still are. Wording: descriptions alone.
# Changed: the schema differs at a place that is not compared in detail.
ToolChangeKind: TypeAlias = Literal["added", "removed", "breaking", "changed", "additive", "wording"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDefinitionChange:
    """A tool that an agent is offered has changed between two runs.

    `service`, `environment`, `agent` and `version` are empty where they were not recorded; the version is that of the agent, else
    of its service. `old_hash` is `None` for an added tool, `new_hash` for a removed one. `path` names the first place in the
    definition that changed, `None` for added and removed tools.
    """

    time_ns: int
    service: str
    environment: str
    agent: str
    version: str
    tool: str
    kind: ToolChangeKind
    old_hash: str | None
    new_hash: str | None
    path: str | None
