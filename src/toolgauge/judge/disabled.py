"""Stands in for disabled judges. Imports no client: commands without a judge load neither asyncio nor a provider."""

from collections.abc import Sequence

from toolgauge.model.judging import Answers, Inquiry
from toolgauge.model.outcomes import NotEvaluated, Outcome
from toolgauge.model.trajectory import Trajectory


class DisabledJudges:
    """Implements `model.judging.Judging` without asking: answers with `judge_budget` at once; `explanation` gives the reason."""

    def __init__(self, explanation: str) -> None:
        self._outcome = NotEvaluated(reason="judge_budget", explanation=explanation)
        self._done: list[Answers] = []

    def put(self, trajectory: Trajectory, inquiries: tuple[Inquiry, ...]) -> None:
        """Answer the inquiries."""
        self._done.append(settled(trajectory, inquiries, self._outcome))

    def take(self) -> list[Answers]:
        """Return the answers since the last time."""
        done, self._done = self._done, []
        return done


def settled(trajectory: Trajectory, inquiries: Sequence[Inquiry], outcome: Outcome) -> Answers:
    """Answer all inquiries with the same outcome, but those that are settled."""
    answers = tuple((inquiry, ((None, inquiry.settled or outcome),)) for inquiry in inquiries)
    return Answers(trajectory=trajectory, answers=answers)
