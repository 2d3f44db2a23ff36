"""Turns recorded arguments, results and messages into JSON values.

A value that is too deep, too large or broken becomes `Unparsed`, never an exception. Types stay apart, as scores need them.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from types import GenericAlias
from typing import cast

import msgspec

from toolgauge.model import masks
from toolgauge.model.content import NOT_RECORDED, Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.json import Json, JsonObject, Value, values_within
from toolgauge.model.literals import clean, finite, parse_literal, parse_repr

# Parsed JSON can take twenty times the room of its text; a larger text stays text.
MAX_TEXT = 4 * 1024 * 1024
# Values are walked recursively later. Real arguments are not nested ten levels deep.
MAX_DEPTH = 100
# So many objects and lists take ten megabytes of memory and tens of milliseconds to walk.
_MAX_CONTAINERS = 100_000
# Elements of a list that are kept: messages of a history, parts of a message. Of more, the newest.
MAX_ITEMS = 10_000
# JSON text inside JSON text: each producer on the way may add one encoding.
_MAX_ENCODINGS = 4

# Six digits are more messages than a span can hold.
_MAX_DIGITS = 6

# What JSON text and Python literals can begin with, `NaN` and `None` included.
_BEGINS = frozenset("{[(\"'-0123456789tfnTFNI")
# A value nested too deep has at least this many brackets that open and close.
_SHORTEST_DEEP = 2 * MAX_DEPTH
_FEWEST_CHARACTERS = 2 * _MAX_CONTAINERS
# Reads integers of any size exactly; a float in an id's place would silently change the id.
_decode: Callable[[str], Json] = msgspec.json.Decoder().decode
# Most values are nested in fewer levels: decoding them with these types checks the depth at no cost.
_USUAL_LEVELS = 6
_LEAF = bool | int | float | str | None
_SHALLOW = reduce(
    lambda inner, _: _LEAF | GenericAlias(list, inner) | GenericAlias(dict, (str, inner)), range(_USUAL_LEVELS), _LEAF
)
_decode_shallow = cast("Callable[[str], Json]", msgspec.json.Decoder(_SHALLOW).decode)


def parse_text(text: str) -> Content:
    """Read text as JSON, else as a Python literal, else keep it as `Unparsed`; `null` is `Recorded(None)`."""
    read = _open_text(text)
    if len(text) > _SHORTEST_DEEP and isinstance(read, Recorded) and values_within(read.value, MAX_DEPTH) is None:
        return _unreadable(text, text.strip())
    return read


def content(value: Value) -> Content:
    """Read any attribute value; `None` (missing or empty) is not recorded."""
    # By far the most values are text, and many are missing.
    if isinstance(value, str):
        return parse_text(value)
    if value is None:
        return NOT_RECORDED
    if isinstance(value, (bytes, bytearray)):
        return parse_text(value.decode("utf-8", "replace"))
    read = plain(value, MAX_DEPTH + 1)
    return Unparsed(dump(plain(value))) if values_within(read, MAX_DEPTH) is None else Recorded(read)


def decoded(value: Value) -> Json:
    """Open any attribute value, of which `part` keeps parts; `None` where it is neither JSON nor a Python literal.

    Checking the depth of all of it would cost more than reading it.
    """
    read = _opened(value)
    return read.value if isinstance(read, Recorded) else None


def from_repr(text: str, read: Callable[[str], Json] = parse_repr) -> Json:
    """Read a value as Python shows it; `None` for any other text."""
    try:
        return read(text)
    except ValueError:
        return None


def objects(value: Value, text_key: str) -> list[JsonObject]:
    """Open a list; its items may be JSON text each (an OTLP array of strings); plain text becomes `text_key`."""
    read = _opened(value)
    if isinstance(read, Recorded):
        items = read.value if isinstance(read.value, list) else [read.value]
        return [as_message(item, text_key) for item in items[-MAX_ITEMS:]]
    if isinstance(read, Unparsed) and read.reason == "unparsable" and read.text.strip():
        return [{text_key: read.text}]
    return []


def as_message(item: Json, text_key: str) -> JsonObject:
    """Return an object, also one that is JSON text; any other text becomes `text_key`."""
    if not isinstance(item, str):
        return item if isinstance(item, dict) else {}
    read = decoded(item)
    return read if isinstance(read, dict) else {text_key: item}


def is_too_large(text: str) -> bool:
    """Return whether text is not read for its size."""
    if len(text) <= _FEWEST_CHARACTERS:
        return False
    return len(text) > MAX_TEXT or text.count("[") + text.count("{") > _MAX_CONTAINERS


def part(value: Json) -> Content:
    """Keep an object or a list that was inside an envelope."""
    # Most arguments are flat, which an object's values tell in a third of the time.
    if type(value) is dict:
        for item in value.values():
            if type(item) is dict or type(item) is list:
                break
        else:
            return Recorded(value)
    return Unparsed(dump(plain(value))) if values_within(value, MAX_DEPTH) is None else Recorded(value)


def arguments(value: Value) -> Content:
    """Read a call's arguments, which are an object however often they were encoded.

    Missing, empty text and `null` are not recorded: a producer that has no arguments to tell writes these, while
    a call without arguments is `{}`. Anything else that does not end as an object is kept as `Unparsed` text.
    """
    if isinstance(quick := _quickly(value), dict):
        return Recorded(quick)
    read = content(value)
    for _ in range(_MAX_ENCODINGS):
        if isinstance(read, Recorded):
            found = read.value
            if isinstance(found, dict):
                return read
            if found is None:
                return NOT_RECORDED
            if not isinstance(found, str):
                break
            read = parse_text(found)
        elif isinstance(read, Unparsed):
            return read if read.text.strip() else NOT_RECORDED
        else:
            return read
    return Unparsed(value if isinstance(value, str) else dump(plain(value)))


def arguments_beside(value: Value, content: Value) -> Content:
    """Read a call's arguments; beside recorded `content`, empty text means that the call has none."""
    return Recorded({}) if value == "" and content is not None else arguments(value)


def result(value: Value) -> Content:
    """Read a call's result: text that is neither JSON nor a Python literal is the result itself.

    A text result that holds JSON once more is opened only when an object or a list comes out: `"20"` inside
    JSON is a text that the tool returned, not a number.
    """
    if (quick := _quickly(value)) is not None:
        return Recorded(quick)
    read = content(value)
    for _ in range(_MAX_ENCODINGS):
        if isinstance(read, Recorded):
            text = read.value
            if type(text) is not str or text.lstrip()[:1] not in ("{", "["):
                break
            inner = parse_text(text)
            if isinstance(inner, Unparsed) and inner.reason == "unparsable":
                break
            read = inner
        elif isinstance(read, Unparsed) and read.reason == "unparsable":
            return Recorded(read.text)
        else:
            break
    return read


def arguments_inside(value: Json) -> Content:
    """Read arguments inside JSON: an object needs no second look, and empty text means no arguments."""
    if isinstance(value, dict):
        return part(value)
    return Recorded({}) if value == "" else arguments(value)


def result_inside(value: Json) -> Content:
    """Read a result inside JSON: an object or a list needs no second look."""
    return part(value) if isinstance(value, (dict, list)) else result(value)


def returned(value: Json) -> Content:
    """Read the value that a tool returned, of a producer that writes `null` for nothing."""
    return Recorded(None) if value is None else result_inside(value)


def opened_blocks(recorded: Content) -> Content:
    """Take a tool's result out of Bedrock's blocks: the value of a single block, else the list of the values."""
    if isinstance(recorded, Unparsed):
        return result(recorded.text) if recorded.reason == "unparsable" else recorded
    blocks = recorded.value if isinstance(recorded, Recorded) else None
    found: list[Json] = []
    for block in map(as_object, as_list(blocks)):
        if len(block) != 1 or block.keys().isdisjoint(("json", "text")):
            return recorded
        text = block.get("text")
        read = result(text) if isinstance(text, str) else Recorded(block.get("json", text))
        found.append(read.value if isinstance(read, Recorded) else text)
    if not found:
        return recorded
    return Recorded(found[0] if len(found) == 1 else found)


def text_of(value: Json | Content) -> str:
    """Return the text that a result is, "" for any other result."""
    found = value.value if isinstance(value, Recorded) else value
    return found if isinstance(found, str) else ""


def plain(value: Value, room: int = MAX_DEPTH) -> Json:
    """Turn an attribute's value into JSON; anything nested deeper than `room` becomes the text `...`."""
    match value:
        case str():
            return clean(value)
        case None | bool() | int():
            return value
        case float():
            return finite(value)
        case bytes() | bytearray():
            return value.decode("utf-8", "replace")
        case Mapping():
            return {clean(key): plain(item, room - 1) for key, item in value.items()} if room else "..."
        case Sequence():
            return [plain(item, room - 1) for item in value] if room else "..."


def dump(value: Json) -> str:
    """Write JSON text, lone surrogates included."""
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _quickly(value: Value) -> Json:
    """Open what by far the most arguments and results are: JSON text of an object or a list; `None` for all else."""
    if not isinstance(value, str) or value[:1] not in ("{", "[") or len(value) > _FEWEST_CHARACTERS:
        return None
    try:
        return _decode_shallow(value)
    except msgspec.ValidationError:
        # Nested in more levels, or a number out of range.
        read = parse_text(value)
        return read.value if isinstance(read, Recorded) and isinstance(read.value, dict | list) else None
    except (ValueError, RecursionError, MemoryError):
        return None


def _opened(value: Value) -> Content:
    return _open_text(value) if isinstance(value, str) else content(value)


def _open_text(text: str) -> Content:
    if len(text) > _FEWEST_CHARACTERS and is_too_large(text):
        return Unparsed(text)
    stripped = text.strip()
    if stripped[:1] not in _BEGINS:
        return _unreadable(text, stripped)
    try:
        return Recorded(_decode(stripped))
    except (ValueError, RecursionError, MemoryError) as error:
        # A text that is nothing but a number out of range is a text: `5e70431` is the name of a commit.
        out_of_range = isinstance(error, msgspec.ValidationError) and stripped[0] in "{["
    is_json = out_of_range or "\\u" in text or "NaN" in text or "Infinity" in text
    try:
        return Recorded(_parse_slowly(stripped) if is_json else parse_literal(stripped))
    except (ValueError, RecursionError, MemoryError):
        return _unreadable(text, stripped)


def _parse_slowly(text: str) -> Json:
    """Read JSON that most parsers accept against the standard: NaN, numbers too large for a float, lone surrogates."""
    try:
        # Typed Any by json.
        value = cast("Json", json.loads(text, parse_constant=str, parse_float=lambda number: finite(float(number))))
    except ValueError:
        return parse_literal(text)
    if values_within(value, MAX_DEPTH) is None:
        raise RecursionError
    return plain(value) if "\\u" in text else value


def _unreadable(text: str, stripped: str) -> Content:
    # Damage in transit is not the model's: JSON that is valid but for masks is redacted, JSON that is valid up to the limit that
    # cut it is truncated.
    if masks.is_redacted(stripped) or masks.is_broken_by_mask(stripped):
        return NotRecorded("redacted")
    if masks.was_cut(text):
        return Unparsed(text, "truncated")
    return Unparsed(text)


def as_object(value: Json) -> JsonObject:
    """Return the value if it is an object, else an empty one: for walking messages of unknown shape."""
    return value if isinstance(value, dict) else {}


def unquoted(value: Value) -> Value:
    """Return the text that is written as JSON; any other value as it is."""
    if isinstance(value, str) and value.startswith('"'):
        read = parse_text(value)
        if isinstance(read, Recorded) and isinstance(read.value, str):
            return read.value
    return value


def decoded_or_text(value: Value) -> Json:
    """Open any attribute value; a text that is neither JSON nor a Python literal is itself."""
    match _opened(value):
        case Recorded(found):
            return found
        case Unparsed(text, "unparsable"):
            return text
        case _:
            return None


def decoded_object(value: Value) -> JsonObject:
    """Read any attribute value that is an object; an empty object for any other value."""
    return as_object(decoded(value))


def as_list(value: Json) -> list[Json]:
    """Return the value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def numbered(attributes: Mapping[str, Value], prefix: str) -> list[dict[str, Value]]:
    """Group attributes by the number after `prefix`, in any order of keys: `tools.0.name` and `tools.0.id`."""
    found: dict[int, dict[str, Value]] = {}
    for key in attributes:
        if key.startswith(prefix):
            number, _, rest = key[len(prefix) :].partition(".")
            if rest and number.isascii() and number.isdigit() and len(number) <= _MAX_DIGITS:
                found.setdefault(int(number), {})[rest] = attributes[key]
    return [found[number] for number in sorted(found)]


def nested(attributes: Mapping[str, Value], prefix: str) -> JsonObject:
    """Build the object that has an attribute for each part: `in.city` and `in.stops.0`, below `in.`; JSON text in it is opened."""
    found: JsonObject = {}
    for key in attributes:
        if key.startswith(prefix) and len(found) < MAX_ITEMS:
            *way, last = key[len(prefix) :].split(".", MAX_DEPTH // 4)
            place: Json = found
            for step in way:
                place = place.setdefault(step, {}) if isinstance(place, dict) else None
            if isinstance(place, dict) and last:
                value = plain(attributes[key])
                text = value if isinstance(value, str) and value[:1] in ("{", "[") else ""
                place[last] = value if not text or (read := decoded(text)) is None else read
    return {key: _listed(value) for key, value in found.items()}


def _listed(value: Json) -> Json:
    """Turn objects whose keys are numbers from 0 on into lists."""
    if not isinstance(value, dict):
        return value
    inner = {key: _listed(item) for key, item in value.items()}
    return (
        [inner[str(at)] for at in range(len(inner))]
        if inner and all(map(inner.__contains__, map(str, range(len(inner)))))
        else inner
    )


def first(attributes: Mapping[str, Value], keys: Iterable[str]) -> Value:
    """Return the attribute under the first of the keys that is present."""
    for key in keys:
        if (value := attributes.get(key)) is not None:
            return value
    return None


def as_str(value: Value) -> str | None:
    """Return the value if it is a text with something in it, else `None`."""
    return value if value and isinstance(value, str) else None


def identifier(value: Value) -> str | None:
    """Return an id as text; some producers number what others name."""
    if value is None:
        return None
    if isinstance(value, str):
        return value or None
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None
