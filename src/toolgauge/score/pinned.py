"""Which calls can agree in all, told by the values that have to be equal: a hash instead of weighing all pairs.

What an expected call pins down are its arguments that plain equality decides. A call that meets it in all has just
these values, whatever else it has; so only calls with these values are worth a look.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Protocol, TypeAlias

# Calls by index: expected ones and actual ones.
Block: TypeAlias = tuple[list[int], list[int]]
_Names: TypeAlias = tuple[str, ...]


class Pins(Protocol):
    """Tells the numbers of argument values; equal values have equal numbers on either side."""

    def pinned(self, expected: int) -> Mapping[str, int]:
        """Return the values that a call must have to meet the expected one in all."""
        ...

    def given(self, actual: int) -> Mapping[str, int] | None:
        """Return all values of a call; `None` where they cannot be read."""
        ...


def shapes(rows: Sequence[int], pins: Pins) -> list[tuple[_Names, list[int]]]:
    """Tell which arguments expected calls pin down; the most first, as those calls have the fewest to choose from."""
    found: dict[_Names, list[int]] = {}
    for row in rows:
        names = tuple(sorted(pins.pinned(row)))
        if names:
            found.setdefault(names, []).append(row)
    return sorted(found.items(), key=lambda shape: -len(shape[0]))


def blocks(names: _Names, rows: Sequence[int], columns: Sequence[int], pins: Pins) -> list[Block]:
    """Put expected calls, which pin down these arguments, together with the calls that have their values.

    The smallest come first, of which the most can be looked at.
    """
    found: dict[Hashable, Block] = {}
    for row in rows:
        found.setdefault(_values(names, pins.pinned(row)), ([], []))[0].append(row)
    for column in columns:
        block = found.get(_values(names, pins.given(column)))
        if block is not None:
            block[1].append(column)
    return sorted((block for block in found.values() if block[1]), key=lambda block: len(block[0]) * len(block[1]))


def keys(
    rows: Sequence[tuple[int, str]], columns: Sequence[tuple[int, str]], pins: Pins
) -> tuple[list[Hashable], list[Hashable]]:
    """Return a key for each call, given with its kind; calls can agree in all only where their keys are equal.

    The key is the values of the arguments that all expected calls of its kind pin down. Without any, and where they
    are not all there, it is equal to no other.
    """
    names_of: dict[str, set[str]] = {}
    for row, kind in rows:
        pinned = pins.pinned(row).keys()
        if kind in names_of:
            names_of[kind] &= pinned
        else:
            names_of[kind] = set(pinned)
    sorted_names = {kind: tuple(sorted(names)) for kind, names in names_of.items()}
    found: tuple[list[Hashable], list[Hashable]] = ([], [])
    for side, (calls, values_of) in enumerate(((rows, pins.pinned), (columns, pins.given))):
        for index, kind in calls:
            names = sorted_names.get(kind, ())
            values = _values(names, values_of(index)) if names else None
            found[side].append((side, index) if values is None else (kind, values))
    return found


def _values(names: _Names, values: Mapping[str, int] | None) -> tuple[int, ...] | None:
    """Return the values of these arguments; `None` where any is missing."""
    if values is None:
        return None
    found = tuple(values[name] for name in names if name in values)
    return found if len(found) == len(names) else None
