"""Writes recorded material for a judge so that it stays material: nothing in it can end the quotation.

One JSON value a line, everything that does not print escaped, between two marks that carry a hash of what stands
between them: no text can contain the hash of itself.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence

from toolgauge.model.json import Json

_INDEX_WIDTH = 16


def quoted(title: str, lines: Sequence[str]) -> str:
    """Return lines as a quotation; each must come from `line`."""
    content = "\n".join(lines)
    mark = hashlib.sha256(f"{title}\n{content}".encode("utf-8", "backslashreplace")).hexdigest()[:_INDEX_WIDTH]
    return f"<<<{title} {mark}\n{content}\n{mark} {title}>>>"


def line(fields: Iterable[tuple[str, Json]], limit: int) -> tuple[str, bool]:
    """Write an object on one line, no value longer than `limit` characters; tell whether one was cut."""
    written: list[str] = []
    was_cut = False
    for key, value in fields:
        text, is_whole = _limited(value, limit)
        was_cut = was_cut or not is_whole
        # What is left of a value is no JSON any more, so it is quoted as text.
        name = key if is_whole else f"{key} (cut)"
        written.append(f"{_text(name)}: {text if is_whole else _text(text)}")
    return "{" + ", ".join(written) + "}", was_cut


def _limited(value: Json, limit: int) -> tuple[str, bool]:
    """Return the JSON text and True, or its beginning and False."""
    if isinstance(value, str) and len(value) > limit:
        return value[:limit], False
    pieces: list[str] = []
    length = 0
    for piece in _pieces(value, limit):
        length += len(piece)
        pieces.append(piece)
        if length > limit + 2:
            return "".join(pieces)[:limit], False
    return "".join(pieces), True


def _pieces(value: Json, limit: int) -> Iterator[str]:
    """Yield the JSON text piece by piece, without recursion: spans decide how deep values are."""
    stack: list[Iterator[Json | _Raw]] = [iter((value,))]
    while stack:
        for node in stack[-1]:
            if isinstance(node, dict | list):
                stack.append(_members(node, limit) if isinstance(node, dict) else _items(node))
                break
            yield node.text if isinstance(node, _Raw) else _leaf(node, limit)
        else:
            stack.pop()


def _members(node: dict[str, Json], limit: int) -> Iterator["Json | _Raw"]:
    before = "{"
    for key, item in node.items():
        yield _Raw(f"{before}{_text(key[:limit])}: ")
        yield item
        before = ", "
    yield _Raw("}" if node else "{}")


def _items(node: list[Json]) -> Iterator["Json | _Raw"]:
    before = "["
    for item in node:
        yield _Raw(before)
        yield item
        before = ", "
    yield _Raw("]" if node else "[]")


class _Raw:
    """Text that is JSON already."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def _leaf(value: str | float | None, limit: int) -> str:
    if isinstance(value, str):
        return _text(value[: limit + 1])
    try:
        return json.dumps(value)
    except ValueError:
        # Python refuses to write out integers of thousands of digits.
        return '"(a number of thousands of digits)"'


def _text(text: str) -> str:
    """Write a JSON string; what does not print is escaped: line ends, and letters that no person would see."""
    written = json.dumps(text, ensure_ascii=False)
    if written.isprintable():
        return written
    return "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in written)
