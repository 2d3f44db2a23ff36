"""Collects the ids and numbers of texts that are cut, in bounded memory.

Of too many, those with the smallest hashes are kept: which they are does not depend on the order of arrival.
"""

from collections.abc import Iterable
from heapq import nsmallest

from toolgauge.model.left_out import HASH_BYTES, NOTHING_LEFT_OUT, LeftOut, token_hash, tokens

# About what one hash costs while it is collected: a number and its place in a set.
_ENTRY_SIZE = 100
_FEWEST = 1024
_CONTENT_PER_TOKEN = 256
_MOST_MERGED = 16_384
# So many characters of one text are looked at: one of megabytes would keep everybody waiting.
_MAX_LOOKED_AT = 1 << 17


class LeftOutIndex:
    """The ids and numbers of the cut texts of one trace; as many as suit the text that is kept of it."""

    def __init__(self, max_content_size: int) -> None:
        self._max = max(_FEWEST, max_content_size // _CONTENT_PER_TOKEN)
        self._hashes: set[int] = set()
        # Larger hashes than this are not kept: enough smaller ones are known.
        self._limit = 1 << 64
        self._is_complete = True

    @property
    def size_bytes(self) -> int:
        """About how much memory the index takes."""
        return _ENTRY_SIZE * len(self._hashes)

    def add(self, text: str) -> None:
        """Take the ids and numbers of a text."""
        for token in tokens(text[:_MAX_LOOKED_AT]):
            hashed = token_hash(token)
            if hashed < self._limit:
                self._hashes.add(hashed)
                if len(self._hashes) > 2 * self._max:
                    self._drop_largest()
        if len(text) > _MAX_LOOKED_AT:
            self._is_complete = False

    def left_out(self, texts: int) -> LeftOut:
        """Return the index of so many texts."""
        if len(self._hashes) > self._max:
            self._drop_largest()
        return LeftOut(hashes=_packed(self._hashes), texts=texts, is_complete=self._is_complete)

    def _drop_largest(self) -> None:
        self._hashes = set(nsmallest(self._max, self._hashes))
        self._limit = max(self._hashes) + 1
        self._is_complete = False


def merged(parts: Iterable[LeftOut]) -> LeftOut:
    """Return one index of several traces."""
    parts = [part for part in parts if part.texts]
    if len(parts) <= 1:
        return parts[0] if parts else NOTHING_LEFT_OUT
    hashes = sorted({hashed for part in parts for hashed in _unpacked(part)})
    return LeftOut(
        hashes=_packed(hashes[:_MOST_MERGED]),
        texts=sum(part.texts for part in parts),
        is_complete=len(hashes) <= _MOST_MERGED and all(part.is_complete for part in parts),
    )


def _packed(hashes: Iterable[int]) -> bytes:
    return b"".join(hashed.to_bytes(HASH_BYTES, "big") for hashed in sorted(hashes))


def _unpacked(part: LeftOut) -> list[int]:
    raw = part.hashes
    return [int.from_bytes(raw[at : at + HASH_BYTES], "big") for at in range(0, len(raw), HASH_BYTES)]
