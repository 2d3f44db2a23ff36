"""Reads spans that waited as bytes: the decoder views them again, the recognizer has their dialect read them."""

from toolgauge.model.observations import Reading, UnreadSpan
from toolgauge.otlp.decoder import Decoder
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
