"""Evaluators that ask a judge, offline: the answers are the verdicts that stand in the case, in order.

They go the way of a live judge's answers, so that what does not fit is asked for again as often.
"""

from collections.abc import Callable, Iterator, Sequence

from toolgauge.judge.scripted import judged_by
from toolgauge.model.expected import Expected
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.judging import Inquiry, JudgeEvaluator
from toolgauge.model.outcomes import Level, Outcome, Scored
from toolgauge.model.ports import Evaluation
from toolgauge.model.trajectory import Trajectory


class Judged:
    """Stands in for a judge evaluator where an evaluator is wanted that yields outcomes itself."""

    def __init__(self, evaluator: JudgeEvaluator, verdicts: Sequence[Json]) -> None:
        self._evaluator = evaluator
        self._verdicts = iter(_answers(verdicts))
        self.version: str = evaluator.version
        self.level: Level = evaluator.level

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:
        """Ask and yield what the answers mean."""
        inquiry = Inquiry(criterion="", evaluator=self._evaluator, trajectory=trajectory, expected=expected)
        yield from judged_by(self._verdicts, inquiry)

    def original(self, outcome: Outcome) -> JsonObject:
        """Return what the original would say besides the score, where the evaluator can tell."""
        tell: Callable[[Scored], JsonObject] | None = getattr(self._evaluator, "original", None)
        return tell(outcome) if tell is not None and isinstance(outcome, Scored) else {}


def _answers(verdicts: Sequence[Json]) -> Sequence[Json]:
    """Return what the judge answers; bare words are the verdicts of one answer, as DeepEval asks for them."""
    if not verdicts or not all(isinstance(verdict, str) for verdict in verdicts):
        return verdicts
    return ({"verdicts": [{"verdict": verdict} for verdict in verdicts]},)
