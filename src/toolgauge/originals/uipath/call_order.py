"""`uipath.tool_call_order`: how much of the expected order of calls can be found in the run."""

from collections.abc import Sequence

from toolgauge.model.expected import Expected
from toolgauge.model.json import JsonObject
from toolgauge.model.outcomes import Difference, Errored, Side
from toolgauge.model.trajectory import Trajectory
from toolgauge.originals.uipath.evaluator import (
    AnyCall,
    Criteria,
    Judging,
    UiPathEvaluator,
    Verdict,
    both_or_one_empty,
    is_key_of,
    key_of,
    known_ids,
    made_calls,
    unsupported,
    written_calls,
)
from toolgauge.score.selection import shown

_MAX_CELLS = 4_000_000


class OrderCriteria(Criteria):
    """Names or ids of tools in the expected order."""

    tool_calls_order: list[str]


class ToolCallOrder(UiPathEvaluator[OrderCriteria]):
    """The length of the longest common subsequence / the number of expected calls; more calls are free.

    `strict`: 1 if both sides are equal place by place, else 0. Parts: `matched` of `expected` calls, and `calls` made.
    """

    strict: bool = False

    @classmethod
    def criteria_type(cls) -> type[OrderCriteria]:
        """Return the model of what is expected."""
        return OrderCriteria

    def criteria_of(self, expected: Expected) -> OrderCriteria | Errored:
        """Take over the ids of the expected calls, else their names."""
        return unsupported(expected) or OrderCriteria.model_construct(
            tool_calls_order=[call.name if call.call_id is None else call.call_id for call in expected.calls]
        )

    def judged(self, criteria: OrderCriteria, trajectory: Trajectory) -> Judging:
        """Judge a trajectory."""
        ids = known_ids(criteria.tool_calls_order)
        calls = made_calls(trajectory, ids)
        return self._compared(criteria.tool_calls_order, calls)

    def judged_as_written(self, criteria: OrderCriteria, actual: JsonObject) -> Judging:
        """Judge what a case says was done."""
        return self._compared(criteria.tool_calls_order, written_calls(actual, with_arguments=False))

    def _compared(self, expected: list[str], calls: Sequence[AnyCall]) -> Judging:
        def details(lcs: Sequence[str]) -> JsonObject:
            return {"actual": str([key_of(call) for call in calls]), "expected": str(expected), "lcs": [*lcs]}

        empty = both_or_one_empty(len(expected), len(calls), lambda _: details([]))
        if empty is not None:
            return empty
        if len(expected) * len(calls) > _MAX_CELLS:
            return Errored(error_type="too_large", message="there are too many calls to look for an order in")
        if self.strict:
            is_equal = len(calls) == len(expected) and all(map(is_key_of, calls, expected))
            found = expected if is_equal else []
        else:
            found = _longest_common(expected, calls)
        value = len(found) / len(expected)
        return Verdict(
            value=value,
            explanation=f"{len(found)} of {len(expected)} expected calls were made in the expected order",
            parts={"matched": len(found), "expected": len(expected), "calls": len(calls)},
            differences=() if value == 1 else (_different(expected, calls),),
            details=lambda: details(found),
        )


def _longest_common(expected: Sequence[str], calls: Sequence[AnyCall]) -> list[str]:
    """Find the longest common subsequence in the expected spelling; of several the one that UiPath's walk back meets."""
    matches: dict[tuple[str, str | None], list[bool]] = {}
    for call in calls:
        if (call.name, call.id) not in matches:
            matches[call.name, call.id] = [is_key_of(call, key) for key in expected]
    table = [[0] * (len(expected) + 1)]
    for call in calls:
        above, row = table[-1], [0]
        for place, is_match in enumerate(matches[call.name, call.id], 1):
            row.append(above[place - 1] + 1 if is_match else max(above[place], row[-1]))
        table.append(row)
    found: list[str] = []
    row, column = len(calls), len(expected)
    while row and column:
        call = calls[row - 1]
        if matches[call.name, call.id][column - 1]:
            found.append(expected[column - 1])
            row, column = row - 1, column - 1
        elif table[row - 1][column] > table[row][column - 1]:
            row -= 1
        else:
            column -= 1
    return found[::-1]


def _different(expected: Sequence[str], calls: Sequence[AnyCall]) -> Difference:
    return Difference(
        where=shown("order"),
        rule="order",
        expected=Side(value=[*expected]),
        actual=Side(value=[key_of(call) for call in calls]),
    )
