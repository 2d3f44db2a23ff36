"""When joining pauses: a trace of a hundred thousand spans takes seconds, and the event loop has other work."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from heapq import merge
from itertools import pairwise
from typing import TypeVar

# A unit is about the work on one span or call, some ten microseconds.
_UNITS_BETWEEN_PAUSES = 300
# So many spans or calls may be glanced at without a pause, which takes a microsecond or two each.
_PART = 500
# So many may be worked on.
HANDFUL = 100
# Glances that are about a unit.
GLANCES = 5

_T = TypeVar("_T")
_Key = TypeVar("_Key", int, tuple[object, ...])


class Pace:
    """Counts work. One is shared by all that runs for one trajectory."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = _UNITS_BETWEEN_PAUSES

    def due(self, units: int = 1) -> bool:
        """Count work done and tell whether to pause."""
        self._left -= units
        if self._left > 0:
            return False
        self._left = _UNITS_BETWEEN_PAUSES
        return True


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
        if pace.due(len(part) // GLANCES):
            yield
    # Mostly they come in order, or nearly so.
    together = (one for run in runs for one in run) if _follow(runs, key) else merge(*runs, key=key)
    ordered: list[_T] = []
    for one in together:
        ordered.append(one)
        if len(ordered) % _PART == 0 and pace.due(_PART // GLANCES):
            yield
    return ordered


def _follow(runs: Sequence[list[_T]], key: Callable[[_T], _Key]) -> bool:
    return all(key(former[-1]) <= key(latter[0]) for former, latter in pairwise(runs))
