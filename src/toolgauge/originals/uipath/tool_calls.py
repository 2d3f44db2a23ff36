"""Compares calls as UiPath 2.14.44 does: their arguments, their numbers by tool, their order, their outputs."""

import operator
from collections import Counter
from collections.abc import Callable, Sequence
from typing import cast

from toolgauge.model.content import NotRecorded
from toolgauge.model.expected import Expected, ExpectedCall
from toolgauge.model.json import JsonObject
from toolgauge.model.outcomes import Difference, Errored, NotEvaluated, Side
from toolgauge.model.trajectory import Trajectory
from toolgauge.originals.uipath.evaluator import (
    AnyCall,
    Attempts,
    Criteria,
    Judging,
    LiveCall,
    ToolCall,
    ToolOutput,
    UiPathEvaluator,
    Verdict,
    attempt,
    both_or_one_empty,
    explained,
    hidden_from,
    is_key_of,
    key_of,
    known_ids,
    made_calls,
    made_outputs,
    sanitised,
    unsupported,
    written_calls,
    written_outputs,
)
from toolgauge.score.plain_calls import kind_of
from toolgauge.score.selection import shown

_ARGS_EXPLAINED = "explained_tool_calls_args"


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
        """Return the model of the expectations."""
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
        """Judge the calls of a case."""
        return self._compared(criteria.tool_calls, written_calls(actual, with_arguments=True))

    def _compared(self, expected: list[ToolCall], calls: Sequence[ToolCall | LiveCall]) -> Judging:
        def details(explanations: JsonObject) -> JsonObject:
            return {"expected": str(expected), "actual": str(calls), _ARGS_EXPLAINED: explanations}

        empty = both_or_one_empty(len(expected), len(calls), lambda texts: details({"_result": texts}))
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
            differences=tuple(_missing_call(expected[index]) for index in attempts.missing),
            details=lambda: details(
                explained(attempts, calls, lambda wanted, made: (calls[made].args, expected[wanted].args))
            ),
        )


def _missing_call(call: ToolCall) -> Difference:
    # Criteria are JSON; the arguments' type is wider because made ones can be Python literals.
    return Difference(where=shown(call.name), rule="missing", expected=Side(value=cast("JsonObject", call.args)))


_COUNTS_EXPLAINED = "explained_tool_calls_count"
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
        """Return the model of the expectations."""
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
                message=f"UiPath takes one comparator and one number for {shown(unspoken[0])}, not a range with two ends;"
                " `tool_call_count` takes ranges",
            )
        return CountCriteria.model_construct(
            tool_calls_count={key: rule for key, rule in rules.items() if rule is not None}
        )

    def judged(self, criteria: CountCriteria, trajectory: Trajectory) -> Judging:
        """Judge a trajectory."""
        ids = known_ids(criteria.tool_calls_count)
        return self._compared(criteria, made_calls(trajectory, ids))

    def judged_as_written(self, criteria: CountCriteria, actual: JsonObject) -> Judging:
        """Judge the calls of a case."""
        return self._compared(criteria, written_calls(actual, with_arguments=False))

    def _compared(self, criteria: CountCriteria, calls: Sequence[AnyCall]) -> Judging:
        rules = criteria.tool_calls_count
        counts = Counter(key_of(call) for call in calls)

        def details(explanations: JsonObject) -> JsonObject:
            return {"expected": str(rules), "actual": str(dict(counts)), _COUNTS_EXPLAINED: explanations}

        empty = both_or_one_empty(len(rules), len(calls), lambda texts: details({"_result": texts}))
        if empty is not None:
            return empty
        held: dict[str, bool] = {}
        for key, (comparator, number) in rules.items():
            if comparator not in _COMPARATORS:
                known = "`, `".join(_COMPARATORS)
                message = f"the comparator for {shown(key)} is not one that UiPath takes: `{known}`"
                return Errored(error_type="KeyError", message=message)
            held[key] = _COMPARATORS[comparator](_count(counts, key), number)
            if self.strict and not held[key]:
                break
        matched = sum(held.values())
        broken = [key for key in held if not held[key]]
        reported = broken if self.strict and broken else held
        return Verdict(
            value=0.0 if self.strict and broken else matched / len(rules),
            explanation=f"{matched} of {len(rules)} rules hold"
            + (f"; not that for {shown(broken[0])}" if broken else ""),
            parts={"matched": matched, "expected": len(rules), "calls": len(calls)},
            differences=tuple(_difference(key, rules[key], counts) for key in broken),
            details=lambda: details(
                {
                    key: f"Actual: {_count(counts, key)}, Expected: {rules[key][1]}, Score: {float(held[key])}"
                    for key in reported
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
        """Return the model of the expectations."""
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
        """Judge the calls of a case."""
        return self._compared(criteria.tool_calls_order, written_calls(actual, with_arguments=False))

    def _compared(self, expected: list[str], calls: Sequence[AnyCall]) -> Judging:
        def details(lcs: Sequence[str]) -> JsonObject:
            return {"actual": str([key_of(call) for call in calls]), "expected": str(expected), "lcs": [*lcs]}

        empty = both_or_one_empty(len(expected), len(calls), lambda _: details([]))
        if empty is not None:
            return empty
        if len(expected) * len(calls) > _MAX_CELLS:
            return Errored(
                error_type="too_large", message=f"expected calls times calls made must be at most {_MAX_CELLS}"
            )
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


_OUTPUTS_EXPLAINED = "explained_tool_calls_outputs"


class OutputCriteria(Criteria):
    """The expected outputs; they are texts. Wart: an object is refused."""

    tool_outputs: list[ToolOutput]


class ToolCallOutput(UiPathEvaluator[OutputCriteria]):
    """The share of expected outputs that a call of the tool gave, letter for letter.

    `strict`: 0 as soon as an expected output is compared with another one. Wart: with `strict` the order of calls
    matters, without it it does not. Parts: `matched` of `expected` calls, and `calls` that were made.
    """

    strict: bool = False

    @classmethod
    def criteria_type(cls) -> type[OutputCriteria]:
        """Return the model of the expectations."""
        return OutputCriteria

    def criteria_of(self, expected: Expected) -> OutputCriteria | Errored:
        """Take over the expected outputs; a call of which none is expected is not looked at."""
        refusal = unsupported(expected)
        if refusal is not None:
            return refusal
        outputs: list[ToolOutput] = []
        for call in expected.calls:
            value = None if call.output is None else call.output.value
            if isinstance(value, str):
                outputs.append(ToolOutput.model_construct(name=call.name, output=value, id=call.call_id))
            elif call.output is not None:
                # Rule: an expected output of another kind is refused in every shape of a case, as in UiPath's own.
                message = f"UiPath refuses `output` of {shown(call.name)}, which is {kind_of(value)}: it must be text"
                return Errored(error_type="validation", message=message)
        return OutputCriteria.model_construct(tool_outputs=outputs)

    def judged(self, criteria: OutputCriteria, trajectory: Trajectory) -> Judging:
        """Judge a trajectory."""
        ids = known_ids(key for call in criteria.tool_outputs for key in (call.id, call.name))
        calls = made_outputs(trajectory, ids)
        hidden = [isinstance(call.result, NotRecorded) and call.error is None for call in trajectory.calls]
        name = hidden_from(criteria.tool_outputs, calls, hidden)
        if name is not None:
            return NotEvaluated(
                reason="results_not_recorded", explanation=f"the result of {shown(name)} was not recorded"
            )
        return self._compared(criteria.tool_outputs, calls)

    def judged_as_written(self, criteria: OutputCriteria, actual: JsonObject) -> Judging:
        """Judge the calls of a case."""
        return self._compared(criteria.tool_outputs, written_outputs(actual))

    def _compared(self, expected: list[ToolOutput], calls: Sequence[ToolOutput | LiveCall]) -> Judging:
        def details(explanations: JsonObject) -> JsonObject:
            return {"expected": str(expected), "actual": str(calls), _OUTPUTS_EXPLAINED: explanations}

        empty = both_or_one_empty(len(expected), len(calls), lambda texts: details({"_result": texts}))
        if empty is not None:
            return empty

        def equal(wanted: int, made: int) -> bool:
            return expected[wanted].output == calls[made].output

        attempts = attempt(expected, calls, equal, stops=self.strict)
        # What strictness stopped short of was not found either.
        matched = sum(one.is_equal for one in attempts.all)
        return Verdict(
            value=float(matched == len(expected)) if self.strict else matched / len(expected),
            explanation=f"{matched} of {len(expected)} expected outputs were found",
            parts={"matched": matched, "expected": len(expected), "calls": len(calls)},
            differences=tuple(_missing_output(expected[index]) for index in attempts.missing),
            details=lambda: details(self._explained(attempts, expected, calls)),
        )

    def _explained(
        self, attempts: Attempts, expected: list[ToolOutput], calls: Sequence[ToolOutput | LiveCall]
    ) -> JsonObject:
        lines = explained(attempts, calls, lambda wanted, made: (calls[made].output, expected[wanted].output))
        if not self.strict or not attempts.missing:
            return lines
        # Strict details keep only what broke.
        (missing,) = attempts.missing
        if attempts.all and attempts.all[-1].expected == missing:
            return dict([list(lines.items())[-1]])
        return {"_result": "no-match"}


def _missing_output(call: ToolOutput) -> Difference:
    return Difference(where=shown(call.name), rule="missing", expected=Side(value=call.output))
