"""Types of decoded values: JSON, and what an OTLP attribute can hold."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

# Treat as immutable: the same object may be shared by a span view, an observation and a tool call.
Json: TypeAlias = bool | int | float | str | list["Json"] | dict[str, "Json"] | None
JsonObject: TypeAlias = dict[str, Json]

# An OTLP AnyValue, decoded. `None` is an AnyValue that is present but empty, which differs from a missing key.
Value: TypeAlias = bool | int | float | str | bytes | Sequence["Value"] | Mapping[str, "Value"] | None

Leaf: TypeAlias = bool | int | float | str | None
_Token: TypeAlias = str | int | float
# Flat and injective.
Key: TypeAlias = tuple[_Token, ...]

# Beyond 64 bits, which is what most producers can write.
_LARGE = 1 << 64
_INFINITE = float("inf")


def is_large(number: float) -> bool:
    """Return whether to look a number up by `spelled`: integers can be chosen to share one hash, which makes tables quadratic."""
    return _LARGE <= abs(number) < _INFINITE


def spelled(number: float) -> str:
    """Write a large number; the same text for an integer and a float that are equal."""
    return hex(int(number))


def tagged(value: Leaf) -> list[_Token]:
    """Return tokens that are equal for equal values: the tags keep true from 1 and "1", and make NaN equal itself."""
    if value is None:
        return ["null"]
    if isinstance(value, bool):
        return ["true" if value else "false"]
    if isinstance(value, str):
        return ["text", value]
    # Only NaN differs from itself.
    if value != value:
        return ["nan"]
    return ["large", spelled(value)] if is_large(value) else ["number", value]


def canonical(value: Json) -> Key:
    """Turn a value into a key that is equal for equal values only."""
    return flat(value, tagged)


def flat(value: Json, of_leaf: Callable[[Leaf], Iterable[_Token]]) -> Key:
    """Return the structure of a value and its leaves as tokens, without recursion."""
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


def leaves(value: Json) -> Iterator[Leaf]:
    """Yield the single values within a value. Works without recursion, because spans decide how deep they are."""
    stack = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            stack += node.values()
        elif isinstance(node, list):
            stack += node
        else:
            yield node


def values_within(value: Json, limit: int) -> int | None:
    """Count the values in a value, empty objects and lists included; `None` where they are nested in more than so many levels."""
    level, count = [value], 1
    for _ in range(limit + 1):
        inner: list[Json] = []
        # Most values hold nothing: `isinstance` takes four times as long to say so.
        for item in level:
            if type(item) is dict:
                inner += item.values()
            elif type(item) is list:
                inner += item
        if not inner:
            return count
        level, count = inner, count + len(inner)
    return None


_KINDS = ((bool, "boolean"), ((int, float), "number"), (str, "text"), (list, "list"), (dict, "object"))


def kind(value: Json) -> str:
    """Name the kind of a value in words for people."""
    return next((word for types, word in _KINDS if isinstance(value, types)), "null")
