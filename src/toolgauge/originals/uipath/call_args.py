"""`uipath.tool_call_args`: the expected calls were made, each with at least the expected arguments."""

from collections.abc import Sequence
from typing import cast

from toolgauge.model.content import NotRecorded
from toolgauge.model.expected import Expected
from toolgauge.model.json import JsonObject
from toolgauge.model.outcomes import Difference, Errored, NotEvaluated, Side
from toolgauge.model.trajectory import Trajectory
from toolgauge.originals.uipath.evaluator import (
    Criteria,
    Judging,
    LiveCall,
    ToolCall,
    UiPathEvaluator,
    Verdict,
    attempt,
    both_or_one_empty,
    explained,
    hidden_from,
    known_ids,
    made_calls,
    unsupported,
    written_calls,
)
from toolgauge.score.selection import shown

_EXPLAINED = "explained_tool_calls_args"


class ArgsCriteria(Criteria):
    """The expected calls."""

    tool_calls: list[ToolCall]


class ToolCallArgs(UiPathEvaluator[ArgsCriteria]):
    """The share of expected calls that were made with equal values for all expected arguments.

    The order does not matter, more arguments and calls are free. `strict`: 1 if all were made, else 0. `subset` is
    there and changes nothing, as in the original. Parts: `matched` of `expected` calls, and `calls` that were made.
    """

    strict: bool = False
    # Wart: arguments that are not expected are free with it and without it.
    subset: bool = False

    @classmethod
    def criteria_type(cls) -> type[ArgsCriteria]:
        """Return the model of what is expected."""
        return ArgsCriteria

    def criteria_of(self, expected: Expected) -> ArgsCriteria | Errored:
        """Take over the expected calls; one whose arguments do not matter expects none."""
        # What is expected is checked already, and models are made of it faster without doing so again.
        return unsupported(expected) or ArgsCriteria.model_construct(
            tool_calls=[
                ToolCall.model_construct(name=call.name, args=call.args or {}, id=call.call_id)
                for call in expected.calls
            ]
        )

    def judged(self, criteria: ArgsCriteria, trajectory: Trajectory) -> Judging:
        """Judge a trajectory."""
        ids = known_ids(key for call in criteria.tool_calls for key in (call.id, call.name))
        calls = made_calls(trajectory, ids)
        looked_at = [call for call in criteria.tool_calls if call.args]
        hidden = [isinstance(call.arguments, NotRecorded) for call in trajectory.calls]
        name = hidden_from(looked_at, calls, hidden)
        if name is not None:
            return NotEvaluated(
                reason="arguments_not_recorded", explanation=f"the arguments of {shown(name)} were not recorded"
            )
        return self._compared(criteria.tool_calls, calls)

    def judged_as_written(self, criteria: ArgsCriteria, actual: JsonObject) -> Judging:
        """Judge what a case says was done."""
        return self._compared(criteria.tool_calls, written_calls(actual, with_arguments=True))

    def _compared(self, expected: list[ToolCall], calls: Sequence[ToolCall | LiveCall]) -> Judging:
        def details(explanations: JsonObject) -> JsonObject:
            return {"expected": str(expected), "actual": str(calls), _EXPLAINED: explanations}

        empty = both_or_one_empty(len(expected), len(calls), lambda said: details({"_result": said}))
        if empty is not None:
            return empty

        def equal(wanted: int, made: int) -> bool:
            found = calls[made].args
            for name, value in expected[wanted].args.items():  # noqa: SIM110 (mostly few: `all` takes longer)
                if name not in found or found[name] != value:
                    return False
            return True

        attempts = attempt(expected, calls, equal)
        matched = len(expected) - len(attempts.missing)
        return Verdict(
            value=float(matched == len(expected)) if self.strict else matched / len(expected),
            explanation=f"{matched} of {len(expected)} expected calls were made with the expected arguments",
            parts={"matched": matched, "expected": len(expected), "calls": len(calls)},
            differences=tuple(_missing(expected[index]) for index in attempts.missing),
            details=lambda: details(
                explained(attempts, calls, lambda wanted, made: (calls[made].args, expected[wanted].args))
            ),
        )


def _missing(call: ToolCall) -> Difference:
    # Criteria are JSON; the arguments' type is wider because made ones can be Python literals.
    return Difference(where=shown(call.name), rule="missing", expected=Side(value=cast("JsonObject", call.args)))
