"""Files of offline cases, or standard input: lines out, whatever they are compressed with."""

import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from toolgauge.model.errors import RecordingError
from toolgauge.offline.cases.case import Line
from toolgauge.offline.compressed import STDIN, UNREADABLE, decompressed, opened


def lines(files: Sequence[str]) -> Iterator[Line]:
    """Yield the lines of all files that hold something; `-` is standard input.

    Raise `RecordingError` for a file that cannot be read, or not to its end.
    """
    for file in files:
        shown = "standard input" if file == STDIN else file
        try:
            with opened(file) as source, decompressed(source) as stream:
                yield from _lines(shown, source, stream)
        except UNREADABLE as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise RecordingError(f"cannot read `{shown}`: {reason}") from error


def check_files(files: Sequence[str]) -> None:
    """Raise `RecordingError` for the first path that is no file, before anything is scored."""
    for file in files:
        if file != STDIN and not Path(file).is_file() and not Path(file).is_fifo():
            problem = "this is a directory" if Path(file).is_dir() else "no such file"
            raise RecordingError(f"{problem}: `{file}`", hint="cases are read from files, one JSON object a line")


def _lines(file: str, source: io.BufferedReader, stream: Iterable[bytes]) -> Iterator[Line]:
    before = 0
    for number, content in enumerate(stream, 1):
        if content.strip():
            # Of a compressed file less is read than comes out.
            after = source.tell() if source.seekable() else before
            yield Line(place=f"{file}:{number}", content=content, read=after - before)
            before = after
