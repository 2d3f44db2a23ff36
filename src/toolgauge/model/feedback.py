"""External verdicts on agent runs: from users (thumbs), from staff (tickets), or from another evaluation."""

import re
from math import isfinite
from typing import Final, Protocol

from msgspec import Struct

from toolgauge.model.outcomes import Scorecard

# The event of a verdict, and the attributes for reason and source.
EVALUATION_EVENT: Final = "gen_ai.evaluation.result"
EXPLANATION: Final = "gen_ai.evaluation.explanation"
SOURCE: Final = "toolgauge.verdict.source"
# The name of people's verdicts, and where they were given; a reason is cut to so many characters.
VERDICT_NAME: Final = "verdict"
IN_WEB_VIEW: Final = "web view"
BY_MARK: Final = "toolgauge.mark"
MAX_REASON = 200
# Begins the identifier of each evaluation that a toolgauge wrote in OpenInference's words.
OWN_IDENTIFIER = "toolgauge:"


_PASSED = frozenset(
    [
        *("1", "accepted", "correct", "good", "like", "ok", "pass", "passed", "positive", "success"),
        *("successful", "thumb_up", "thumbs_up", "true", "up", "yes"),
    ]
)
_FAILED = frozenset(
    [
        *("-1", "0", "bad", "dislike", "down", "fail", "failed", "failure", "false", "incorrect", "negative"),
        *("no", "rejected", "thumb_down", "thumbs_down", "wrong"),
    ]
)
_SIGNS = {"\N{THUMBS UP SIGN}": True, "\N{THUMBS DOWN SIGN}": False}
# For messages: the words that need no explanation.
PLAIN_VERDICTS = (
    "`passed` or `failed`, `pass` or `fail`, `true` or `false`, `1` or `0`, `good` or `bad`, `up` or `down`"
)
_MAX_LENGTH = 32
# Between words; the sign of a number does not separate.
_SEPARATORS = re.compile(r"(?<=[a-z])[ _-]+")


def verdict_of(value: str | float, pass_at: float | None = None) -> bool | None:
    """Return whether a run passed, `None` for no verdict. Without `pass_at` only 1 passes, and only 0 and -1 fail."""
    if isinstance(value, str) and len(value) > _MAX_LENGTH:
        return None
    if pass_at is not None and (number := _number(value)) is not None:
        return number >= pass_at
    if isinstance(value, bool):
        return value
    if not isinstance(value, str):
        return {1.0: True, 0.0: False, -1.0: False}.get(float(value))
    word = _SEPARATORS.sub("_", value.strip().lower())
    if word in _PASSED:
        return True
    if word in _FAILED:
        return False
    number = _number(value)
    return _SIGNS.get(word) if number is None else verdict_of(number)


def _number(value: str | float) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if isfinite(number) else None


class Feedback(Struct, frozen=True, kw_only=True, gc=False):
    """One verdict on a trace; without one, it is on a conversation.

    `source` is where a person gave it to a toolgauge, empty for other verdicts.
    """

    name: str
    label: str | bool | None = None
    # Its number, on a scale of its own.
    value: float | None = None
    trace_id: str | None = None
    conversation_id: str | None = None
    reason: str = ""
    source: str = ""

    @property
    def passed(self) -> bool | None:
        """Whether the run passed; `None` where the verdict means neither."""
        # Labels are what people decided, values may be of any scale.
        passed = None if self.label is None else verdict_of(self.label)
        return verdict_of(self.value) if passed is None and self.value is not None else passed


class FeedbackSink(Protocol):
    """Takes verdicts as they arrive, and the scorecards that they are compared with, in one thread."""

    def add(self, feedback: Feedback, now_ns: int) -> None:
        """Take one verdict, before or after its trajectory was scored."""

    def observe(self, scorecard: Scorecard) -> None:
        """Take the results of a trajectory."""

    def tick(self, now_ns: int) -> None:
        """Compare verdicts that are due."""

    def close(self) -> None:
        """Compare all that waits."""

    @property
    def next_due_ns(self) -> int | None:
        """When something may become due; `None` where nothing waits."""
        ...
