"""External verdicts on agent runs: from users (thumbs), from staff (tickets), or from another evaluation."""

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


class Feedback(Struct, frozen=True, kw_only=True, gc=False):
    """One verdict on a trace, or on a conversation; `passed` is `None` where its value means neither passed nor failed.

    `source` is where a person gave it to a toolgauge, empty for other verdicts.
    """

    name: str
    passed: bool | None
    # Its number, on a scale of its own.
    value: float | None = None
    trace_id: str | None = None
    conversation_id: str | None = None
    explanation: str = ""
    source: str = ""


class PersonVerdict(Struct, frozen=True, kw_only=True):
    """A verdict of a person on a run. Without a trace it is about a conversation."""

    name: str
    label: str | bool | None = None
    value: float | None = None
    trace_id: str | None = None
    conversation_id: str | None = None
    # Where a person gave it to a toolgauge, and why; empty for verdicts of backends.
    source: str = ""
    reason: str = ""


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
