"""Counts of trajectories, calls and results by criterion, for a summary."""

from msgspec import Struct

from toolgauge.model.outcomes import NotEvaluated, OutcomeWord, Scorecard, outcome_word

# Behind the name of a criterion that is not live.
SHADOW = " (shadow)"
_FAILED: frozenset[OutcomeWord | str] = frozenset({"fail", "error"})


class ResultCounts(Struct):
    """What was counted of scorecards. Belongs to one thread.

    `failed` are the scorecards with a live result that failed. `results` are by criterion, and outcome or the reason why there
    is none.
    """

    scorecards: int = 0
    failed: int = 0
    trajectories: int = 0
    calls: int = 0
    results: dict[tuple[str, str], int] = {}

    def add(self, scorecard: Scorecard) -> bool:
        """Count the scorecard; return whether a live result of it failed."""
        self.scorecards += 1
        if not scorecard.by_judges:
            self.trajectories += 1
            self.calls += len(scorecard.trajectory.calls)
        counts, is_failed = self.results, False
        for result in scorecard.results:
            outcome, is_live = result.outcome, result.enforce == "live"
            word = outcome.reason if isinstance(outcome, NotEvaluated) else outcome_word(outcome)
            key = (result.criterion if is_live else result.criterion + SHADOW, word)
            counts[key] = counts.get(key, 0) + 1
            is_failed = is_failed or (is_live and word in _FAILED)
        self.failed += is_failed
        return is_failed

    def join(self, other: "ResultCounts") -> None:
        """Add what another one has counted."""
        self.scorecards += other.scorecards
        self.failed += other.failed
        self.trajectories += other.trajectories
        self.calls += other.calls
        for key, count in other.results.items():
            self.results[key] = self.results.get(key, 0) + count
