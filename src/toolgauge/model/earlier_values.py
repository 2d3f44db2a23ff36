"""Values that earlier traces of a conversation showed, as hashes: what a later trace is judged against.

Texts of a conversation may be of any size and hold anything; ids and numbers identify it, and are few.
"""

from msgspec import Struct

from toolgauge.model.left_out import bytes_hash, has_hash


class EarlierValues(Struct, frozen=True, gc=False):
    """The ids and numbers of earlier traces: sorted hashes, 8 bytes each.

    `has_traces` where any came before, `has_user` where a user's text is among them. `gap` is the reason of `NotEvaluated` why they
    may have shown more than `hashes` holds, `None` where they did not.
    """

    hashes: bytes = b""
    has_traces: bool = False
    has_user: bool = False
    gap: str | None = None

    def has_word(self, word: bytes) -> bool:
        """Return whether a folded word was seen; words without digits and joints are not remembered."""
        return has_hash(self.hashes, bytes_hash(word))

    def has_number(self, number: float) -> bool:
        """Return whether a number was seen, however it was written."""
        return has_hash(self.hashes, number_hash(number))


def number_hash(number: float) -> int:
    """Hash a number apart from all words."""
    return bytes_hash(b"=%r" % number)
