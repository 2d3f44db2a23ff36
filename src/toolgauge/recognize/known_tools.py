"""Remembers which tools were read from which text, bounded in the memory that they take: that may be thirty times their text."""

from collections.abc import Hashable

from toolgauge.model.observations import ToolDefinition

_MAX_BYTES = 16 * 1024 * 1024
# What objects, lists, elements, and half a text may take beside their characters.
_BYTES = {"{": 200, "[": 90, ",": 40, '"': 30, "'": 30}
# One escaped character may make each character of a text take four bytes.
_WIDEST = 4


class KnownTools:
    """Tools by what they were read from; when there are too many, the oldest go."""

    def __init__(self, max_entries: int, max_bytes: int = _MAX_BYTES) -> None:
        self._known: dict[Hashable, tuple[tuple[ToolDefinition, ...], int]] = {}
        self._bytes = 0
        self._max_entries = max_entries
        self._max_bytes = max_bytes

    @property
    def size_bytes(self) -> int:
        """About how much memory they take, or more."""
        return self._bytes

    def get(self, key: Hashable) -> tuple[ToolDefinition, ...] | None:
        """Return what was read, `None` when it is not known any more."""
        known = self._known.get(key)
        return None if known is None else known[0]

    def keep(self, key: Hashable, text: str, tools: tuple[ToolDefinition, ...]) -> None:
        """Remember what was read from a text."""
        size = _size_bytes(text)
        self._known[key] = tools, size
        self._bytes += size
        while len(self._known) > self._max_entries or self._bytes > self._max_bytes:
            self._bytes -= self._known.pop(next(iter(self._known)))[1]


def _size_bytes(text: str) -> int:
    # The text itself is remembered too.
    size = text.__sizeof__() * (1 + (_WIDEST if "\\u" in text else 1))
    return size + sum([text.count(character) * each for character, each in _BYTES.items()])
