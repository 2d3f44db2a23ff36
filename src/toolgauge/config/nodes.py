"""Configuration as it was written: plain values, each with the place it came from.

Files, `--set` and environment variables all become the same tree, so that every later complaint can name
file and line, whoever raises it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, cast

from toolgauge.model.json import Json

PathStep: TypeAlias = str | int


@dataclass(frozen=True, slots=True)
class Place:
    """Where something was written: a file as the user named it, an option or an environment variable."""

    source: str
    line: int | None = None

    def __str__(self) -> str:
        return self.source if self.line is None else f"{self.source}:{self.line}"

    @property
    def directory(self) -> Path:
        """What relative file names are relative to; the working directory for anything but a file."""
        return Path(self.source).parent


@dataclass(frozen=True, slots=True)
class Node:
    """One value. The place of a mapping's entry is that of its key."""

    value: "bool | int | float | str | dict[str, Node] | list[Node] | None"
    place: Place

    def child(self, step: PathStep) -> "Node | None":
        """Step down one level; `None` when there is nothing."""
        match self.value, step:
            case dict() as entries, str():
                return entries.get(step)
            case list() as items, int() if step < len(items):
                return items[step]
            case _:
                return None


def plain(node: Node) -> Json:
    """Strip the places."""
    match node.value:
        case dict() as entries:
            return {key: plain(entry) for key, entry in entries.items()}
        case list() as items:
            return [plain(item) for item in items]
        case scalar:
            return scalar


def written(value: object, place: Place) -> Node:
    """Give a plain JSON value a place: one for the whole of it. Raises `TypeError` for anything that is not JSON."""
    match value:
        case None | bool() | int() | float() | str():
            return Node(value, place)
        case Mapping():
            entries = cast("Mapping[object, object]", value)  # narrowed from object, whose items have no type
            return Node({str(key): written(entry, place) for key, entry in entries.items()}, place)
        case list() | tuple():
            items = cast("Sequence[object]", value)  # as above
            return Node([written(item, place) for item in items], place)
        case _:
            raise TypeError(f"{type(value).__name__} is not a value of a configuration")


def merged(below: Node, above: Node) -> Node:
    """Lay one tree over another: mappings are merged key by key, everything else is replaced."""
    if not isinstance(below.value, dict) or not isinstance(above.value, dict):
        return above
    entries = dict(below.value)
    for key, entry in above.value.items():
        entries[key] = merged(entries[key], entry) if key in entries else entry
    return Node(entries, above.place)


def nearest(node: Node, path: Iterable[PathStep]) -> Node:
    """Follow the path as far as it was written."""
    for step in path:
        below = node.child(step)
        if below is None:
            continue
        node = below
    return node


def spelled(path: Iterable[PathStep]) -> str:
    """Write a path as people do: `criteria[0].expected`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text
