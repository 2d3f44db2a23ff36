"""When joining pauses: a trace of a hundred thousand spans takes seconds, and the event loop has other work."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from heapq import merge
from itertools import pairwise
from typing import TypeVar

# Glances between two pauses: a look at one span or call, which takes a microsecond or two.
_GLANCES_BETWEEN_PAUSES = 1500
# So many spans or calls may be glanced at without a pause.
_PART = 500
# So many may be worked on.
HANDFUL = 100
# Glances that are about as much as the work on one span or call, some ten microseconds.
WORK = 5

_T = TypeVar("_T")
_Key = TypeVar("_Key", int, tuple[object, ...])


class Pace:
    """Counts glances. One is shared by all that runs for one trajectory.

    Whoever works takes from `left` what it did and, where less than nothing is left, does `yield pace.rest()`.
    """

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = _GLANCES_BETWEEN_PAUSES

    def rest(self) -> None:
        """Begin to count anew."""
        self.left = _GLANCES_BETWEEN_PAUSES


def parts(items: Sequence[_T], size: int = _PART) -> Iterable[Sequence[_T]]:
    """Cut into parts that may be looked at without a pause: nearly always into one."""
    return (items,) if len(items) <= size else _cut(items, size)


def _cut(items: Sequence[_T], size: int) -> Iterator[Sequence[_T]]:
    for first in range(0, len(items), size):
        yield items[first : first + size]


def in_order(items: Sequence[_T], key: Callable[[_T], _Key], pace: Pace) -> Generator[None, None, list[_T]]:
    """Return what `sorted` returns; pause now and then."""
    if len(items) <= _PART:
        return sorted(items, key=key)
    runs: list[list[_T]] = []
    for part in parts(items):
        runs.append(sorted(part, key=key))
        pace.left -= len(part)
        if pace.left < 0:
            yield pace.rest()
    # Mostly they come in order, or nearly so.
    together = (one for run in runs for one in run) if _follow(runs, key) else merge(*runs, key=key)
    ordered: list[_T] = []
    for one in together:
        ordered.append(one)
        pace.left -= 1
        if pace.left < 0:
            yield pace.rest()
    return ordered


def _follow(runs: Sequence[list[_T]], key: Callable[[_T], _Key]) -> bool:
    return all(key(former[-1]) <= key(latter[0]) for former, latter in pairwise(runs))
