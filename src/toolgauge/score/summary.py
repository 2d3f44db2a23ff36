"""Reports of an alignment: counts, words, differences in arguments, and the edit script.

The script turns the calls into the expected calls: `insert` a missing call, `delete` an unexpected one, `change` the arguments of
one, `move` a misplaced one, `swap` two neighbours, `leave` an unexpected one without cost, and `keep` the rest.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Literal, TypeAlias

from msgspec import Struct

from toolgauge.model.json import JsonObject
from toolgauge.model.outcomes import OTHER_ARGUMENTS, Difference, Side
from toolgauge.model.plain_words import argument_words, rule_words
from toolgauge.score.align import Alignment, Pair, Weigh, align
from toolgauge.score.arguments import ArgumentComparer, Figures, Word
from toolgauge.score.compare import describe
from toolgauge.score.selection import Sides, first_names, first_notes, shown

_SHOWN_NAMES = 5
_MAX_DIFFERENCES = 20
_DESCRIBED = 4


def counts(alignment: Alignment) -> dict[str, float]:
    """Count what was paired and what was left over."""
    return {
        "matched": len(alignment.pairs),
        "missing": len(alignment.missing),
        "unexpected": len(alignment.unexpected),
        "repeated": len(alignment.repeated),
    }


class Mismatch(Struct, frozen=True, kw_only=True):
    """An expected call and one of its tool that was made with other arguments, by their indices; `words` hold no value."""

    slot: int
    call: int
    difference: Difference
    words: str


def mismatches(comparer: ArgumentComparer, alignment: Alignment) -> tuple[Mismatch, ...]:
    """Put missing and unexpected calls of one tool together: each two are one call with other arguments, the most alike first."""
    sides = comparer.sides
    repeated = set(alignment.repeated)
    left: dict[str, list[int]] = {}
    for call in alignment.unexpected:
        if call not in repeated and sides.call_arguments[call] is not None:
            left.setdefault(sides.calls[call].name, []).append(call)
    found: list[Mismatch] = []
    for slot in alignment.missing[:_MAX_DIFFERENCES]:
        if sides.slot_arguments[slot] is None:
            continue
        calls = left.get(sides.slots[slot].name, [])
        alike = {call: value for call in calls[:_MAX_DIFFERENCES] if (value := comparer.weigh(slot, call)) is not None}
        call = max(alike, key=alike.__getitem__, default=None)
        mismatch = None if call is None else _mismatch(comparer, slot, call)
        if mismatch is not None:
            calls.remove(mismatch.call)
            found.append(mismatch)
    return tuple(found)


def _mismatch(comparer: ArgumentComparer, slot: int, call: int) -> Mismatch | None:
    """Keep the arguments alone that decide; `None` where none does."""
    agreement = comparer.compare(slot, call)
    # Where arguments that nobody expects cost nothing, they are no difference.
    costs_more = any(difference.rule == "invented" for difference in agreement.differences)
    names = {word: [verdict.name for verdict in agreement.verdicts if verdict.word == word] for word in _WRONG}
    both = [*names["partly"], *names["differs"]]
    wanted, made = comparer.sides.slot_values(slot), comparer.sides.call_values(call)
    expected: JsonObject = {name: wanted[name] for name in (*both, *names["missing"])}
    actual: JsonObject = {name: made[name] for name in (*both, *(names["invented"] if costs_more else ()))}
    if not expected and not actual:
        return None
    name = comparer.sides.slots[slot].name
    difference = Difference(where=name, rule=OTHER_ARGUMENTS, expected=Side(value=expected), actual=Side(value=actual))
    words = argument_words(expected, actual, lambda _name: "differs")
    return Mismatch(slot=slot, call=call, difference=difference, words=words)


_WRONG: tuple[Word, ...] = ("partly", "differs", "missing", "invented")


def leftovers(sides: Sides, alignment: Alignment, paired: Sequence[Mismatch] = ()) -> list[str]:
    """Name the calls that have no counterpart, and those that have one with other arguments (`paired`)."""
    if not alignment.missing and not alignment.unexpected:
        return []
    elsewhere = {*alignment.repeated, *(one.call for one in paired)}
    other = [index for index in alignment.unexpected if index not in elsewhere]
    slots = {one.slot for one in paired}
    named = (
        ("missing", [sides.slots[slot].name for slot in alignment.missing if slot not in slots]),
        ("unexpected", [sides.calls[index].name for index in other]),
        ("repeated", [sides.calls[index].name for index in alignment.repeated]),
    )
    described = [f"{shown(one.difference.where)} ({one.words})" for one in paired]
    mismatched = [f"{rule_words(OTHER_ARGUMENTS)}: {first_names(described, _SHOWN_NAMES)}"] if described else []
    return [*mismatched, *(f"{word}: {listed(names)}" for word, names in named if names)]


def unparsable_note(sides: Sides, alignment: Alignment) -> list[str]:
    """Name the calls whose arguments should have been compared and could not be read."""
    # Where only names are compared nobody asks; elsewhere what has no arguments could not be read.
    unread = [index for index, arguments in enumerate(sides.call_arguments) if arguments is None]
    if not unread:
        return []
    compared = {call.name for call in sides.slots if call.args is not None}
    paired = {pair.actual for pair in alignment.pairs if sides.slot_arguments[pair.expected] is not None}
    unexpected = set(alignment.unexpected)
    names = [
        sides.calls[index].name
        for index in unread
        if (index in paired or index in unexpected) and sides.calls[index].name in compared
    ]
    return [f"unparsable arguments: {listed(names)}"] if names else []


def pairing_notes(alignment: Alignment, comparer: ArgumentComparer | None = None) -> list[str]:
    """Note that there were too many calls, or values, to look for the best pairs."""
    notes = ["too many calls to look for the best way to pair them"] if alignment.is_greedy else []
    if comparer is not None and comparer.is_cut_short:
        notes.append("too much to compare all calls with all others: the pairs may not be the best")
    return notes


def listed(names: Sequence[str]) -> str:
    """Name calls with how often each occurs, the first few of them."""
    parts = [shown(name) if count == 1 else f"{shown(name)} x{count}" for name, count in Counter(names).items()]
    return first_names(parts, _SHOWN_NAMES)


class Report(Struct, frozen=True, kw_only=True):
    """`notes` hold no values; `parts` are recall and precision of arguments, counts of unexpected ones and of calls."""

    notes: tuple[str, ...]
    parts: dict[str, float]
    differences: tuple[Difference, ...]


def report(comparer: ArgumentComparer, alignment: Alignment) -> Report:
    """Look at the arguments of all pairs; those of expected calls that were not made count as not met."""
    sides = comparer.sides
    differences: list[Difference] = []
    figures = Figures(expected=sum(len(sides.slot_arguments[slot] or ()) for slot in alignment.missing))
    for pair in alignment.pairs:
        equal = comparer.equal_arguments(pair.expected, pair.actual)
        if equal is not None:
            figures.met += equal
            figures.expected += equal
            figures.given += equal
            continue
        is_asked = pair.value < 1 and len(differences) < _MAX_DIFFERENCES
        agreement = comparer.compare(pair.expected, pair.actual, explain=is_asked)
        figures.add(agreement)
        differences += agreement.differences
    paired = mismatches(comparer, alignment)
    notes = first_notes([describe(difference) for difference in differences], _DESCRIBED, "more differences")
    described = {one.slot for one in paired}
    missing = [sides.slots[slot] for slot in alignment.missing[:_MAX_DIFFERENCES] if slot not in described]
    differences += [one.difference for one in paired]
    differences += [Difference(where=one.name, rule="missing call", expected=Side(value=one.args)) for one in missing]
    return Report(
        notes=(*notes, *leftovers(sides, alignment, paired), *pairing_notes(alignment, comparer)),
        parts={**figures.parts(), **counts(alignment)},
        differences=tuple(differences[:_MAX_DIFFERENCES]),
    )


Action: TypeAlias = Literal["keep", "leave", "change", "insert", "delete", "move", "swap"]

_SHOWN_STEPS = 8
# Looking for the place of calls that stand wrong only serves the telling.
_MAX_PAIRS = 20_000


class Free(Struct, frozen=True, kw_only=True):
    """What costs nothing: unexpected calls are left, missing ones not inserted."""

    extra: bool = False
    missing: bool = False


# `where_to` is the place of a moved call; for a swap it is the call that belongs here.
class Edit(Struct, frozen=True, kw_only=True):
    """One step of the script. `slot` and `call` are indices into the sides, `None` where that side has none."""

    action: Action
    name: str
    slot: int | None = None
    call: int | None = None
    where_to: str = ""


# Where an edit stands: after which call, insertions behind it, in the order of the slots.
_Placed: TypeAlias = tuple[tuple[int, int, int], Edit]


def edits(sides: Sides, alignment: Alignment, weigh: Weigh, *, in_order: bool, free: Free) -> tuple[Edit, ...]:
    """Make the script, in the order of the calls that were made; an insertion follows the call it comes after."""
    moved = _moved(sides, alignment, weigh, free) if in_order else {}
    swaps = _swaps(alignment, moved)
    swapped = {pair.actual for pair in swaps.values()}
    placed: list[_Placed] = []
    for pair in alignment.pairs:
        if pair.actual not in swapped:
            action: Action = "keep" if pair.value == 1.0 else "change"
            name = sides.calls[pair.actual].name
            placed.append(((pair.actual, 0, 0), Edit(action=action, name=name, slot=pair.expected, call=pair.actual)))
    last = _last_turns(sides, alignment)
    for call in alignment.unexpected:
        name, slot, place = sides.calls[call].name, moved.get(call), call
        if call in swaps:
            place = min(call, swaps[call].actual)
            edit = Edit(action="swap", name=name, slot=slot, call=call, where_to=sides.calls[swaps[call].actual].name)
        elif slot is None:
            edit = Edit(action="leave" if free.extra else "delete", name=name, call=call)
        else:
            is_early = last.get(sides.slot_items[slot].group, -1) > sides.call_items[call].group
            edit = Edit(action="move", name=name, slot=slot, call=call, where_to="later" if is_early else "earlier")
        placed.append(((place, 0, 0), edit))
    call_of = {pair.expected: pair.actual for pair in alignment.pairs}
    missing: set[int] = set() if free.missing else set(alignment.missing) - set(moved.values())
    after = -1 if in_order else len(sides.calls)
    for slot, expected in enumerate(sides.slots):
        after = max(after, call_of.get(slot, -1))
        if slot in missing:
            placed.append(((after, 1, slot), Edit(action="insert", name=expected.name, slot=slot)))
    return tuple(edit for _, edit in sorted(placed, key=itemgetter(0)))


def _moved(sides: Sides, alignment: Alignment, weigh: Weigh, free: Free) -> dict[int, int]:
    """Find calls that would be as expected at another place; return their slots."""
    paired, calls = {pair.expected for pair in alignment.pairs}, alignment.unexpected
    # Where calls that nobody needs cost nothing, one at the wrong place is but another of them.
    slots = alignment.missing if free.extra else [slot for slot in range(len(sides.slots)) if slot not in paired]

    def whole(slot: int, call: int) -> float | None:
        return 1.0 if weigh(slots[slot], calls[call]) == 1.0 else None

    if not slots or not calls:
        return {}
    wanted, made = [sides.slot_items[slot] for slot in slots], [sides.call_items[call] for call in calls]
    # Equal calls fit the same slots, so that settling them first loses nothing.
    left = align(wanted, made, whole, peel=True, max_pairs=_MAX_PAIRS)
    return {calls[pair.actual]: slots[pair.expected] for pair in left.pairs}


def _swaps(alignment: Alignment, moved: dict[int, int]) -> dict[int, Pair]:
    """Find moved calls that only have to change places with a neighbour that is kept."""
    pair_of = {pair.actual: pair for pair in alignment.pairs if pair.value == 1.0}
    swaps: dict[int, Pair] = {}
    for call, slot in moved.items():
        for step in (1, -1):
            neighbour = pair_of.get(call + step)
            if neighbour is not None and neighbour.expected == slot - step and call not in swaps:
                swaps[call] = neighbour
                del pair_of[call + step]
    return swaps


def _last_turns(sides: Sides, alignment: Alignment) -> dict[int, int]:
    """Find the last turn that the expected calls before each group stand in."""
    turn_of = {pair.expected: sides.call_items[pair.actual].group for pair in alignment.pairs}
    last: dict[int, int] = {}
    before = within = -1
    for group, slots in groupby(range(len(sides.slots)), key=lambda slot: sides.slot_items[slot].group):
        last[group] = before
        within = max([within, *(turn_of[slot] for slot in slots if slot in turn_of)])
        before = within
    return last


def script_summary(script: Sequence[Edit]) -> str:
    """Write the script in one bounded line, changes first: `keep search; insert book; delete delete_all`."""
    steps = _steps(script)
    if len(steps) <= _SHOWN_STEPS:
        return "; ".join(steps)
    steps = _steps([edit for edit in script if edit.action not in ("keep", "leave")])
    more = f"{len(steps) - _SHOWN_STEPS} more changes" if len(steps) > _SHOWN_STEPS else "keep the rest"
    return "; ".join([*steps[:_SHOWN_STEPS], more])


def _steps(script: Sequence[Edit]) -> list[str]:
    steps: list[str] = []
    for action, group in groupby(script, key=attrgetter("action")):
        run = [*group]
        if action not in ("swap", "move"):
            steps.append(f"{action} {listed([edit.name for edit in run])}")
            continue
        to = [f"with {shown(edit.where_to)}" if action == "swap" else edit.where_to for edit in run]
        ways = [f"{shown(edit.name)} {where}" for edit, where in zip(run, to, strict=True)]
        steps.append(f"{action} {', '.join(first_notes(ways, _SHOWN_STEPS))}")
    return steps
