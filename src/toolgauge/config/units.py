"""Durations (`10s`) become integer nanoseconds, sizes (`64MiB`) bytes; and back for `print-config`."""

import re
from decimal import Decimal
from typing import Annotated

from pydantic import BeforeValidator, Field, PlainSerializer

_NANOSECONDS = {
    "h": 3_600_000_000_000,
    "m": 60_000_000_000,
    "s": 1_000_000_000,
    "ms": 1_000_000,
    "us": 1_000,
    "µs": 1_000,
    "ns": 1,
}
_BYTES = {
    "GiB": 2**30,
    "MiB": 2**20,
    "KiB": 2**10,
    "GB": 10**9,
    "MB": 10**6,
    "kB": 10**3,
    "KB": 10**3,
    "B": 1,
}
_PART = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,20})?)(h|ms|m|us|µs|ns|s)")
_DURATION = re.compile(rf"(?:{_PART.pattern})+\Z")
_SIZE = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,20})?) ?([A-Za-z]{1,3})\Z")
_LONGEST_NS = 10 * 365 * 24 * _NANOSECONDS["h"]
_LARGEST = 2**50


def duration_ns(value: object) -> int:
    """Read a duration with its unit (`200ms`, `1h30m`); 0 needs none. Raises ValueError."""
    if (value == 0 and not isinstance(value, bool)) or value == "0":
        return 0
    if not isinstance(value, str) or not _DURATION.match(value):
        raise ValueError("must be a duration with a unit, such as `10s`, `200ms` or `1h30m`")
    total = sum(round(Decimal(number) * _NANOSECONDS[unit]) for number, unit in _PART.findall(value))
    if total > _LONGEST_NS:
        raise ValueError("must be at most ten years")
    return total


def size_bytes(value: object) -> int:
    """Read a size: a number of bytes, or with a unit (`64MiB`). Raises ValueError."""
    size = -1
    if isinstance(value, int) and not isinstance(value, bool):
        size = value
    elif isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20:
        size = int(value)
    elif isinstance(value, str) and (found := _SIZE.match(value)) and found[2] in _BYTES:
        size = round(Decimal(found[1]) * _BYTES[found[2]])
    if not 0 <= size <= _LARGEST:
        raise ValueError("must be a size in bytes, such as `64MiB`, `512KiB` or `1048576`")
    return size


def duration_text(duration: int) -> str:
    """Write a duration in the largest unit that divides it."""
    for unit, length in _NANOSECONDS.items():
        if duration and duration % length == 0:
            return f"{duration // length}{unit}"
    return "0s"


def size_text(size: int) -> str:
    """Write a size in the largest binary unit that divides it."""
    for unit in ("GiB", "MiB", "KiB"):
        if size and size % _BYTES[unit] == 0:
            return f"{size // _BYTES[unit]}{unit}"
    return f"{size}B"


def _whole(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("must be a whole number")
    return value


Duration = Annotated[int, BeforeValidator(duration_ns), PlainSerializer(duration_text, when_used="json")]
PositiveDuration = Annotated[Duration, Field(gt=0)]
Size = Annotated[int, BeforeValidator(size_bytes), PlainSerializer(size_text, when_used="json")]
Count = Annotated[int, BeforeValidator(_whole), Field(ge=1)]
