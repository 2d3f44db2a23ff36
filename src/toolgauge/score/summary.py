"""What evaluators report of an alignment: counts, words, and what the arguments of paired calls come to."""

from collections import Counter
from collections.abc import Sequence
from itertools import islice

from msgspec import Struct

from toolgauge.model.outcomes import Difference, Side
from toolgauge.score.align import Alignment
from toolgauge.score.arguments import ArgumentComparer, Figures
from toolgauge.score.compare import describe
from toolgauge.score.selection import Sides, shown

_SHOWN_NAMES = 5


def counts(alignment: Alignment) -> dict[str, float]:
    """Count what was paired and what was left over."""
    return {
        "matched": len(alignment.pairs),
        "missing": len(alignment.missing),
        "unexpected": len(alignment.unexpected),
        "repeated": len(alignment.repeated),
    }


def leftovers(sides: Sides, alignment: Alignment) -> list[str]:
    """Name the calls that have no counterpart."""
    if not alignment.missing and not alignment.unexpected:
        return []
    repeated = set(alignment.repeated)
    other = [index for index in alignment.unexpected if index not in repeated]
    named = (
        ("missing", [sides.slots[slot].name for slot in alignment.missing]),
        ("unexpected", [sides.calls[index].name for index in other]),
        ("repeated", [sides.calls[index].name for index in alignment.repeated]),
    )
    return [f"{word}: {listed(names)}" for word, names in named if names]


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


def greedy_note(alignment: Alignment) -> list[str]:
    """Note that the calls were too many to look for the best way to pair them."""
    return ["too many calls to look for the best way to pair them"] if alignment.is_greedy else []


def cut_short_note(comparer: ArgumentComparer) -> list[str]:
    """Note that there were too many values to compare each with each."""
    return (
        ["too much to compare all calls with all others: the pairs may not be the best"]
        if comparer.is_cut_short
        else []
    )


def listed(names: Sequence[str]) -> str:
    """Name calls with how often each occurs, the first few of them."""
    counted = Counter(names)
    first = islice(counted.items(), _SHOWN_NAMES)
    parts = [shown(name) if count == 1 else f"{shown(name)} x{count}" for name, count in first]
    more = f" and {len(counted) - _SHOWN_NAMES} more" if len(counted) > _SHOWN_NAMES else ""
    return ", ".join(parts) + more


_MAX_DIFFERENCES = 20
_DESCRIBED = 4


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
            figures.add_equal(equal)
            continue
        is_asked = pair.value < 1 and len(differences) < _MAX_DIFFERENCES
        agreement = comparer.compare(pair.expected, pair.actual, explain=is_asked)
        figures.add(agreement)
        differences += agreement.differences
    notes = [describe(difference) for difference in differences[:_DESCRIBED]]
    if len(differences) > _DESCRIBED:
        notes.append(f"{len(differences) - _DESCRIBED} more differences")
    return Report(
        notes=(*notes, *leftovers(sides, alignment), *greedy_note(alignment), *cut_short_note(comparer)),
        parts={**figures.parts(), **counts(alignment)},
        differences=(*differences, *_missing(sides, alignment))[:_MAX_DIFFERENCES],
    )


def _missing(sides: Sides, alignment: Alignment) -> list[Difference]:
    slots = (sides.slots[slot] for slot in alignment.missing[:_MAX_DIFFERENCES])
    return [Difference(where=slot.name, rule="missing call", expected=Side(value=slot.args)) for slot in slots]
