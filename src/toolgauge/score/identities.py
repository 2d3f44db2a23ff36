"""What makes two values the same, as something to look up by: equal keys are equal values, whatever their depth."""

from collections.abc import Iterator
from typing import TypeAlias

from toolgauge.model.json import Json, JsonObject, is_large
from toolgauge.score.leaves import Leaf, tagged

# Flat and injective.
Key: TypeAlias = tuple[str | int | float, ...]

_Token: TypeAlias = str | int | float
# Named once: a union would be made anew each time that it is asked for.
_CONTAINERS = (list, dict)


def canonical(value: Json) -> Key:
    """Turn a value into a key that is equal for equal values only."""
    key: list[_Token] = []
    for tokens in _tokens(value):
        key += tokens
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

    def __len__(self) -> int:
        """Return how many values have a number."""
        return len(self._numbers) + len(self._texts) + len(self._figures)

    def copy(self) -> "Identities":
        """Return others that know the same values and go on by themselves."""
        copied = Identities()
        copied._numbers, copied._texts, copied._figures = self._numbers.copy(), self._texts.copy(), self._figures.copy()
        return copied

    def of_leaf(self, value: Leaf) -> int:
        """Return the number of a single value."""
        if isinstance(value, str):
            return self._texts.setdefault(value, -1 - 2 * len(self._texts))
        # True is no number, NaN is not equal to itself, and large ones have tags.
        if isinstance(value, int | float) and not isinstance(value, bool) and value == value and not is_large(value):
            return self._figures.setdefault(value, -2 - 2 * len(self._figures))
        return self._number(tuple(tagged(value)))

    def of_leaves(self, values: JsonObject) -> dict[str, int] | None:
        """Return the number of each value; `None` where any is a container."""
        texts, figures, found = self._texts, self._figures, dict[str, int]()
        for name, value in values.items():
            if isinstance(value, str):
                found[name] = texts.setdefault(value, -1 - 2 * len(texts))
            elif type(value) is int and not is_large(value):
                found[name] = figures.setdefault(value, -2 - 2 * len(figures))
            elif isinstance(value, _CONTAINERS):
                return None
            else:
                found[name] = self.of_leaf(value)
        return found

    def of(self, value: Json) -> int:
        """Return the number of a value."""
        return self._number(canonical(value)) if isinstance(value, list | dict) else self.of_leaf(value)

    def _number(self, key: Key) -> int:
        return self._numbers.setdefault(key, len(self._numbers) + 1)


def _tokens(value: Json) -> Iterator[list[_Token]]:
    """Yield the tokens of a value, a few at a time."""
    if not isinstance(value, list | dict):
        yield tagged(value)
        return
    none: list[_Token] = []
    stack: list[Iterator[tuple[list[_Token], Json]]] = [iter(((none, value),))]
    while stack:
        step = next(stack[-1], None)
        if step is None:
            stack.pop()
            continue
        name, node = step
        if isinstance(node, dict):
            yield [*name, "{", len(node)]
            stack.append(_members(node))
        elif isinstance(node, list):
            yield [*name, "[", len(node)]
            stack.append(([], item) for item in node)
        else:
            yield name + tagged(node)


def _members(node: dict[str, Json]) -> Iterator[tuple[list[_Token], Json]]:
    return (([name], node[name]) for name in sorted(node))
