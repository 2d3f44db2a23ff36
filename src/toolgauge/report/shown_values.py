"""Values of spans as lines for a person: secrets are masked, control characters shown, and length and depth bounded."""

from itertools import islice

from toolgauge.export.json_text import MASKED
from toolgauge.export.redact import Redactor
from toolgauge.model.content import Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.json import Json
from toolgauge.report.terminal import shortened, shortened_error

_VALUE_LENGTH = 80
_LINE_LENGTH = 240


class ValueWriter:
    """Writes what calls were given and returned."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    def arguments(self, content: Content) -> str:
        """Write arguments as `name=value, ...`."""
        match content:
            case Recorded(value=dict() as value):
                # Enough entries to fill a line; the rest would be cut off anyhow.
                shown = (
                    f"{key[:_LINE_LENGTH]}={self._member(key, member)}"
                    for key, member in islice(value.items(), _LINE_LENGTH)
                )
                return shortened(", ".join(shown), _LINE_LENGTH)
            case Recorded() | Unparsed():
                return self.content(content)
            case NotRecorded():
                return "?"

    def content(self, content: Content) -> str:
        """Write a value of any kind."""
        match content:
            case Recorded(value=value):
                return self._json(value, _LINE_LENGTH)
            case Unparsed(text=text):
                return self.text(text, _LINE_LENGTH)
            case NotRecorded():
                return "?"

    def text(self, text: str, length: int) -> str:
        """Write a text."""
        return shortened(self._redactor.masked(text), length)

    def error(self, text: str, length: int) -> str:
        """Write the text of an error; its cause stays."""
        return shortened_error(self._redactor.error(text, length), length)

    def _member(self, key: str, value: Json) -> str:
        return MASKED if self._redactor.is_private(key) else self._json(value, _VALUE_LENGTH)

    def _json(self, value: Json, room: int) -> str:
        return shortened(self._redactor.json(value, room), room)
