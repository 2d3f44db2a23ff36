"""Shared parts of commands that score: criteria with notes on standard error, and a progress bar and colours on a terminal."""

import os
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from toolgauge import plugins
from toolgauge.config.model import Config
from toolgauge.model.errors import ConfigError, RecordingError
from toolgauge.recordings.recorded_requests import RecordedRequest, find_files, read
from toolgauge.report.streams import echo, has_bar, has_colour, redraw
from toolgauge.report.terminal import PLAIN, Style, counted, printable
from toolgauge.score.criterion import Criterion
from toolgauge.score.unmatched import UnmatchedCriteria, without_effect
from toolgauge.service.criteria_factory import evaluator_files, load_for_replay

_WIDTH = 30
_BETWEEN_DRAWINGS_S = 0.1


class Reading:
    """The requests of the recordings at these paths. A bar on standard error shows the share read; it counts decompressed bytes."""

    def __init__(self, paths: Sequence[str]) -> None:
        files = find_files(paths)
        self._requests = read(files, self._draw)
        self._total = sum(Path(file).stat().st_size for file in files if file != "-") if has_bar() else None
        self._done = 0
        self._drawn_s = 0.0

    def __iter__(self) -> Iterator[RecordedRequest]:
        return self._requests

    def _draw(self, size: int) -> None:
        """Count so many bytes more, and draw if the last drawing is a while ago."""
        self._done += size
        now_s = time.monotonic()
        if self._total is None or now_s - self._drawn_s < _BETWEEN_DRAWINGS_S:
            return
        self._drawn_s = now_s
        text = f"{self._done / 1e6:.1f} MB"
        if self._done <= self._total:  # else standard input, or files that are compressed
            share = self._done / self._total
            text = f"[{'#' * int(share * _WIDTH):<{_WIDTH}}]  {share:.0%}"
        redraw(f"reading  {text}")

    def echo(self, line: str = "", *, err: bool = False) -> None:
        """Print a line, without the bar."""
        redraw("")
        echo(line, err=err)


@contextmanager
def reading_progress(paths: Sequence[str]) -> Generator[Reading]:
    """Open the recordings at these paths, with a progress bar when stderr is a terminal."""
    try:
        yield Reading(paths)
    finally:
        redraw("")


@contextmanager
def mcp_extra(name: str) -> Generator[None]:
    """Import modules of the extra `mcp`; raise `ConfigError` that `name` needs it where it is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "toolgauge").partition(".")[0] == "toolgauge":
            raise
        message = f"`{name}` needs the extra `toolgauge[mcp]`, which is not installed"
        raise ConfigError(message, hint=plugins.install_hint("mcp")) from error


def write_text(path: Path, text: str) -> None:
    """Write a file; raise `RecordingError` where that fails."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RecordingError(f"cannot write `{path}`: {error.strerror}") from error


def terminal_style(*, err: bool = False) -> Style:
    """Return colours where the stream has them."""
    return Style(colour=True) if has_colour(err=err) else PLAIN


def load_to_score(
    config_paths: Sequence[str], overrides: Sequence[str], criteria_files: Sequence[str]
) -> tuple[Config, tuple[Criterion, ...]]:
    """Load configuration and criteria to score recordings with, and name the files of evaluators, as they are code that runs."""
    config, criteria = load_for_replay(config_paths, overrides, criteria_files, os.environ)
    print_notes(criteria)
    return config, criteria


def judged_nothing(judged: int, total: int, noun: str) -> list[str]:
    """Explain why the command fails where none of the runs or cases was judged."""
    return [] if judged or not total else [f"judged 0 of {counted(total, noun)}: exit code 1, unless `--allow-nothing`"]


def print_notes(criteria: Sequence[Criterion]) -> None:
    """Name the Python files whose code runs as evaluators, and parts of criteria without effect, on standard error."""
    for file in evaluator_files(criteria):
        echo(f"running the evaluators in `{printable(file)}`", err=True)
    for text in without_effect(criteria):
        echo(f"warning: {printable(text)}", err=True)


def warn_of_unmatched(unmatched: UnmatchedCriteria) -> None:
    """Name the criteria that matched nothing."""
    for one in unmatched.so_far():
        echo(f"warning: criterion `{one.criterion.name}` {one.description}: look at {one.keys}", err=True)
