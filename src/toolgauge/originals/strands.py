"""`strands.*_match_scorer` and `strands.tool_called` as strands-agents-evals 1.7.0 computes them.

They compare two lists of steps. Live, a step is the name of a called tool; offline it may be any value.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar

from pydantic import BaseModel, ConfigDict

from toolgauge.model.expected import Expected
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.offline import CaseOutcome
from toolgauge.model.outcomes import Errored, Level, NotEvaluated, Outcome, Scored
from toolgauge.model.ports import Evaluation
from toolgauge.model.trajectory import Trajectory
from toolgauge.score.equality import Key, PythonEquality
from toolgauge.score.plain_calls import plain_expected
from toolgauge.score.selection import hidden_calls, shown

# Wart: steps that are expected twice count once above the line and twice below it.
_REPEATS_COUNT_ONCE = True


class _StepScorer(BaseModel):
    """Compares the called tools with the expected ones, by name."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: ClassVar[str] = "1"
    level: ClassVar[Level] = "trajectory"
    needs_reference: ClassVar[bool] = True
    case_shapes: ClassVar[tuple[str, ...]] = ("trajectory",)
    expected_shapes: ClassVar[tuple[str, ...]] = ("trajectory",)
    needs_hashes: ClassVar[bool] = False

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:
        """Yield one outcome for the trajectory."""
        if expected is None or not expected.names_calls:
            yield None, NotEvaluated(reason="no_reference", explanation="no calls are given to compare with")
            return
        if trajectory.hidden_turns:
            yield None, hidden_calls(trajectory)
            return
        plain = plain_expected(expected.calls)
        if isinstance(plain, Errored):
            yield None, plain
            return
        made: list[Json] = [call.name for call in trajectory.calls]
        wanted: list[Json] = [call.name for call in plain]
        yield None, self._outcome(made, wanted)

    def score_case(self, expected: JsonObject, actual: JsonObject) -> CaseOutcome:
        """Score steps as they were written."""
        made, wanted = actual.get("trajectory"), expected.get("trajectory") or []
        if not wanted and made is None:
            # Nothing expected is settled before the steps are looked at.
            made = []
        if not isinstance(made, list) or not isinstance(wanted, list):
            told = "`trajectory` must be a list on both sides"
            return CaseOutcome(outcome=Errored(error_type="TypeError", message=told))
        return CaseOutcome(outcome=self._outcome(made, wanted))

    def _outcome(self, made: Sequence[Json], wanted: Sequence[Json]) -> Outcome:
        equality = PythonEquality()
        sides: list[list[Key]] = []
        has_containers = False
        for steps in (made, wanted):
            keys: list[Key] = []
            for step in steps:
                has_containers = has_containers or isinstance(step, list | dict)
                keys.append(equality.key(step))
            sides.append(keys)
        if has_containers and wanted and self.needs_hashes:
            return Errored(error_type="TypeError", message="a step is a list or an object")
        return self.compared(sides[0], sides[1])

    @abstractmethod
    def compared(self, made: Sequence[Key], wanted: Sequence[Key]) -> Outcome:
        """Compare the steps by their keys, which are equal for equal steps."""
        ...


class ExactMatchScorer(_StepScorer):
    """The share of expected calls that were made at the same place; more calls at the end are free."""

    def compared(self, made: Sequence[Key], wanted: Sequence[Key]) -> Outcome:
        """Compare place by place."""
        if not wanted:
            # Wart: nothing expected is an error here and a success in the other scorers.
            return Errored(error_type="ZeroDivisionError", message="nothing is expected")
        found = 0
        for first, second in zip(made, wanted, strict=False):
            found += first == second
        return _share(found, len(wanted), "in place")


class InOrderMatchScorer(_StepScorer):
    """How far the expected calls were made in their order, as a share; calls between them are free.

    What comes after the first expected call that was not made does not count, even when it was made.
    """

    def compared(self, made: Sequence[Key], wanted: Sequence[Key]) -> Outcome:
        """Walk along the calls that were made."""
        found = 0
        for step in made:
            found += found < len(wanted) and step == wanted[found]
        return _share(found, len(wanted), "made in order") if wanted else _NOTHING_EXPECTED


class AnyOrderMatchScorer(_StepScorer):
    """The share of expected calls that were made, in any order; other calls are free, and repeats count once."""

    # Steps become members of a set.
    needs_hashes: ClassVar[bool] = True

    def compared(self, made: Sequence[Key], wanted: Sequence[Key]) -> Outcome:
        """Compare as sets."""
        called: set[Key] = set()
        for step in made:
            called.add(step)
        found: set[Key] = set()
        count = 0
        for step in wanted:
            count += step in called and not (_REPEATS_COUNT_ONCE and step in found)
            found.add(step)
        return _share(count, len(wanted), "made") if wanted else _NOTHING_EXPECTED


class ToolCalled(BaseModel):
    """1 if the tool `tool_name` was called, else 0; `name` changes nothing."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: ClassVar[str] = "1"
    level: ClassVar[Level] = "trajectory"
    case_shapes: ClassVar[tuple[str, ...]] = ("trajectory",)

    tool_name: str
    name: str | None = None

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:  # noqa: ARG002 (needs no reference)
        """Yield one outcome for the trajectory."""
        if trajectory.hidden_turns:
            yield None, hidden_calls(trajectory)
            return
        yield None, self._outcome(was_called=any(call.name == self.tool_name for call in trajectory.calls))

    def score_case(self, expected: JsonObject, actual: JsonObject) -> CaseOutcome:  # noqa: ARG002 (needs no reference)
        """Score steps as they were written; without a list of them nothing was called."""
        steps = actual.get("trajectory")
        was_called = isinstance(steps, list) and self.tool_name in steps
        return CaseOutcome(
            outcome=self._outcome(was_called=was_called), original={"details": {"test_pass": was_called}}
        )

    def _outcome(self, *, was_called: bool) -> Scored:
        told = f"{shown(self.tool_name)} {'was called' if was_called else 'was not called'}"
        return Scored(value=float(was_called), explanation=told)


_NOTHING_EXPECTED = Scored(value=1.0, explanation="no call is expected")


def _share(found: int, wanted: int, how: str) -> Scored:
    return Scored(value=found / wanted, explanation=f"{found} of {wanted} expected calls were {how}")
