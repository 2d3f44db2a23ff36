"""`tool_trajectory`: were the expected calls made, in the expected order, and no others?"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Annotated, ClassVar, Literal, TypeAlias, cast

from msgspec import Struct
from pydantic import BeforeValidator, Field, model_validator

from toolgauge.model.expected import ExpectedCall
from toolgauge.model.outcomes import Difference, NotEvaluated, Outcome, Scored, Side
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.align import Alignment, align
from toolgauge.score.arguments import ArgumentComparer, ArgumentComparison
from toolgauge.score.compare import describe
from toolgauge.score.edit_script import Edit, Free, edits, script_lines, script_summary
from toolgauge.score.patterns import Globs
from toolgauge.score.selection import Sides, not_observable, readable_arguments, shown
from toolgauge.score.summary import counts, cut_short_note, greedy_note, unparsable_note

_Name: TypeAlias = Annotated[str, Field(min_length=1)]


def _one_or_more(value: object) -> object:
    """Read one name as a list of one."""
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list | tuple) and not value:
        raise ValueError("is empty; it must name the calls that have to wait")
    return cast("object", value)  # any other kind is left to pydantic, which says what is wrong


# The call to wait for, and those that wait for it: names and globs.
NeverBefore: TypeAlias = Mapping[
    _Name, Annotated[tuple[_Name, ...], BeforeValidator(_one_or_more, json_schema_input_type=_Name | tuple[_Name, ...])]
]


class TooEarly(Struct, frozen=True, kw_only=True):
    """A call that did not wait; `awaited` as it was written."""

    call: ToolCall
    awaited: str

    def __str__(self) -> str:
        """Name both for an explanation."""
        return f"{shown(self.call.name)} before {shown(self.awaited)}"


class Waiting(Struct, frozen=True, kw_only=True):
    """How many calls had to wait for another, and which of them did not."""

    bound: int
    too_early: tuple[TooEarly, ...]

    @property
    def in_time(self) -> float:
        """The share of the calls that waited."""
        early = len({breach.call.order for breach in self.too_early})
        return 1 - early / self.bound if self.bound else 1.0


class Precedences:
    """The rules of one criterion, compiled once."""

    __slots__ = ("_rules",)

    def __init__(self, never_before: Mapping[str, Sequence[str]]) -> None:
        self._rules = tuple((name, Globs((name,)), Globs(waiting)) for name, waiting in never_before.items())

    def check(self, calls: Sequence[ToolCall], made: Sequence[ToolCall]) -> Waiting:
        """Judge `calls`; what they wait for may be any of all that was `made`."""
        bound: set[int] = set()
        too_early: list[TooEarly] = []
        for name, awaited, waiting in self._rules:
            release = _matched(awaited, made)
            first = min((call.turn for call in made if call.name in release), default=None)
            names = _matched(waiting, calls)
            held = [call for call in calls if call.name in names]
            bound.update(call.order for call in held)
            too_early += [TooEarly(call=call, awaited=name) for call in held if first is None or call.turn < first]
        return Waiting(bound=len(bound), too_early=tuple(sorted(too_early, key=lambda breach: breach.call.order)))


def _matched(globs: Globs, calls: Sequence[ToolCall]) -> set[str]:
    matched: set[str] = set()
    for name in {call.name for call in calls}:
        if globs.match(name):
            matched.add(name)
    return matched


Mode: TypeAlias = Literal["exact", "in_order", "any_order", "subset", "superset", "partial_order"]

_ORDERED = ("exact", "in_order", "partial_order")
_FREE_EXTRAS = ("in_order", "any_order", "superset")
_MAX_DIFFERENCES = 20
_DESCRIBED = 3
_SHOWN_LENGTH = 80


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

    Each of `never_before` names calls and those that have to wait for them. The score is multiplied by the share of
    waiting calls that were not too early (`in_time`). `strict`: 1 if the score is 1, else 0.

    Without a call on one side:

    | | nothing expected, nothing called | nothing expected, something called | something expected, nothing called |
    |---|---|---|---|
    | extra calls count | 1 | 0 | 0 |
    | extra calls are free | 1 | not evaluated: `nothing_expected` | 0 |
    | `subset` | 1 | 0 | not evaluated: `no_calls` |

    Where calls had to wait, what would not be evaluated is their share.
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
    def _extra_calls_fit_the_mode(self) -> "ToolTrajectory":
        if self.extra_calls is not None and self.mode in ("subset", "superset"):
            raise ValueError(f"`extra_calls` says nothing about `mode: {self.mode}`, whose meaning is fixed")
        return self

    @model_validator(mode="after")
    def _arguments_are_looked_at(self) -> "ToolTrajectory":
        if self.match == "name" and (self.arguments.root or self.volatile):
            raise ValueError("has rules for arguments, and `match: name`, which does not look at them")
        return self

    @cached_property
    def _precedences(self) -> Precedences:
        return Precedences(self.never_before)

    @property
    def _free(self) -> Free:
        extra = self.mode in _FREE_EXTRAS if self.extra_calls is None else self.extra_calls == "free"
        return Free(extra=extra, missing=self.mode == "subset")

    def compared(self, expected: Sequence[ExpectedCall], calls: Sequence[ToolCall], trajectory: Trajectory) -> Outcome:
        """Compare the calls of one turn."""
        unobservable = None if self.match == "name" else not_observable(expected, calls)
        if unobservable is not None:
            return unobservable
        made = [call for call in trajectory.calls if self.failed_calls == "count" or not call.has_failed]
        waiting = self._precedences.check(calls, made)
        story = self._story(expected, calls, trajectory)
        base = self._base(story)
        if not isinstance(base, NotEvaluated):
            return self._scored(base, story, waiting)
        return self._scored(1.0, story, waiting) if waiting.bound else base

    def edit_script(
        self, expected: Sequence[ExpectedCall], calls: Sequence[ToolCall], trajectory: Trajectory
    ) -> list[str]:
        """Describe, one step a line, how the calls become the expected ones."""
        story = self._story(expected, calls, trajectory)
        return script_lines(story.script, story.sides)

    def _story(self, expected: Sequence[ExpectedCall], calls: Sequence[ToolCall], trajectory: Trajectory) -> "_Story":
        terms = self.terms(trajectory)
        comparer = self.comparer(expected, calls, terms, names_only=self.match == "name")
        sides = comparer.sides
        in_order = self.mode in _ORDERED
        alignment = align(
            sides.slot_items,
            sides.call_items,
            comparer.weigh,
            order="partial" if in_order else "any",
            peel=comparer.may_peel,
        )
        script = edits(sides, alignment, comparer.weigh, in_order=in_order, free=self._free)
        differences = _differences(sides, alignment, script, comparer)
        return _Story(sides=sides, comparer=comparer, alignment=alignment, script=script, differences=differences)

    def _base(self, story: "_Story") -> float | NotEvaluated:
        """Return the score before calls that were too early; `NotEvaluated` where it has no denominator."""
        total, wanted, made = story.alignment.total, story.wanted, len(story.sides.calls)
        if not wanted and not made:
            return 1.0
        if self.mode == "subset":
            missed = f"no call was made, of {wanted} that were expected"
            return total / made if made else NotEvaluated(reason="no_calls", explanation=missed)
        if not self._free.extra:
            return 2 * total / (wanted + made)
        extra = f"no call was expected; {made} made, which `mode: {self.mode}` allows"
        return total / wanted if wanted else NotEvaluated(reason="nothing_expected", explanation=extra)

    def _scored(self, base: float, story: "_Story", waiting: Waiting) -> Scored:
        value = min(base, 1.0) * waiting.in_time
        notes = [*story.notes(), *_early_notes(waiting)]
        if self.match == "name_and_args":
            notes += unparsable_note(story.sides, story.alignment)
        if self.strict and value < 1:
            notes.append("strict: it has to be all of it")
        parts = story.parts()
        if waiting.bound:
            parts |= {"in_time": waiting.in_time, "too_early": len({breach.call.order for breach in waiting.too_early})}
        return Scored(
            value=float(value == 1.0) if self.strict else value,
            explanation="; ".join(notes),
            parts=parts,
            differences=(*_early_differences(waiting), *story.differences)[:_MAX_DIFFERENCES],
        )


class _Story(Struct, frozen=True, kw_only=True):
    """What became of the calls of one turn."""

    sides: Sides
    comparer: ArgumentComparer
    alignment: Alignment
    script: tuple[Edit, ...]
    differences: tuple[Difference, ...]

    @property
    def wanted(self) -> int:
        return len(self.alignment.pairs) + len(self.alignment.missing)

    def parts(self) -> dict[str, float]:
        parts = counts(self.alignment)
        misplaced = sum(edit.action in ("move", "swap") for edit in self.script)
        if misplaced:
            parts["out_of_order"] = misplaced
        if self.wanted:
            parts["recall"] = min(self.alignment.total / self.wanted, 1.0)
        if self.sides.calls:
            parts["precision"] = min(self.alignment.total / len(self.sides.calls), 1.0)
        return parts

    def notes(self) -> list[str]:
        made = len(self.sides.calls)
        if not self.wanted and not made:
            return ["no call was expected and none was made"]
        whole = sum(pair.value == 1.0 for pair in self.alignment.pairs)
        wanted = f"{whole} of {self.wanted} expected calls are as expected" if self.wanted else "no call was expected"
        notes = [f"{wanted}, {made} made"]
        if any(edit.action not in _AS_IS for edit in self.script):
            notes.append(script_summary(self.script))
        described = [difference for difference in self.differences if difference.rule not in _OF_CALLS]
        notes += [describe(difference) for difference in described[:_DESCRIBED]]
        return [*notes, *greedy_note(self.alignment), *cut_short_note(self.comparer)]


_AS_IS = ("keep", "leave")
# How differences name what is wrong with a call as a whole.
_MISSING, _UNEXPECTED, _REPEATED = "missing call", "unexpected call", "repeated call"
_OUT_OF_ORDER, _TOO_EARLY = "out of order", "too early"
_OF_CALLS = (_MISSING, _UNEXPECTED, _REPEATED, _OUT_OF_ORDER, _TOO_EARLY)


def _differences(
    sides: Sides, alignment: Alignment, script: Sequence[Edit], comparer: ArgumentComparer
) -> tuple[Difference, ...]:
    """Describe each step of the script that changes anything, in its order."""
    repeated = set(alignment.repeated)
    differences: list[Difference] = []
    for edit in script:
        if len(differences) >= _MAX_DIFFERENCES:
            break
        if edit.action == "change" and edit.slot is not None and edit.call is not None:
            differences += comparer.compare(edit.slot, edit.call).differences
        elif edit.action not in _AS_IS:
            differences.append(_difference(sides, edit, is_repeated=edit.call in repeated))
    return tuple(differences[:_MAX_DIFFERENCES])


def _difference(sides: Sides, edit: Edit, *, is_repeated: bool) -> Difference:
    rule = _REPEATED if is_repeated else _UNEXPECTED
    if edit.slot is not None:
        rule = _MISSING if edit.call is None else _OUT_OF_ORDER
    return Difference(
        where=edit.name[:_SHOWN_LENGTH],
        rule=rule,
        expected=None if edit.slot is None else Side(value=sides.slots[edit.slot].args),
        actual=None if edit.call is None else Side(value=readable_arguments(sides.calls[edit.call])),
    )


def _early_notes(waiting: Waiting) -> list[str]:
    if not waiting.too_early:
        return []
    names = [str(breach) for breach in waiting.too_early]
    described = list(dict.fromkeys(names))
    more = f" and {len(described) - _DESCRIBED} more" if len(described) > _DESCRIBED else ""
    return [f"too early: {', '.join(described[:_DESCRIBED])}{more}"]


def _early_differences(waiting: Waiting) -> Iterator[Difference]:
    for breach in islice(waiting.too_early, _MAX_DIFFERENCES):
        where = f"{breach.call.name[:_SHOWN_LENGTH]} before {breach.awaited[:_SHOWN_LENGTH]}"
        yield Difference(where=where, rule=_TOO_EARLY, actual=Side(value=readable_arguments(breach.call)))
