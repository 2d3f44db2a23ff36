"""What can be done about a fact that a producer leaves out: the form of the advice.

A remedy that promised a switch which does not exist, or which another language has, would send people searching: rows name the
producers that they are about, and "never recorded" is an answer of its own.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from toolgauge.recognize.producers import Producer

Fact: TypeAlias = Literal[
    "calls", "arguments", "results", "failures", "call_ids", "tool_definitions", "conversation_id", "user_text"
]

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
OPT_IN = "OTEL_SEMCONV_STABILITY_OPT_IN"
# A span with `session.id` alone looks like anybody's.
SESSION = "`gen_ai.conversation.id`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """What to do about a fact that is missing. `switches` are the exact names of variables and options.

    `never` means that the producer records it under no setting: `how` then says what else helps.
    """

    how: str
    switches: tuple[str, ...] = ()
    never: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Remedies for producers of one of these dialects, of a scope that begins so, and of one of these languages; empty fits all.

    `before` is the release that brought a change: the row is for those below, known to be so.
    """

    dialects: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    before: tuple[int, ...] | None = None
    remedies: Mapping[Fact, Remedy]

    def fits(self, producer: Producer, dialects: Collection[str]) -> bool:
        """Return whether the row is about this producer."""
        if self.dialects and not any(dialect in self.dialects for dialect in dialects):
            return False
        if self.scopes and not any(_is_within(producer.scope, scope) for scope in self.scopes):
            return False
        if self.languages and producer.language not in self.languages:
            return False
        return self.before is None or (producer.release is not None and producer.release < self.before)


def _is_within(scope: str, prefix: str) -> bool:
    """Return whether a scope's name begins with whole words: `ai` is not the beginning of `airline`."""
    after = scope[len(prefix) : len(prefix) + 1]
    return scope.startswith(prefix) and not (after.isalnum() or after == "_")


CONTENT_IS_ON = Remedy(
    how="its content is recorded, this is not: no switch is known that adds it; instrument the model client as well"
)
OUTPUTS_ARE_RECORDED = Remedy(
    how="outputs of this producer are recorded, so no switch hides these: update the instrumentation, whose early releases leave "
    "results out; a tool that returns nothing has none",
)
RECORDED_ELSEWHERE = Remedy(
    how="other traces of this producer have it: it records it only in some, often the first of a conversation, or not "
    "all of its processes are set up alike"
)
OFFERED_ELSEWHERE = Remedy(
    how=f"{RECORDED_ELSEWHERE.how}. Evaluators without a judge take the last offer of the conversation, or of the service within "
    "an hour, for these traces"
)


def content(remedy: Remedy) -> dict[Fact, Remedy]:
    """Give one answer for everything that a single content switch governs."""
    return {"calls": remedy, "arguments": remedy, "results": remedy, "user_text": remedy}


def never(how: str) -> Remedy:
    """Make the answer for what a producer records under no setting."""
    return Remedy(how=how, never=True)


MODEL_SIDE_IDS = never(
    "the tool spans of this producer have none; ids come with the model's own spans, where these are recorded "
    "with their content"
)
