"""JSON as text for people: secrets are masked, and length and depth bounded, as hostile values are larger than anybody reads."""

import json
from collections.abc import Iterator
from typing import Protocol

from toolgauge.model.json import Json

MASKED = "[masked]"
_CUT = "…"
# So much of two long values is looked at for the place where they begin to differ, and so much of the same before it is shown:
# a tenth of what is.
MAX_COMPARED = 8_000
_BEFORE = 10


class Masks(Protocol):
    """The masks of a redactor, and the names that secrets have."""

    def masked(self, text: str, length: int, /) -> str:
        """Mask secrets in the beginning of a text, in more than `length` characters of it where there are more."""
        ...

    def is_private(self, name: str, /) -> bool:
        """Return whether the name of an argument or of a key is one of secrets."""
        ...


def json_text(value: Json, masks: Masks, *, room: int, depth: int = 6, is_indented: bool = False) -> str:
    """Write a value. The text is longer than `room` where there is more, and not much longer."""
    filled = 0
    pieces: list[str] = []
    for piece in _pieces(value, masks, room, depth, "\n" if is_indented else ""):
        pieces.append(piece)
        filled += len(piece)
        if filled > room:
            break
    return "".join(pieces)


def _pieces(value: Json, masks: Masks, room: int, depth: int, start: str) -> Iterator[str]:
    """Write bit by bit. `room` bounds each text; `start` begins each line, and is empty where there is one."""
    match value:
        case str():
            yield json.dumps(masks.masked(value, room + 1)[: room + 1], ensure_ascii=False)
        case dict() if value and depth:
            yield from _members(value, masks, room, depth, start)
        case list() if value and depth:
            yield from _entries(value, masks, room, depth, start)
        case dict():
            yield "{" + (_CUT if value else "") + "}"
        case list():
            yield "[" + (_CUT if value else "") + "]"
        case bool() | int() | float() | None:
            yield _scalar(value)


def _members(value: dict[str, Json], masks: Masks, room: int, depth: int, start: str) -> Iterator[str]:
    inner = start and f"{start}  "
    for place, (key, member) in enumerate(value.items()):
        yield f"{_before(place, '{', inner)}{json.dumps(key[: room + 1], ensure_ascii=False)}: "
        if masks.is_private(key):
            yield MASKED
        else:
            yield from _pieces(member, masks, room, depth - 1, inner)
    yield start + "}"


def _entries(value: list[Json], masks: Masks, room: int, depth: int, start: str) -> Iterator[str]:
    inner = start and f"{start}  "
    for place, member in enumerate(value):
        yield _before(place, "[", inner)
        yield from _pieces(member, masks, room, depth - 1, inner)
    yield start + "]"


def _before(place: int, opening: str, start: str) -> str:
    """Write what stands before a member: the bracket, or the comma after the member before it."""
    if not place:
        return opening + start
    return f",{start}" if start else ", "


def _scalar(value: float | None) -> str:
    # Python refuses to write an integer of more than 4300 digits.
    if isinstance(value, int) and value.bit_length() > 256:
        return "a very large number"
    return json.dumps(value)


def side_by_side(expected: str | None, actual: str | None, room: int) -> tuple[str | None, str | None]:
    """Cut two long texts to the part where they begin to differ."""
    if expected is None or actual is None:
        return _window(expected, 0, room), _window(actual, 0, room)
    start = 0 if max(len(expected), len(actual)) <= room else _same(expected, actual)
    return _window(expected, start, room), _window(actual, start, room)


def _same(one: str, other: str) -> int:
    """Count the characters that both begin with."""
    differing = (place for place, (left, right) in enumerate(zip(one, other, strict=False)) if left != right)
    return next(differing, min(len(one), len(other)))


def _window(text: str | None, start: int, room: int) -> str | None:
    """Cut a long text to the part where it begins to differ."""
    if text is None or len(text) <= room:
        return text
    begin = max(0, start - room // _BEFORE)
    end = begin + room
    return (_CUT if begin else "") + text[begin:end] + (_CUT if end < len(text) else "")
