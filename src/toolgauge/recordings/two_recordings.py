"""Two scored recordings -> the streams to compare: everything in one is the old version, everything in the other the new one.

A service or an environment that only one of them has would leave nothing to compare: streams are then compared without it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from toolgauge.model.outcomes import Scorecard
from toolgauge.model.records import ENVIRONMENT
from toolgauge.model.trajectory import Trajectory
from toolgauge.recordings.conversation_means import SERVICE, Observations, Observed
from toolgauge.recordings.versions import Versions, choose_versions

BASE, NEW = "BASE", "NEW"


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoRecordings:
    """What was observed in both. `without` are the attributes of which they share no value."""

    observed: Observed
    versions: tuple[Versions, ...]
    without: tuple[str, ...]


def observe(
    observations: Observations, scored: Iterable[Scorecard], version_of: Callable[[Trajectory], str | None]
) -> int:
    """Take the results of a recording; return how many trajectories have no version."""
    without = 0
    for scorecard in scored:
        version = version_of(scorecard.trajectory)
        if version is None:
            without += 1
        else:
            observations.add(scorecard, version)
    return without


def observe_as(observations: Observations, scored: Iterable[Scorecard], version: str) -> None:
    """Take all results of a recording as those of one version: `BASE` or `NEW`."""
    observe(observations, scored, lambda _trajectory: version)


def set_beside(observations: Observations) -> TwoRecordings:
    """Set what was taken as `BASE` beside what was taken as `NEW`."""
    without = tuple(
        name
        for name, seen in ((SERVICE, observations.services), (ENVIRONMENT, observations.environments))
        if seen(BASE) and seen(NEW) and not seen(BASE) & seen(NEW)
    )
    observed = observations.observed(without=without)
    return TwoRecordings(observed=observed, versions=tuple(choose_versions(observed, BASE, NEW)), without=without)
