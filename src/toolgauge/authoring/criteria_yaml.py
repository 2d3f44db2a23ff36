"""Writes YAML with comments, which PyYAML cannot: the same values give the same bytes.

Names in it come from traffic: texts are quoted and escaped, and `$` is doubled where it would begin a variable.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from toolgauge.authoring.value_profiles import MIN_SOURCES
from toolgauge.report.terminal import printable

_USUAL = re.compile(r"[A-Za-z_][A-Za-z0-9_.:/-]{0,127}")
_LONGEST = 128
_LONG_NUMBER = re.compile(r"\d{4}")
_SLUG = re.compile(r"[^a-z0-9]+")
_LONGEST_SLUG = 40


def may_be_written(name: str, *, is_offered: bool, runs: int) -> bool:
    """Return whether a file may hold a name: one on offer may, one that a single run made up may not."""
    if is_offered:
        return 0 < len(name) <= _LONGEST
    least = MIN_SOURCES if _LONG_NUMBER.search(name) else 2
    return runs >= least and _USUAL.fullmatch(name) is not None


def is_plain(name: str) -> bool:
    """Return whether a name means itself alone wherever criteria take globs and places."""
    return _USUAL.fullmatch(name) is not None


def as_glob(name: str) -> str:
    """Write a name so that it means nothing but itself, or names that differ in a single sign; globs have no escape."""
    return "".join("?" if letter == "*" or not letter.isprintable() else letter for letter in name)


def slug(name: str) -> str:
    """Write a name as a part of a criterion's name."""
    return _SLUG.sub("-", name.lower()).strip("-")[:_LONGEST_SLUG].strip("-") or "service"


Written: TypeAlias = "str | int | float | bool | Sequence[Written] | Mapping[str, Written] | Commented | None"

_INDENT = "  "
_LINE_LENGTH = 110
_PLAIN = re.compile(r"(?:\.{1,2}/)*[^\W\d][\w./-]*|[0-9]+(?:\.[0-9]+)?s")
# Read as something else than text by YAML 1.1 or 1.2.
_RESERVED = frozenset(("true", "false", "yes", "no", "on", "off", "null", "y", "n", "none"))
_VARIABLE = re.compile(r"\$(?=[${])")


@dataclass(frozen=True, slots=True)
class Commented:
    """A value with a comment at the end of its first line, and lines of comment above it."""

    value: "Written"
    comment: str = ""
    above: tuple[str, ...] = ()


def yaml_text(document: Mapping[str, Written], header: Sequence[str] = ()) -> str:
    """Write a document; `header` are lines of comment at its top."""
    lines = [*map(_comment, header), *_block(document, 0)]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _block(value: Written, depth: int) -> Iterator[str]:
    pad = _INDENT * depth
    entries: list[tuple[str, Written]] = []
    if isinstance(value, Mapping):
        entries = [(f"{yaml_key(key)}:", entry) for key, entry in value.items()]
    elif isinstance(value, Sequence) and not isinstance(value, str):
        entries = [("-", entry) for entry in value]
    for start, entry in entries:
        commented = entry if isinstance(entry, Commented) else Commented(entry)
        value, comment = commented.value, _comment(commented.comment)
        yield from (f"{pad}{_comment(line)}" for line in commented.above)
        flow = yaml_line(value)
        room = _LINE_LENGTH if start == "-" else _LINE_LENGTH - len(pad) - len(start)
        behind = f"  {comment}" if comment else ""
        if flow is not None and (isinstance(value, str) or len(flow) <= room):
            yield f"{pad}{start} {flow}{behind}"
        elif start == "-":
            lines = list(_block(value, depth + 1))
            if comment:
                yield f"{pad}{comment}"
            yield f"{pad}- {lines[0].lstrip()}"
            yield from lines[1:]
        else:
            yield f"{pad}{start}{behind}"
            yield from _block(value, depth + 1)


def yaml_line(value: Written) -> str | None:
    """Write a value on one line; `None` where something in it has a comment, or is a deeper mapping."""
    if isinstance(value, Commented):
        return None
    if isinstance(value, Mapping):
        pairs = [(key, yaml_line(entry)) for key, entry in value.items()]
        if any(text is None for _, text in pairs):
            return None
        return "{" + ", ".join(f"{yaml_key(key)}: {text}" for key, text in pairs) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        items = [yaml_line(entry) for entry in value]
        return None if any(item is None for item in items) else "[" + ", ".join(map(str, items)) + "]"
    if isinstance(value, str):
        return yaml_key(_VARIABLE.sub("$$", value))
    return json.dumps(value)


def yaml_key(text: str) -> str:
    """Write a text as it is, as for a key, in which no variable is filled in."""
    if _PLAIN.fullmatch(text) and text.lower() not in _RESERVED:
        return text
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(letter: str) -> str:
    if letter.isprintable() and letter not in '"\\':
        return letter
    return json.dumps(letter)[1:-1] if ord(letter) < 0x10000 else f"\\U{ord(letter):08x}"


def _comment(text: str) -> str:
    return f"# {printable(text)}" if text else ""
