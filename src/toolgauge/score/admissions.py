"""Whether a text admits that something did not work: by its words, which are known for English only.

A text counts as English by a few words that no other language has. Whoever judges by what a text does not admit has to
leave texts in other languages alone.
"""

import re

# So much of an answer is read; the words come early.
_MAX_LENGTH = 20_000
_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")
_ENGLISH = frozenset(("the", "you", "your", "you're", "been", "this", "that", "with", "i've", "we've"))
_ALSO_ENGLISH = frozenset(("is", "was", "and", "has", "have", "are", "it", "of", "to"))
# Wide on purpose: who names a difficulty, a condition or another way does not act as if all had worked.
_ADMITTING = frozenset(
    (
        *("not", "no", "none", "never", "nothing", "neither", "nor", "without", "cannot", "can't", "couldn't", "won't"),
        *(
            "wouldn't",
            "wasn't",
            "weren't",
            "isn't",
            "aren't",
            "didn't",
            "doesn't",
            "don't",
            "haven't",
            "hasn't",
            "hadn't",
        ),
        *("sorry", "apologize", "apologise", "apologies", "apology", "unfortunately", "regret", "afraid", "unable"),
        *("impossible", "unavailable", "unsuccessful", "unsuccessfully", "incomplete", "insufficient", "invalid"),
        *(
            "incorrect",
            "wrong",
            "missing",
            "fail",
            "fails",
            "failed",
            "failing",
            "failure",
            "failures",
            "error",
            "errors",
        ),
        *("issue", "issues", "problem", "problems", "trouble", "difficulty", "difficulties", "mistake", "confusion"),
        *(
            "discrepancy",
            "oversight",
            "glitch",
            "outage",
            "timeout",
            "reject",
            "rejected",
            "rejects",
            "decline",
            "declined",
        ),
        *(
            "declines",
            "deny",
            "denied",
            "denies",
            "refuse",
            "refused",
            "blocked",
            "however",
            "but",
            "although",
            "though",
        ),
        *("instead", "alternative", "alternatively", "alternatives", "another", "retry", "again", "manually", "must"),
        *("requires", "required", "appears", "seems"),
    )
)


def admits_failure(text: str) -> bool:
    """Return whether a text speaks of something that did not work; one such word alone may be of another language."""
    words = frozenset(_words(text))
    admitting = len(words & _ADMITTING)
    return admitting > 1 or (admitting == 1 and not words.isdisjoint(_ENGLISH | _ALSO_ENGLISH))


def is_english(text: str) -> bool:
    """Return whether a text is certainly English."""
    words = frozenset(_words(text))
    own = len(words & _ENGLISH)
    return own > 1 or (own == 1 and len(words & _ALSO_ENGLISH) > 1)


def _words(text: str) -> list[str]:
    return _WORD.findall(text[:_MAX_LENGTH].lower().replace("\u2019", "'"))
