"""The interface of evaluators that look at more of an offline case than a trajectory can hold.

An original may look at a span's raw text, at the roles of messages or at items of any JSON. Live, such an evaluator
makes do with a trajectory; offline it is given the case as it was written. One with `needs_trajectory = True` is not
asked about a case that records no calls, not even none: its original raises.
"""

from collections.abc import Iterator
from typing import ClassVar, Protocol

from msgspec import Struct

from toolgauge.model.expected import Expected
from toolgauge.model.json import JsonObject
from toolgauge.model.outcomes import Level, Outcome
from toolgauge.model.ports import Evaluation
from toolgauge.model.trajectory import Trajectory


class CaseOutcome(Struct, frozen=True, kw_only=True):
    """The outcome of a case, and beside it the output of the original in its own words.

    `original` goes by the names of the golden files (`details`, `status`, `passed`) and is shown as it is, values
    included.
    """

    outcome: Outcome
    original: JsonObject = {}


class CaseEvaluator(Protocol):
    """An evaluator that can be given a case as written.

    `case_shapes` are keys of a case's `actual`: a case with one of them goes to `score_case`, every other becomes a
    trajectory. One that compares with a reference also has `expected_shapes`, keys of `expected`, and needs one of those
    there too, or nothing.
    """

    version: ClassVar[str]
    level: ClassVar[Level]
    case_shapes: ClassVar[tuple[str, ...]]

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:
        """Yield outcomes, as every evaluator does."""
        ...

    def score_case(self, expected: JsonObject, actual: JsonObject) -> CaseOutcome:
        """Score both sides as they were written; what it raises becomes `Errored`, with `accepted_case` if it has that."""
        ...
