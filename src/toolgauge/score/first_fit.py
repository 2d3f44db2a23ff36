"""Pairing as several originals do it: each call in turn takes the first free one that fits, and none gives way.

Not the best pairing: where more than one call fits, the order decides whether the last one finds a counterpart.
"""

from collections.abc import Callable, Generator, Sequence
from typing import TypeAlias

from toolgauge.score.pauses import Pacer

Fits: TypeAlias = Callable[[int, int], Generator[None, None, bool]]


def first_without(
    wanted: Sequence[str], offered: Sequence[str], fits: Fits, pacer: Pacer
) -> Generator[None, None, int | None]:
    """Return the first of `wanted` (names, by index) that finds no free one of its name; `None` when all do.

    `fits` is asked about (wanted, offered) until it agrees, and no further than the first that finds none.
    """
    free: dict[str, list[int]] = {}
    for place, name in enumerate(offered):
        free.setdefault(name, []).append(place)
    for index, name in enumerate(wanted):
        left = free.get(name, [])
        for position, place in enumerate(left):
            if pacer.due():
                yield
            if (yield from fits(index, place)):
                del left[position]
                break
        else:
            return index
    return None
