"""The one place that compares values: an expected one with the one that was recorded.

Booleans are never numbers, 1 equals 1.0, NaN equals NaN, absent differs from null, the order of keys does not
matter and that of items does. Containers are walked without recursion: spans decide how deep they are.
Each rule decides about leaves; the walk is the same for all.
"""

import json
import math
import unicodedata
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain, zip_longest
from typing import TypeAlias, TypeGuard

from rapidfuzz.distance import Levenshtein

from toolgauge.model.json import Json
from toolgauge.model.outcomes import Difference, Side
from toolgauge.score.patterns import Pattern
from toolgauge.score.pauses import Pacer

# More than this many differences tell a reader nothing.
MAX_DIFFERENCES = 20
# Beyond this many cells the edit distance takes milliseconds, and the cheaper bound below is used.
_MAX_EDIT_CELLS = 50_000_000
_EDIT_CELLS_PER_UNIT = 20_000
_MAX_NAME = 80
_UNITS_PER_WALK = 5
_UNITS_PER_STEP = 2
_JUST_BELOW_ONE = math.nextafter(1.0, 0.0)

_Leaf: TypeAlias = bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class Exact:
    """The same value."""


@dataclass(frozen=True, slots=True)
class Casefold:
    """The same value, where case and Unicode composition of text do not matter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Numeric:
    """Numbers within a tolerance (the larger of the two counts; `relative` is a share of the expected number)."""

    absolute: float = 0.0
    relative: float = 0.0


@dataclass(frozen=True, slots=True)
class Contains:
    """The expected text occurs in the actual one; of two lists: every expected item does."""


@dataclass(frozen=True, slots=True)
class Regex:
    """The whole of the actual text matches the pattern; what is expected is not looked at."""

    pattern: Pattern


@dataclass(frozen=True, slots=True)
class Ignore:
    """Any value, as long as there is one."""


@dataclass(frozen=True, slots=True)
class SetLike:
    """Lists of the same items; order and repeats do not matter. The value is shared items / all items."""


@dataclass(frozen=True, slots=True)
class Similarity:
    """How alike, from 0 to 1: the mean over all leaves of both sides.

    Text: 1 - edit distance / longer length. Numbers: 1 - difference / larger magnitude. Everything else is equal or not;
    a leaf without a counterpart is 0. An empty list or object is one leaf. Items of lists are compared by place.
    """


Rule: TypeAlias = Exact | Casefold | Numeric | Contains | Regex | Ignore | SetLike | Similarity


class Absent(Enum):
    """Stands for a value that is not there, which differs from null."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT

# Flat and injective: equal keys are equal values, whatever their depth.
Key: TypeAlias = tuple[str | int | float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """`value` is 1 exactly when the rule is met; only some rules know values between. `leaves` is what was compared."""

    value: float
    differences: tuple[Difference, ...] = ()
    leaves: int = 1


def canonical(value: Json, pacer: Pacer, *, as_python: bool = False) -> Generator[None, None, Key]:
    """Turn a value into a key that is equal for equal values only.

    `as_python` is the equality that the originals use: true equals 1, false equals 0, NaN equals nothing.
    """
    tokens: list[str | int | float] = []
    stack: list[Json] = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            names = sorted(node)
            tokens += ["{", len(names), *names]
            stack += [node[name] for name in reversed(names)]
        elif isinstance(node, list):
            tokens += ["[", len(node)]
            stack += reversed(node)
        else:
            tokens += _python_tagged(node) if as_python else _tagged(node)
        if pacer.due():
            yield
    return tuple(tokens)


def same(first: Json, second: Json) -> bool:
    """Tell whether two single values (no containers) are the same."""
    return (
        not isinstance(first, list | dict)
        and not isinstance(second, list | dict)
        and (_tagged(first) == _tagged(second))
    )


def quick_similarity(expected: Json, actual: Json) -> tuple[float, int] | None:
    """Return how alike two single values are, and the work it took; `None` for containers.

    The same as `compare` with `Similarity`, for those who weigh thousands of pairs and want no differences.
    """
    if isinstance(expected, list | dict) or isinstance(actual, list | dict):
        return None
    value, units = _agreement(Similarity(), expected, actual)
    if value == 1.0 and not same(expected, actual):
        value = _JUST_BELOW_ONE
    return value, units


def compare(rule: Rule, expected: Json, actual: Json, *, where: str, pacer: Pacer) -> Generator[None, None, Comparison]:
    """Compare two values that are both there; `where` is the path that differences begin with."""
    match rule:
        case Ignore():
            return Comparison(value=1.0)
        case Regex(pattern=pattern):
            met = isinstance(actual, str) and pattern.matches(actual)
            return _verdict(rule, met=met, expected=pattern.text, actual=actual, where=where)
        case SetLike() | Contains() if isinstance(expected, list) and isinstance(actual, list):
            return (yield from _sets(rule, expected, actual, where=where, pacer=pacer))
        case _:
            return (yield from _walk(rule, expected, actual, where=where, pacer=pacer))


def describe(difference: Difference) -> str:
    """Say what differs and how, without a value."""
    where = difference.where
    if difference.expected is None:
        return f"{where} is not expected"
    if difference.rule == "unparsable":
        return f"{where} are unparsable"
    if difference.actual is None:
        return f"{where} is missing"
    wanted, found = kind(difference.expected.value), kind(difference.actual.value)
    if wanted != found:
        return f"{where} is {found} instead of {wanted}"
    return f"{where} differs ({wanted}, {difference.rule})"


def kind(value: Json) -> str:
    """Name the kind of a value in words for people."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "text"
        case list():
            return "list"
        case dict():
            return "object"


def rule_name(rule: Rule) -> str:
    """Name the rule as differences and configuration call it."""
    match rule:
        case Exact():
            return "exact"
        case Casefold():
            return "casefold"
        case Numeric():
            return "numeric"
        case Contains():
            return "contains"
        case Regex():
            return "regex"
        case Ignore():
            return "ignore"
        case SetLike():
            return "set"
        case Similarity():
            return "similarity"


def _tagged(value: _Leaf) -> list[str | int | float]:
    # The tags keep true from 1 and "1"; NaN, which equals nothing, becomes a tag of its own.
    if value is None:
        return ["null"]
    if isinstance(value, bool):
        return ["true" if value else "false"]
    if isinstance(value, str):
        return ["text", value]
    # Only NaN differs from itself.
    return ["nan"] if value != value else ["number", value]


def _python_tagged(value: _Leaf) -> list[str | int | float]:
    if value is None:
        return ["null"]
    return ["text", value] if isinstance(value, str) else ["number", value]


def _verdict(rule: Rule, *, met: bool, expected: Json, actual: Json, where: str) -> Comparison:
    if met:
        return Comparison(value=1.0)
    difference = Difference(where=where, rule=rule_name(rule), expected=Side(value=expected), actual=Side(value=actual))
    return Comparison(value=0.0, differences=(difference,))


def _sets(
    rule: SetLike | Contains, expected: list[Json], actual: list[Json], *, where: str, pacer: Pacer
) -> Generator[None, None, Comparison]:
    wanted = yield from _keyed(expected, pacer)
    found = yield from _keyed(actual, pacer)
    tally = _Tally(rule)
    for key, item in wanted.items():
        tally.leaf(1.0 if key in found else 0.0)
        if key not in found:
            tally.differ(f"{where}[]", item, ABSENT)
    if isinstance(rule, Contains):
        return Comparison(value=0.0 if tally.differences else 1.0, differences=tuple(tally.differences))
    for key, item in found.items():
        if key not in wanted:
            tally.leaf(0.0)
            tally.differ(f"{where}[]", ABSENT, item)
    return tally.comparison()


def _keyed(items: list[Json], pacer: Pacer) -> Generator[None, None, dict[Key, Json]]:
    keyed: dict[Key, Json] = {}
    for item in items:
        keyed.setdefault((yield from canonical(item, pacer)), item)
    return keyed


@dataclass(slots=True)
class _Tally:
    """What a comparison has found so far."""

    rule: Rule
    leaves: int = 0
    sum: float = 0.0
    differences: list[Difference] = field(default_factory=list[Difference])

    def leaf(self, value: float) -> None:
        self.leaves += 1
        self.sum += value

    def differ(self, where: str, expected: Json | Absent, actual: Json | Absent) -> None:
        if len(self.differences) < MAX_DIFFERENCES:
            self.differences.append(
                Difference(
                    where=where,
                    rule=rule_name(self.rule),
                    expected=None if isinstance(expected, Absent) else Side(value=expected),
                    actual=None if isinstance(actual, Absent) else Side(value=actual),
                )
            )

    def comparison(self) -> Comparison:
        value = 1.0
        if self.differences:
            # Rounding may not hide a difference.
            value = min(self.sum / self.leaves, _JUST_BELOW_ONE) if self.leaves else 0.0
        return Comparison(value=value, differences=tuple(self.differences), leaves=max(self.leaves, 1))


# Both sides, the path, and whether a difference further up stands for this one.
_Step: TypeAlias = tuple[Json | Absent, Json | Absent, str, bool]


def _walk(rule: Rule, expected: Json, actual: Json, *, where: str, pacer: Pacer) -> Generator[None, None, Comparison]:
    tally = _Tally(rule)
    if pacer.due(_UNITS_PER_WALK):
        yield
    stack: list[Iterator[_Step]] = [iter(((expected, actual, where, False),))]
    while stack:
        step = next(stack[-1], None)
        if step is None:
            stack.pop()
            continue
        below = _below(tally, step)
        units = _UNITS_PER_STEP
        if below is None:
            units += _compare_leaves(tally, step)
        else:
            stack.append(below)
        if pacer.due(units):
            yield
    comparison = tally.comparison()
    if isinstance(rule, Similarity) or not comparison.differences:
        return comparison
    return Comparison(value=0.0, differences=comparison.differences, leaves=comparison.leaves)


def _below(tally: _Tally, step: _Step) -> Iterator[_Step] | None:
    """Find the pairs beneath a pair; `None` for leaves. Report what one side lacks, once for all that is beneath."""
    expected, actual, where, reported = step
    is_alike = (isinstance(expected, dict) and isinstance(actual, dict)) or (
        isinstance(expected, list) and isinstance(actual, list)
    )
    if is_alike and (expected or actual):
        return _pairs(expected, actual, where, reported=reported)
    if not _holds_something(expected) and not _holds_something(actual):
        return None
    if not reported:
        tally.differ(where, expected, actual)
    return chain(
        _pairs(expected, ABSENT, where, reported=True)
        if _holds_something(expected)
        else _alone(expected, ABSENT, where),
        _pairs(ABSENT, actual, where, reported=True) if _holds_something(actual) else _alone(ABSENT, actual, where),
    )


def _holds_something(value: Json | Absent) -> bool:
    return isinstance(value, list | dict) and bool(value)


def _alone(expected: Json | Absent, actual: Json | Absent, where: str) -> Iterator[_Step]:
    if expected is not ABSENT or actual is not ABSENT:
        yield expected, actual, where, True


def _pairs(expected: Json | Absent, actual: Json | Absent, where: str, *, reported: bool) -> Iterator[_Step]:
    """Yield what stands under the same key, or at the same place."""
    if isinstance(expected, dict) or isinstance(actual, dict):
        wanted = expected if isinstance(expected, dict) else {}
        found = actual if isinstance(actual, dict) else {}
        for name, value in wanted.items():
            yield value, found.get(name, ABSENT), path(where, name), reported
        for name, value in found.items():
            if name not in wanted:
                yield ABSENT, value, path(where, name), reported
        return
    items = zip_longest(
        expected if isinstance(expected, list) else (), actual if isinstance(actual, list) else (), fillvalue=ABSENT
    )
    for place, (wanted, found) in enumerate(items):
        yield wanted, found, f"{where}[{place}]", reported


def path(where: str, name: str) -> str:
    """Extend a path by a key: `passengers[2].last_name`; a leading `tool:` names what the path is in."""
    if name.isidentifier() and len(name) <= _MAX_NAME:
        return name if not where else f"{where} {name}" if where.endswith(":") else f"{where}.{name}"
    return f"{where}[{json.dumps(name[:_MAX_NAME])}]"


def _compare_leaves(tally: _Tally, step: _Step) -> int:
    """Compare two leaves and return the work it took beyond the usual."""
    expected, actual, where, reported = step
    units = 0
    if isinstance(expected, Absent) or isinstance(actual, Absent):
        value, is_met = 0.0, False
    elif isinstance(expected, list | dict) or isinstance(actual, list | dict):
        # Both are empty here, or one is and the other is a single value.
        value = float(type(expected) is type(actual))
        is_met = value == 1.0
    else:
        value, units = _agreement(tally.rule, expected, actual)
        is_met = value == 1.0 and (not isinstance(tally.rule, Similarity) or same(expected, actual))
    tally.leaf(value)
    if not is_met and not reported:
        tally.differ(where, expected, actual)
    return units


def _agreement(rule: Rule, expected: _Leaf, actual: _Leaf) -> tuple[float, int]:
    """Say how far two single values agree, and the work that took."""
    if _tagged(expected) == _tagged(actual):
        return 1.0, 0
    if isinstance(expected, str) and isinstance(actual, str):
        return _text_agreement(rule, expected, actual)
    if _is_number(expected) and _is_number(actual):
        match rule:
            case Numeric(absolute=absolute, relative=relative):
                return float(_is_within(expected, actual, absolute=absolute, relative=relative)), 0
            case Similarity():
                return _closeness(expected, actual), 0
            case _:
                return 0.0, 0
    return 0.0, 0


def _text_agreement(rule: Rule, expected: str, actual: str) -> tuple[float, int]:
    match rule:
        case Casefold():
            return float(_folded(expected) == _folded(actual)), (len(expected) + len(actual)) // 100
        case Contains():
            return float(expected in actual), len(actual) // 1000
        case Similarity():
            return _text_similarity(expected, actual)
        case _:
            return 0.0, 0


def _folded(text: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def _text_similarity(expected: str, actual: str) -> tuple[float, int]:
    cells = len(expected) * len(actual)
    if cells <= _MAX_EDIT_CELLS:
        return Levenshtein.normalized_similarity(expected, actual), cells // _EDIT_CELLS_PER_UNIT
    # A lower bound that takes linear time: no edit is needed where the texts begin and end alike.
    start = _shared(expected, actual)
    end = min(_shared(expected[::-1], actual[::-1]), min(len(expected), len(actual)) - start)
    return (start + end) / max(len(expected), len(actual)), (len(expected) + len(actual)) // 1000


def _shared(first: str, second: str) -> int:
    """Count the characters both texts begin with, by halving: slices compare far faster than characters."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _is_number(value: Json) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_within(expected: float, actual: float, *, absolute: float, relative: float) -> bool:
    try:
        return math.isclose(expected, actual, rel_tol=0.0, abs_tol=max(absolute, relative * abs(expected)))
    except OverflowError:
        # Integers beyond the range of floats that are not equal: no tolerance was meant to span them.
        return False


def _closeness(expected: float, actual: float) -> float:
    try:
        distance = abs(expected - actual) / max(abs(expected), abs(actual))
    except OverflowError:
        return 0.0
    return max(0.0, 1.0 - distance) if math.isfinite(distance) else 0.0
