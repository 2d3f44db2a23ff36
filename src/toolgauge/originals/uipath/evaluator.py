"""What UiPath's evaluators have in common: parameters, criteria, and the two sides they are given.

Live, a reference comes from the criterion's expected calls, or in UiPath's own words from `default_evaluation_criteria`.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import ClassVar, Generic, TypeVar

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from toolgauge.model.expected import Expected
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.offline import CaseOutcome
from toolgauge.model.outcomes import Difference, Errored, Level, NotEvaluated, Scored
from toolgauge.model.ports import Evaluation
from toolgauge.model.trajectory import Trajectory
from toolgauge.score.selection import hidden_calls

_MAX_DIFFERENCES = 20


class Criteria(BaseModel):
    """What is expected, in UiPath's own words; keys are accepted in either spelling."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)


CriteriaT = TypeVar("CriteriaT", bound=Criteria)


class Verdict(Struct, frozen=True, kw_only=True):
    """A score as UiPath gives it. `details` are its texts, which hold values; they are made only where they are shown."""

    value: float
    explanation: str
    details: Callable[[], JsonObject]
    parts: dict[str, float] = {}
    differences: tuple[Difference, ...] = ()

    def outcome(self) -> Scored:
        """Leave the details out."""
        return Scored(
            value=self.value,
            explanation=self.explanation,
            parts=self.parts,
            differences=self.differences[:_MAX_DIFFERENCES],
        )


Judging = Verdict | NotEvaluated | Errored


class UiPathEvaluator(BaseModel, Generic[CriteriaT]):
    """The parameters that all of them share; `name` and `description` change nothing."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)

    version: ClassVar[str] = "1"
    level: ClassVar[Level] = "trajectory"
    case_shapes: ClassVar[tuple[str, ...]] = ("spans",)
    looks_at_calls: ClassVar[bool] = True

    name: str = ""
    description: str = ""
    default_evaluation_criteria: CriteriaT | None = None

    @property
    def needs_reference(self) -> bool:
        """Tell whether a criterion has to give something to compare with."""
        return self.default_evaluation_criteria is None

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:
        """Yield one outcome for the trajectory."""
        criteria = self.default_evaluation_criteria if expected is None else self.criteria_of(expected)
        if criteria is None:
            yield None, NotEvaluated(reason="no_reference", explanation="nothing is given to compare with")
            return
        if isinstance(criteria, Errored):
            yield None, criteria
            return
        if trajectory.hidden_turns and self.looks_at_calls:
            yield None, hidden_calls(trajectory)
            return
        verdict = self.judged(criteria, trajectory)
        yield None, verdict.outcome() if isinstance(verdict, Verdict) else verdict

    def score_case(self, expected: JsonObject, actual: JsonObject) -> CaseOutcome:
        """Score a case as it was written, with UiPath's own details."""
        try:
            criteria = self._criteria(expected)
            judging = self.judged_as_written(criteria, actual)
            verdict = judging
        except ValidationError as error:
            where = ", ".join(".".join(str(step) for step in details["loc"]) for details in error.errors())
            return CaseOutcome(outcome=Errored(error_type="validation", message=f"UiPath refuses `{where}`"))
        except (ValueError, KeyError, RecursionError, MemoryError, OverflowError) as error:
            # What UiPath's own code raises here; it makes an error result of it.
            return CaseOutcome(outcome=Errored(error_type=type(error).__name__, message=str(error)))
        if not isinstance(verdict, Verdict):
            return CaseOutcome(outcome=verdict)
        details: Json = verdict.details()
        return CaseOutcome(outcome=verdict.outcome(), original={"details": details})

    def _criteria(self, expected: JsonObject) -> CriteriaT:
        if not expected and self.default_evaluation_criteria is not None:
            return self.default_evaluation_criteria
        return self.criteria_type().model_validate(expected)

    @classmethod
    @abstractmethod
    def criteria_type(cls) -> type[CriteriaT]:
        """Return the model of what is expected."""
        ...

    @abstractmethod
    def criteria_of(self, expected: Expected) -> CriteriaT | Errored | None:
        """Say in UiPath's words what a criterion expects."""
        ...

    @abstractmethod
    def judged(self, criteria: CriteriaT, trajectory: Trajectory) -> Judging:
        """Judge a trajectory."""
        ...

    @abstractmethod
    def judged_as_written(self, criteria: CriteriaT, actual: JsonObject) -> Judging:
        """Judge what a case says was done."""
        ...


def unsupported(expected: Expected) -> Errored | None:
    """Refuse what UiPath has no words for."""
    for call in expected.calls:
        if call.optional or call.repeat != (1, 1):
            return Errored(
                error_type="unsupported_reference",
                message="UiPath knows neither optional nor repeated calls; `tool_trajectory` does",
            )
    return None


def both_or_one_empty(expected: int, made: int, details: Callable[[str], JsonObject]) -> Verdict | None:
    """Score 1 where nothing was expected and nothing done, 0 where only one of them; `None` where both are there."""
    if expected and made:
        return None
    is_as_expected = not expected and not made
    return Verdict(
        value=float(is_as_expected),
        explanation=f"{expected} were expected and {made} calls were made",
        parts={"matched": 0, "expected": expected, "calls": made},
        details=lambda: details("both-empty" if is_as_expected else "one-empty"),
    )


def known_ids(keys: Iterable[str | None]) -> frozenset[str]:
    """Return all that an expected id can be called by."""
    return frozenset(key for key in keys if key is not None)
