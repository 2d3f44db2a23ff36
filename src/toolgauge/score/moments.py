"""Texts that name a date or a time, read so that two ways to write the same one are equal.

What is read, of ISO 8601 and RFC 3339: dates `2025-01-31` and `20250131`; times `09:30`, `09:30:15`, `09:30:15.25` (or
with a comma) and, after a date, also `0930` and `093015`; both joined by `T`, `t` or one space; zones `Z`, `z`, `+02:00`,
`+0200` and `+02` after a time that has a date. `24:00` is the start of the next day. Nothing else is: no week or
ordinal dates, no leap seconds, no month names, no numbers.
"""

import re
from dataclasses import dataclass
from datetime import date

_MAX_LENGTH = 64
_SECONDS_PER_DAY = 86_400
_DATE = r"(?P<year>\d{4})(?:-(?P<month>\d\d)-(?P<day>\d\d)|(?P<packed>\d{4}))"
_FRACTION = r"(?:[.,](?P<fraction>\d+))?"
_TIME = r"(?P<hour>\d\d)(?::(?P<minute>\d\d)(?::(?P<second>\d\d)" + _FRACTION + r")?"
_PACKED_TIME = r"|(?P<packed_minute>\d\d)(?:(?P<packed_second>\d\d)(?:[.,](?P<packed_fraction>\d+))?)?)"
_ZONE = r"(?P<zone>[Zz]|[+-]\d\d(?::?\d\d)?)"
_MOMENT = re.compile(f"{_DATE}(?:[Tt ]{_TIME}{_PACKED_TIME}{_ZONE}?)?", re.ASCII)
_TIME_OF_DAY = re.compile(f"{_TIME})", re.ASCII)
_ZONE_ALONE = re.compile(_ZONE, re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A date, a time of day or a point in time; equal where they name the same one.

    `day` counts days, `second` those since midnight, in universal time where there is a zone. Two moments without a zone
    are equal where their clocks show the same; one with and one without never are.
    """

    day: int | None
    second: int | None
    # The digits after the point, without zeros at the end.
    fraction: str = ""
    has_zone: bool = False


def moment(text: str, *, zone: int | None = None) -> Moment | None:
    """Read a date or a time; `None` if it is not written in one of the known forms.

    `zone` is the offset from universal time, in seconds, of points in time that are written without one.
    """
    if len(text) > _MAX_LENGTH:
        return None
    alone = _TIME_OF_DAY.fullmatch(text)
    if alone is not None:
        second = _second(alone["hour"], alone["minute"], alone["second"] or "0", alone["fraction"] or "")
        return None if second is None else Moment(day=None, second=second, fraction=_digits(alone["fraction"]))
    match = _MOMENT.fullmatch(text)
    if match is None:
        return None
    packed = match["packed"] or ""
    day = _day(match["year"], match["month"] or packed[:2], match["day"] or packed[2:])
    if day is None or match["hour"] is None:
        return None if day is None else Moment(day=day, second=None)
    return _point(match, day, zone)


def offset(text: str) -> int | None:
    """Read a zone (`Z`, `+02:00`) as seconds from universal time; `None` if it is none."""
    if _ZONE_ALONE.fullmatch(text) is None:
        return None
    if text in ("Z", "z"):
        return 0
    hours, minutes = int(text[1:3]), int(text[3:].removeprefix(":") or "0")
    if hours > 23 or minutes > 59:
        return None
    return (hours * 3600 + minutes * 60) * (-1 if text[0] == "-" else 1)


def _point(match: re.Match[str], day: int, zone: int | None) -> Moment | None:
    minute, second = match["minute"] or match["packed_minute"], match["second"] or match["packed_second"]
    fraction = _digits(match["fraction"] or match["packed_fraction"])
    in_day = _second(match["hour"], minute, second or "0", fraction)
    if in_day is None:
        return None
    away = zone if match["zone"] is None else offset(match["zone"])
    if away is None and match["zone"] is not None:
        return None
    days, in_day = divmod(in_day - (away or 0), _SECONDS_PER_DAY)
    return Moment(day=day + days, second=in_day, fraction=fraction, has_zone=away is not None)


def _day(year: str, month: str, day: str) -> int | None:
    try:
        return date(int(year), int(month), int(day)).toordinal()
    except ValueError:
        return None


def _second(hour: str, minute: str, second: str, fraction: str) -> int | None:
    hours, minutes, seconds = int(hour), int(minute), int(second)
    if hours == 24:
        return None if minutes or seconds or fraction.strip("0") else _SECONDS_PER_DAY
    return hours * 3600 + minutes * 60 + seconds if hours < 24 and minutes < 60 and seconds < 60 else None


def _digits(fraction: str | None) -> str:
    return (fraction or "").rstrip("0")
