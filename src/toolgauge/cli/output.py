"""Shared output of commands that read recordings: a progress bar and colours on a terminal, neither in a pipe."""

import os
import sys
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import click

from toolgauge.model.errors import RecordingError
from toolgauge.recordings.recorded_requests import RecordedRequest, find_files, read
from toolgauge.report.terminal import PLAIN, Style

_WIDTH = 30
_BETWEEN_DRAWINGS_S = 0.1


class Reading:
    """The requests of recordings, with a bar on standard error where `total_bytes` is given; it counts decompressed bytes."""

    def __init__(self, files: Sequence[str], total_bytes: int | None) -> None:
        self._requests = read(files, self._add)
        self._total = total_bytes
        self._done = 0
        self._drawn = ""
        self._drawn_s = 0.0

    def __iter__(self) -> Iterator[RecordedRequest]:
        return self._requests

    def echo(self, line: str = "", *, err: bool = False) -> None:
        """Print a line, without the bar."""
        self.clear()
        click.echo(line, err=err)

    def clear(self) -> None:
        """Take the bar off the screen until it is drawn again."""
        if self._drawn:
            click.echo(f"\r{' ' * len(self._drawn)}\r", nl=False, err=True)
            self._drawn = ""

    def _add(self, size: int) -> None:
        """Count so many bytes more, and draw if the last drawing is a while ago."""
        self._done += size
        now_s = time.monotonic()
        if self._total is None or now_s - self._drawn_s < _BETWEEN_DRAWINGS_S:
            return
        self.clear()
        self._drawn_s = now_s
        self._drawn = f"reading  {self._done / 1e6:.1f} MB"
        if self._done <= self._total:  # else standard input, or files that are compressed
            share = self._done / self._total
            self._drawn = f"reading  [{'#' * int(share * _WIDTH):<{_WIDTH}}]  {share:.0%}"
        click.echo(self._drawn, nl=False, err=True)


@contextmanager
def reading_progress(paths: Sequence[str]) -> Generator[Reading]:
    """Open the recordings at these paths, with a progress bar when stderr is a terminal."""
    files = find_files(paths)
    total = sum(Path(file).stat().st_size for file in files if file != "-") if sys.stderr.isatty() else None
    reading = Reading(files, total)
    try:
        yield reading
    finally:
        reading.clear()


def write_text(path: Path, text: str) -> None:
    """Write a file; raise `RecordingError` where that fails."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RecordingError(f"cannot write `{path}`: {error.strerror}") from error


def terminal_style(stream: TextIO | None = None) -> Style:
    """Return colours where the stream (stdout) is a terminal that has them, unless `NO_COLOR` is set."""
    is_terminal = (stream or sys.stdout).isatty()
    wanted = is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Style(colour=True) if wanted else PLAIN
