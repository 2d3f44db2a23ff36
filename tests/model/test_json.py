"""Large numbers are looked up by how they are written: which of them have one hash, everybody can tell."""

from collections.abc import Callable, Hashable

import pytest

from toolgauge.assemble.canonical import value_key
from toolgauge.model.json import Json, spelled
from toolgauge.score.equality import Identities, PythonEquality, canonical

# Its multiples have the hash 0.
PRIME = 2**61 - 1


class Compared(int):
    """An integer that tells how often it was compared with others."""

    __hash__ = int.__hash__
    times = 0

    def __eq__(self, other: object) -> bool:
        Compared.times += 1
        return int.__eq__(self, other)


def call_keys() -> Callable[[Json], Hashable]:
    return lambda value: value_key({"n": value})


def set_keys() -> Callable[[Json], Hashable]:
    return lambda value: canonical({"n": [value]})


def identities() -> Callable[[Json], Hashable]:
    known = Identities()
    return lambda value: (known.of(value), known.of([value]))


def numbers_of_python() -> Callable[[Json], Hashable]:
    equality = PythonEquality()

    def key(value: Json) -> Hashable:
        within: list[Json] = [value, [value], {"n": value}, [[value], value]]
        return tuple(equality.key(one) for one in within)

    return key


KEYS = pytest.mark.parametrize("keys", [call_keys, set_keys, identities, numbers_of_python])


@KEYS
def test_numbers_of_one_hash_are_not_compared_with_each_other(keys: Callable[[], Callable[[Json], Hashable]]):
    key = keys()
    Compared.times = 0
    assert len({key(Compared(factor * PRIME)) for factor in range(16, 316)}) == 300
    assert Compared.times < 3000


@KEYS
def test_large_numbers_are_equal_where_they_were(keys: Callable[[], Callable[[Json], Hashable]]):
    key = keys()
    assert key(10**22) == key(1e22)
    assert key(-(10**22)) == key(-1e22)
    assert len({key(value) for value in (10**22, -(10**22), 10**22 + 1, spelled(10**22), float("inf"), 10**400)}) == 6
