"""Turns what producers write as arguments, results and messages into JSON values.

Arrives: an attribute's value, which may be JSON text, JSON text inside JSON text, a Python literal, a structured
value or prose. Leaves: `Content`. Knows no dialect: envelopes are opened by the dialect that knows them.
Everything here is hostile: a value that is too deep, too large or broken becomes `Unparsed`, never an exception,
and booleans, integers, floats and text stay apart, else scores would compare things that were never equal.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

import orjson

from toolgauge.model.content import NOT_RECORDED, Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.recognize.literals import clean, finite, parse_literal

# Parsed JSON can take twenty times the room of its text; a larger text stays text.
MAX_TEXT = 4 * 1024 * 1024
# Whoever walks a value later does so recursively. Real arguments are not nested ten levels deep.
MAX_DEPTH = 100
# So many objects and lists take ten megabytes of memory and tens of milliseconds to walk.
_MAX_CONTAINERS = 100_000
# JSON text inside JSON text: each producer on the way may add one encoding.
_MAX_ENCODINGS = 4

# orjson turns integers beyond 64 bits into floats, which silently changes ids.
_LONG = 19
_LONG_NUMBER = b"0" * _LONG
_DIGITS_AS_ZEROS = bytes.maketrans(b"123456789", b"0" * 9)
_REDACTED = re.compile(r"(?:[\[<(_*]{0,2}(?:redacted|elided)[\])>_*]{0,2}|\*{3,})", re.IGNORECASE)
_MAX_REDACTED = 64
_REDACTED_BEGINS = "[<(_*rReE"
_CUT_MARKERS = ("...", "\u2026", "[truncated]", "<truncated>", "(truncated)")
_STRUCTURED = re.compile(r"\{\s*[\"'}]|\[\s*[\[{\"'0-9]")


def parse_text(text: str) -> Content:
    """Read text as JSON, else as a Python literal, else keep it as `Unparsed`; `null` is `Recorded(None)`."""
    if len(text) > MAX_TEXT:
        return Unparsed(text)
    stripped = text.strip()
    try:
        value = _parse(stripped)
    except (ValueError, RecursionError, MemoryError):
        return _unreadable(text, stripped)
    return Recorded(value)


def content(value: Value) -> Content:
    """Read any attribute value; `None` (missing or empty) is not recorded."""
    # By far the most values are text, and many are missing.
    if isinstance(value, str):
        return parse_text(value)
    if value is None:
        return NOT_RECORDED
    return parse_text(_text(value)) if isinstance(value, bytes | bytearray) else _structured(value)


def arguments(value: Value) -> Content:
    """Read a call's arguments, which are an object however often they were encoded.

    Missing, empty text and `null` are not recorded: a producer that has no arguments to tell writes these, while
    a call without arguments is `{}`. Anything else that does not end as an object is kept as `Unparsed` text.
    """
    read = content(value)
    for _ in range(_MAX_ENCODINGS):
        match read:
            case Recorded(str() as text):
                read = parse_text(text)
            case Recorded(None):
                return NOT_RECORDED
            case Unparsed(text):
                return read if text.strip() else NOT_RECORDED
            case Recorded(dict()) | NotRecorded():
                return read
            case _:
                break
    return Unparsed(_as_text(value))


def result(value: Value) -> Content:
    """Read a call's result: text that is neither JSON nor a Python literal is the result itself.

    A text result that holds JSON once more is opened only when an object or a list comes out: `"20"` inside
    JSON is a text that the tool returned, not a number.
    """
    read = content(value)
    for _ in range(_MAX_ENCODINGS):
        match read:
            case Recorded(str() as text) if text.lstrip()[:1] in ("{", "["):
                inner = parse_text(text)
                if not isinstance(inner, Recorded):
                    return read
                read = inner
            case Unparsed(text, "unparsable"):
                return Recorded(text)
            case _:
                break
    return read


def plain(value: Value) -> Json:
    """Turn an attribute's value into JSON: bytes become text, NaN and infinities become the text OTLP JSON has for them.

    What is nested deeper than `MAX_DEPTH` levels becomes the text `...`.
    """
    return _plain(value, MAX_DEPTH)


def is_redacted(text: str) -> bool:
    """Tell whether the text says that the real one was taken out: `[REDACTED]`, `<elided>`, `***`."""
    # The first character settles it for nearly all texts.
    return text[:1] in _REDACTED_BEGINS and len(text) <= _MAX_REDACTED and _REDACTED.fullmatch(text) is not None


def dump(value: Json) -> str:
    """Write JSON text; unlike orjson's own function it takes integers of any size."""
    try:
        return orjson.dumps(value).decode()
    except (TypeError, orjson.JSONEncodeError):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _parse(text: str) -> Json:
    # A text holds no more brackets than characters; most are too short to be worth counting.
    containers = text.count("[") + text.count("{") if len(text) > MAX_DEPTH else len(text)
    if containers > _MAX_CONTAINERS:
        raise ValueError("too many objects and lists")
    if _has_long_number(text):
        return _parse_slowly(text, containers)
    try:
        value = cast("Json", orjson.loads(text))  # typed Any by orjson; JSON by its contract
    except ValueError:
        if "\\u" in text or "NaN" in text or "Infinity" in text:
            return _parse_slowly(text, containers)
        return parse_literal(text)
    _check_depth(value, containers)
    return value


def _has_long_number(text: str) -> bool:
    # A regular expression takes ten times as long, and longer than parsing the text.
    return len(text) >= _LONG and _LONG_NUMBER in text.encode("utf-8", "replace").translate(_DIGITS_AS_ZEROS)


def _parse_slowly(text: str, containers: int) -> Json:
    """Read what orjson cannot: long integers, NaN, numbers too large for a float, lone surrogates."""
    try:
        value = cast("Json", json.loads(text, parse_constant=str, parse_float=_float))  # typed Any by json
    except ValueError:
        return parse_literal(text)
    _check_depth(value, containers)
    return _plain(value, MAX_DEPTH) if "\\u" in text else value


def _float(text: str) -> float | str:
    return finite(float(text))


def _check_depth(value: Json, containers: int) -> None:
    # Counting brackets is far cheaper than walking the value, and settles it for nearly all.
    if containers <= MAX_DEPTH:
        return
    level: list[Json] = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [inner for item in level for inner in _children(item)]
        if not level:
            return
    raise RecursionError


def _children(value: Json) -> Iterable[Json]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _unreadable(text: str, stripped: str) -> Content:
    if is_redacted(stripped):
        return NotRecorded("redacted")
    if _looks_cut_off(text, stripped):
        return Unparsed(text, "truncated")
    return Unparsed(text)


def _looks_cut_off(text: str, stripped: str) -> bool:
    """Tell JSON that a limit cut off from JSON that the model wrote wrongly.

    A limit leaves its marker, or a text of a round length (`OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT`) whose end is missing.
    """
    if not _STRUCTURED.match(stripped):
        return False
    if stripped.endswith(_CUT_MARKERS):
        return True
    size = len(text)
    if size < 64 or (size % 100 and size % 64 and size != 4095):
        return False
    try:
        json.loads(stripped)
    except json.JSONDecodeError as error:
        return error.pos >= len(stripped) or error.msg.startswith("Unterminated string")
    except (ValueError, RecursionError):
        return False
    return False


def _structured(value: Value) -> Content:
    try:
        return Recorded(_strict_plain(value, MAX_DEPTH))
    except RecursionError:
        return Unparsed(dump(plain(value)))


def _strict_plain(value: Value, room: int) -> Json:
    if isinstance(value, Mapping | list | tuple) and room == 0:
        raise RecursionError
    if isinstance(value, Mapping):
        return {clean(key): _strict_plain(item, room - 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict_plain(item, room - 1) for item in value]
    return _plain(value, room)


def _plain(value: Value, room: int) -> Json:
    match value:
        case str():
            return clean(value)
        case None | bool() | int():
            return value
        case float():
            return finite(value)
        case bytes() | bytearray():
            return _text(value)
        case Mapping():
            return {clean(key): _plain(item, room - 1) for key, item in value.items()} if room else "..."
        case Sequence():
            return [_plain(item, room - 1) for item in value] if room else "..."


def _text(value: bytes | bytearray) -> str:
    return value.decode("utf-8", "replace")


def _as_text(value: Value) -> str:
    match value:
        case str():
            return value
        case bytes() | bytearray():
            return _text(value)
        case _:
            return dump(plain(value))


def as_object(value: Json) -> JsonObject:
    """Return the value if it is an object, else an empty one: for walking messages of unknown shape."""
    return value if isinstance(value, dict) else {}


def as_list(value: Json) -> list[Json]:
    """Return the value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def as_str(value: Value) -> str | None:
    """Return the value if it is a text with something in it, else `None`."""
    return value if isinstance(value, str) and value else None


def identifier(value: Value) -> str | None:
    """Return an id as text; some producers number what others name."""
    if isinstance(value, str):
        return value or None
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None
