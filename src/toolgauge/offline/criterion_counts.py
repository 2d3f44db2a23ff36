"""The results of one criterion, counted: what tables, reports and the gate are made of."""

from collections import Counter

from toolgauge.model.outcomes import NotEvaluated, Outcome, OutcomeWord, Scored, outcome_word


class CriterionCounts:
    """Counts outcomes. Only scores enter the mean: what was not evaluated, and errors, are counted by themselves."""

    def __init__(self, name: str, *, is_default: bool = False, is_shadow: bool = False) -> None:
        self.name = name
        self.is_default = is_default
        self.is_shadow = is_shadow
        self.words = Counter[OutcomeWord]()
        self.reasons = Counter[str]()
        self._sum = 0.0

    def add(self, outcome: Outcome) -> None:
        """Count one outcome."""
        self.words[outcome_word(outcome)] += 1
        if isinstance(outcome, Scored):
            self._sum += outcome.value
        elif isinstance(outcome, NotEvaluated):
            self.reasons[outcome.reason] += 1

    @property
    def scored(self) -> int:
        """How many outcomes are scores."""
        return self.words["pass"] + self.words["fail"]

    @property
    def mean(self) -> float | None:
        """The mean score; `None` where there is no score."""
        return self._sum / self.scored if self.scored else None

    @property
    def reasons_text(self) -> str:
        """Why outcomes are no scores, the commonest reason first."""
        return ", ".join(f"{reason} {count}" for reason, count in self.reasons.most_common())
