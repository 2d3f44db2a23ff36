"""The building blocks of configuration sections: units, addresses, secrets, and the base of all sections.

A section is a frozen model beside the code that it configures; `config` composes them. Durations (`10s`) are integer
nanoseconds in it and sizes (`64MiB`) bytes, however they were written; `validate --print` writes them with their units.
"""

import re
import stat
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationInfo,
    model_validator,
)

SECOND = 1_000_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
MIB = 2**20
# Validation context of what a person wrote: durations and sizes need their unit then.
AS_WRITTEN = {"as_written": True}
REDACTED = "<redacted>"

_NANOSECONDS = {"h": HOUR, "m": MINUTE, "s": SECOND, "ms": 1_000_000, "us": 1_000, "µs": 1_000, "ns": 1}
_BYTES = {"GiB": 2**30, "MiB": 2**20, "KiB": 2**10, "GB": 10**9, "MB": 10**6, "kB": 10**3, "KB": 10**3, "B": 1}
_PART = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,20})?)(h|ms|m|us|µs|ns|s)")
_DURATION = re.compile(rf"(?:{_PART.pattern})+\Z")
_SIZE = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,20})?) ?([A-Za-z]{1,3})\Z")
_SHORTEST_NS = 1_000_000
_LONGEST_NS = 10 * 365 * 24 * HOUR
_LARGEST = 2**50


class UnitError(ValueError):
    """A number lacks its unit; `hint` writes it with one."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def _or_empty(schema: dict[str, Any]) -> None:
    if not schema.get("required"):
        schema["type"] = ["object", "null"]


class Section(BaseModel):
    """A mapping with known keys only; an empty one (null) has its defaults."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, json_schema_extra=_or_empty)

    @model_validator(mode="before")
    @classmethod
    def _empty_has_defaults(cls, value: object) -> object:
        return {} if value is None else value


class Prices(Section):
    """The price of a million tokens, in the currency `costs.currency`."""

    input_per_million: Annotated[float, Field(ge=0)]
    output_per_million: Annotated[float, Field(ge=0)]

    def cost(self, input_tokens: int, output_tokens: int) -> float:
        """Return the cost of so many tokens."""
        return (input_tokens * self.input_per_million + output_tokens * self.output_per_million) / 1e6


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
    """Read a size with its unit (`64MiB`); 0 needs none. Raises ValueError, `UnitError` for a number alone."""
    number = _whole_number(value)
    if number == 0:
        return 0
    if number is not None:
        meant = f"{number}MiB" if number < _BYTES["KiB"] else size_text(number)
        raise UnitError("must be a size with a unit, such as `64MiB`, `512KiB` or `1000B`", f"write `{meant}`?")
    size = -1
    if isinstance(value, str) and (found := _SIZE.match(value)) and found[2] in _BYTES:
        size = round(Decimal(found[1]) * _BYTES[found[2]])
    if not 0 <= size <= _LARGEST:
        raise ValueError("must be a size with a unit, such as `64MiB`, `512KiB` or `1000B`")
    return size


def _whole_number(value: object) -> int | None:
    number = (
        int(value) if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20 else value
    )
    if isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= _LARGEST:
        return number
    return None


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


def _duration(value: object, info: ValidationInfo) -> int:
    # Code gives nanoseconds; a number as small as this is a person's, without its unit.
    is_written = info.context is not None or (isinstance(value, int) and 0 < value < _SHORTEST_NS)
    if not is_written and isinstance(value, int) and not isinstance(value, bool):
        return value
    return duration_ns(value)


def _size(value: object, info: ValidationInfo) -> int:
    number = _whole_number(value)
    return number if info.context is None and number is not None else size_bytes(value)


def whole(value: object) -> object:
    """Refuse a truth value, which pydantic takes for a number."""
    if isinstance(value, bool):
        raise ValueError("must be a whole number")
    return value


# As people write them, for the JSON Schema of the configuration.
WRITTEN_DURATION = r"^(0|([0-9]{1,20}(\.[0-9]{1,20})?(h|ms|m|us|µs|ns|s))+)$"
WRITTEN_SIZE = r"^(0|[0-9]{1,20}(\.[0-9]{1,20})? ?(GiB|MiB|KiB|GB|MB|kB|KB|B))$"
WrittenDuration = Annotated[
    str, Field(pattern=WRITTEN_DURATION, description="A duration with its unit, such as `10s`, `200ms` or `1h30m`.")
]
WrittenSize = Annotated[
    str, Field(pattern=WRITTEN_SIZE, description="A size with its unit, such as `64MiB`, `512KiB` or `1000B`.")
]
Duration = Annotated[
    int,
    BeforeValidator(_duration, json_schema_input_type=WrittenDuration | Literal[0]),
    PlainSerializer(duration_text, when_used="json"),
]
PositiveDuration = Annotated[Duration, Field(gt=0)]
Size = Annotated[
    int,
    BeforeValidator(_size, json_schema_input_type=WrittenSize | Literal[0]),
    PlainSerializer(size_text, when_used="json"),
]
Count = Annotated[int, BeforeValidator(whole), Field(ge=1)]


def split_address(address: str) -> tuple[str, int]:
    """Take `host:port` or `[::1]:port` apart; an empty host means all interfaces. Raises ValueError."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isascii() or not port.isdecimal() or len(port) > 5 or int(port) > 65535:
        raise ValueError("must be `host:port`, such as `localhost:4317`")
    bracketed = host.startswith("[") and host.endswith("]")
    if "/" in host or "@" in host or " " in host or (":" in host and not bracketed):
        raise ValueError("must be `host:port` without scheme or path; an IPv6 address stands in brackets")
    return host[1:-1] if bracketed else host, int(port)


def _address(value: str) -> str:
    split_address(value)
    return value


Address = Annotated[str, AfterValidator(_address)]


def _headers(value: object) -> object:
    """Accept whole numbers; a fraction or a truth value would not arrive as it was typed."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError("must be a mapping of header names to values")
    for name, text in value.items():  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(text, str | int) or isinstance(text, bool):
            raise ValueError(f"needs a text for `{name}`: write the value in quotes")
        if any(character in "\r\n\0" for character in f"{name}{text}"):
            raise ValueError("must not hold line breaks")
    return {str(name): str(text) for name, text in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def redacted_url(url: str | None) -> str | None:
    """Hide user and password of a URL, and its query, where some backends want the key."""
    if not url:
        return url
    userinfo, at, rest = url.rpartition("@")
    whole = f"{userinfo.partition('//')[0]}//{REDACTED}@{rest}" if at else url
    shown, mark, _ = whole.partition("?")
    return f"{shown}?{REDACTED}" if mark else shown


def _url(value: str | None) -> str | None:
    if value is None:
        return None
    if "://" not in value:
        split_address(value)
        return value
    # In one spelling, because it decides between TLS and plain text.
    scheme, _, rest = value.strip().partition("://")
    url = f"{scheme.lower()}://{rest}"
    try:
        parts = urlsplit(url)
        is_whole = parts.port != -1 and parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        # Python's words quote the supposed port, which may be half a password.
        is_whole = False
    if not is_whole:
        raise ValueError("must be `host:port` or a URL such as `http://collector:4318`")
    return url


Headers = Annotated[
    dict[str, str],
    BeforeValidator(_headers, json_schema_input_type=dict[str, str | int] | None),
    PlainSerializer(lambda headers: dict.fromkeys(headers, REDACTED), when_used="json"),
]
Url = Annotated[str, AfterValidator(_url), PlainSerializer(redacted_url, when_used="json")]


def _redacted_secret(value: str | tuple[str, ...] | None) -> str | None:
    return REDACTED if value else None


Secret = Annotated[str, Field(min_length=1), PlainSerializer(_redacted_secret, when_used="json")]
Secrets = Annotated[
    tuple[Annotated[str, Field(min_length=1)], ...], PlainSerializer(_redacted_secret, when_used="json")
]
FileName = Annotated[str, Field(min_length=1)]
_TRACE_URL = re.compile(r"https?://\S*\{trace_id\}\S*")


def _trace_url(url: str) -> str:
    if not _TRACE_URL.fullmatch(url):
        raise ValueError("must be a URL that holds `{trace_id}`, such as `https://traces.example/trace/{trace_id}`")
    return url


# Where a person looks at a trace; `{trace_id}` stands for its id.
TraceUrl = Annotated[str, AfterValidator(_trace_url)]


def file_path(name: str) -> Path:
    """Find a file that configuration names; relative to the working directory, as in the Collector."""
    try:
        return Path(name).expanduser()
    except RuntimeError:
        # An unknown user: the text is then the name of a file, which will not exist.
        return Path(name)


# Device, inode, size and time of change of a file behind all links; `None` without a regular file.
FileState: TypeAlias = tuple[int, int, int, int] | None


def file_state(file: Path) -> FileState:
    """Return the state of a file, which changes with its content."""
    try:
        status = file.stat()
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return None
    is_regular = stat.S_ISREG(status.st_mode)
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns) if is_regular else None


# For a class with a validator that reads a short form: `tool: "refund_*"` for `{tool: ["refund_*"]}`.
ONE_OR_MORE: dict[str, Any] = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}


def also_written_as(*forms: dict[str, Any]) -> Callable[[dict[str, Any]], None]:
    """Return a `json_schema_extra` that adds forms to the JSON Schema of a class."""

    def extend(schema: dict[str, Any]) -> None:
        whole = dict(schema)
        schema.clear()
        schema["anyOf"] = [whole, *forms]

    return extend
