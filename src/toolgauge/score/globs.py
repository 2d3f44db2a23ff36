"""Globs over names of tools, agents, services and cases: `*` is any text, `?` one character, case matters."""

from collections.abc import Sequence

from toolgauge.score.patterns import Pattern, quoted


class Globs:
    """Several globs, compiled once; a name matches when any of them does."""

    __slots__ = ("_names", "_pattern")

    def __init__(self, globs: Sequence[str]) -> None:
        # Most are plain names, and looking those up is ten times cheaper than matching.
        self._names = frozenset(glob for glob in globs if not _is_wild(glob))
        wild = [_translated(glob) for glob in globs if _is_wild(glob)]
        self._pattern = Pattern("|".join(wild)) if wild else None

    def match(self, name: str) -> bool:
        """Tell whether any glob matches the whole name."""
        return name in self._names or (self._pattern is not None and self._pattern.matches(name))


def _is_wild(glob: str) -> bool:
    return "*" in glob or "?" in glob


def _translated(glob: str) -> str:
    wild = {"*": ".*", "?": "."}
    return "".join(wild.get(character) or quoted(character) for character in glob)
