"""Equality of whole values, by keys to look them up with. Without recursion, because spans decide how deep values are.

`Identities` and `canonical` are ours: booleans are no numbers, NaN equals NaN. `PythonEquality` is `==` of Python, which
the originals of the field compare by: 1, 1.0 and true are one value, NaN equals nothing. For both the order of keys does
not matter and that of items does.
"""

from collections.abc import Callable, Iterable
from typing import TypeAlias

from toolgauge.model.json import Json, JsonObject, is_large, spelled
from toolgauge.score.leaves import Leaf, tagged

_Token: TypeAlias = str | int | float
# Flat and injective.
Key: TypeAlias = tuple[_Token, ...]

# Named once: a union would be made anew each time that it is asked for.
_CONTAINERS = (list, dict)
_CONTAINER_TYPES = frozenset(_CONTAINERS)
# So many values of two containers are compared one by one.
_FEW = 60


def canonical(value: Json) -> Key:
    """Turn a value into a key that is equal for equal values only."""
    return _flat(value, tagged)


def _flat(value: Json, of_leaf: Callable[[Leaf], Iterable[_Token]]) -> Key:
    key: list[_Token] = []
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
            key += of_leaf(node)
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


class PythonEquality:
    """Numbers containers: equal ones have the same number."""

    __slots__ = ("_known", "_numbers")

    def __init__(self) -> None:
        self._numbers: dict[Key, int] = {}
        # By identity: some originals compare each call with each. Values stay beside their keys so that no other can
        # take their place in memory.
        self._known: dict[int, tuple[Json, Key]] = {}

    def same(self, first: Json, second: Json) -> bool:
        """Return whether two values are equal."""
        if not isinstance(first, _CONTAINERS) or not isinstance(second, _CONTAINERS):
            return first == second
        # Without it: twice as much for an evaluator that compares call by call. Numbers are for what is large or deep.
        if len(first) <= _FEW and _is_flat(first):
            return first == second
        return self.key(first) == self.key(second)

    def key(self, value: Json) -> Key:
        """Return a key that is equal for equal values only, as long as this lives."""
        if not isinstance(value, _CONTAINERS):
            return tuple(_as_python(value))
        known = self._known.get(id(value))
        if known is None:
            number = self._numbers.setdefault(_flat(value, _as_python), len(self._numbers))
            known = self._known[id(value)] = (value, ("#", number))
        return known[1]


def _is_flat(node: list[Json] | dict[str, Json]) -> bool:
    return _CONTAINER_TYPES.isdisjoint(map(type, node.values() if isinstance(node, dict) else node))


def _as_python(value: Leaf) -> tuple[str | int | float, ...]:
    """Return tokens of which Python's own hash and equality decide: true is 1, and NaN equals nothing."""
    if isinstance(value, int | float) and is_large(value):
        return ("large", spelled(value))
    return ("null",) if value is None else ("value", value)
