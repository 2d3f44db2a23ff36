"""Patterns that people write: globs over names, and regular expressions over senders' text. RE2 matches both in linear time."""

# google-re2 ships neither stubs nor annotations.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Sequence

import re2

from toolgauge.model.errors import ConfigError

# What RE2 takes where nothing else is asked for.
_MAX_BYTES = 8 * 2**20


class Pattern:
    """A compiled RE2 pattern; `.` matches line ends too."""

    __slots__ = ("_compiled", "text")

    def __init__(self, text: str, *, max_bytes: int = _MAX_BYTES) -> None:
        """Compile to at most so many bytes, or raise `ConfigError`."""
        options = re2.Options()
        options.dot_nl = True
        options.log_errors = False
        options.max_mem = max_bytes
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
        return self._compiled.fullmatch(_encoded(text)) is not None

    def is_in(self, text: str) -> bool:
        """Return whether the pattern matches any part of the text."""
        return self._compiled.search(_encoded(text)) is not None

    def removed_from(self, text: str, mark: bytes = b" ") -> str:
        """Return the text with a space, or another mark, in place of each part that the pattern matches."""
        return self._compiled.sub(mark, _encoded(text)).decode("utf-8", "replace")


def quoted(text: str) -> str:
    """Turn text into a pattern that matches only itself."""
    return str(re2.escape(_encodable(text)))  # pyright: ignore[reportUnknownArgumentType] (it is text)


def _encoded(text: str) -> bytes:
    # Of text, RE2 counts the characters before and in each match, which takes longer than finding it.
    return text.encode("utf-8", "replace")


def _encodable(text: str) -> str:
    # Lone surrogates cannot be written as UTF-8, which is what RE2 reads.
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


class Globs:
    """Several globs, compiled once; a name matches when any of them does."""

    __slots__ = ("_names", "_pattern")

    def __init__(self, globs: Sequence[str]) -> None:
        # Most are plain names, and looking those up is ten times cheaper than matching.
        self._names = frozenset(glob for glob in globs if not _is_wild(glob))
        wild = [_translated(glob) for glob in globs if _is_wild(glob)]
        self._pattern = Pattern("|".join(wild)) if wild else None

    def match(self, name: str) -> bool:
        """Return whether any glob matches the whole name."""
        return name in self._names or (self._pattern is not None and self._pattern.matches(name))


def _is_wild(glob: str) -> bool:
    return "*" in glob or "?" in glob


def _translated(glob: str) -> str:
    wild = {"*": ".*", "?": "."}
    return "".join(wild.get(character) or quoted(character) for character in glob)
