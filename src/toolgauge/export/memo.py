"""Remembers bytes that were written before, within bounds.

Criteria, tools and explanations repeat, but they come from configurations and spans: a process that runs for a year
must not keep them all.
"""

from collections.abc import Hashable
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)
Kept = TypeVar("Kept")

_MAX_ENTRIES = 4096
_MAX_BYTES = 4 * 1024 * 1024
# What is larger than this is not said often, or not by anybody who means well.
_MAX_ENTRY_BYTES = 8 * 1024


class Memo(dict[Key, Kept]):
    """Look up as in any dict; what is to be remembered comes through `keep`. When it is full it begins anew."""

    __slots__ = ("_size_bytes",)

    def __init__(self) -> None:
        super().__init__()
        self._size_bytes = 0

    def keep(self, key: Key, kept: Kept, size_bytes: int) -> None:
        """Remember this, which takes about so many bytes together with its key; too much is not remembered."""
        if size_bytes > _MAX_ENTRY_BYTES:
            return
        if len(self) >= _MAX_ENTRIES or self._size_bytes + size_bytes > _MAX_BYTES:
            self.clear()
            self._size_bytes = 0
        self._size_bytes += size_bytes
        self[key] = kept
