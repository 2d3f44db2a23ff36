"""The log of toolgauge on stderr: one line per event, as text or JSON.

Exception messages and debug output of libraries may quote prompts and headers. So only our loggers write below the level
of warnings, and of an exception the kind and the places are shown, never its message.
"""

import json
import logging
import queue
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from traceback import extract_tb
from typing import Literal

from toolgauge.config.model import Log
from toolgauge.report.streams import drop_output, echo, has_bar, redraw

_OURS = "toolgauge"
# What every record has; all else was given with the event.
_OF_EVERY_RECORD = frozenset((*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"))
_NAMES = frozenset(("time", "level", "logger", "message", "exception"))
_MAX_PLACES = 20
_BETWEEN_DRAWINGS_S = 0.5


def log_to_stderr(section: Log, handler: logging.Handler) -> None:
    """Set level and form; may be called again when they change. `handler` writes the lines."""
    # A line that cannot be written (a full disk, a reader that is gone) must not cause another one.
    logging.raiseExceptions = False
    handler.setFormatter(_FORMS[section.format]())
    logging.basicConfig(handlers=(handler,), level=logging.WARNING, force=True)
    logging.getLogger(_OURS).setLevel(section.level.upper())


class LogThread(logging.Handler):
    """Writes lines on a thread of its own, as a pipe may block; with `max_lines` waiting, more are `dropped`.

    On a terminal, the text of `counter` is drawn below them.
    """

    def __init__(self, max_lines: int = 1000) -> None:
        super().__init__()
        self._records: queue.Queue[logging.LogRecord | tuple[Callable[[], str], bool] | None] = queue.Queue(max_lines)
        self.counter: Callable[[], str] | None = None
        self._thread = threading.Thread(target=self._run, name="toolgauge-log", daemon=True)
        self._thread.start()
        self.dropped = 0
        self._announced = 0
        self._held: list[logging.LogRecord] | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Have the line written soon, a warning that is held later."""
        if self._held is not None and record.levelno == logging.WARNING and len(self._held) < self._records.maxsize:
            self._held.append(record)
            return
        try:
            self._records.put_nowait(record)
        except queue.Full:
            self.dropped += 1

    def hold_warnings(self) -> None:
        """Keep warnings until `write_held`; errors and all else are written meanwhile."""
        self._held = []

    def write_held(self) -> None:
        """Write the warnings that were held, and hold no more."""
        # `emit` runs under the same lock, in any thread.
        self.acquire()
        try:
            held, self._held = self._held or (), None
        finally:
            self.release()
        for record in held:
            self.handle(record)

    def print_line(self, make: Callable[[], str], *, err: bool = False) -> bool:
        """Have a line of results made and written soon, by default to stdout; False when the queue is full."""
        try:
            self._records.put_nowait((make, err))
        except queue.Full:
            return False
        return True

    def end(self, timeout_s: float = 1.0) -> bool:
        """Write what waits, for as long at most; False when lines are left. Works once."""
        self.write_held()
        try:
            self._records.put(None, timeout=timeout_s)
        except queue.Full:
            return False
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (record := self._next()) is not None:
            if isinstance(record, logging.LogRecord):
                self._write(record)
            else:
                make, err = record
                try:
                    echo(make(), err=err)
                except (OSError, ValueError) as error:
                    # The rest of the buffer would fail once more at the end, and become the exit code.
                    drop_output()
                    self._warn(
                        f"results are printed no more: standard output cannot be written ({type(error).__name__})"
                    )
            if self.dropped > self._announced and self._records.empty():
                dropped, self._announced = self.dropped - self._announced, self.dropped
                self._warn(f"{dropped} lines of this log were dropped: it was written faster than it was read")

    def _next(self) -> logging.LogRecord | tuple[Callable[[], str], bool] | None:
        """Wait for the next line to write; draw the counter meanwhile."""
        while (counter := self.counter) is not None and has_bar():
            try:
                record = self._records.get(timeout=_BETWEEN_DRAWINGS_S)
            except queue.Empty:
                redraw(counter())
            else:
                redraw("")
                return record
        return self._records.get()

    def _warn(self, text: str) -> None:
        self._write(logging.LogRecord(_OURS, logging.WARNING, __file__, 0, text, None, None))

    def _write(self, record: logging.LogRecord) -> None:
        try:
            echo(self.format(record), err=True)
        except (OSError, ValueError):
            # A full disk, or a reader that is gone.
            self.dropped += 1
            self._announced += 1


class TextForm(logging.Formatter):
    """Lines for people; line breaks within a message are indented, so that each event begins at the margin."""

    def format(self, record: logging.LogRecord) -> str:
        """Write one event."""
        line = f"{self.formatTime(record)} {record.levelname} {record.name}: {message_of(record)}"
        exception = _exception(record)
        text = line if exception is None else f"{line} ({exception})"
        # Control characters would reach terminals.
        return "".join(
            letter if letter.isprintable() or letter == "\n" else ascii(letter)[1:-1]
            for letter in "\n  ".join(text.splitlines())
        )


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
        if record.name == _OURS or record.name.startswith(f"{_OURS}."):
            given = vars(record).items()
            event.update({name: value for name, value in given if name not in _OF_EVERY_RECORD and name not in _NAMES})
        return json.dumps(event, default=lambda value: type(value).__name__)


def message_of(record: logging.LogRecord) -> str:
    """Fill in the message; a library's message that cannot be filled in is shown as it was written."""
    try:
        return record.getMessage()
    except (TypeError, ValueError, KeyError):
        return str(record.msg)


def _exception(record: logging.LogRecord) -> str | None:
    if not record.exc_info or record.exc_info[0] is None:
        return None
    kind, _, trace = record.exc_info
    places = [f"{place.filename}:{place.lineno} {place.name}" for place in extract_tb(trace)[-_MAX_PLACES:]]
    return " < ".join((kind.__name__, *reversed(places)))


_FORMS: dict[Literal["text", "json"], type[logging.Formatter]] = {"text": TextForm, "json": JsonForm}
