"""Where there is no judge to ask: every inquiry is answered with `judge_budget`, at once."""

from toolgauge.judge.judges import settled
from toolgauge.model.judging import Answers, Inquiry
from toolgauge.model.outcomes import NotEvaluated
from toolgauge.model.trajectory import Trajectory


class Unasked:
    """Implements `model.judging.Judging` without asking; `explanation` says why nobody is asked."""

    def __init__(self, explanation: str) -> None:
        self._outcome = NotEvaluated(reason="judge_budget", explanation=explanation)
        self._done: list[Answers] = []

    def put(self, trajectory: Trajectory, inquiries: tuple[Inquiry, ...]) -> None:
        """Answer the inquiries."""
        self._done.append(settled(trajectory, inquiries, self._outcome))

    def take(self) -> list[Answers]:
        """Hand over what has been answered since the last time."""
        done, self._done = self._done, []
        return done
