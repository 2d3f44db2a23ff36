"""The evidence for a rule, and an estimate of its false alarms.

Leave-one-out: without the one run that keeps a rule from being learned, the rule would be learned, and that run would fail.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

# More runs than these are not remembered: a rule that so many break is none.
_MAX_BREAKING = 100
# What rules need is raised along these until false alarms are few.
_STEPS = (1, 1.5, 2, 3, 5, 8, 13, 21, 34, 55, 100)


@dataclass(slots=True)
class Evidence:
    """How many runs a rule judged and which broke it, once or more often; runs are numbered and come one by one."""

    runs: int = 0
    broken: int = 0
    # The numbers of the first of these runs.
    breaking: list[int] = field(default_factory=list[int])
    judged: int = 0
    held: int = 0
    # The numbers of the first runs in which it had something to judge.
    first: list[int] = field(default_factory=list[int])
    _last: int = -1
    _has_broken: bool = False

    def add(self, run: int, *, holds: bool) -> None:
        """Add what the rule judged in a run."""
        self.judged += 1
        self.held += holds
        if run != self._last:
            self.runs += 1
            self._last, self._has_broken = run, False
            if len(self.first) < _MAX_BREAKING:
                self.first.append(run)
        if holds or self._has_broken:
            return
        self._has_broken = True
        self.broken += 1
        if len(self.breaking) < _MAX_BREAKING:
            self.breaking.append(run)

    def never_held(self) -> "Evidence":
        """Return the evidence of a rule that all of this broke."""
        return Evidence(
            runs=self.runs,
            broken=self.runs,
            breaking=list(self.first),
            judged=self.judged,
            first=list(self.first),
            _last=self._last,
            _has_broken=True,
        )

    def copy(self) -> "Evidence":
        """Return the same, to add to."""
        return replace(self, breaking=list(self.breaking), first=list(self.first))

    def holds(self, tolerance: float) -> bool:
        """Return whether few enough runs broke the rule."""
        return self.broken <= self._tolerated(tolerance)

    def alarms(self, tolerance: float) -> Sequence[int]:
        """Return the runs that fail when the rule is learned from the other runs."""
        return self.breaking if self.broken <= self._tolerated(tolerance) + 1 else ()

    def _tolerated(self, tolerance: float) -> int:
        return min(int(tolerance * self.runs), _MAX_BREAKING - 2)


@dataclass(slots=True)
class Largest:
    """The two largest figures, of different runs: what would be the largest without one run."""

    runs: int = 0
    first: float = 0.0
    second: float = 0.0
    run: int = -1

    def add(self, run: int, figure: float) -> None:
        """Add the figure of a run."""
        self.runs += 1
        if self.run < 0 or figure > self.first:
            self.first, self.second, self.run = figure, self.first, run
        elif figure > self.second:
            self.second = figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """What a rule needs to be written: runs in which it judged something, and the share of them that may break it."""

    runs: int = 20
    tolerance: float = 0.01

    def met_by(self, evidence: Evidence) -> bool:
        """Return whether a rule is written."""
        return evidence.runs >= self.runs and evidence.holds(self.tolerance)


def false_alarms(candidates: Iterable[Evidence], requirements: Requirements) -> set[int]:
    """Return the runs that fail some rule that is learned from the other runs."""
    judging = (evidence for evidence in candidates if evidence.runs >= requirements.runs)
    return {run for evidence in judging for run in evidence.alarms(requirements.tolerance)}


def raised(
    candidates: Sequence[Evidence], requirements: Requirements, *, runs: int, most_alarms: float
) -> tuple[Requirements, int]:
    """Raise the requirements until at most this share of runs fails; return them, and how many runs do."""
    for step in _STEPS:
        raised = Requirements(runs=int(requirements.runs * step), tolerance=requirements.tolerance)
        alarms = len(false_alarms(candidates, raised))
        if alarms <= most_alarms * runs or raised.runs > runs:
            return raised, alarms
    return requirements, runs
