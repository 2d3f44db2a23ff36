"""The results of one criterion, counted: what tables, reports and the gate are made of."""

from collections import Counter

from toolgauge.model.outcomes import Errored, NotEvaluated, Outcome, OutcomeWord, Scored, outcome_word


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
        match outcome:
            case Scored(value=value):
                self.count(outcome_word(outcome), value)
            case NotEvaluated(reason=reason):
                self.count("not_evaluated", reason=reason)
            case Errored():
                self.count("error")

    def count(self, word: OutcomeWord, value: float | None = None, reason: str | None = None) -> None:
        """Count one outcome that is known by its word, its score or the reason why it was not evaluated."""
        self.words[word] += 1
        if value is not None:
            self._sum += value
        elif word == "not_evaluated" and reason is not None:
            self.reasons[reason] += 1

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
