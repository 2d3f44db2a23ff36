"""A dict that stays bounded: criteria, tools and explanations repeat, but they come from configurations and spans."""

from collections.abc import Hashable
from typing import TypeVar

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")

_MAX_ENTRIES = 4096
_MAX_BYTES = 4 * 1024 * 1024
# What is larger seldom repeats.
_MAX_ENTRY_BYTES = 8 * 1024


class BoundedCache(dict[_Key, _Value]):
    """Look up as in any dict; `keep` adds. When it is full it begins anew."""

    __slots__ = ("_size_bytes",)

    def __init__(self) -> None:
        super().__init__()
        self._size_bytes = 0

    def keep(self, key: _Key, value: _Value, size_bytes: int) -> _Value:
        """Add this, which takes about so many bytes together with its key, unless that is too much; return it."""
        if size_bytes > _MAX_ENTRY_BYTES:
            return value
        if len(self) >= _MAX_ENTRIES or self._size_bytes + size_bytes > _MAX_BYTES:
            self.clear()
            self._size_bytes = 0
        self._size_bytes += size_bytes
        self[key] = value
        return value
