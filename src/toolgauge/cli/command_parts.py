"""The parts that commands share: criteria with notes on standard error, recordings with a progress bar, colours, files."""

import os
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import click
import msgspec

from toolgauge.config.model import Config
from toolgauge.model.errors import RecordingError
from toolgauge.net.admin_client import ask, check_url, not_toolgauge, read_token
from toolgauge.recordings.recorded_requests import RecordedRequest, find_files, read
from toolgauge.report.streams import echo, has_bar, has_colour, redraw
from toolgauge.report.terminal import PLAIN, Style, printable
from toolgauge.score.criterion import Criterion
from toolgauge.score.unmatched import UnmatchedCriteria, without_effect
from toolgauge.service.criteria_factory import evaluator_files, load_for_replay

_WIDTH = 30
_BETWEEN_DRAWINGS_S = 0.1


class Bar:
    """How much of `total_bytes` is read, on standard error; without a total, nothing."""

    def __init__(self, label: str, total_bytes: int | None) -> None:
        self._label = label
        self._total = total_bytes
        self._done = 0
        self._drawn_s = 0.0

    def add(self, size: int) -> None:
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
        redraw(f"{self._label}  {text}")


class Reading:
    """The requests of recordings, with a bar where `total_bytes` is given; it counts decompressed bytes."""

    def __init__(self, files: Sequence[str], total_bytes: int | None) -> None:
        self._requests = read(files, Bar("reading", total_bytes).add)

    def __iter__(self) -> Iterator[RecordedRequest]:
        return self._requests

    def echo(self, line: str = "", *, err: bool = False) -> None:
        """Print a line, without the bar."""
        redraw("")
        echo(line, err=err)


@contextmanager
def reading_progress(paths: Sequence[str]) -> Generator[Reading]:
    """Open the recordings at these paths, with a progress bar when stderr is a terminal."""
    files = find_files(paths)
    total = sum(Path(file).stat().st_size for file in files if file != "-") if has_bar() else None
    reading = Reading(files, total)
    try:
        yield reading
    finally:
        redraw("")


def write_text(path: Path, text: str) -> None:
    """Write a file; raise `RecordingError` where that fails."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RecordingError(f"cannot write `{path}`: {error.strerror}") from error


def terminal_style(*, err: bool = False) -> Style:
    """Return colours where the stream has them."""
    return Style(colour=True) if has_colour(err=err) else PLAIN


_F = TypeVar("_F", bound=Callable[..., object])
_T = TypeVar("_T")
_MAX_ANSWER_BYTES = 64 << 20


def load_to_score(
    config_paths: Sequence[str], overrides: Sequence[str], criteria_files: Sequence[str]
) -> tuple[Config, tuple[Criterion, ...]]:
    """Load configuration and criteria to score recordings with, and name the files of evaluators, as they are code that runs."""
    config, criteria = load_for_replay(config_paths, overrides, criteria_files, os.environ)
    print_notes(criteria)
    return config, criteria


def allow_nothing_option(function: _F) -> _F:
    """Add `--allow-nothing`, which arrives as `allow_nothing`."""
    return click.option(
        "--allow-nothing", is_flag=True, help="Do not end with exit code 1 because nothing could be judged."
    )(function)


def judged_nothing(judged: int, total: int, noun: str, *, allow_nothing: bool) -> bool:
    """Return whether the command fails because none of the runs or cases was judged, and print that."""
    if judged or not total or allow_nothing:
        return False
    echo(f"judged 0 of {total} {noun}{'' if total == 1 else 's'}: exit code 1, unless `--allow-nothing`", err=True)
    return True


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


def fetched(url: str, path: str, token_file: Path | None, answer: type[_T]) -> _T:
    """Ask the running process at the URL of `--live`; raise `ToolgaugeError` when it does not answer."""
    check_url(url, "--live")
    at = url.rstrip("/").removesuffix(path)
    body = ask(at, path, token=None if token_file is None else read_token(token_file), max_bytes=_MAX_ANSWER_BYTES)
    try:
        return msgspec.json.decode(body, type=answer)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise not_toolgauge(at) from error
