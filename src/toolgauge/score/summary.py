"""What an alignment means in figures and in words; names only, never a value."""

from collections import Counter
from collections.abc import Sequence
from itertools import islice

from toolgauge.score.align import Alignment
from toolgauge.score.arguments import ArgumentComparer
from toolgauge.score.selection import shown
from toolgauge.score.sides import Sides

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
    """Say so when the calls were too many to look for the best way to pair them."""
    return ["too many calls to look for the best way to pair them"] if alignment.is_greedy else []


def cut_short_note(comparer: ArgumentComparer) -> list[str]:
    """Say so when there was too much to compare every value with every other."""
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
