"""Equality as `==` of Python has it, which the originals of the field compare by; ours goes by `compare`.

1, 1.0 and true are one value, the order of keys does not matter and that of items does, NaN equals nothing. Containers
are walked without recursion, each once: spans decide how deep they are, and a value is compared with many others.
"""

from collections.abc import Generator, Hashable, Iterator
from heapq import merge
from itertools import chain, islice
from typing import TypeAlias

from toolgauge.model.json import Json, is_large, spelled
from toolgauge.score.identities import Key
from toolgauge.score.pauses import Pacer

_Container: TypeAlias = list[Json] | dict[str, Json]

# Sorting or hashing more at once would keep others waiting.
_AT_ONCE = 1000
_UNITS_PER_CONTAINER = 4
# So many values in all are compared at once where nothing is deeper than one container in another.
_FEW = 60
# Named once: a union would be made anew each time that it is asked for.
_CONTAINERS = (list, dict)


class PythonEquality:
    """Numbers containers: equal ones have the same number."""

    __slots__ = ("_containers", "_numbers", "_pacer")

    def __init__(self, pacer: Pacer) -> None:
        self._numbers: dict[Hashable, int] = {}
        # By identity; containers stay beside their keys so that no other can take their place in memory.
        self._containers: dict[int, tuple[_Container, Key]] = {}
        self._pacer = pacer

    def same(self, first: Json, second: Json) -> Generator[None, None, bool]:
        """Tell whether two values are equal."""
        if not isinstance(first, _CONTAINERS) or not isinstance(second, _CONTAINERS):
            return first == second
        if type(first) is not type(second) or len(first) != len(second):
            return False
        if _is_shallow(first):
            if self._pacer.due(_UNITS_PER_CONTAINER):
                yield
            return first == second
        return (yield from self.key(first)) == (yield from self.key(second))

    def key(self, value: Json) -> Generator[None, None, Key]:
        """Return a key that is equal for equal values only, as long as this lives."""
        if isinstance(value, _CONTAINERS):
            known = self._containers.get(id(value))
            if known is not None:
                return known[1]
            if self._pacer.due(_UNITS_PER_CONTAINER + len(value) // 4):
                yield
            if not self._holds_none(value):
                yield from self._number_containers(value)
            return self._containers[id(value)][1]
        if isinstance(value, int | float) and is_large(value):
            return ("large", spelled(value))
        return ("null",) if value is None else ("value", value)

    def _holds_none(self, node: _Container) -> bool:
        """Number a container at once if no container and no large number is in it, as it mostly is."""
        if len(node) > _AT_ONCE:
            return False
        for child in node.values() if isinstance(node, dict) else node:
            if isinstance(child, _CONTAINERS) or (isinstance(child, int | float) and is_large(child)):
                return False
        number = self._number(("{", frozenset(node.items())) if isinstance(node, dict) else ("[", *node))
        self._containers[id(node)] = (node, ("#", number))
        return True

    def _number_containers(self, value: _Container) -> Generator[None, None, None]:
        """Number all containers of a value, the innermost first."""
        stack = [(value, _children(value))]
        while stack:
            node, below = stack[-1]
            for child in below:
                if self._pacer.due():
                    yield
                if not isinstance(child, _CONTAINERS) or id(child) in self._containers or self._holds_none(child):
                    continue
                stack.append((child, _children(child)))
                break
            else:
                stack.pop()
                if self._pacer.due(_UNITS_PER_CONTAINER):
                    yield
                self._containers[id(node)] = (node, ("#", (yield from self._of_container(node))))

    def _of_container(self, node: _Container) -> Generator[None, None, int]:
        if isinstance(node, list):
            members = map(self._member, node)
            if len(node) <= _AT_ONCE:
                return self._number(("[", *members))
            return (yield from self._of_parts(("[", len(node)), members))
        if len(node) <= _AT_ONCE:
            return self._number(("{", frozenset((name, self._member(child)) for name, child in node.items())))
        parts = chain.from_iterable((name, self._member(node[name])) for name in _in_order(node))
        return (yield from self._of_parts(("{", len(node)), parts))

    def _of_parts(self, start: Hashable, parts: Iterator[Hashable]) -> Generator[None, None, int]:
        """Extend the number of a beginning piece by piece: hashing a large container at once would take too long."""
        number = self._number(start)
        while piece := tuple(islice(parts, _AT_ONCE)):
            number = self._number((number, piece))
            if self._pacer.due(len(piece) // 4):
                yield
        return number

    def _member(self, value: Json) -> Hashable:
        """Stand for a value in its container: Python's own hash and equality decide about those that are none."""
        if isinstance(value, _CONTAINERS):
            return self._containers[id(value)][1]
        return ("large", spelled(value)) if isinstance(value, int | float) and is_large(value) else value

    def _number(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))


def _is_shallow(node: _Container) -> bool:
    """Tell whether Python's own equality takes few steps and no deep ones: it goes no deeper than either side."""
    left = _FEW - len(node)
    if left < 0:
        return False
    for child in node.values() if isinstance(node, dict) else node:
        if isinstance(child, _CONTAINERS):
            left -= len(child)
            if left < 0:
                return False
            for grandchild in child.values() if isinstance(child, dict) else child:
                if isinstance(grandchild, _CONTAINERS):
                    return False
    return True


def _children(node: _Container) -> Iterator[Json]:
    return iter(node.values() if isinstance(node, dict) else node)


def _in_order(names: dict[str, Json]) -> Iterator[str]:
    unsorted = list(names)
    return merge(*(sorted(unsorted[start : start + _AT_ONCE]) for start in range(0, len(unsorted), _AT_ONCE)))
