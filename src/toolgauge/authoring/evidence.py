"""The evidence for a rule, and an estimate of its false alarms.

Leave-one-out: without the one run that keeps a rule from being learned, the rule would be learned, and that run would fail.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

# More runs than these are not remembered: a rule that so many break is not learned.
_MAX_BREAKING = 100
# The required runs are multiplied by these until false alarms are few.
_STEPS = (1, 1.5, 2, 3, 5, 8, 13, 21, 34, 55, 100)


@dataclass(slots=True)
class Evidence:
    """The number of runs that a rule judged and that broke it; runs are numbered and are added in order."""

    runs: int = 0
    broken: int = 0
    # The numbers of the first runs that broke it.
    breaking: list[int] = field(default_factory=list[int])
    judged: int = 0
    held: int = 0
    # The numbers of the first runs that it judged.
    first: list[int] = field(default_factory=list[int])
    _last: int = -1
    _has_broken: bool = False

    def add(self, run: int, *, holds: bool) -> None:
        """Add one judgement of the rule in a run."""
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
        """Return the evidence of a rule that all of these runs broke."""
        first = list(self.first)
        return replace(self, broken=self.runs, breaking=[*first], held=0, first=first, _has_broken=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """The runs that a rule must have judged, and the share of them that may break it.

    `most_alarms` is the share of all runs that may fail rules learned from the other runs.
    """

    runs: int = 20
    tolerance: float = 0.01
    most_alarms: float = 0.05

    def met_by(self, evidence: Evidence) -> bool:
        """Return whether a rule is written."""
        return evidence.runs >= self.runs and evidence.broken <= _tolerated(evidence, self.tolerance)

    def raised(self, candidates: Sequence[Evidence], runs: int) -> "tuple[Requirements, int]":
        """Raise the requirements until few enough of `runs` fail; return them with the number of failing runs."""
        for step in _STEPS:
            stricter = replace(self, runs=int(self.runs * step))
            failing: set[int] = set()
            for evidence in candidates:
                if evidence.runs >= stricter.runs and evidence.broken <= _tolerated(evidence, self.tolerance) + 1:
                    failing.update(evidence.breaking)
            if len(failing) <= self.most_alarms * runs or stricter.runs > runs:
                return stricter, len(failing)
        return self, runs


def _tolerated(evidence: Evidence, tolerance: float) -> int:
    return min(int(tolerance * evidence.runs), _MAX_BREAKING - 2)
