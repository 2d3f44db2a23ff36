"""Pairing as several originals do it: each call in turn takes the first free one that fits, and none gives way.

Not the best pairing: where more than one call fits, the order decides whether the last one finds a counterpart.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import TypeAlias

Fits: TypeAlias = Callable[[int, int], bool]


def first_without(wanted: Sequence[Hashable], offered: Sequence[Hashable], fits: Fits) -> int | None:
    """Return the first of `wanted` (kinds, by index) that finds no free one of its kind; `None` when all do.

    `fits` is asked about (wanted, offered) until it agrees, and no further than the first that finds none.
    """
    free: dict[Hashable, list[int]] = {}
    for place, kind in enumerate(offered):
        free.setdefault(kind, []).append(place)
    for index, kind in enumerate(wanted):
        left = free.get(kind, [])
        for position, place in enumerate(left):
            if fits(index, place):
                del left[position]
                break
        else:
            return index
    return None
