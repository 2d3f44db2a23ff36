"""Text and JSON for a client. Text from spans is hostile, so it is made printable, cut, and marked where it is cut.

A model reads the answer. A text that could begin a new line, or hide letters, could pass for words of this server.
"""

from collections.abc import Callable, Iterable, Iterator

from msgspec import to_builtins
from msgspec.json import encode

from toolgauge.model.json import Json, JsonObject
from toolgauge.report.terminal import printable

# Of one answer, as text and as JSON.
MAX_TEXT = 16_000
MAX_JSON = 24_000
MAX_STRING = 2_000
_MAX_LINES = 50
# Fields that are texts of many lines, which we write ourselves.
_MULTILINE = frozenset({"yaml"})
# Names of runs and spans, never of people.
_IDS = frozenset({"id", "trace_id", "span_id"})


def cut(text: str, length: int) -> str:
    """Make a text printable and no longer than `length`; the end names how long all of it is."""
    if len(text) <= length and text.isprintable():
        return text
    shown = printable(text[:length])
    if len(text) <= length and len(shown) <= length:
        return shown
    return f"{shown[:length]}… ({len(text):,} characters)"


def joined(lines: Iterable[str]) -> str:
    """Put the lines of an answer together, as many as there is room for; the end names how many there were."""
    shown: list[str] = []
    room, count = MAX_TEXT, 0
    for line in lines:
        count += 1
        text = cut(line, MAX_STRING)
        room -= len(text) + 1
        if room >= 0:
            shown.append(text)
    if len(shown) < count:
        shown.append(f"… ({len(shown)} of {count} lines)")
    return "\n".join(shown)


def as_json(answer: JsonObject, masked: Callable[[str], str] = str) -> JsonObject:
    """Return the answer with texts that are printable, masked and of bounded length."""
    shown = _shown(to_builtins(answer), "", masked)
    return shown if isinstance(shown, dict) else {}


def several_lines(text: str) -> str:
    """Make a text of ours printable that holds texts of others, and keep its lines."""
    lines = text.split("\n")
    return "\n".join([*(cut(line, MAX_STRING) for line in lines[:_MAX_LINES]), *(["…"] if lines[_MAX_LINES:] else [])])


def within_room(described: Iterable[JsonObject], room: int = MAX_JSON) -> Iterator[JsonObject]:
    """Yield the parts of an answer, as many as there is room for."""
    for one in described:
        room -= len(encode(as_json(one)))
        if room < 0:
            return
        yield one


def _shown(value: Json, name: str, masked: Callable[[str], str]) -> Json:
    match value:
        case str() if name in _MULTILINE:
            return "\n".join(map(printable, value.split("\n")))
        case str() if name in _IDS:
            return cut(value, MAX_STRING)
        case str():
            # Made printable first, as masking would replace characters that act by spaces, unseen.
            return cut(masked(cut(value, MAX_STRING)), MAX_STRING)
        case dict():
            return {cut(key, MAX_STRING): _shown(member, key, masked) for key, member in value.items()}
        case list():
            return [_shown(member, name, masked) for member in value]
        case _:
            return value
