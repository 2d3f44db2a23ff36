"""What commands share when they read recordings: a progress bar on stderr, and nothing of it in a pipe."""

import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from toolgauge.replay.recordings import RecordedRequest, find_files, read


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


def _no_progress(size: int) -> None:
    del size
