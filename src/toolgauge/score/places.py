"""Places as people write them: arguments of tools, their parts, and paths into results.

A key is a tool and a path that begins with an argument: `issue_refund.amount`, `book.passengers[*].last_name`,
`["shop.refund"].order_id`, `*`. A path into a result has no tool in front: `orders[*].id`. `rules` has the syntax.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from msgspec import Struct

from toolgauge.model.json import Json
from toolgauge.score.patterns import Globs


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
    """An argument of a tool, or a part of it; `path` is how that is written, without the tool.

    Of places of the same depth the one with the greater `specificity` is more specific.
    """

    tool: Step
    path: str
    steps: tuple[Step, ...]
    specificity: tuple[tuple[int, int], ...]


def read_place(key: str) -> Place:
    """Take a key apart; raise ValueError unless it names a tool and a path that begins with an argument."""
    segments = _parsed(key)
    tool = _SEGMENT.match(key)
    return Place(
        tool=_step(segments[0]),
        path=key if tool is None or key == "*" else key[tool.end() :].removeprefix("."),
        steps=tuple(map(_step, segments[1:])),
        specificity=_specificity(segments),
    )


def check_key(key: str) -> None:
    """Raise ValueError unless the key names a tool and a path that begins with an argument."""
    _parsed(key)


def read_path(path: str) -> tuple[Step, ...]:
    """Take a path into a value apart; raise ValueError when it cannot be read."""
    if not path or len(path) > _MAX_KEY:
        raise ValueError(f"is a path of 1 to {_MAX_KEY} characters: `order.id`, `orders[*].id`")
    return tuple(map(_step, _segments(path, "is the path")))


def values_at(value: Json, steps: Sequence[Step]) -> list[Json]:
    """Return the values that the steps lead to."""
    found = [value]
    for step in steps:
        found = [inner for node in found for inner in _below(node, step)]
    return found


def _below(node: Json, step: Step) -> Sequence[Json]:
    if isinstance(node, dict):
        if step.key is not None:
            return (node[step.key],) if step.key in node else ()
        return [inner for name, inner in node.items() if step.leads_to(name)] if step.keys is not None else ()
    if isinstance(node, list) and step.key is None and step.keys is None:
        return node if step.place is None else node[step.place : step.place + 1]
    return ()


_MAX_KEY = 500


@dataclass(frozen=True, slots=True)
class _Segment:
    """One step as it was written: a name or glob, or an index (`*` for any)."""

    text: str
    is_index: bool = False
    is_quoted: bool = False

    @property
    def is_wild(self) -> bool:
        return not self.is_quoted and ("*" in self.text or "?" in self.text)


# A key in brackets as JSON text, an index, or a name; all names but the first are set off by a dot.
_SEGMENT = re.compile(
    r'\[(?P<quoted>"(?:[^"\\]|\\.)*")\]|\[(?P<index>\*|[0-9]{1,9})\]|(?P<dot>\.?)(?P<name>[^.\[\]"]+)'
)


def _parsed(key: str) -> tuple[_Segment, ...]:
    """Take a key apart: a tool, an argument, and steps into it. Raises ValueError."""
    if key == "*":
        return (_Segment("*"), _Segment("*"))
    segments = tuple(_segments(key[:_MAX_KEY], "has the key"))
    if len(key) > _MAX_KEY or len(segments) < 2 or segments[0].is_index or segments[1].is_index:
        raise ValueError(f"has the key `{key[:60]}`; a key is `*`, or a tool and an argument: `issue_refund.amount`")
    return segments


def _segments(text: str, subject: str) -> Iterator[_Segment]:
    place = 0
    while place < len(text):
        match = _SEGMENT.match(text, place)
        if match is None or (match["name"] is not None and (match["dot"] == ".") != (place > 0)):
            raise ValueError(f"{subject} `{text[:60]}`, which cannot be read from `{text[place : place + 20]}` on")
        if match["quoted"] is not None:
            yield _Segment(_unquoted(match["quoted"], f"{subject} `{text[:60]}`"), is_quoted=True)
        else:
            yield _Segment(match["name"] or match["index"], is_index=match["index"] is not None)
        place = match.end()


def _unquoted(text: str, subject: str) -> str:
    try:
        return str(json.loads(text))
    except ValueError as error:
        raise ValueError(f"{subject}, where `{text[:60]}` is no JSON text") from error


def _step(segment: _Segment) -> Step:
    if segment.is_index:
        return Step(place=None if segment.text == "*" else int(segment.text))
    if segment.is_wild:
        return Step(keys=Globs((segment.text,)))
    return Step(key=segment.text)


def _specificity(segments: tuple[_Segment, ...]) -> tuple[tuple[int, int], ...]:
    """Rank places of the same depth: by the innermost step first, by the tool last."""
    return tuple(
        (0 if segment.is_wild else 1, len(segment.text.replace("*", "").replace("?", "")) if segment.is_wild else 0)
        for segment in (*reversed(segments[1:]), segments[0])
    )
