"""Values that earlier traces of a conversation showed, as hashes: what a later trace is judged against.

Texts of a conversation may be of any size and hold anything; ids and numbers identify it, and are few.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable
from zlib import crc32

from msgspec import Struct

# Of 16,000 values, one that was never seen is taken for one of them once in 260,000 times.
HASH_BYTES = 4
_HASHES = "I"


class EarlierValues(Struct, frozen=True, gc=False):
    """The ids and numbers of earlier traces, as the words that write them: sorted hashes, 4 bytes each.

    `has_traces` where any came before, `has_user` where a user's text is among them. `gap` is the reason of `NotEvaluated` why they
    may have shown more than `hashes` holds, `None` where they did not.
    """

    hashes: bytes = b""
    has_traces: bool = False
    has_user: bool = False
    gap: str | None = None

    def has_word(self, word: bytes) -> bool:
        """Return whether a folded word was seen; words without digits and joints are not remembered."""
        hashes, wanted = memoryview(self.hashes).cast(_HASHES), crc32(word)
        place = bisect_left(hashes, wanted)
        return place < len(hashes) and hashes[place] == wanted


def with_words(hashes: bytes, words: Iterable[bytes]) -> bytes:
    """Add the hashes of words to sorted ones."""
    return array(_HASHES, sorted({*memoryview(hashes).cast(_HASHES), *map(crc32, words)})).tobytes()
