"""Our own log on stderr: one line an event, as text or as JSON objects.

What a line says is ours; what libraries attach to it is not: messages of exceptions may quote what came in a span, and
debug output of clients holds headers and prompts. So only our own loggers speak at the level that was asked for, others
from warnings up, and of an exception the kind and the places are shown, never its message.
"""

import json
import logging
import sys
from datetime import UTC, datetime
from traceback import extract_tb
from typing import Literal

from toolgauge.config.model import Log

_OURS = "toolgauge"
_TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
# What every record has; all else was given with the event.
_OF_EVERY_RECORD = frozenset((*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"))
_NAMES = frozenset(("time", "level", "logger", "message", "exception"))
_MAX_PLACES = 20


def log_to_stderr(section: Log) -> None:
    """Set level and form; may be called again when they change."""
    # A line that cannot be written (a full disk, a reader that is gone) is no reason to write another one.
    logging.raiseExceptions = False
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_FORMS[section.format]())
    root = logging.getLogger()
    for old in tuple(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger(_OURS).setLevel(section.level.upper())


class TextForm(logging.Formatter):
    """Lines for people; line breaks within a message are indented, so that each event begins at the margin."""

    def __init__(self) -> None:
        super().__init__(_TEXT)

    def format(self, record: logging.LogRecord) -> str:
        """Write one event."""
        line = f"{self.formatTime(record)} {record.levelname} {record.name}: {message_of(record)}"
        exception = _exception(record)
        text = line if exception is None else f"{line} ({exception})"
        return _printable("\n  ".join(text.splitlines()))


class JsonForm(logging.Formatter):
    """One JSON object a line: `time`, `level`, `logger`, `message`, and what else is known of the event."""

    def format(self, record: logging.LogRecord) -> str:
        """Write one event."""
        when = datetime.fromtimestamp(record.created, UTC)
        event: dict[str, object] = {
            "time": when.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": message_of(record),
        }
        exception = _exception(record)
        if exception is not None:
            event["exception"] = exception
        event.update(_given(record))
        return json.dumps(event, default=_kind)


def message_of(record: logging.LogRecord) -> str:
    """Fill in the message; a library's message that cannot be filled in is shown as it was written."""
    try:
        return record.getMessage()
    except (TypeError, ValueError, KeyError):
        return str(record.msg)


def _given(record: logging.LogRecord) -> dict[str, object]:
    if not _is_ours(record):
        return {}
    return {name: value for name, value in vars(record).items() if name not in _OF_EVERY_RECORD and name not in _NAMES}


def _is_ours(record: logging.LogRecord) -> bool:
    return record.name == _OURS or record.name.startswith(f"{_OURS}.")


def _exception(record: logging.LogRecord) -> str | None:
    if not record.exc_info or record.exc_info[0] is None:
        return None
    kind, _, trace = record.exc_info
    places = [f"{place.filename}:{place.lineno} {place.name}" for place in extract_tb(trace)[-_MAX_PLACES:]]
    return " < ".join((kind.__name__, *reversed(places)))


def _kind(value: object) -> str:
    return type(value).__name__


def _printable(text: str) -> str:
    """Keep control characters out of terminals."""
    return "".join(letter if letter.isprintable() or letter == "\n" else ascii(letter)[1:-1] for letter in text)


_FORMS: dict[Literal["text", "json"], type[logging.Formatter]] = {"text": TextForm, "json": JsonForm}
