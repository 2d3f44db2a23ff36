"""`tool_trajectory`: were the expected calls made, in the expected order, and no others?"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Annotated, ClassVar, Literal, TypeAlias, cast

from msgspec import Struct
from msgspec.structs import replace
from pydantic import BeforeValidator, Field, model_validator

from toolgauge.model.expected import ExpectedCall
from toolgauge.model.outcomes import Difference, NotEvaluated, Outcome, Scored, Side
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.align import Alignment, align
from toolgauge.score.arguments import (
    ArgumentComparer,
    ArgumentComparison,
    counts,
    leftovers,
    listed,
    misplaced,
    pairing_notes,
    unparsable_note,
)
from toolgauge.score.compare import describe
from toolgauge.score.patterns import Globs
from toolgauge.score.selection import Sides, first_names, first_notes, not_observable, readable_arguments, shown

_Name: TypeAlias = Annotated[str, Field(min_length=1)]


def _one_or_more(value: object) -> object:
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list | tuple) and not value:
        raise ValueError("is empty; it must name the calls that have to wait")
    return cast("object", value)  # pydantic reports any other kind


# The call to wait for, and the calls that wait: names and globs.
NeverBefore: TypeAlias = Mapping[
    _Name, Annotated[tuple[_Name, ...], BeforeValidator(_one_or_more, json_schema_input_type=_Name | tuple[_Name, ...])]
]


Mode: TypeAlias = Literal["exact", "in_order", "any_order", "subset", "superset", "partial_order"]

_ORDERED = ("exact", "in_order", "partial_order")
_FREE_EXTRAS = ("in_order", "any_order", "superset")
_MAX_DIFFERENCES = 20
_DESCRIBED = 3
_SHOWN_LENGTH = 80
# Rules in differences about a call as a whole.
_MISSING, _UNEXPECTED, _REPEATED = "missing call", "unexpected call", "repeated call"
_OUT_OF_ORDER, _TOO_EARLY = "out of order", "too early"


class _Waiting(Struct, frozen=True):
    """The calls that had to wait for another: their share that waited, and each early call with the call it should await."""

    in_time: float
    too_early: Sequence[tuple[ToolCall, str]]
    is_any: bool


class ToolTrajectory(ArgumentComparison):
    """How far the calls are the expected ones: by order, missing calls and extra calls.

    Expected and actual calls are paired one to one for the greatest total T. A pair of calls of one tool counts 1 with
    `match: name`; with `match: name_and_args` the share of the arguments that either side has which are equal (or
    meet their rule in `arguments`). With E expected and A actual calls, recall is T / E and precision T / A.

    | mode | order | score |
    |---|---|---|
    | `exact`, `partial_order` | binds | 2 T / (E + A) |
    | `in_order` | binds | T / E: calls in between are free |
    | `any_order`, `superset` | free | T / E: further calls are free |
    | `subset` | free | T / A: expected calls need not be made |

    `extra_calls: count` makes it 2 T / (E + A) in `in_order` and `any_order`, `extra_calls: free` T / E in `exact` and
    `partial_order`. Where order binds, calls of a group (a list inside `expected`) have no order among themselves, nor
    have actual calls of one turn. A call that may be missing (`optional`, `repeat`) counts in E only where it was made.

    Each of `never_before` names calls and the calls that have to wait for them. The score is multiplied by the share of
    waiting calls that were not too early (`in_time`). `strict`: 1 if the score is 1, else 0.

    Without a call on one side:

    | | nothing expected, nothing called | nothing expected, something called | something expected, nothing called |
    |---|---|---|---|
    | extra calls count | 1 | 0 | 0 |
    | extra calls are free | 1 | not evaluated: `nothing_expected` | 0 |
    | `subset` | 1 | 0 | not evaluated: `no_calls` |

    Where calls had to wait, their share takes the place of "not evaluated".
    """

    version: ClassVar[str] = "1"

    mode: Mode = "exact"
    match: Literal["name", "name_and_args"] = "name_and_args"
    # Whether calls that nobody expects cost anything; by default the mode decides.
    extra_calls: Literal["count", "free"] | None = None
    # Never before the call (name or glob) that is the key: the calls that are listed.
    never_before: NeverBefore = Field(default_factory=dict)
    strict: bool = False

    @model_validator(mode="after")
    def _fits_together(self) -> "ToolTrajectory":
        if self.extra_calls is not None and self.mode in ("subset", "superset"):
            raise ValueError(f"`extra_calls` says nothing about `mode: {self.mode}`, whose meaning is fixed")
        if self.match == "name" and (self.arguments.root or self.volatile):
            raise ValueError("has rules for arguments, and `match: name`, which does not look at them")
        return self

    @cached_property
    def _precedences(self) -> tuple[tuple[str, Globs, Globs], ...]:
        return tuple((name, Globs((name,)), Globs(waiting)) for name, waiting in self.never_before.items())

    @property
    def _extra_is_free(self) -> bool:
        return self.mode in _FREE_EXTRAS if self.extra_calls is None else self.extra_calls == "free"

    def compared(self, expected: Sequence[ExpectedCall], calls: Sequence[ToolCall], trajectory: Trajectory) -> Outcome:
        """Compare the calls of one turn."""
        unobservable = None if self.match == "name" else not_observable(expected, calls)
        if unobservable is not None:
            return unobservable
        waiting = self._waiting(calls, trajectory)
        comparer = self.comparer(expected, calls, self.terms(trajectory), names_only=self.match == "name")
        alignment = align(
            comparer.sides.slot_items,
            comparer.sides.call_items,
            comparer.weigh,
            order="partial" if self.mode in _ORDERED else "any",
            peel=comparer.may_peel,
        )
        base = self._base(alignment, len(calls))
        if not isinstance(base, NotEvaluated):
            return self._scored(base, comparer, alignment, waiting)
        return self._scored(1.0, comparer, alignment, waiting) if waiting.is_any else base

    def _waiting(self, calls: Sequence[ToolCall], trajectory: Trajectory) -> _Waiting:
        """Find the calls that had to wait; the call that they wait for may be any one of the trajectory."""
        made = [call for call in trajectory.calls if self.failed_calls == "count" or not call.has_failed]
        bound: set[int] = set()
        too_early: list[tuple[ToolCall, str]] = []
        for name, awaited, waiting in self._precedences:
            release = {one for one in {call.name for call in made} if awaited.match(one)}
            names = {one for one in {call.name for call in calls} if waiting.match(one)}
            first = min((call.turn for call in made if call.name in release), default=None)
            held = [call for call in calls if call.name in names]
            bound.update(call.order for call in held)
            too_early += [(call, name) for call in held if first is None or call.turn < first]
        early = {call.order for call, _ in too_early}
        in_time = 1 - len(early) / len(bound) if bound else 1.0
        return _Waiting(in_time, sorted(too_early, key=lambda breach: breach[0].order), is_any=bool(bound))

    def _base(self, alignment: Alignment, made: int) -> float | NotEvaluated:
        """Return the score before calls that were too early; `NotEvaluated` where it has no denominator."""
        total, wanted = alignment.total, len(alignment.pairs) + len(alignment.missing)
        if not wanted and not made:
            return 1.0
        if self.mode == "subset":
            missed = f"no call was made, of {wanted} that were expected"
            return total / made if made else NotEvaluated(reason="no_calls", explanation=missed)
        if not self._extra_is_free:
            return 2 * total / (wanted + made)
        extra = f"no call was expected; {made} made, which `mode: {self.mode}` allows"
        return total / wanted if wanted else NotEvaluated(reason="nothing_expected", explanation=extra)

    def _scored(self, base: float, comparer: ArgumentComparer, alignment: Alignment, waiting: _Waiting) -> Scored:
        sides = comparer.sides
        moved = misplaced(comparer, alignment) if self.mode in _ORDERED else {}
        # Without leftovers that cost nothing, and without calls at another place.
        filled = set(moved.values())
        left = replace(
            alignment,
            missing=() if self.mode == "subset" else tuple(slot for slot in alignment.missing if slot not in filled),
            unexpected=() if self._extra_is_free else tuple(one for one in alignment.unexpected if one not in moved),
            repeated=() if self._extra_is_free else tuple(one for one in alignment.repeated if one not in moved),
        )
        wrong = [pair for pair in alignment.pairs if pair.value < 1][:_MAX_DIFFERENCES]
        arguments = [one for pair in wrong for one in comparer.compare(pair.expected, pair.actual)[1]]
        differences = [*arguments, *_differences(sides, left, moved)]
        wanted, made = len(alignment.pairs) + len(alignment.missing), len(sides.calls)
        value = min(base, 1.0) * waiting.in_time
        parts = counts(alignment)
        if moved:
            parts["out_of_order"] = len(moved)
        for name, total in (("recall", wanted), ("precision", made)):
            if total:
                parts[name] = min(alignment.total / total, 1.0)
        if waiting.is_any:
            parts |= {"in_time": waiting.in_time, "too_early": len({call.order for call, _ in waiting.too_early})}
        notes = ["no call was expected and none was made"]
        if wanted or made:
            whole = sum(pair.value == 1.0 for pair in alignment.pairs)
            met = f"{whole} of {wanted} expected calls are as expected" if wanted else "no call was expected"
            notes = [f"{met}, {made} made"]
            if moved:
                notes.append(f"out of order: {listed([sides.calls[call].name for call in moved])}")
            notes += leftovers(sides, left)
            notes += first_notes([describe(difference) for difference in arguments], _DESCRIBED, "more differences")
            notes += pairing_notes(alignment, comparer)
        if waiting.too_early:
            early = list(dict.fromkeys(f"{shown(call.name)} before {shown(name)}" for call, name in waiting.too_early))
            notes.append(f"too early: {first_names(early, _DESCRIBED)}")
        if self.match == "name_and_args":
            notes += unparsable_note(sides, alignment)
        if self.strict and value < 1:
            notes.append("strict: it has to be all of it")
        early_ones = [
            Difference(
                where=f"{call.name[:_SHOWN_LENGTH]} before {name[:_SHOWN_LENGTH]}",
                rule=_TOO_EARLY,
                actual=Side(value=readable_arguments(call)),
            )
            for call, name in waiting.too_early[:_MAX_DIFFERENCES]
        ]
        return Scored(
            value=float(value == 1.0) if self.strict else value,
            explanation="; ".join(notes),
            parts=parts,
            differences=(*early_ones, *differences)[:_MAX_DIFFERENCES],
        )


def _differences(sides: Sides, left: Alignment, moved: Mapping[int, int]) -> Iterator[Difference]:
    """Describe the calls that are out of order, missing, unexpected or repeated."""

    def one(rule: str, slot: int | None, call: int | None) -> Difference:
        expected = None if slot is None else Side(value=sides.slots[slot].args)
        actual = None if call is None else Side(value=readable_arguments(sides.calls[call]))
        name = sides.slots[slot].name if slot is not None else sides.calls[call or 0].name
        return Difference(where=name[:_SHOWN_LENGTH], rule=rule, expected=expected, actual=actual)

    repeated = set(left.repeated)
    yield from (one(_OUT_OF_ORDER, slot, call) for call, slot in islice(moved.items(), _MAX_DIFFERENCES))
    yield from (one(_MISSING, slot, None) for slot in left.missing[:_MAX_DIFFERENCES])
    for call in left.unexpected[:_MAX_DIFFERENCES]:
        yield one(_REPEATED if call in repeated else _UNEXPECTED, None, call)
