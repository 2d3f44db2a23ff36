"""Receipts: short sequences of words that answers hold only after a tool worked. Two of them in an answer claim the tool's act.

They are learned from traffic and reviewed as a part of a criterion, so that the same spans still give the same scores.
"""

import re
from collections.abc import Collection

_MAX_LENGTH = 20_000
LONGEST = 4
# Letters of scripts without spaces are words of their own.
_WORD = re.compile(
    r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff]|[^\W\d_\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff]+(?:['\u2019][^\W\d_]+)*"
)
# The end of a sentence, and words with digits: nobody's ids become receipts.
_END = re.compile(r"[.!?;:\n\u3002\uff01\uff1f|]|[^\s\d]{0,64}\d\S*")
_NEEDED = 2


def sequences(text: str) -> set[str]:
    """Return the sequences of up to four words of an answer, none across the end of a sentence or a word with digits."""
    found: set[str] = set()
    for sentence in _END.split(text[:_MAX_LENGTH].lower()):
        words = _WORD.findall(sentence)
        for size in range(1, LONGEST + 1):
            found.update(map(" ".join, zip(*(words[start:] for start in range(size)), strict=False)))
    return found


def claimed(held: Collection[str], receipts: Collection[str]) -> set[str]:
    """Return the receipts among the sequences of an answer, where these are enough for a claim."""
    found = {*held}.intersection(receipts)
    return found if len(found) >= _NEEDED else set()
