"""How far two single values (no containers) agree under a rule, and the work it took to find out."""

import math
import unicodedata
from typing import TypeAlias, TypeGuard

from rapidfuzz.distance import Levenshtein

from toolgauge.model.json import Json, is_large, spelled
from toolgauge.score.moments import moment
from toolgauge.score.rules import Casefold, Contains, DateTime, LeafRule, Numeric, Similarity

Leaf: TypeAlias = bool | int | float | str | None

# Beyond this many cells the edit distance takes milliseconds, and the cheaper bound below is used.
_MAX_EDIT_CELLS = 50_000_000
_EDIT_CELLS_PER_UNIT = 20_000
# Folding texts beyond this length that are not plain ASCII would keep others waiting.
_MAX_FOLDED = 50_000
_JUST_BELOW_ONE = math.nextafter(1.0, 0.0)


def same(first: Json, second: Json) -> bool:
    """Tell whether two single values (no containers) are the same."""
    return (
        not isinstance(first, list | dict) and not isinstance(second, list | dict) and (tagged(first) == tagged(second))
    )


def tagged(value: Leaf) -> list[str | int | float]:
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


def agreement(rule: LeafRule, expected: Leaf, actual: Leaf) -> tuple[float, int]:
    """Say how far two single values agree, 1 for equal ones, and the work that took."""
    if isinstance(expected, str) and isinstance(actual, str):
        if expected == actual:
            return 1.0, 0
        value, units = _text_agreement(rule, expected, actual)
    elif tagged(expected) == tagged(actual):
        return 1.0, 0
    elif _is_number(expected) and _is_number(actual):
        value, units = _number_agreement(rule, expected, actual), 0
    else:
        return 0.0, 0
    # Rounding may not hide a difference.
    return (min(value, _JUST_BELOW_ONE) if isinstance(rule, Similarity) else value), units


def _number_agreement(rule: LeafRule, expected: float, actual: float) -> float:
    match rule:
        case Numeric(absolute=absolute, relative=relative):
            return float(_is_within(expected, actual, absolute=absolute, relative=relative))
        case Similarity():
            return _closeness(expected, actual)
        case _:
            return 0.0


def _text_agreement(rule: LeafRule, expected: str, actual: str) -> tuple[float, int]:
    match rule:
        case Casefold():
            return float(_fold_alike(expected, actual)), min(len(expected) + len(actual), 4 * _MAX_FOLDED) // 100
        case Contains():
            return float(expected in actual), len(actual) // 1000
        case DateTime(zone=zone):
            wanted = moment(expected, zone=zone)
            return float(wanted is not None and wanted == moment(actual, zone=zone)), 4
        case Similarity():
            return _text_similarity(expected, actual)
        case _:
            return 0.0, 0


def _fold_alike(first: str, second: str) -> bool:
    if first.isascii() and second.isascii():
        return len(first) == len(second) and first.lower() == second.lower()
    if len(first) > _MAX_FOLDED or len(second) > _MAX_FOLDED:
        return False
    return _folded(first) == _folded(second)


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
        # Decimals are not exact in binary: 20.01 is within 0.01 of 20.
        slack = 4 * math.ulp(max(abs(expected), abs(actual)))
        tolerance = max(absolute, relative * abs(expected))
        return math.isclose(expected, actual, rel_tol=0.0, abs_tol=tolerance + slack if tolerance else 0.0)
    except OverflowError:
        # Integers beyond the range of floats that are not equal: no tolerance was meant to span them.
        return False


def _closeness(expected: float, actual: float) -> float:
    try:
        distance = abs(expected - actual) / max(abs(expected), abs(actual))
    except (OverflowError, ZeroDivisionError):
        # Integers beyond the range of floats; zero and NaN.
        return 0.0
    return max(0.0, 1.0 - distance) if math.isfinite(distance) else 0.0
