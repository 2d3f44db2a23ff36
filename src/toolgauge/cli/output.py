"""What commands share when they read recordings: a progress bar and colours on a terminal, neither in a pipe."""

import os
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from toolgauge.offline.replay.recordings import RecordedRequest, find_files, read
from toolgauge.offline.terminal import PLAIN, Style


@contextmanager
def reading_progress(paths: Sequence[str]) -> Generator[Iterator[RecordedRequest]]:
    """Open the recordings at these paths, with a progress bar when stderr is a terminal."""
    files = find_files(paths)
    if not sys.stderr.isatty():
        yield read(files, _no_progress)
        return
    total = sum(Path(file).stat().st_size for file in files if file != "-")
    with click.progressbar(length=total, label="reading", file=sys.stderr) as bar:
        yield read(files, bar.update)


def terminal_style() -> Style:
    """Return colours where stdout is a terminal that has them, unless `NO_COLOR` is set."""
    wanted = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Style(colour=True) if wanted else PLAIN


def _no_progress(size: int) -> None:
    del size
