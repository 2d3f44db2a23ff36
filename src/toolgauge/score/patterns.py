"""Patterns that people write: globs over names, regular expressions over senders' text, and places of arguments.

RE2 matches the first two in linear time. A key of a place is a tool and a path that begins with an argument:
`issue_refund.amount`, `book.passengers[*].last_name`, `["shop.refund"].order_id`, `*`. A path into a result has no tool in
front: `orders[*].id`. `rules` has the syntax.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias, TypeVar

# google-re2 ships neither stubs nor annotations.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
import re2
from msgspec import Struct

from toolgauge.model.errors import ConfigError
from toolgauge.model.json import Json


class Pattern:
    """A compiled RE2 pattern; `.` matches line ends too."""

    # Of text, RE2 counts the characters before and in each match, which takes longer than finding it: it gets bytes.
    __slots__ = ("_compiled", "text")

    def __init__(self, text: str) -> None:
        """Compile, or raise `ConfigError`."""
        options = re2.Options()
        options.dot_nl = True
        options.log_errors = False
        self.text = text
        try:
            self._compiled = re2.compile(_encodable(text), options)
        except re2.error as error:
            raise ConfigError(
                f"`{text[:100]}` is not a regular expression",
                hint="the syntax is RE2: no look-around, no back-references",
            ) from error

    def matches(self, text: str) -> bool:
        """Return whether the pattern matches the whole text."""
        return self._compiled.fullmatch(text.encode("utf-8", "replace")) is not None

    def is_in(self, text: str) -> bool:
        """Return whether the pattern matches any part of the text."""
        return self._compiled.search(text.encode("utf-8", "replace")) is not None

    def is_in_bytes(self, text: bytes) -> bool:
        """Return whether the pattern matches any part of encoded text."""
        return self._compiled.search(text) is not None

    def removed_from(self, text: str, mark: bytes = b" ") -> str:
        """Return the text with a space, or another mark, in place of each part that the pattern matches."""
        return self._compiled.sub(mark, text.encode("utf-8", "replace")).decode("utf-8", "replace")


def regular_expression(text: str) -> Pattern:
    """Compile an RE2 pattern; raise ValueError for a wrong one."""
    try:
        return Pattern(text)
    except ConfigError as error:
        raise ValueError(f"holds `{text[:60]}`, which is no regular expression ({error.hint})") from error


def quoted(text: str) -> str:
    """Turn text into a pattern that matches only itself."""
    return str(re2.escape(_encodable(text)))  # pyright: ignore[reportUnknownArgumentType] (it is text)


def _encodable(text: str) -> str:
    # Lone surrogates cannot be written as UTF-8, which is what RE2 reads.
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


class Globs:
    """Several globs, compiled once; a name matches when any of them does."""

    __slots__ = ("_names", "_pattern")

    def __init__(self, globs: Sequence[str]) -> None:
        # Most are plain names, and looking those up is ten times cheaper than matching.
        self._names = frozenset(glob for glob in globs if not is_wild(glob))
        signs = {"*": ".*", "?": "."}
        wild = ["".join(signs.get(one) or quoted(one) for one in glob) for glob in globs if is_wild(glob)]
        self._pattern = Pattern("|".join(wild)) if wild else None

    def match(self, name: str) -> bool:
        """Return whether any glob matches the whole name."""
        return name in self._names or (self._pattern is not None and self._pattern.matches(name))


def is_wild(glob: str) -> bool:
    """Return whether a glob may match more than one name."""
    return "*" in glob or "?" in glob


class Step(Struct, frozen=True):
    """One step into a value: a key, any key that a glob matches, an item by its place, or any item."""

    key: str | None = None
    keys: Globs | None = None
    place: int | None = None

    def leads_to(self, step: str | int) -> bool:
        """Return whether it leads to this key or place."""
        if isinstance(step, int):
            return self.key is None and self.keys is None and self.place in (None, step)
        return step == self.key or (self.keys is not None and self.keys.match(step))


class Place(Struct, frozen=True, kw_only=True):
    """An argument of a tool, or a part of an argument; `path` is written without the tool. Greater `specificity` wins."""

    tool: Step
    path: str
    steps: tuple[Step, ...]
    specificity: tuple[tuple[int, int], ...]


_MAX_KEY = 500
# A key in brackets as JSON text, an index, or a name; all names but the first are set off by a dot.
_SEGMENT = re.compile(
    r'\[(?P<quoted>"(?:[^"\\]|\\.)*")\]|\[(?P<index>\*|[0-9]{1,9})\]|(?P<dot>\.?)(?P<name>[^.\[\]"]+)'
)
# A step, and how specific it is.
_Segment: TypeAlias = tuple[Step, tuple[int, int]]
_Placed = TypeVar("_Placed", bound=Mapping[str, object])


def read_place(key: str) -> Place:
    """Take a key apart; raise ValueError unless it names a tool and a path that begins with an argument."""
    segments = list(_segments("*.*" if key == "*" else key[:_MAX_KEY], "has the key"))
    is_index = [step.key is None and step.keys is None for step, _ in segments[:2]]
    if len(key) > _MAX_KEY or len(segments) < 2 or any(is_index):
        raise ValueError(f"has the key `{key[:60]}`; a key is `*`, or a tool and an argument: `issue_refund.amount`")
    tool = _SEGMENT.match(key)
    return Place(
        tool=segments[0][0],
        path=key if tool is None or key == "*" else key[tool.end() :].removeprefix("."),
        steps=tuple(step for step, _ in segments[1:]),
        specificity=tuple(specificity for _, specificity in (*reversed(segments[1:]), segments[0])),
    )


def with_places(written: _Placed) -> _Placed:
    """Return a mapping of which each key can be taken apart as a place; raise ValueError for any other."""
    for key in written:
        read_place(key)
    return written


def read_path(path: str) -> tuple[Step, ...]:
    """Take a path into a value apart; raise ValueError when it cannot be read."""
    if not path or len(path) > _MAX_KEY:
        raise ValueError(f"is a path of 1 to {_MAX_KEY} characters: `order.id`, `orders[*].id`")
    return tuple(step for step, _ in _segments(path, "is the path"))


def _segments(text: str, subject: str) -> Iterator[_Segment]:
    place = 0
    while place < len(text):
        match = _SEGMENT.match(text, place)
        if match is None or (match["name"] is not None and (match["dot"] == ".") != (place > 0)):
            raise ValueError(f"{subject} `{text[:60]}`, which cannot be read from `{text[place : place + 20]}` on")
        quoted_key, index, name = match["quoted"], match["index"], match["name"]
        if quoted_key is not None:
            try:
                yield Step(key=str(json.loads(quoted_key))), (1, 0)
            except ValueError as error:
                raise ValueError(f"{subject} `{text[:60]}`, where `{quoted_key[:60]}` is no JSON text") from error
        elif index is not None:
            yield (Step(), (0, 0)) if index == "*" else (Step(place=int(index)), (1, 0))
        elif is_wild(name):
            yield Step(keys=Globs((name,))), (0, len(name.replace("*", "").replace("?", "")))
        else:
            yield Step(key=name), (1, 0)
        place = match.end()


def values_at(value: Json, steps: Sequence[Step]) -> list[Json]:
    """Return the values that the steps lead to."""
    found = [value]
    for step in steps:
        nodes, found = found, list[Json]()
        for node in nodes:
            if isinstance(node, dict) and step.key is not None:
                found += [node[step.key]] if step.key in node else []
            elif isinstance(node, dict) and step.keys is not None:
                found += [inner for name, inner in node.items() if step.keys.match(name)]
            elif isinstance(node, list) and step.key is None and step.keys is None:
                found += node if step.place is None else node[step.place : step.place + 1]
    return found
