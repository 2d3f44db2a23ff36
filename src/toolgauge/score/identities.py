"""What makes two values the same, as something to look up by: equal keys are equal values, whatever their depth."""

from collections.abc import Generator, Iterator
from heapq import merge
from typing import TypeAlias

from toolgauge.model.json import Json, JsonObject, is_large
from toolgauge.score.leaves import Leaf, tagged
from toolgauge.score.pauses import Pacer

# Flat and injective.
Key: TypeAlias = tuple[str | int | float, ...]

_Token: TypeAlias = str | int | float
_TOKENS_PER_UNIT = 3
# Named once: a union would be made anew each time that it is asked for.
_CONTAINERS = (list, dict)
# Sorting or hashing more at once would keep others waiting.
_AT_ONCE = 1000


def canonical(value: Json, pacer: Pacer) -> Generator[None, None, Key]:
    """Turn a value into a key that is equal for equal values only."""
    key: list[_Token] = []
    for tokens in _tokens(value):
        key += tokens
        if pacer.due(1 + len(tokens) // _TOKENS_PER_UNIT):
            yield
    return tuple(key)


class Identities:
    """Gives each value a number, and equal values the same one: what is compared often is hashed once."""

    __slots__ = ("_figures", "_numbers", "_texts")

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, Key], int] = {}
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
        return self._next(0, tuple(tagged(value)))

    def of_leaves(self, values: JsonObject) -> dict[str, int] | None:
        """Return the number of each value; `None` where they are too many for one go, or any is a container."""
        if len(values) > _AT_ONCE:
            return None
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

    def of(self, value: Json, pacer: Pacer) -> Generator[None, None, int]:
        """Return the number of a value."""
        if not isinstance(value, list | dict):
            return self.of_leaf(value)
        number = 0
        key: list[_Token] = []
        for tokens in _tokens(value):
            key += tokens
            if len(key) > _AT_ONCE:
                number = self._next(number, tuple(key))
                key = []
            if pacer.due(1 + len(tokens) // _TOKENS_PER_UNIT):
                yield
        return self._next(number, tuple(key))

    def _next(self, number: int, key: Key) -> int:
        """Extend the beginning of a value that `number` stands for; 0 is the empty beginning."""
        return self._numbers.setdefault((number, key), len(self._numbers) + 1)


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
    return (([name], node[name]) for name in _in_order(node))


def _in_order(names: dict[str, Json]) -> Iterator[str]:
    if len(names) <= _AT_ONCE:
        return iter(sorted(names))
    unsorted = list(names)
    return merge(*(sorted(unsorted[start : start + _AT_ONCE]) for start in range(0, len(unsorted), _AT_ONCE)))
