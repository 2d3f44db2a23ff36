"""Equality: how far two single values agree under a rule, dates and times included, and whether whole values are equal.

Whole values are compared by keys, without recursion, as spans decide how deep they are. Ours (`Identities`, `canonical`) keep
booleans from numbers, and NaN equals NaN; `PythonEquality` is `==` of Python, as originals compare. Dates and times are
written as in ISO 8601 and RFC 3339: no week or ordinal dates, no leap seconds, no month names, no numbers.
"""

import math
import re
import unicodedata
from dataclasses import dataclass
from datetime import date
from typing import TypeGuard

from toolgauge import on_demand
from toolgauge.model.json import Json, JsonObject, Key, Leaf, canonical, flat, is_large, spelled, tagged
from toolgauge.score.rules import ZONE, Casefold, Contains, DateTime, LeafRule, Numeric, Similarity, offset

_MAX_LENGTH = 64
_SECONDS_PER_DAY = 86_400
_DATE = r"(?P<year>\d{4})(?P<dash>-?)(?P<month>\d\d)(?P=dash)(?P<day>\d\d)"
_TIME = r"(?P<hour>\d\d)(?P<colon>:?)(?P<minute>\d\d)(?:(?P=colon)(?P<second>\d\d)(?:[.,](?P<fraction>\d+))?)?"
_MOMENT = re.compile(f"{_DATE}(?:[Tt ]{_TIME}{ZONE}?)?", re.ASCII)
_TIME_OF_DAY = re.compile(_TIME, re.ASCII)


# Moments without a zone are equal where their clocks show the same; one with and one without never are.
@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A date, a time of day or a point in time, in universal time where there is a zone; equal where they name the same."""

    day: int | None
    second: int | None
    # The digits after the point, without zeros at the end.
    fraction: str = ""
    has_zone: bool = False


def moment(text: str, *, zone: int | None = None) -> Moment | None:
    """Read a date or a time, else return `None`; `zone` (seconds from universal time) is that of clocks without one."""
    if len(text) > _MAX_LENGTH:
        return None
    clock = _TIME_OF_DAY.fullmatch(text)
    match = _MOMENT.fullmatch(text) if clock is None else clock
    if match is None or (clock is not None and not clock["colon"]):
        return None
    day = None
    if clock is None:
        try:
            day = date(int(match["year"]), int(match["month"]), int(match["day"])).toordinal()
        except ValueError:
            return None
        if match["hour"] is None:
            return Moment(day=day, second=None)
    hours, minutes, seconds = int(match["hour"]), int(match["minute"]), int(match["second"] or "0")
    fraction = (match["fraction"] or "").rstrip("0")
    is_midnight = hours == 24 and not (minutes or seconds or fraction)
    if not is_midnight and not (hours < 24 and minutes < 60 and seconds < 60):
        return None
    in_day = hours * 3600 + minutes * 60 + seconds
    if day is None:
        return Moment(day=None, second=in_day, fraction=fraction)
    away = zone if match["zone"] is None else offset(match["zone"])
    if away is None and match["zone"] is not None:
        return None
    days, in_day = divmod(in_day - (away or 0), _SECONDS_PER_DAY)
    return Moment(day=day + days, second=in_day, fraction=fraction, has_zone=away is not None)


# Beyond this many cells the edit distance takes milliseconds, and the cheaper bound below is used.
_MAX_EDIT_CELLS = 50_000_000
_EDIT_CELLS_PER_UNIT = 20_000
# Folding texts beyond this length that are not plain ASCII would keep others waiting.
_MAX_FOLDED = 50_000
JUST_BELOW_ONE = math.nextafter(1.0, 0.0)


def same(first: Json, second: Json) -> bool:
    """Return whether two single values (no containers) are the same."""
    return not (isinstance(first, list | dict) or isinstance(second, list | dict)) and tagged(first) == tagged(second)


def agreement(rule: LeafRule, expected: Leaf, actual: Leaf) -> tuple[float, int]:
    """Return how far two single values agree, 1 for equal ones, and the work that took."""
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
    return (min(value, JUST_BELOW_ONE) if isinstance(rule, Similarity) else value), units


def _number_agreement(rule: LeafRule, expected: float, actual: float) -> float:
    match rule:
        case Numeric(absolute=absolute, relative=relative):
            try:
                # Decimals are not exact in binary: 20.01 is within 0.01 of 20.
                slack = 4 * math.ulp(max(abs(expected), abs(actual)))
                tolerance = max(absolute, relative * abs(expected))
                within = tolerance + slack if tolerance else 0.0
                return float(math.isclose(expected, actual, rel_tol=0.0, abs_tol=within))
            except OverflowError:
                # Integers beyond the range of floats that are not equal: no tolerance was meant to span them.
                return 0.0
        case Similarity():
            try:
                distance = abs(expected - actual) / max(abs(expected), abs(actual))
            except (OverflowError, ZeroDivisionError):
                # Integers beyond the range of floats; zero and NaN.
                return 0.0
            return max(0.0, 1.0 - distance) if math.isfinite(distance) else 0.0
        case _:
            return 0.0


def _text_agreement(rule: LeafRule, expected: str, actual: str) -> tuple[float, int]:
    match rule:
        case Casefold():
            is_short = max(len(expected), len(actual)) <= _MAX_FOLDED
            is_plain = expected.isascii() and actual.isascii()
            is_alike = (is_plain or is_short) and fold_key(expected) == fold_key(actual)
            return float(is_alike), min(len(expected) + len(actual), 4 * _MAX_FOLDED) // 100
        case Contains():
            return float(expected in actual), len(actual) // 1000
        case DateTime(zone=zone):
            wanted = moment(expected, zone=zone)
            return float(wanted is not None and wanted == moment(actual, zone=zone)), 4
        case Similarity():
            cells = len(expected) * len(actual)
            if cells <= _MAX_EDIT_CELLS:
                similarity = on_demand.rapidfuzz.distance.Levenshtein.normalized_similarity(expected, actual)
                return similarity, cells // _EDIT_CELLS_PER_UNIT
            # A lower bound that takes linear time: no edit is needed where the texts begin and end alike.
            of = on_demand.rapidfuzz.distance
            start, end = of.Prefix.similarity(expected, actual), of.Postfix.similarity(expected, actual)
            end = min(end, len(expected) - start, len(actual) - start)
            return (start + end) / max(len(expected), len(actual)), (len(expected) + len(actual)) // 1000
        case _:
            return 0.0, 0


def fold_key(text: str) -> str:
    """Return a text that is the same for texts that `casefold` takes for alike."""
    if text.isascii():
        return text.lower()
    return (
        text if len(text) > _MAX_FOLDED else unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())
    )


def _is_number(value: Json) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


# Named once: `isinstance` with a union would build that union each time.
_CONTAINERS = (list, dict)
_CONTAINER_TYPES = frozenset(_CONTAINERS)
# So many values of two containers are compared one by one.
_FEW = 60


class Identities:
    """Gives each value a number, and equal values the same one: values that are compared often are hashed once."""

    def __init__(self) -> None:
        self._numbers: dict[Key, int] = {}

    def of_members(self, values: JsonObject) -> dict[str, int]:
        """Return the number of each value."""
        return {name: self.of(value) for name, value in values.items()}

    def of(self, value: Json) -> int:
        """Return the number of a value."""
        return self._numbers.setdefault(canonical(value), len(self._numbers))


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
        # Without it: twice as much for an evaluator that compares call by call. Numbers are for large or deep values.
        if len(first) <= _FEW and _CONTAINER_TYPES.isdisjoint(
            map(type, first.values() if isinstance(first, dict) else first)
        ):
            return first == second
        return self.key(first) == self.key(second)

    def key(self, value: Json) -> Key:
        """Return a key that is equal for equal values only, as long as this lives."""
        if not isinstance(value, _CONTAINERS):
            return tuple(_as_python(value))
        known = self._known.get(id(value))
        if known is None:
            number = self._numbers.setdefault(flat(value, _as_python), len(self._numbers))
            known = self._known[id(value)] = (value, ("#", number))
        return known[1]


def _as_python(value: Leaf) -> tuple[str | int | float, ...]:
    """Return tokens of which Python's own hash and equality decide: true is 1, and NaN equals nothing."""
    if isinstance(value, int | float) and is_large(value):
        return ("large", spelled(value))
    return ("null",) if value is None else ("value", value)
