"""What all evaluators have in common that compare the calls of a run with expected ones, turn by turn where asked."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import ClassVar

from toolgauge.model.expected import Expected, ExpectedCall
from toolgauge.model.outcomes import Level, NotEvaluated, Outcome
from toolgauge.model.ports import Evaluation
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.selection import CallSelection
from toolgauge.score.sides import KeptSlots
from toolgauge.score.turns import score_turns


class CallComparison(CallSelection):
    """Compares the calls that count with the expected calls that count and says one thing about the trajectory."""

    level: ClassVar[Level] = "trajectory"
    needs_reference: ClassVar[bool] = True

    @cached_property
    def _kept(self) -> KeptSlots:
        return KeptSlots()

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:
        """Yield one outcome for the trajectory."""
        if expected is None or not expected.names_calls:
            yield None, NotEvaluated(reason="no_reference", explanation="no calls are given to compare with")
            return

        def score(wanted: Sequence[ExpectedCall], made: Sequence[ToolCall]) -> Outcome:
            return self.compared(self.expected_calls(wanted, trajectory), made, trajectory)

        yield None, score_turns(trajectory, expected, self.calls(trajectory), score)

    @abstractmethod
    def compared(self, expected: Sequence[ExpectedCall], calls: Sequence[ToolCall], trajectory: Trajectory) -> Outcome:
        """Compare the calls of one user turn, or of the whole trajectory where turns are not told apart."""
        ...
