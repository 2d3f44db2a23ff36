"""What a comparison of calls found, in counts, differences and words: missing, unexpected, out of order, other arguments."""

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from toolgauge.model.json import JsonObject
from toolgauge.model.outcomes import OTHER_ARGUMENTS, Difference, Side
from toolgauge.model.plain_words import argument_words, rule_words
from toolgauge.score.align import Alignment
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


def misplaced(comparer: ArgumentComparer, alignment: Alignment) -> dict[int, int]:
    """Return the unexpected calls that are as a missing one is expected to be, with its slot: they came out of order."""
    sides = comparer.sides
    slots: dict[str, list[int]] = {}
    for slot in alignment.missing:
        slots.setdefault(sides.slots[slot].name, []).append(slot)
    moved: dict[int, int] = {}
    for call in alignment.unexpected:
        same = slots.get(sides.calls[call].name, [])
        slot = next((slot for slot in same[:_MAX_DIFFERENCES] if comparer.weigh(slot, call) == 1.0), None)
        if slot is not None:
            same.remove(slot)
            moved[call] = slot
    return moved
