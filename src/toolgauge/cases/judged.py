"""Evaluators that ask a judge, offline: the answers come from whoever is handed in, a case's own script by default."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from toolgauge.model.expected import Expected
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.judging import JudgeEvaluator, Question
from toolgauge.model.outcomes import Errored, Level, Outcome
from toolgauge.model.ports import Evaluation
from toolgauge.model.trajectory import Trajectory

# A verdict that fits the question's form, or why there is none.
Answer: TypeAlias = Callable[[Question], JsonObject | Errored]
# Makes whoever answers the questions of one case from the verdicts that stand in it.
Judge: TypeAlias = Callable[[Sequence[Json]], Answer]


def scripted(verdicts: Sequence[Json]) -> Answer:
    """Answer with the verdicts of a case, in order."""
    left = iter(verdicts)

    def answer(question: Question) -> JsonObject | Errored:
        del question
        verdict = next(left, None)
        if verdict is None:
            return Errored(error_type="no_verdict", message="the case has no `verdicts` left to answer with")
        if not isinstance(verdict, dict):
            return Errored(error_type="invalid_verdict", message="a verdict must be an object")
        return verdict

    return answer


class Judged:
    """Stands in for a judge evaluator where an evaluator is wanted that yields outcomes itself."""

    def __init__(self, evaluator: JudgeEvaluator, answer: Answer) -> None:
        self._evaluator = evaluator
        self._answer = answer
        self.version: str = evaluator.version
        self.level: Level = evaluator.level

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:
        """Ask and yield what the answers mean."""
        outcomes: list[Outcome] = []
        for asking in self._evaluator.questions(trajectory, expected):
            if asking is None:
                yield None
                continue
            call, asked = asking
            outcome = self._ask(asked) if isinstance(asked, Question) else asked
            if self.level == "call":
                yield call, outcome
            else:
                outcomes.append(outcome)
        if self.level == "trajectory":
            yield None, self._evaluator.joined(outcomes)

    def _ask(self, question: Question) -> Outcome:
        verdict = self._answer(question)
        return verdict if isinstance(verdict, Errored) else self._evaluator.outcome(question, verdict)
