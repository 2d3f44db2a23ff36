"""`adk.*`: the scores of Google ADK, per invocation, which is a user turn, and their mean.

`tool_trajectory` is that of 2.13.0, `tool_parameter_match` that of the unreleased commit be04c68.
"""

from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import ClassVar, Literal, TypeAlias

from pydantic import field_validator

from toolgauge.model.expected import Expected
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.outcomes import Errored, NotEvaluated, Outcome, Scored
from toolgauge.model.ports import Needs
from toolgauge.model.trajectory import Trajectory
from toolgauge.score.equality import PythonEquality
from toolgauge.score.plain_calls import Looked, OneOutcome, PlainCalls, plain_calls, plain_expected
from toolgauge.score.selection import NO_REFERENCE, calls_by_turn

_Status: TypeAlias = Literal["PASSED", "FAILED", "NOT_EVALUATED"]
_MatchType: TypeAlias = Literal["EXACT", "IN_ORDER", "ANY_ORDER"]
_MATCH_TYPES: tuple[_MatchType, ...] = ("EXACT", "IN_ORDER", "ANY_ORDER")


class _Metric(OneOutcome):
    """The base of both metrics: `pass_at` decides instead of `threshold`. Ids are ignored, and null arguments are not `{}`."""

    needs: ClassVar[Needs] = Needs(reference="calls")

    threshold: float = 1.0

    def outcome_of(self, trajectory: Trajectory, expected: Expected | None) -> Outcome:
        """Return the mean over the invocations."""
        if expected is None or not expected.names_calls:
            return NO_REFERENCE
        scores = self._scores(trajectory, expected)
        if not isinstance(scores, list):
            return scores
        value = _mean(scores)
        if value is None:
            return NotEvaluated(reason="nothing_expected", explanation="no invocation has anything to compare with")
        scored = [score for score in scores if score is not None]
        below = sum(score < 1 for score in scored)
        passed = float(self._status(value) == "PASSED")
        return Scored(
            value=min(value, 1.0),
            explanation=f"mean over {len(scored)} of {len(scores)} invocations, of which {below} are below 1",
            parts={"invocations": len(scores), "invocations_scored": len(scored), "passed": passed},
        )

    def original(self, outcome: Outcome, trajectory: Trajectory, expected: Expected | None) -> JsonObject:  # noqa: ARG002 (each invocation counts)
        """Return the status of the original, and the score of each invocation."""
        found = None if expected is None else self._scores(trajectory, expected)
        scores = found if isinstance(found, list) else []
        details: list[Json] = [{"score": score, "status": self._status(score)} for score in scores]
        return {"status": self._status(_mean(scores)), "details": {"per_invocation": details}}

    @abstractmethod
    def score(self, expected: PlainCalls, made: PlainCalls, equality: PythonEquality) -> float | None:
        """Score one invocation; `None` leaves it out of the mean."""

    def _scores(self, trajectory: Trajectory, expected: Expected) -> list[float | None] | NotEvaluated | Errored:
        """Score each invocation; a plain list of expected calls is one invocation, and so is the run."""
        turns = [list(trajectory.calls)]
        if expected.per_turn:
            count, users = len(expected.turns), sum(message.role == "user" for message in trajectory.messages)
            separated = calls_by_turn(trajectory, trajectory.calls, count)
            # A case writes its invocations one by one: nothing about their number is in doubt.
            is_unequal = trajectory.case_shape == "invocations" and users != count
            if is_unequal or (separated is None and users and count):
                message = (
                    f"{count} invocations are expected and {users} were made: the original pairs them one by one and takes"
                    " only equal numbers"
                )
                return Errored(error_type="ValueError", message=message)
            if separated is None:
                explanation = (
                    f"{count} invocations are expected and user turns cannot be told apart in what was recorded"
                )
                return NotEvaluated(reason="incomplete" if count else "nothing_expected", explanation=explanation)
            turns = separated
        equality = PythonEquality()
        scores: list[float | None] = []
        for calls, made in zip(expected.turns, turns, strict=True):
            wanted = plain_expected(calls)
            if isinstance(wanted, Errored):
                return wanted
            found = plain_calls(trajectory, made, wanted, self.looked())
            if isinstance(found, NotEvaluated):
                return found
            scores.append(self.score(wanted, found, equality))
        return scores

    def _status(self, score: float | None) -> _Status:
        if score is None:
            return "NOT_EVALUATED"
        return "PASSED" if score >= self.threshold else "FAILED"


class ToolTrajectory(_Metric):
    """`tool_trajectory_avg_score` of ADK: the share of invocations whose calls match, names and all arguments.

    `EXACT`: the same calls in the same order. `IN_ORDER`: the expected calls in order, `ANY_ORDER`: in any order, with
    any others between them; so where nothing is expected any calls will do. `ignore_args`: names only.
    """

    match_type: _MatchType = "EXACT"
    ignore_args: bool = False

    @field_validator("match_type", mode="before", json_schema_input_type=str | int)
    @classmethod
    def _spelled(cls, value: object) -> object:
        # The original takes any spelling, as in "in order", and the number that it writes itself.
        if isinstance(value, str):
            return value.strip().upper().replace("-", "_").replace(" ", "_")
        if isinstance(value, int) and not isinstance(value, bool) and value in range(len(_MATCH_TYPES)):
            return _MATCH_TYPES[value]
        return value

    def looked(self) -> Looked:
        """Look at the arguments of expected tools: any other tool's call is one too many, with any arguments."""
        return Looked(arguments=not self.ignore_args)

    def score(self, expected: PlainCalls, made: PlainCalls, equality: PythonEquality) -> float | None:
        """Score 1 or 0."""
        if self.match_type == "EXACT" and [call.name for call in expected] != [call.name for call in made]:
            return 0.0
        wanted, found = (
            [(call.name, () if self.ignore_args else equality.key(call.args)) for call in calls]
            for calls in (expected, made)
        )
        match self.match_type:
            case "EXACT":
                return float(wanted == found)
            case "IN_ORDER":
                remaining = iter(found)
                return float(all(key in remaining for key in wanted))
            case "ANY_ORDER":
                return float(Counter(wanted) <= Counter(found))


class ToolParameterMatch(_Metric):
    """`tool_parameter_match` of ADK (unreleased): the share of expected arguments that are right, mean over calls, then turns.

    Each expected call takes the first call of its name after the one that was taken last; one that finds none scores 0
    and one without arguments 1. Calls and arguments beyond the expected ones are free. An invocation where nothing is
    expected is not evaluated, whatever was called.
    """

    def score(self, expected: PlainCalls, made: PlainCalls, equality: PythonEquality) -> float | None:
        """Score the mean over the expected calls."""
        if not expected:
            return None
        total, after = 0.0, 0
        for call in expected:
            # Not found: nothing is taken, and the next expected call looks from the same place on.
            place = next((place for place in range(after, len(made)) if made[place].name == call.name), None)
            if place is not None:
                after = place + 1
                wanted, found = call.args or {}, made[place].args or {}
                met = sum(name in found and equality.same(value, found[name]) for name, value in wanted.items())
                total += met / len(wanted) if wanted else 1.0
        return total / len(expected)


def _mean(scores: Sequence[float | None]) -> float | None:
    scored = [score for score in scores if score is not None]
    return sum(scored) / len(scored) if scored else None
