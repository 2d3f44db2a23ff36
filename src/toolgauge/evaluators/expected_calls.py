"""`tool_call_f1`, `tool_call_order` and `tool_call_count`: were the expected calls made, in their order, and as often?"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar, Literal, TypeGuard, cast

from msgspec import Struct
from pydantic import BeforeValidator, Field, model_validator

from toolgauge.model.expected import Expected, ExpectedCall
from toolgauge.model.outcomes import Difference, Level, NotEvaluated, Outcome, Scored, Side
from toolgauge.model.ports import Evaluation, Needs
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.align import Alignment, align
from toolgauge.score.arguments import (
    ArgumentComparison,
    counts,
    leftovers,
    mismatches,
    pairing_notes,
    unparsable_note,
)
from toolgauge.score.patterns import Globs
from toolgauge.score.selection import (
    NOTHING_MADE,
    CallComparison,
    CallSelection,
    Sides,
    first_notes,
    hidden_calls,
    make_sides,
    not_observable,
    readable_arguments,
    shown,
)

_MAX_DIFFERENCES = 20
_NEITHER = "no call was expected and none was made"


class ToolCallF1(ArgumentComparison):
    """F1 between the multisets of expected and actual calls: 2 * matched / (expected + made).

    Calls match one to one, in any order. With `match: name_and_args` each argument must meet its rule too (equality, where
    `arguments` has none for it), and none may be there that nobody expects, but for those that are `volatile` or have
    the default that the tool's schema declares; an expected call without `args` matches by its name. With
    `match: name` the name is enough. Repeats count: two expected and one made are one match. A call that may be missing
    (`optional`, `repeat`) counts as expected only where it was made. Nothing expected and nothing called is 1, nothing
    expected and something called is 0. With `tools: writes` changes of state are compared: a call that failed made none,
    and does not count unless `failed_calls: count` is given.

    Parts: `precision` is matched / made, `recall` matched / expected.
    """

    version: ClassVar[str] = "2"

    match: Literal["name", "name_and_args"] = "name_and_args"

    @model_validator(mode="before")
    @classmethod
    def _without_failed_writes(cls, written: object) -> object:
        if not isinstance(written, dict):
            return written
        # The mapping may have keys of any kind: unknown parameters are refused later.
        parameters = cast("dict[object, object]", written)
        return {"failed_calls": "ignore", **parameters} if parameters.get("tools") == "writes" else parameters

    def compared(self, expected: Sequence[ExpectedCall], calls: Sequence[ToolCall], trajectory: Trajectory) -> Outcome:
        """Compare the calls of one turn."""
        names_only = self.match == "name"
        unobservable = None if names_only else not_observable(expected, calls)
        if unobservable is not None:
            return unobservable
        comparer = self.comparer(expected, calls, self.terms(trajectory), names_only=names_only)
        sides = comparer.sides

        def weigh(slot: int, call: int) -> float | None:
            value = comparer.weigh(slot, call)
            return value if value == 1.0 else None

        alignment = align(sides.slot_items, sides.call_items, weigh, peel=names_only or comparer.may_peel)
        paired = mismatches(comparer, alignment)
        matched, made = len(alignment.pairs), len(sides.calls)
        wanted, parts = _shares(sides, alignment)
        if not wanted and not made:
            return Scored(value=1.0, explanation=_NEITHER, parts=parts)
        notes = [f"{matched} of {wanted} expected calls match" if wanted else "no call was expected"]
        notes += [*leftovers(sides, alignment, paired), *pairing_notes(alignment, comparer)]
        if not names_only:
            notes += unparsable_note(sides, alignment)
        differences = [one.difference for one in paired]
        paired_slots, paired_calls = {one.slot for one in paired}, {one.call for one in paired}
        # At most `_MAX_DIFFERENCES` of them are paired.
        for slot in alignment.missing[: 2 * _MAX_DIFFERENCES]:
            if slot not in paired_slots:
                call = sides.slots[slot]
                differences.append(Difference(where=call.name, rule=self.match, expected=Side(value=call.args)))
        for index in alignment.unexpected[: 2 * _MAX_DIFFERENCES]:
            if index not in paired_calls:
                arguments = Side(value=readable_arguments(sides.calls[index]))
                differences.append(Difference(where=sides.calls[index].name, rule=self.match, actual=arguments))
        value = 2 * matched / (wanted + made)
        return Scored(value, "; ".join(notes), parts, tuple(differences[:_MAX_DIFFERENCES]))


def _shares(sides: Sides, alignment: Alignment) -> tuple[int, dict[str, float]]:
    """Return how many calls were expected, and the counts of an alignment with recall and precision."""
    matched, made = len(alignment.pairs), len(sides.calls)
    wanted = matched + len(alignment.missing)
    parts = counts(alignment)
    if wanted:
        parts["recall"] = matched / wanted
    if made:
        parts["precision"] = matched / made
    return wanted, parts


class ToolCallOrder(CallComparison):
    """The longest common subsequence of expected and actual tool names / the number of expected calls.

    Calls of one turn (that the model asked for at once) have no order among themselves, and neither have the expected
    calls of one group. An expected `id` binds where the call has one too; arguments are not looked at. A call that may be
    missing (`optional`, `repeat`) counts as expected only where it was made in its place.

    Extra calls cost nothing in the score; they are in `precision` and `unexpected`. `strict`: 1 if the calls are the
    expected ones in the expected order and no others, else 0. Nothing expected and nothing called is 1, nothing expected
    and something called is 0. Where all expected calls may be missing, none of them was made but others were, there is
    nothing to put in order: not evaluated (`strict`: 0).

    Parts: `recall` is the score without `strict`, `precision` the common subsequence / the calls made, `out_of_order`
    the calls that an expected one was missed for.
    """

    version: ClassVar[str] = "1"

    strict: bool = False

    def compared(
        self,
        expected: Sequence[ExpectedCall],
        calls: Sequence[ToolCall],
        trajectory: Trajectory,  # noqa: ARG002 (only calls count)
    ) -> Outcome:
        """Compare the calls of one turn."""
        sides = make_sides(expected, calls, names_only=True)

        def weigh(slot: int, call: int) -> float | None:
            return 1.0 if sides.may_pair(slot, call) else None

        alignment = align(sides.slot_items, sides.call_items, weigh, order="partial")
        common, made = len(alignment.pairs), len(calls)
        wanted, parts = _shares(sides, alignment)
        misplaced = set(alignment.out_of_order)
        parts["out_of_order"] = len(misplaced)
        if not made and not wanted:
            return Scored(value=1.0, explanation=_NEITHER, parts=parts)
        if not wanted and expected and not self.strict:
            return NOTHING_MADE
        is_whole = common == wanted == made
        notes = [f"{common} of {wanted} expected calls are in order" if wanted else "no call was expected"]
        notes += [*leftovers(sides, alignment), *pairing_notes(alignment)]
        if misplaced:
            notes.append(f"{len(misplaced)} calls are out of order")
        if self.strict and not is_whole:
            notes.append("strict: these calls, in this order, and no others")
        missing = [sides.slots[slot].name for slot in alignment.missing[:_MAX_DIFFERENCES]]
        differences = [Difference(where=name, rule="order", expected=Side(value=name)) for name in missing]
        for index in alignment.unexpected[:_MAX_DIFFERENCES]:
            rule = "order" if index in misplaced else "extra call"
            differences.append(Difference(where=calls[index].name, rule=rule, actual=Side(value=f"call {index + 1}")))
        value = common / wanted if wanted else 0.0
        return Scored(
            value=float(is_whole) if self.strict else value,
            explanation="; ".join(notes),
            parts=parts,
            differences=tuple(differences[:_MAX_DIFFERENCES]),
        )


_WRITTEN = re.compile(r"\s*+(>=|<=|==|!=|=|>|<|)\s*+(\d{1,9})\s*+")
_ALLOWED = 'a whole number, a text such as "<= 3", `[">=", 1]`, or `{min: 1, max: 3}`'
_MOST = 1_000_000_000
_MAX_RULES = 100
# A repeat that is this long has no end.
_ANY_NUMBER = 1_000_000
_DESCRIBED = 5
_MAX_COUNT_DIFFERENCES = 50


@dataclass(frozen=True, slots=True)
class Count:
    """How many calls there may be: from `least` to `most` (`None` is no limit), but not `but_not`."""

    text: str
    least: int = 0
    most: int | None = None
    but_not: int | None = None

    def admits(self, calls: int) -> bool:
        """Return whether so many calls are right."""
        return self.least <= calls and (self.most is None or calls <= self.most) and calls != self.but_not


def _count(written: object) -> object:
    match written:
        case Count():
            return written
        case bool():
            pass
        case int():
            return _compared("=", written)
        case str() if (read := _WRITTEN.fullmatch(written)) is not None:
            return _compared(read[1] or "=", int(read[2]))
        case [str() as comparator, int() | str() as number] if not isinstance(number, bool):
            return _count(f"{comparator} {number}")
        case dict() if written and cast("dict[object, object]", written).keys() <= {"min", "max"}:
            bounds = cast("dict[str, object]", written)  # narrowed from object
            least, most = bounds.get("min", 0), bounds.get("max")
            if not _is_number(least) or not (most is None or _is_number(most)):
                raise ValueError("must have whole numbers as `min` and `max`")
            if most is not None and least > most:
                raise ValueError(f"can never be met: `min` {least} is above `max` {most}")
            return (
                Count(f"at least {least}", least=least)
                if most is None
                else Count(f"{least} to {most}", least=least, most=most)
            )
        case _:
            pass
    raise ValueError(f"must be {_ALLOWED}")


# The words of a comparator, and how far its bounds are from the number; `None` is no bound.
_COMPARATORS: Mapping[str, tuple[str, int | None, int | None]] = {
    "<=": ("at most", None, 0),
    "<": ("fewer than", None, -1),
    ">=": ("at least", 0, None),
    ">": ("more than", 1, None),
    "=": ("exactly", 0, 0),
    "==": ("exactly", 0, 0),
}


def _compared(comparator: str, number: int) -> Count:
    if not 0 <= number <= _MOST:
        raise ValueError("must not be negative, nor more than a billion")
    if comparator == "!=":
        return Count(f"not {number}", but_not=number)
    if comparator == "<" and not number:
        raise ValueError("can never be met: there are no fewer than 0 calls")
    words, least, most = _COMPARATORS[comparator]
    return Count(f"{words} {number}", 0 if least is None else number + least, None if most is None else number + most)


def _between(least: int, most: int) -> Count:
    if most >= _ANY_NUMBER:
        return Count(f"at least {least}", least=least)
    return Count(f"exactly {most}" if least == most else f"{least} to {most}", least=least, most=most)


def _is_number(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST


Written = Annotated[
    Count,
    BeforeValidator(
        _count, json_schema_input_type=int | str | tuple[str, int | str] | dict[Literal["min", "max"], int]
    ),
]


class ToolCallCount(CallSelection):
    """The share of rules about how often tools are called that are met; `strict`: 1 if all are, else 0.

    `counts` maps a tool's name, or a glob over names, to how many calls there may be: `2`, `"<= 3"`, `[">=", 1]`
    (comparators `= == != < <= > >=`) or `{min: 1, max: 3}`. A glob counts the calls of all tools that it matches
    together; a call counts for every rule that it matches. `others` is one more rule, for the calls that no rule
    matches; without it these are free.

    Without `counts` and `others`, each tool of the expected calls is a rule: as many calls of it as are expected, with
    what `optional` and `repeat` leave open. With them no reference is needed. A run without any call is scored too: `delete_all: 0` is met by it, `search: ">= 1"` is not.
    Calls that failed count unless `failed_calls: ignore`.

    Parts: `rules`, `met`, and for each rule `calls of <name>`.
    """

    version: ClassVar[str] = "1"
    level: ClassVar[Level] = "trajectory"
    needs: ClassVar[Needs] = Needs(recent_offer=True)

    counts: Annotated[Mapping[str, Written], Field(max_length=_MAX_RULES)] = {}
    others: Written | None = None
    strict: bool = False

    @cached_property
    def _globs_by_rule(self) -> tuple[tuple[str, Globs], ...]:
        return tuple((name, Globs((name,))) for name in self.counts)

    def judges_answers(self, name: str) -> bool:
        """Count calls that carry the structured answer where `counts` names their tool."""
        return any(globs.match(name) for _, globs in self._globs_by_rule)

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:
        """Yield one outcome for the trajectory."""
        if trajectory.hidden_turns:
            yield None, hidden_calls(trajectory)
            return
        made = Counter(call.name for call in self.calls(trajectory))
        if self.counts or self.others is not None:
            tallies = self._tallies(made)
        else:
            bounds: dict[str, tuple[int, int]] = {}
            for call in self.expected_calls(() if expected is None else expected.calls, trajectory):
                least, most = bounds.get(call.name, (0, 0))
                bounds[call.name] = least + (0 if call.optional else call.repeat[0]), most + call.repeat[1]
            tallies = [_Tally(name, shown(name), _between(*both), made[name]) for name, both in bounds.items()]
        if not tallies:
            explanation = "neither `counts` nor `others` nor an expected call is given"
            yield None, NotEvaluated(reason="nothing_expected", explanation=explanation)
            return
        broken = [tally for tally in tallies if not tally.count.admits(tally.calls)]
        met = len(tallies) - len(broken)
        wrong = [
            f"{one.name}: {one.calls} {'call' if one.calls == 1 else 'calls'} instead of {one.count.text}"
            for one in broken
        ]
        notes = [f"{met} of {len(tallies)} counts are right", *first_notes(wrong, _DESCRIBED)]
        if self.strict and broken:
            notes.append("strict: all of them have to be")
        value = float(not broken) if self.strict else met / len(tallies)
        figures = {f"calls of {tally.rule}": tally.calls for tally in tallies[:_MAX_RULES]}
        parts = {"rules": len(tallies), "met": met, **figures}
        differences = tuple(
            Difference(
                where=tally.rule,
                rule="count",
                expected=Side(value=tally.count.text, words=tally.count.text),
                actual=Side(value=tally.calls, words=str(tally.calls)),
            )
            for tally in broken[:_MAX_COUNT_DIFFERENCES]
        )
        yield None, Scored(value, "; ".join(notes), parts, differences)

    def _tallies(self, made: Mapping[str, int]) -> list["_Tally"]:
        found = dict.fromkeys(self.counts, 0)
        other: list[str] = []
        for name, calls in made.items():
            matching = [rule for rule, globs in self._globs_by_rule if globs.match(name)]
            for rule in matching:
                found[rule] += calls
            if not matching:
                other.append(name)
        tallies = [_Tally(rule, shown(rule), count, found[rule]) for rule, count in self.counts.items()]
        if self.others is not None:
            named = ", ".join([*map(shown, other[:_DESCRIBED]), *(["..."] if len(other) > _DESCRIBED else [])])
            title = f"other tools ({named})" if named else "other tools"
            tallies.append(_Tally("other tools", title, self.others, sum(made[name] for name in other)))
        return tallies


class _Tally(Struct, frozen=True):
    rule: str
    name: str
    count: Count
    calls: int
