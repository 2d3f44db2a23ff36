"""`tool_call_args`: were the expected calls made with the expected arguments?"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from toolgauge.model.expected import ExpectedCall
from toolgauge.model.outcomes import Difference, NotEvaluated, Outcome, Scored, Side
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.align import Alignment, Pair, align
from toolgauge.score.compare import (
    Comparison,
    Exact,
    Key,
    Similarity,
    compare,
    describe,
    path,
    quick_similarity,
    rule_name,
)
from toolgauge.score.comparison import CallComparison
from toolgauge.score.pauses import Pacer
from toolgauge.score.sides import Arguments, Sides, make_sides, not_observable
from toolgauge.score.summary import counts, greedy_note, leftovers

_MAX_DIFFERENCES = 20
_DESCRIBED = 4
_SHOWN_LENGTH = 80


class ToolCallArgs(CallComparison):
    """How far the arguments of the expected calls were met.

    A pair of calls of one tool scores the sum over its arguments / the number of arguments that either side has;
    with `subset` only the expected arguments are looked at, and more of them are free. An argument scores 1 if it is
    equal and 0 if not; with `similarity: json` it scores how alike the values are. Calls without arguments on either
    side, and expected calls without `args`, score 1; arguments that could not be parsed score 0.

    Calls are paired one to one for the greatest sum, in any order. The score is that sum / the number of expected
    calls: a call that was not made is a 0, one that was not expected costs nothing here and is counted in `unexpected`.
    A call that may be missing (`optional`, `repeat`) counts as expected only where it was made. `strict`: 1 if each
    expected call scores 1, else 0.

    Parts: `recall` is the arguments met / arguments expected, `precision` the arguments met / arguments given in paired calls.
    """

    version: ClassVar[str] = "1"

    strict: bool = False
    subset: bool = False
    similarity: Literal["exact", "json"] = "exact"

    def compared(
        self,
        expected: Sequence[ExpectedCall],
        calls: Sequence[ToolCall],
        trajectory: Trajectory,  # noqa: ARG002 (only calls count)
        pacer: Pacer,
    ) -> Generator[None, None, Outcome]:
        """Compare the calls of one turn."""
        if not expected:
            made = f"{len(calls)} calls were made" if calls else "none was made"
            return NotEvaluated(reason="nothing_expected", explanation=f"no call was expected; {made}")
        unobservable = not_observable(expected, calls)
        if unobservable is not None:
            return unobservable
        sides = yield from make_sides(expected, calls, names_only=False, pacer=pacer)
        weighing = _Weighing(sides, self.similarity, pacer, subset=self.subset)
        peel = self.similarity == "exact" and (not self.subset or _have_equal_sizes(sides))
        alignment = yield from align(sides.slot_items, sides.call_items, weighing.weigh, peel=peel, pacer=pacer)
        if not alignment.pairs and not alignment.missing:
            return NotEvaluated(reason="nothing_expected", explanation="all expected calls are optional; none was made")
        return (yield from self._outcome(weighing, alignment))

    def _outcome(self, weighing: "_Weighing", alignment: Alignment) -> Generator[None, None, Scored]:
        sides = weighing.sides
        wanted = len(alignment.pairs) + len(alignment.missing)
        value = min(alignment.total / wanted, 1.0)
        whole = sum(pair.value == 1.0 for pair in alignment.pairs)
        differences, shares = yield from weighing.details(alignment)
        notes = [f"arguments are as expected in {whole} of {wanted} expected calls"]
        notes += [describe(difference) for difference in differences[:_DESCRIBED]]
        if len(differences) > _DESCRIBED:
            notes.append(f"{len(differences) - _DESCRIBED} more differences")
        notes += [*leftovers(sides, alignment), *greedy_note(alignment)]
        if self.strict and whole < wanted:
            notes.append("strict: all of them have to be")
        return Scored(
            value=float(whole == wanted) if self.strict else value,
            explanation="; ".join(notes),
            parts={**shares, **counts(alignment)},
            differences=(*differences, *_missing(sides, alignment))[:_MAX_DIFFERENCES],
        )


@dataclass(slots=True)
class _Figures:
    """Arguments over all expected calls."""

    met: float = 0.0
    expected: int = 0
    given: int = 0

    def shares(self) -> dict[str, float]:
        shares: dict[str, float] = {}
        if self.expected:
            shares["recall"] = min(self.met / self.expected, 1.0)
        if self.given:
            shares["precision"] = min(self.met / self.given, 1.0)
        return shares


class _Weighing:
    """Weighs pairs of calls by their arguments."""

    __slots__ = ("_alike", "_pacer", "_rule", "_subset", "sides")

    def __init__(self, sides: Sides, similarity: str, pacer: Pacer, *, subset: bool) -> None:
        self.sides = sides
        self._rule = Similarity() if similarity == "json" else Exact()
        self._pacer = pacer
        self._subset = subset
        self._alike: dict[tuple[Key, Key], float] = {}

    def weigh(self, slot: int, call: int) -> Generator[None, None, float | None]:
        """Return the score of a pair; `None` where ids forbid it."""
        if not self.sides.may_pair(slot, call):
            return None
        wanted, found = self.sides.slot_arguments[slot], self.sides.call_arguments[call]
        if wanted is None:
            return 1.0
        if found is None:
            return 0.0
        compared = len(wanted) if self._subset else len(wanted.keys() | found.keys())
        if not compared:
            return 1.0
        if self._pacer.due(len(wanted) // 4):
            yield
        return min((yield from self._met(slot, call, wanted, found)) / compared, 1.0)

    def _met(self, slot: int, call: int, wanted: dict[str, Key], found: dict[str, Key]) -> Generator[None, None, float]:
        """Sum up how far each expected argument is met."""
        if isinstance(self._rule, Exact):
            return float(sum(found.get(name) == key for name, key in wanted.items()))
        met = 0.0
        for name, key in wanted.items():
            other = found.get(name)
            if other is None or other == key:
                met += other == key
                continue
            # Many calls share values; the same two are compared once.
            if (key, other) not in self._alike:
                self._alike[key, other] = yield from self._similarity(slot, call, name)
            met += self._alike[key, other]
        return met

    def _similarity(self, slot: int, call: int, name: str) -> Generator[None, None, float]:
        expected, actual = self.sides.slot_values(slot)[name], self.sides.call_values(call)[name]
        quick = quick_similarity(expected, actual)
        if quick is None:
            return (yield from self._compare(slot, call, name)).value
        value, units = quick
        if self._pacer.due(1 + units):
            yield
        return value

    def _compare(self, slot: int, call: int, name: str) -> Generator[None, None, Comparison]:
        where = path(f"{self.sides.slots[slot].name[:_SHOWN_LENGTH]}:", name)
        return (
            yield from compare(
                self._rule,
                self.sides.slot_values(slot)[name],
                self.sides.call_values(call)[name],
                where=where,
                pacer=self._pacer,
            )
        )

    def details(self, alignment: Alignment) -> Generator[None, None, tuple[list[Difference], dict[str, float]]]:
        """Find the differences of the paired calls, and the shares over all their arguments."""
        differences: list[Difference] = []
        figures = _Figures(expected=sum(len(self.sides.slot_arguments[slot] or ()) for slot in alignment.missing))
        for pair in alignment.pairs:
            wanted, found = self.sides.slot_arguments[pair.expected], self.sides.call_arguments[pair.actual]
            if wanted is None:
                continue
            figures.expected += len(wanted)
            figures.given += len(found or ())
            if found is not None:
                figures.met += yield from self._met(pair.expected, pair.actual, wanted, found)
            if pair.value < 1 and len(differences) < _MAX_DIFFERENCES:
                differences += yield from self._differences(pair, wanted, found)
        return differences, figures.shares()

    def _differences(
        self, pair: Pair, wanted: dict[str, Key], found: Arguments
    ) -> Generator[None, None, list[Difference]]:
        arguments, given = self.sides.slot_values(pair.expected), self.sides.call_values(pair.actual)
        tool = f"{self.sides.slots[pair.expected].name[:_SHOWN_LENGTH]}:"
        rule = rule_name(self._rule)
        if found is None:
            return [Difference(where=f"{tool} arguments", rule="unparsable", expected=Side(value=arguments))]
        differences: list[Difference] = []
        for name, key in wanted.items():
            if name not in found:
                differences.append(Difference(where=path(tool, name), rule=rule, expected=Side(value=arguments[name])))
            elif found[name] != key:
                comparison = yield from self._compare(pair.expected, pair.actual, name)
                differences += comparison.differences
        surplus = () if self._subset else (name for name in found if name not in wanted)
        differences += [
            Difference(where=path(tool, name), rule=rule, actual=Side(value=given[name])) for name in surplus
        ]
        return differences


def _have_equal_sizes(sides: Sides) -> bool:
    """Tell whether the expected calls of each tool have equally many arguments.

    Then 1 - share of expected arguments met is a distance between calls, and peeling is safe; otherwise a call with
    many arguments and one with few can each do better with the other's counterpart. Shares of all arguments
    that either side has always are such a distance.
    """
    sizes: dict[str, set[int]] = {}
    for slot, arguments in zip(sides.slots, sides.slot_arguments, strict=True):
        if arguments is not None:
            sizes.setdefault(slot.name, set()).add(len(arguments))
    return all(len(found) == 1 for found in sizes.values())


def _missing(sides: Sides, alignment: Alignment) -> list[Difference]:
    slots = (sides.slots[slot] for slot in alignment.missing)
    return [Difference(where=slot.name, rule="missing call", expected=Side(value=slot.args)) for slot in slots]
