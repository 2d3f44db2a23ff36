"""Hashes of the ids and numbers in texts no longer kept: cut texts, and earlier traces of a conversation.

The words of a text would be as large as the text; ids and numbers identify a conversation, and are few.
"""

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal, TypeAlias
from zlib import adler32, crc32

from msgspec import Struct

# Of 16,000 values, one that was never seen is taken for one of them once in 260,000 times.
WORD_HASH_BYTES = 4
_HASHES = "I"


class UserText(Struct, frozen=True, gc=False):
    """What a user wrote, with the questions that it may answer. `is_new` where it was written more than once, and not replayed."""

    text: str
    questions: str
    time_ns: int
    is_new: bool


# Of the calls of a conversation, and what users said since.
RememberedEffects: TypeAlias = tuple[bytes, tuple[UserText, ...]]


class EarlierValues(Struct, frozen=True, gc=False):
    """Sorted 4-byte hashes of the ids and numbers in earlier traces; `gap` is the reason why some may be missing.

    `effects` are the effects of calls, as `score.effects` writes them; `user_texts` came later.
    """

    hashes: bytes = b""
    has_traces: bool = False
    has_user: bool = False
    gap: str | None = None
    effects: bytes = b""
    user_texts: tuple[UserText, ...] = ()

    def has_word(self, word: bytes) -> bool:
        """Return whether a folded word was seen; words without digits and joints are not remembered."""
        hashes, wanted = memoryview(self.hashes).cast(_HASHES), crc32(word)
        place = bisect_left(hashes, wanted)
        return place < len(hashes) and hashes[place] == wanted


def with_hashes(hashes: bytes, others: set[int]) -> bytes:
    """Add hashes to sorted ones."""
    known = array(_HASHES, hashes)
    new = sorted(others.difference(known))
    # Merging two sorted lists takes a third of the time of sorting all.
    return array(_HASHES, sorted([*known, *new])).tobytes() if new else hashes


# What else is remembered of earlier traces. `reader` marks a memory that has all of these.
MarkKind: TypeAlias = Literal["argument", "form", "worked", "reader"]


@lru_cache(maxsize=1024)
def marked(kind: MarkKind, word: bytes = b"") -> bytes:
    """Return the word that stands for one of another kind among ids and numbers."""
    return b"__%b_%d" % (kind.encode(), crc32(word))


HASH_BYTES = 8
# In the middle of a text that was cut. Of even length, as the lengths that texts are cut to.
MARK = "[... left out ...]"
_MAX_LENGTH = 64
# A word with a digit and the words joined to it: `A-17`, `order:A-17`, `2026-05-01`, `19.99`. Bounded and possessive:
# hostile text is walked once.
_TOKEN = re.compile(r"(?<!\w)(?:[^\W\d]++[.:/@+-]){0,4}+[^\W\d]*+\d\w*+(?:[.:/@+-]\w++)*+")
# Where a token is taken apart: one text joins words that another writes alone.
_JOINTS = (re.compile(r"[:/@+]"), re.compile(r"[.:/@+-]"), re.compile(r"\D+"))
_NUMBER = re.compile(r"\d+")
_WORD = re.compile(r"\w")


class LeftOut(Struct, frozen=True, kw_only=True):
    """Sorted 8-byte hashes of the ids and numbers in `texts` cut texts; `is_complete` is False when not all of them fit."""

    hashes: bytes = b""
    texts: int = 0
    is_complete: bool = True

    def holds(self, value: str) -> bool | None:
        """Return whether an id or number occurred in the parts that were cut; `None` when that is unknown."""
        if not self.texts:
            return False
        value = value.casefold()
        match = _TOKEN.search(value) if len(value) <= _MAX_LENGTH else None
        if match is None:
            return None
        # Of several words only the ones that have digits can be looked up.
        is_alone = _WORD.search(value, 0, match.start()) is None and _WORD.search(value, match.end()) is None
        if is_alone and self._has(match[0]):
            return True
        # A text may have joined it to other things; its numbers would still be found.
        return False if self.is_complete and not all(self._has(number) for number in _NUMBER.findall(value)) else None

    def _has(self, token: str) -> bool:
        wanted = token_hash(token).to_bytes(HASH_BYTES, "big")
        return self._at(bisect_left(range(len(self.hashes) // HASH_BYTES), wanted, key=self._at)) == wanted

    def _at(self, place: int) -> bytes:
        return self.hashes[place * HASH_BYTES : (place + 1) * HASH_BYTES]


NOTHING_LEFT_OUT = LeftOut()


def is_cut(text: str) -> bool:
    """Return whether a text was cut already: by its form alone, which does not depend on the text before."""
    begin = (len(text) - len(MARK)) // 2
    return begin > 0 and len(text) % 2 == 0 and text.startswith(MARK, begin)


def tokens(text: str) -> Iterator[str]:
    """Yield the ids and numbers of a text: as they are written, and taken apart."""
    # In JSON text, an escape would become part of the word behind it.
    text = text.replace("\\n", " ").replace("\\t", " ").replace("\\r", " ").casefold()
    for match in _TOKEN.finditer(text):
        token = match[0]
        if len(token) <= _MAX_LENGTH:
            yield token
            if token.isdecimal():
                continue
        for joint in _JOINTS:
            for part in joint.split(token):
                if len(part) <= _MAX_LENGTH and part != token and _NUMBER.search(part):
                    yield part


def token_hash(token: str) -> int:
    """Hash a token to 64 bits, the same in every process; the upper half is evenly spread."""
    raw = token.encode("utf-8", "surrogatepass")
    return crc32(raw) << 32 | adler32(raw)
