"""`uipath.tool_call_count`: each named tool was called as often as its rule says."""

import operator
from collections import Counter
from collections.abc import Callable, Sequence

from toolgauge.model.expected import Expected, ExpectedCall
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
    key_of,
    known_ids,
    made_calls,
    sanitised,
    written_calls,
)
from toolgauge.score.selection import shown

_EXPLAINED = "explained_tool_calls_count"
_COMPARATORS: dict[str, Callable[[int, int], bool]] = {
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
}
# From here on a range of ours has no upper end.
_MANY = 1_000_000


class CountCriteria(Criteria):
    """A comparator and a number for the names or ids of tools."""

    tool_calls_count: dict[str, tuple[str, int]]


class ToolCallCount(UiPathEvaluator[CountCriteria]):
    """The share of rules that hold, such as `[">=", 2]` for the calls of a tool; other tools are not looked at.

    `strict`: 0 as soon as one does not hold. Wart: where no call was made at all the score is 0, also for a rule such as
    `["=", 0]`. Parts: `matched` of `expected` rules, and `calls` that were made.
    """

    strict: bool = False

    @classmethod
    def criteria_type(cls) -> type[CountCriteria]:
        """Return the model of what is expected."""
        return CountCriteria

    def criteria_of(self, expected: Expected) -> CountCriteria | Errored:
        """Make rules of the expected calls; those of one tool add up."""
        by_key: dict[str, list[ExpectedCall]] = {}
        for call in expected.calls:
            by_key.setdefault(call.name if call.call_id is None else call.call_id, []).append(call)
        rules = {key: _rule(calls) for key, calls in by_key.items()}
        unspoken = [key for key, rule in rules.items() if rule is None]
        if unspoken:
            return Errored(
                error_type="unsupported_reference",
                message=f"UiPath has no range with two ends for {shown(unspoken[0])}; `tool_call_count` has",
            )
        return CountCriteria.model_construct(
            tool_calls_count={key: rule for key, rule in rules.items() if rule is not None}
        )

    def judged(self, criteria: CountCriteria, trajectory: Trajectory) -> Judging:
        """Judge a trajectory."""
        ids = known_ids(criteria.tool_calls_count)
        return self._compared(criteria, made_calls(trajectory, ids))

    def judged_as_written(self, criteria: CountCriteria, actual: JsonObject) -> Judging:
        """Judge what a case says was done."""
        return self._compared(criteria, written_calls(actual, with_arguments=False))

    def _compared(self, criteria: CountCriteria, calls: Sequence[AnyCall]) -> Judging:
        rules = criteria.tool_calls_count
        counts = Counter(key_of(call) for call in calls)

        def details(explanations: JsonObject) -> JsonObject:
            return {"expected": str(rules), "actual": str(dict(counts)), _EXPLAINED: explanations}

        empty = both_or_one_empty(len(rules), len(calls), lambda said: details({"_result": said}))
        if empty is not None:
            return empty
        held: dict[str, bool] = {}
        for key, (comparator, number) in rules.items():
            if comparator not in _COMPARATORS:
                return Errored(error_type="KeyError", message=f"there is no comparator for {shown(key)} as written")
            held[key] = _COMPARATORS[comparator](_count(counts, key), number)
            if self.strict and not held[key]:
                break
        matched = sum(held.values())
        broken = [key for key in held if not held[key]]
        told = broken if self.strict and broken else held
        return Verdict(
            value=0.0 if self.strict and broken else matched / len(rules),
            explanation=f"{matched} of {len(rules)} rules hold"
            + (f"; not that for {shown(broken[0])}" if broken else ""),
            parts={"matched": matched, "expected": len(rules), "calls": len(calls)},
            differences=tuple(_difference(key, rules[key], counts) for key in broken),
            details=lambda: details(
                {
                    key: f"Actual: {_count(counts, key)}, Expected: {rules[key][1]}, Score: {float(held[key])}"
                    for key in told
                }
            ),
        )


def _count(counts: Counter[str], key: str) -> int:
    # Wart: only the expected name is sanitised, so `Web Search` finds `Web_Search` and not the other way round.
    return counts[key] if key in counts else counts[sanitised(key)]


def _rule(calls: Sequence[ExpectedCall]) -> tuple[str, int] | None:
    """Write how often these calls may occur; `None` for a range with two ends."""
    least = sum(0 if call.optional else call.repeat[0] for call in calls)
    most = sum(call.repeat[1] for call in calls)
    if least == most:
        return "=", least
    if most >= _MANY:
        return ">=", least
    return None if least else ("<=", most)


def _difference(key: str, rule: tuple[str, int], counts: Counter[str]) -> Difference:
    return Difference(
        where=shown(key), rule="count", expected=Side(value=[*rule]), actual=Side(value=_count(counts, key))
    )
