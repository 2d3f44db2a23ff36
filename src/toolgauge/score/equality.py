"""Equality of whole values, by keys to look them up with. Without recursion, because spans decide how deep values are.

`Identities` and `canonical` are ours: booleans are no numbers, NaN equals NaN. `PythonEquality` is `==` of Python, which
the originals of the field compare by: 1, 1.0 and true are one value, NaN equals nothing. For both the order of keys does
not matter and that of items does.
"""

from collections.abc import Hashable, Iterator
from typing import TypeAlias

from toolgauge.model.json import Json, JsonObject, is_large, spelled
from toolgauge.score.leaves import tagged

# Flat and injective.
Key: TypeAlias = tuple[str | int | float, ...]

# Named once: a union would be made anew each time that it is asked for.
_CONTAINERS = (list, dict)


def canonical(value: Json) -> Key:
    """Turn a value into a key that is equal for equal values only."""
    key: list[str | int | float] = []
    left = [value]
    while left:
        node = left.pop()
        # The number of members, and the names, tell to which container each value behind them belongs.
        if isinstance(node, dict):
            names = sorted(node)
            key += ("{", len(names), *names)
            left += map(node.__getitem__, names)
        elif isinstance(node, list):
            key += ("[", len(node))
            left += node
        else:
            key += tagged(node)
    return tuple(key)


class Identities:
    """Gives each value a number, and equal values the same one: what is compared often is hashed once."""

    __slots__ = ("_figures", "_numbers", "_texts")

    def __init__(self) -> None:
        self._numbers: dict[Key, int] = {}
        # Most values are texts and numbers, which need no tags among themselves. They are told by numbers below 0, odd
        # for texts.
        self._texts: dict[str, int] = {}
        self._figures: dict[float, int] = {}

    def of_members(self, values: JsonObject) -> dict[str, int]:
        """Return the number of each value."""
        return {name: self.of(value) for name, value in values.items()}

    def of(self, value: Json) -> int:
        """Return the number of a value."""
        if isinstance(value, str):
            return self._texts.setdefault(value, -1 - 2 * len(self._texts))
        # True is no number, NaN is not equal to itself, and large ones have tags.
        if isinstance(value, int | float) and not isinstance(value, bool) and value == value and not is_large(value):
            return self._figures.setdefault(value, -2 - 2 * len(self._figures))
        return self._number(canonical(value))

    def _number(self, key: Key) -> int:
        return self._numbers.setdefault(key, len(self._numbers) + 1)


_Container: TypeAlias = list[Json] | dict[str, Json]

# So many values in all are compared at once where nothing is deeper than one container in another.
_FEW = 60


class PythonEquality:
    """Numbers containers: equal ones have the same number."""

    __slots__ = ("_containers", "_numbers")

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        # By identity; containers stay beside their keys so that no other can take their place in memory.
        self._containers: dict[int, tuple[_Container, Key]] = {}

    def same(self, first: Json, second: Json) -> bool:
        """Return whether two values are equal."""
        if not isinstance(first, _CONTAINERS) or not isinstance(second, _CONTAINERS):
            return first == second
        if type(first) is not type(second) or len(first) != len(second):
            return False
        if _is_shallow(first):
            return first == second
        return self.key(first) == self.key(second)

    def key(self, value: Json) -> Key:
        """Return a key that is equal for equal values only, as long as this lives."""
        if isinstance(value, _CONTAINERS):
            known = self._containers.get(id(value))
            if known is not None:
                return known[1]
            if not self._holds_none(value):
                self._number_containers(value)
            return self._containers[id(value)][1]
        if isinstance(value, int | float) and is_large(value):
            return ("large", spelled(value))
        return ("null",) if value is None else ("value", value)

    def _holds_none(self, node: _Container) -> bool:
        """Number a container at once if no container and no large number is in it, as it mostly is."""
        for child in node.values() if isinstance(node, dict) else node:
            if isinstance(child, _CONTAINERS) or (isinstance(child, int | float) and is_large(child)):
                return False
        number = self._number(("{", frozenset(node.items())) if isinstance(node, dict) else ("[", *node))
        self._containers[id(node)] = (node, ("#", number))
        return True

    def _number_containers(self, value: _Container) -> None:
        """Number all containers of a value, the innermost first."""
        stack = [(value, _children(value))]
        while stack:
            node, below = stack[-1]
            for child in below:
                if not isinstance(child, _CONTAINERS) or id(child) in self._containers or self._holds_none(child):
                    continue
                stack.append((child, _children(child)))
                break
            else:
                stack.pop()
                self._containers[id(node)] = (node, ("#", self._of_container(node)))

    def _of_container(self, node: _Container) -> int:
        if isinstance(node, list):
            return self._number(("[", *map(self._member, node)))
        return self._number(("{", frozenset((name, self._member(child)) for name, child in node.items())))

    def _member(self, value: Json) -> Hashable:
        """Stand for a value in its container: Python's own hash and equality decide about those that are none."""
        if isinstance(value, _CONTAINERS):
            return self._containers[id(value)][1]
        return ("large", spelled(value)) if isinstance(value, int | float) and is_large(value) else value

    def _number(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))


def _is_shallow(node: _Container) -> bool:
    """Return whether Python's own equality takes few steps and no deep ones: it goes no deeper than either side."""
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
