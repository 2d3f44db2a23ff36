"""Compares calls as UiPath 2.14.44 does: their arguments, their numbers by tool, their order, their outputs."""

import operator
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Literal, cast

from toolgauge.model.content import NotRecorded
from toolgauge.model.expected import Expected, ExpectedCall
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.outcomes import OTHER_ARGUMENTS, Difference, Errored, NotEvaluated, Side
from toolgauge.model.trajectory import Trajectory
from toolgauge.originals.uipath.evaluator import (
    Criteria,
    CriteriaT,
    Judging,
    LiveCall,
    ToolCall,
    ToolOutput,
    UiPathEvaluator,
    Verdict,
    Written,
    attempt,
    both_or_one_empty,
    explained,
    hidden_from,
    key_of,
    made_calls,
    sanitised,
    unsupported,
)
from toolgauge.score.plain_calls import kind_of
from toolgauge.score.selection import shown


class CallEvaluator(UiPathEvaluator[CriteriaT]):
    """Compares the calls of a trajectory with the expected ones."""

    looks_at: ClassVar[Literal["names", "arguments", "outputs"]] = "names"

    strict: bool = False

    def judged(self, criteria: CriteriaT, trajectory: Trajectory) -> Judging:
        """Judge a trajectory."""
        calls = made_calls(trajectory, self.keys(criteria), with_outputs=self.looks_at == "outputs")
        # The spans of a case are complete: a missing value is an empty one.
        unseen = None if trajectory.case_shape == self.case_shape else self.unseen(criteria, calls, trajectory)
        return unseen or self.compared(criteria, calls)

    @abstractmethod
    def keys(self, criteria: CriteriaT) -> Iterable[str | None]:
        """Return the ids and names of the expected calls."""

    def unseen(self, criteria: CriteriaT, calls: Sequence[LiveCall], trajectory: Trajectory) -> NotEvaluated | None:  # noqa: ARG002 (names are always recorded)
        """Return the outcome where a call that could be an expected one was not recorded in full."""
        return None

    @abstractmethod
    def compared(self, criteria: CriteriaT, calls: Sequence[LiveCall]) -> Judging:
        """Compare the calls."""

    def verdict(
        self,
        sides: tuple[Sequence[Written], Sequence[LiveCall]],
        matched: int,
        explanation: str,
        missing: Iterable[Difference],
        details: Callable[[], JsonObject],
    ) -> Verdict:
        """Return the share of expected calls that matched; `missing` are those that did not."""
        expected, calls = map(len, sides)
        return Verdict(
            value=float(matched == expected) if self.strict else matched / expected,
            explanation=f"{matched} of {expected} {explanation}",
            parts={"matched": matched, "expected": expected, "calls": calls},
            differences=tuple(missing),
            details=details,
        )


class ArgsCriteria(Criteria):
    """The expected calls."""

    tool_calls: list[ToolCall]


class ToolCallArgs(CallEvaluator[ArgsCriteria]):
    """The share of expected calls that were made with equal values for all expected arguments.

    The order does not matter, more arguments and calls are free. `strict`: 1 if all were made, else 0. `subset` is
    there and changes nothing, as in the original. Parts: `matched` of `expected` calls, and `calls` that were made.
    """

    looks_at = "arguments"

    # Wart: arguments that are not expected are free with it and without it.
    subset: bool = False

    def criteria_of(self, expected: Expected) -> ArgsCriteria | Errored:
        """Take over the expected calls; one whose arguments do not matter expects none."""
        # Expected calls are checked already: models are built without a second check, which is faster.
        return unsupported(expected) or ArgsCriteria.model_construct(
            tool_calls=[
                ToolCall.model_construct(name=call.name, args=call.args or {}, id=call.call_id)
                for call in expected.calls
            ]
        )

    def keys(self, criteria: ArgsCriteria) -> Iterable[str | None]:
        """Return the ids and names of the expected calls."""
        return (key for call in criteria.tool_calls for key in (call.id, call.name))

    def unseen(self, criteria: ArgsCriteria, calls: Sequence[LiveCall], trajectory: Trajectory) -> NotEvaluated | None:
        """Look for arguments that were not recorded, of calls whose arguments count."""
        hidden = [isinstance(call.arguments, NotRecorded) for call in trajectory.calls]
        name = hidden_from([call for call in criteria.tool_calls if call.args], calls, hidden)
        if name is None:
            return None
        explanation = f"the arguments of {shown(name)} were not recorded"
        return NotEvaluated(reason="arguments_not_recorded", explanation=explanation)

    def compared(self, criteria: ArgsCriteria, calls: Sequence[LiveCall]) -> Judging:
        """Compare the arguments."""
        expected = criteria.tool_calls

        def details(explanations: JsonObject) -> JsonObject:
            made = [ToolCall(name=call.name, args=call.args, id=call.id) for call in calls]
            return {"expected": str(expected), "actual": str(made), "explained_tool_calls_args": explanations}

        empty = both_or_one_empty(len(expected), len(calls), lambda texts: details({"_result": texts}))
        if empty is not None:
            return empty

        def equal(wanted: int, made: int) -> bool:
            found = calls[made].args
            return all(name in found and found[name] == value for name, value in expected[wanted].args.items())

        attempts = attempt(expected, calls, equal)
        closest = attempts.closest()
        return self.verdict(
            (expected, calls),
            len(expected) - len(attempts.missing),
            "expected calls were made with the expected arguments",
            [_other_arguments(expected[one], closest.get(one), calls) for one in attempts.missing],
            lambda: details(explained(attempts, calls, lambda wanted, made: (calls[made].args, expected[wanted].args))),
        )


def _other_arguments(wanted: ToolCall, made: int | None, calls: Sequence[LiveCall]) -> Difference:
    """Return the arguments that differ from those of the call that came closest, where the tool was called."""
    # Criteria are JSON; the arguments' type is wider because made ones can be Python literals.
    expected = cast("JsonObject", wanted.args)
    if made is None:
        return _not_found(wanted.name, expected)
    found = cast("JsonObject", calls[made].args)
    differing = [name for name, value in expected.items() if name not in found or found[name] != value]
    before, after = (Side(value={one: side[one] for one in differing if one in side}) for side in (expected, found))
    return Difference(where=shown(wanted.name), rule=OTHER_ARGUMENTS, expected=before, actual=after)


def _not_found(name: str, expected: Json, actual: str | None = None) -> Difference:
    rule, found = ("missing", None) if actual is None else ("exact", Side(value=actual))
    return Difference(where=shown(name), rule=rule, expected=Side(value=expected), actual=found)


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


class ToolCallCount(CallEvaluator[CountCriteria]):
    """The share of rules that hold, such as `[">=", 2]` for the calls of a tool; other tools are not looked at.

    `strict`: 0 as soon as one does not hold. Wart: where no call was made at all the score is 0, also for a rule such as
    `["=", 0]`. Parts: `matched` of `expected` rules, and `calls` that were made.
    """

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

    def keys(self, criteria: CountCriteria) -> Iterable[str]:
        """Return the ids and names of the rules."""
        return criteria.tool_calls_count

    def compared(self, criteria: CountCriteria, calls: Sequence[LiveCall]) -> Judging:
        """Count the calls by tool."""
        rules = criteria.tool_calls_count
        counts = Counter(key_of(call) for call in calls)

        def details(explanations: JsonObject) -> JsonObject:
            return {"expected": str(rules), "actual": str(dict(counts)), "explained_tool_calls_count": explanations}

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
            differences=tuple(
                Difference(
                    where=shown(key),
                    rule="count",
                    expected=Side(value=[*rules[key]]),
                    actual=Side(value=_count(counts, key)),
                )
                for key in broken
            ),
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


_MAX_CELLS = 4_000_000


class OrderCriteria(Criteria):
    """Names or ids of tools in the expected order."""

    tool_calls_order: list[str]


class ToolCallOrder(CallEvaluator[OrderCriteria]):
    """The length of the longest common subsequence / the number of expected calls; more calls are free.

    `strict`: 1 if both sides are equal place by place, else 0. Parts: `matched` of `expected` calls, and `calls` made.
    """

    def criteria_of(self, expected: Expected) -> OrderCriteria | Errored:
        """Take over the ids of the expected calls, else their names."""
        return unsupported(expected) or OrderCriteria.model_construct(
            tool_calls_order=[call.name if call.call_id is None else call.call_id for call in expected.calls]
        )

    def keys(self, criteria: OrderCriteria) -> Iterable[str]:
        """Return the expected ids and names."""
        return criteria.tool_calls_order

    def compared(self, criteria: OrderCriteria, calls: Sequence[LiveCall]) -> Judging:
        """Compare the order."""
        expected, made = criteria.tool_calls_order, [key_of(call) for call in calls]

        def details(lcs: Sequence[str]) -> JsonObject:
            return {"actual": str(made), "expected": str(expected), "lcs": [*lcs]}

        empty = both_or_one_empty(len(expected), len(calls), lambda _: details([]))
        if empty is not None:
            return empty
        if len(expected) * len(calls) > _MAX_CELLS:
            message = f"expected calls times calls made must be at most {_MAX_CELLS}"
            return Errored(error_type="too_large", message=message)
        if self.strict:
            found = expected if len(calls) == len(expected) and all(map(LiveCall.is_key, calls, expected)) else []
        else:
            found = _longest_common(expected, calls)
        value = len(found) / len(expected)
        difference = Difference(
            where=shown("order"), rule="order", expected=Side(value=[*expected]), actual=Side(value=[*made])
        )
        return Verdict(
            value=value,
            explanation=f"{len(found)} of {len(expected)} expected calls were made in the expected order",
            parts={"matched": len(found), "expected": len(expected), "calls": len(calls)},
            differences=() if value == 1 else (difference,),
            details=lambda: details(found),
        )


def _longest_common(expected: Sequence[str], calls: Sequence[LiveCall]) -> list[str]:
    """Find the longest common subsequence in the expected spelling; of several the one that UiPath's walk back meets."""
    matches: dict[tuple[str, str | None], list[bool]] = {}
    for call in calls:
        if (call.name, call.id) not in matches:
            matches[call.name, call.id] = [call.is_key(key) for key in expected]
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


class OutputCriteria(Criteria):
    """The expected outputs; they are texts. Wart: an object is refused."""

    tool_outputs: list[ToolOutput]


class ToolCallOutput(CallEvaluator[OutputCriteria]):
    """The share of expected outputs that a call of the tool gave, letter for letter.

    `strict`: 0 as soon as an expected output is compared with another one. Wart: with `strict` the order of calls
    matters, without it it does not. Parts: `matched` of `expected` calls, and `calls` that were made.
    """

    looks_at = "outputs"

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

    def keys(self, criteria: OutputCriteria) -> Iterable[str | None]:
        """Return the ids and names of the expected calls."""
        return (key for call in criteria.tool_outputs for key in (call.id, call.name))

    def unseen(
        self, criteria: OutputCriteria, calls: Sequence[LiveCall], trajectory: Trajectory
    ) -> NotEvaluated | None:
        """Look for results that were not recorded."""
        hidden = [isinstance(call.result, NotRecorded) and call.error is None for call in trajectory.calls]
        name = hidden_from(criteria.tool_outputs, calls, hidden)
        explanation = "" if name is None else f"the result of {shown(name)} was not recorded"
        return NotEvaluated(reason="results_not_recorded", explanation=explanation) if name is not None else None

    def compared(self, criteria: OutputCriteria, calls: Sequence[LiveCall]) -> Judging:
        """Compare the outputs."""
        expected = criteria.tool_outputs

        def details(explanations: JsonObject) -> JsonObject:
            made = [ToolOutput(name=call.name, output=call.output, id=call.id) for call in calls]
            return {"expected": str(expected), "actual": str(made), "explained_tool_calls_outputs": explanations}

        empty = both_or_one_empty(len(expected), len(calls), lambda texts: details({"_result": texts}))
        if empty is not None:
            return empty

        def equal(wanted: int, made: int) -> bool:
            return expected[wanted].output == calls[made].output

        attempts = attempt(expected, calls, equal, stops=self.strict)

        def explanations() -> JsonObject:
            lines = explained(attempts, calls, lambda wanted, made: (calls[made].output, expected[wanted].output))
            if not self.strict or not attempts.missing:
                return lines
            # Strict details keep only what broke.
            (missing,) = attempts.missing
            if attempts.all and attempts.all[-1].expected == missing:
                return dict([list(lines.items())[-1]])
            return {"_result": "no-match"}

        # What strictness stopped short of was not found either.
        matched, closest = sum(one.is_equal for one in attempts.all), attempts.closest()
        missing = [
            _not_found(expected[one].name, expected[one].output, None if made is None else calls[made].output)
            for one, made in ((one, closest.get(one)) for one in attempts.missing)
        ]
        sides = expected, calls
        return self.verdict(sides, matched, "expected outputs were found", missing, lambda: details(explanations()))
