"""Compares calls as UiPath 2.14.44 does: their arguments, their numbers by tool, their order, their outputs."""

import operator
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Literal, cast

from msgspec import Struct

from toolgauge.model.content import NotRecorded
from toolgauge.model.expected import Expected, ExpectedCall
from toolgauge.model.json import JsonObject
from toolgauge.model.outcomes import OTHER_ARGUMENTS, Difference, Errored, NotEvaluated, Reason, Side
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
    key_of,
    made_calls,
    sanitised,
)
from toolgauge.score.plain_calls import kind_of, unsupported
from toolgauge.score.selection import shown


def _empty(expected: int, made: int, details: Callable[[str], JsonObject]) -> Verdict:
    """Score 1 where both sides are empty, 0 where only one is."""
    is_as_expected = not expected and not made
    return Verdict(
        value=float(is_as_expected),
        explanation=f"{expected} were expected and {made} calls were made",
        parts={"matched": 0, "expected": expected, "calls": made},
        details=lambda: details("both-empty" if is_as_expected else "one-empty"),
    )


class _Attempt(Struct, frozen=True):
    """One comparison that was made."""

    expected: int
    made: int
    is_equal: bool


def _attempts(
    expected: Sequence[Written], made: Sequence[LiveCall], equal: Callable[[Written, LiveCall], bool], *, stops: bool
) -> tuple[list[_Attempt], list[int]]:
    """Return all comparisons, and the expected calls that found nothing equal; `stops` at the first of those."""
    attempts: list[_Attempt] = []
    missing: list[int] = []
    used: set[int] = set()
    candidates: dict[tuple[str, str | None], list[int]] = {}
    for index, wanted in enumerate(expected):
        key = (wanted.name, wanted.id)
        if key not in candidates:
            candidates[key] = [place for place, call in enumerate(made) if call.is_meant_by(wanted)]
        is_found = False
        for place in candidates[key]:
            if place in used:
                continue
            is_found = equal(wanted, made[place])
            attempts.append(_Attempt(index, place, is_found))
            if is_found or stops:
                break
        if is_found:
            used.add(attempts[-1].made)
        else:
            missing.append(index)
            if stops:
                break
    return attempts, missing


class CallEvaluator(UiPathEvaluator[CriteriaT]):
    """Compares the calls of a trajectory with the expected ones."""

    looks_at_outputs: ClassVar[bool] = False

    strict: bool = False

    def judged(self, criteria: CriteriaT, trajectory: Trajectory) -> Judging:
        """Judge a trajectory."""
        calls = made_calls(trajectory, self.keys(criteria), with_outputs=self.looks_at_outputs)
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


class PairedCalls(CallEvaluator[CriteriaT]):
    """Scores the share of expected calls that found an equal one. `part` is the compared field beside the identity."""

    part: ClassVar[Literal["args", "output"]]
    # The criteria's list of expected calls.
    listed: ClassVar[Literal["tool_calls", "tool_outputs"]]
    model: ClassVar[type[Written]]
    # The key of the details with a line a comparison, and what a pair is in words.
    explained: ClassVar[str]
    explanation: ClassVar[str]
    stops_where_strict: ClassVar[bool] = False

    def keys(self, criteria: CriteriaT) -> Iterable[str | None]:
        """Return the ids and names of the expected calls."""
        expected: Sequence[Written] = getattr(criteria, self.listed)
        return (key for call in expected for key in (call.id, call.name))

    def compared(self, criteria: CriteriaT, calls: Sequence[LiveCall]) -> Judging:
        """Compare the calls."""
        expected: Sequence[Written] = getattr(criteria, self.listed)
        part, stops = self.part, self.strict and self.stops_where_strict

        def details(explanations: JsonObject) -> JsonObject:
            of_calls = [{"name": call.name, part: getattr(call, part), "id": call.id} for call in calls]
            made = [self.model.model_validate(written) for written in of_calls]
            return {"expected": str(expected), "actual": str(made), self.explained: explanations}

        if not expected or not calls:
            return _empty(len(expected), len(calls), lambda texts: details({"_result": texts}))
        attempts, missing = _attempts(expected, calls, self.is_equal, stops=stops)

        def explanations() -> JsonObject:
            # The number behind a name counts comparisons, not calls.
            counts = Counter[str]()
            lines: JsonObject = {}
            for one in attempts:
                name = calls[one.made].name
                found, wanted = getattr(calls[one.made], part), getattr(expected[one.expected], part)
                lines[f"{name}_{counts[name]}"] = f"Actual: {found}, Expected: {wanted}, Score: {float(one.is_equal)}"
                counts[name] += 1
            if not stops or not missing:
                return lines
            # Strict details keep only the line that broke.
            is_compared = attempts and attempts[-1].expected == missing[0]
            return dict([list(lines.items())[-1]]) if is_compared else {"_result": "no-match"}

        used = {one.made for one in attempts if one.is_equal}
        closest = {one.expected: calls[one.made] for one in reversed(attempts) if one.made not in used}
        # Expected calls behind the stop were not found either.
        count, wanted = len(used), len(expected)
        return Verdict(
            value=float(count == wanted) if self.strict else count / wanted,
            explanation=f"{count} of {wanted} {self.explanation}",
            parts={"matched": count, "expected": wanted, "calls": len(calls)},
            differences=tuple(self.difference(expected[one], closest.get(one)) for one in missing),
            details=lambda: details(explanations()),
        )

    def is_equal(self, expected: Written, made: LiveCall) -> bool:
        """Return whether a call of the same identity is the expected one."""
        return getattr(expected, self.part) == getattr(made, self.part)

    def difference(self, expected: Written, made: LiveCall | None) -> Difference:
        """Describe an expected call that was not found, beside the closest free one."""
        rule, found = ("missing", None) if made is None else ("exact", Side(value=getattr(made, self.part)))
        wanted = Side(value=getattr(expected, self.part))
        return Difference(where=shown(expected.name), rule=rule, expected=wanted, actual=found)


def _unseen(
    expected: Sequence[Written], calls: Sequence[LiveCall], hidden: Sequence[bool], reason: Reason
) -> NotEvaluated | None:
    """Name a call that could be an expected one and that was not recorded in full."""
    for call, is_hidden in zip(calls, hidden, strict=True):
        if is_hidden and any(call.is_meant_by(wanted) for wanted in expected):
            part = f"the arguments of {shown(call.name)} were"
            if reason == "results_not_recorded":
                part = f"the result of {shown(call.name)} was"
            return NotEvaluated(reason=reason, explanation=f"{part} not recorded")
    return None


class ArgsCriteria(Criteria):
    """The expected calls."""

    tool_calls: list[ToolCall]


class ToolCallArgs(PairedCalls[ArgsCriteria]):
    """The share of expected calls that were made with equal values for all expected arguments.

    The order does not matter, more arguments and calls are free. `strict`: 1 if all were made, else 0. `subset` is
    there and changes nothing, as in the original. Parts: `matched` of `expected` calls, and `calls` that were made.
    """

    part, listed = "args", "tool_calls"
    model = ToolCall
    explained = "explained_tool_calls_args"
    explanation = "expected calls were made with the expected arguments"

    # Wart: arguments that are not expected are free with it and without it.
    subset: bool = False

    def criteria_of(self, expected: Expected) -> ArgsCriteria | Errored:
        """Take over the expected calls; one whose arguments do not matter expects none."""
        refusal = unsupported(expected.calls, "UiPath")
        if refusal is not None:
            return refusal
        # Expected calls are checked already: models are built without a second check, which is faster.
        calls = [
            ToolCall.model_construct(name=call.name, args=call.args or {}, id=call.call_id) for call in expected.calls
        ]
        return ArgsCriteria.model_construct(tool_calls=calls)

    def unseen(self, criteria: ArgsCriteria, calls: Sequence[LiveCall], trajectory: Trajectory) -> NotEvaluated | None:
        """Look for arguments that were not recorded, of calls whose arguments count."""
        hidden = [isinstance(call.arguments, NotRecorded) for call in trajectory.calls]
        return _unseen([call for call in criteria.tool_calls if call.args], calls, hidden, "arguments_not_recorded")

    def is_equal(self, expected: Written, made: LiveCall) -> bool:
        """Return whether the call has the expected arguments."""
        return all(name in made.args and made.args[name] == value for name, value in _arguments(expected).items())

    def difference(self, expected: Written, made: LiveCall | None) -> Difference:
        """Show the arguments that differ."""
        if made is None:
            return super().difference(expected, made)
        before, after = _arguments(expected), cast("JsonObject", made.args)
        differing = [one for one, value in before.items() if one not in after or after[one] != value]
        wrong, given = ({one: side[one] for one in differing if one in side} for side in (before, after))
        where = shown(expected.name)
        return Difference(where=where, rule=OTHER_ARGUMENTS, expected=Side(value=wrong), actual=Side(value=given))


def _arguments(call: Written) -> JsonObject:
    # Criteria are JSON; the arguments' type is wider because made ones can be Python literals.
    return cast("JsonObject", call.args) if isinstance(call, ToolCall) else {}


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
        """Make one rule for all expected calls of a tool."""
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

        if not rules or not calls:
            return _empty(len(rules), len(calls), lambda texts: details({"_result": texts}))
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
        refusal = unsupported(expected.calls, "UiPath")
        if refusal is not None:
            return refusal
        keys = [call.name if call.call_id is None else call.call_id for call in expected.calls]
        return OrderCriteria.model_construct(tool_calls_order=keys)

    def keys(self, criteria: OrderCriteria) -> Iterable[str]:
        """Return the expected ids and names."""
        return criteria.tool_calls_order

    def compared(self, criteria: OrderCriteria, calls: Sequence[LiveCall]) -> Judging:
        """Compare the order."""
        expected, made = criteria.tool_calls_order, [key_of(call) for call in calls]

        def details(lcs: Sequence[str]) -> JsonObject:
            return {"actual": str(made), "expected": str(expected), "lcs": [*lcs]}

        if not expected or not calls:
            return _empty(len(expected), len(calls), lambda _: details([]))
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
    """Find the longest common subsequence in the expected spelling; of several, UiPath's walk back decides."""
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


class ToolCallOutput(PairedCalls[OutputCriteria]):
    """The share of expected outputs that a call of the tool gave, letter for letter.

    `strict`: 0 as soon as an expected output is compared with another one. Wart: with `strict` the order of calls
    matters, without it it does not. Parts: `matched` of `expected` calls, and `calls` that were made.
    """

    part, listed = "output", "tool_outputs"
    model = ToolOutput
    explained = "explained_tool_calls_outputs"
    explanation = "expected outputs were found"
    stops_where_strict = True
    looks_at_outputs = True

    def criteria_of(self, expected: Expected) -> OutputCriteria | Errored:
        """Take over the expected outputs; a call of which none is expected is not looked at."""
        refusal = unsupported(expected.calls, "UiPath")
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

    def unseen(
        self, criteria: OutputCriteria, calls: Sequence[LiveCall], trajectory: Trajectory
    ) -> NotEvaluated | None:
        """Look for results that were not recorded."""
        hidden = [isinstance(call.result, NotRecorded) and call.error is None for call in trajectory.calls]
        return _unseen(criteria.tool_outputs, calls, hidden, "results_not_recorded")
