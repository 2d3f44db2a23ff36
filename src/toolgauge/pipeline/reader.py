"""Reads spans that waited as bytes: the decoder views them again, the recognizer has their dialect read them."""

from toolgauge.model.observations import CallAnswered, CallRequested, MessageSeen, ModelCall, Reading, UnreadSpan
from toolgauge.otlp.decoder import Decoder, ViewedSpan
from toolgauge.recognize.recognizer import Recognizer


class Reader:
    """A decoder and a recognizer, which change together."""

    def __init__(self, decoder: Decoder, recognizer: Recognizer) -> None:
        self.decoder = decoder
        self.recognizer = recognizer

    def read(self, span: UnreadSpan) -> Reading | None:
        """Read all of the span; `None` when nothing can be read from it."""
        return self.recognizer.read_waited(span.dialect, self.decoder.waited(span))

    def read_calls(self, span: UnreadSpan) -> Reading | None:
        """Read the span without messages and results; `None` when all of it has to be read."""
        return self.recognizer.read_calls(span.dialect, self.decoder.waited(span))

    def read_history(self, span: UnreadSpan) -> tuple[CallRequested | MessageSeen, ...]:
        """Read the calls in the history that a model's span was given."""
        return self.recognizer.read_history(span.dialect, self.decoder.waited(span))


def given_history(viewed: ViewedSpan, reading: Reading) -> UnreadSpan | None:
    """Return the span of a model that was given answers, and with them a history of calls; `None` for all others."""
    # Asked of every span that is read at once: a loop costs half of what a generator does.
    has_answers = is_model = False
    for seen in reading.observations:
        if type(seen) is CallAnswered:
            has_answers = True
        elif type(seen) is ModelCall:
            is_model = True
    if not has_answers or not is_model:
        return None
    return UnreadSpan(
        ref=reading.ref,
        parent_span_id=reading.parent_span_id or "",
        parent_is_remote=reading.parent_is_remote,
        operation="model_call",
        dialect=reading.dialect or "",
        raw=viewed.raw,
        resource=viewed.resource,
        scope=viewed.scope,
    )
