"""Decides how each span is read: at once, when its trace is closed, or not at all."""

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from toolgauge.model.observations import (
    CallAnswered,
    CallRequested,
    MessageSeen,
    ModelCall,
    Operation,
    Reading,
    UnreadSpan,
)
from toolgauge.otlp.decoder import Decoder, ViewedSpan
from toolgauge.recognize.recognizer import Recognizer


class Read(Struct):
    """A span that was read. `given` is the same span where its model was given answers, and so a history of calls."""

    reading: Reading
    given: UnreadSpan | None


class Deferred(Struct):
    """A span that waits as bytes until its trace is closed."""

    span: UnreadSpan


class Unknown(Struct):
    """A span that no dialect reads."""


Decision: TypeAlias = Read | Deferred | Unknown
_UNKNOWN = Unknown()


class Reader:
    """A decoder and a recognizer, which change together."""

    def __init__(self, decoder: Decoder, recognizer: Recognizer) -> None:
        self.decoder = decoder
        self.recognizer = recognizer

    def decide(self, viewed: ViewedSpan, may_wait: Callable[[UnreadSpan], bool], *, defers: bool) -> Decision:
        """Read the span, unless it `may_wait`; spans wait at all where the assembler `defers`."""
        parsed, recognizer = viewed.parsed, self.recognizer
        # A span without a parent may be a trace of its own, whose answers are remembered for other traces.
        if defers and parsed.parent_span_id is not None:
            shown = recognizer.operation(parsed.attributes, parsed.name, viewed.scope.name)
            if shown is not None:
                waiting = _unread(viewed, *shown)
                if may_wait(waiting):
                    return Deferred(waiting)
        reading = recognizer.read(viewed.span)
        if reading is None:
            return _UNKNOWN
        # Asked of every span that is read at once: a loop costs half of what a generator does.
        has_answers = is_model = False
        for seen in reading.observations:
            if type(seen) is CallAnswered:
                has_answers = True
            elif type(seen) is ModelCall:
                is_model = True
        given = _unread(viewed, "model_call", reading.dialect or "") if has_answers and is_model else None
        return Read(reading, given if given is not None and may_wait(given) else None)

    def read(self, span: UnreadSpan) -> Reading | None:
        """Read all of a deferred span; `None` when nothing can be read from it."""
        return self.recognizer.read_waited(span.dialect, self.decoder.waited(span))

    def read_calls(self, span: UnreadSpan) -> Reading | None:
        """Read a deferred span without messages and results; `None` when all of it has to be read."""
        return self.recognizer.read_calls(span.dialect, self.decoder.waited(span))

    def read_history(self, span: UnreadSpan) -> tuple[CallRequested | MessageSeen, ...]:
        """Read the calls in the history that a model's span was given."""
        return self.recognizer.read_history(span.dialect, self.decoder.waited(span))


def _unread(viewed: ViewedSpan, operation: Operation, dialect: str) -> UnreadSpan:
    parsed = viewed.parsed
    return UnreadSpan(
        ref=parsed.ref,
        parent_span_id=parsed.parent_span_id or "",
        parent_is_remote=parsed.parent_is_remote,
        operation=operation,
        dialect=dialect,
        raw=viewed.raw,
        resource=viewed.resource,
        scope=viewed.scope,
    )
