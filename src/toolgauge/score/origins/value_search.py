"""Looks for a few values among many: argument values in results, or in the arguments of other calls.

The values are collected first; then everything is walked once, whatever their number, and each value keeps the mark of
the first place where it was found. Values meet as `compare` has it under the same rule; in prose a value stands for itself
between the ends of words and numbers, where spacing does not matter: `20` is not in `2048`, `20.5` or `A20`.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable, Iterator
from itertools import islice, tee
from math import isfinite
from operator import itemgetter
from typing import TypeAlias, TypeGuard

from toolgauge.model.json import is_large
from toolgauge.score.equality import Leaf, agreement, fold_key, moment, tagged
from toolgauge.score.rules import Casefold, DateTime, Exact, Numeric
from toolgauge.score.seen import written

# Rules under which a value meets another in time that does not depend on how many others there are.
SearchRule: TypeAlias = Exact | Casefold | DateTime | Numeric

# Words, numbers with points or commas inside, and single signs.
_TOKEN = re.compile(r"\d++(?:[.,]\d++){0,4}+(?!\w)|\w++|[^\w\s]")
# Of a longer value so many decide in prose: each length takes a walk over the text.
_MAX_TOKENS = 12
_ROUNDING = 1e-14


class ValueSearch:
    """Looks for values by one rule. A mark is a number; places are looked at in the order of theirs."""

    __slots__ = ("_found", "_missing", "_numbers", "_phrases", "_rule")

    def __init__(self, rule: SearchRule, values: Iterable[Leaf], *, shortest_in_prose: int = 1) -> None:
        """Values with fewer characters than `shortest_in_prose` are not looked for in prose."""
        self._rule = rule
        self._found: dict[Hashable, int | None] = {}
        # How values are written in prose, by the number of tokens.
        self._phrases: dict[int, dict[tuple[str, ...], list[Hashable]]] = {}
        # Numbers that were not found within the tolerance yet, in order.
        self._numbers: list[int | float] = []
        for value in values:
            key = self._key(value)
            if key in self._found:
                continue
            self._found[key] = None
            if self._has_tolerance(value):
                self._numbers.append(value)
            text = written(value)
            if len(text) >= shortest_in_prose:
                self._add_phrase(text, key)
        self._numbers.sort()
        self._missing = len(self._found)

    def _add_phrase(self, text: str, key: Hashable) -> None:
        phrase = tuple(islice(self._tokens(text), _MAX_TOKENS))
        if phrase:
            self._phrases.setdefault(len(phrase), {}).setdefault(phrase, []).append(key)

    def first(self, value: Leaf) -> int | None:
        """Return the mark of the first place where a value was found."""
        return self._found.get(self._key(value))

    def look_among(self, values: Iterable[Leaf], mark: int) -> None:
        """Look at the single values of a place."""
        found = self._found
        for value in values:
            if not self._missing:
                return
            key = self._key(value)
            if key in found and found[key] is None:
                self._note(key, mark)
            if self._numbers and self._has_tolerance(value):
                self._note_near(value, mark)

    def look_in_prose(self, text: str, mark: int) -> None:
        """Look at a text, in which values may stand among other words."""
        if not self._missing:
            return
        for size, phrases in self._phrases.items():
            for phrase in phrases.keys() & _runs(self._tokens(text), size):
                for key in phrases.pop(phrase):
                    self._note(key, mark)

    def _note(self, key: Hashable, mark: int) -> None:
        if key in self._found and self._found[key] is None:
            self._found[key] = mark
            self._missing -= 1

    def _note_near(self, value: float, mark: int) -> None:
        """Note the wanted numbers near a value; each is taken out once it is found."""
        if not isinstance(self._rule, Numeric):
            return
        tolerance = max(self._rule.absolute, self._rule.relative * abs(value))
        # Rounding may add a little: `agreement` decides.
        reach = tolerance + _ROUNDING * (tolerance + abs(value))
        begin, end = bisect_left(self._numbers, value - reach), bisect_right(self._numbers, value + reach)
        far: list[int | float] = []
        for wanted in self._numbers[begin:end]:
            if agreement(self._rule, value, wanted)[0] == 1.0:
                self._note(self._key(wanted), mark)
            else:
                far.append(wanted)
        self._numbers[begin:end] = far

    def _has_tolerance(self, value: Leaf) -> TypeGuard[int | float]:
        return (
            isinstance(self._rule, Numeric)
            and isinstance(value, int | float)
            and not isinstance(value, bool)
            and not is_large(value)
            and isfinite(value)
        )

    def _key(self, value: Leaf) -> Hashable:
        if not isinstance(value, str):
            return tuple(tagged(value))
        if isinstance(self._rule, Casefold):
            return fold_key(value)
        point = moment(value, zone=self._rule.zone) if isinstance(self._rule, DateTime) else None
        return value if point is None else point

    def _tokens(self, text: str) -> Iterator[str]:
        if isinstance(self._rule, Casefold):
            text = fold_key(text)
        return map(itemgetter(0), _TOKEN.finditer(text))


def _runs(tokens: Iterator[str], size: int) -> Iterator[tuple[str, ...]]:
    """Yield all runs of so many tokens."""
    copies = tee(tokens, size)
    for place, copy in enumerate(copies):
        next(islice(copy, place, place), None)
    return zip(*copies, strict=False)
