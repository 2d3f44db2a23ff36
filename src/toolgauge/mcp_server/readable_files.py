"""The files that a client may read: recordings named at the start, and recordings in directories named there.

A model may have written a path. It is resolved first, links included; outside, it is refused unopened, found or not.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from toolgauge.model.errors import ConfigError, RecordingError
from toolgauge.recordings.recorded_requests import STDIN, is_recording
from toolgauge.report.html import iso_moment
from toolgauge.report.terminal import shortened
from toolgauge.settings import SECOND

_MAX_LOOKED_AT = 20_000
_MAX_LISTED = 200
_MAX_NAMED = 10
_PATH_LENGTH = 200
_SKIPPED = frozenset({"node_modules", "__pycache__"})


class FoundRecording(NamedTuple):
    """One file. `recording` is the name that questions take; `modified` is in ISO 8601 (UTC)."""

    recording: str
    bytes: int
    modified: str


class ReadableFiles:
    """Knows which files may be read. `given` are files and directories; without any it is the current directory."""

    def __init__(self, given: Sequence[str]) -> None:
        if STDIN in given:
            raise ConfigError("`-`: standard input has the questions", hint="name a file or a directory")
        missing = next((path for path in given if not Path(path).exists()), None)
        if missing is not None:
            raise RecordingError(f"no such file: `{missing}`")
        self._given = tuple(given)
        self._roots = tuple(Path(path).resolve() for path in given or (".",))
        self._base = Path.cwd()

    def files_of(self, recording: str) -> tuple[str, ...]:
        """Return the files of a recording, or of all given at the start; raise `RecordingError` for an unreadable path."""
        if not recording and not self._given:
            raise RecordingError("no recording is named", hint=self._hint())
        places = self._roots if not recording else (self._inside(recording),)
        for place in places:
            # Raise `RecordingError` for a directory with more files than are looked at: some of it would be missing.
            if place.is_dir() and next(islice(_walk(place), _MAX_LOOKED_AT, None), None) is not None:
                raise RecordingError(
                    f"there are more than {_MAX_LOOKED_AT:,} files in `{shortened(place.name, _PATH_LENGTH)}`",
                    hint="name a directory in it, or a file",
                )
        files = tuple(str(file) for place in places for file in self._expanded(place))
        if not files:
            raise RecordingError(f"no recording in {self._shown(recording)}", hint=self._hint())
        return files

    def path_of(self, text: str) -> Path:
        """Return the path of one file that may be read; raise `RecordingError` as `files_of` does."""
        path = self._inside(text)
        if not self._is_readable(path):
            raise RecordingError(f"`{shortened(text, _PATH_LENGTH)}` is no file")
        return path

    def name_of(self, recording: str) -> str:
        """Name a recording for an answer."""
        return ", ".join(self._given[:_MAX_NAMED]) if not recording else shortened(recording, _PATH_LENGTH)

    def newest(self) -> tuple[list[FoundRecording], int]:
        """Return the recordings that may be asked for, the newest first, and how many more there are."""
        found = [
            (file.stat(), str(Path(given) / file.relative_to(root) if root.is_dir() else Path(given)))
            for given, root in zip(self._given or ("",), self._roots, strict=True)
            for file in self._expanded(root)
        ]
        found.sort(key=lambda each: each[0].st_mtime_ns, reverse=True)
        shown = [
            FoundRecording(recording=name, bytes=state.st_size, modified=iso_moment(int(state.st_mtime) * SECOND))
            for state, name in found[:_MAX_LISTED]
        ]
        return shown, max(0, len(found) - _MAX_LISTED)

    def _expanded(self, place: Path) -> Iterator[Path]:
        """Yield a file, or the recordings in a directory, as far as they may be read."""
        if place.is_dir():
            names = sorted(islice(_walk(place), _MAX_LOOKED_AT))
            yield from (file for file in names if self._is_readable(file) and is_recording(file))
        elif self._is_readable(place):
            yield place

    def _inside(self, text: str) -> Path:
        """Resolve a path, as seen from here or from a directory that was given; raise `RecordingError` for one outside."""
        shown = shortened(text, _PATH_LENGTH)
        try:
            places = [(base / text).resolve() for base in (self._base, *self._roots)]
            inside = [place for place in places if self._is_inside(place)]
            found = next((place for place in inside if place.exists()), None)
        except (OSError, RuntimeError, ValueError) as error:  # too long, a circle of links, a NUL
            raise RecordingError(f"`{shown}` is no path") from error
        if found is not None:
            return found
        # The answer for a path outside does not tell whether it exists.
        if self._is_inside(places[0]):
            raise RecordingError(f"no such file: `{shown}`", hint=self._hint(text))
        raise RecordingError(
            f"`{shown}` is outside of what may be read here",
            hint=f"that is {self._shown('')}; the person who runs this server can add to it: `toolgauge mcp PATH...`",
        )

    def _is_inside(self, path: Path) -> bool:
        return any(path.is_relative_to(root) for root in self._roots)

    def _is_readable(self, file: Path) -> bool:
        """Return whether a path is a file, neither device nor pipe, and inside, wherever links lead."""
        try:
            path = file.resolve(strict=True)
            is_file = stat.S_ISREG(path.stat().st_mode)
        except (OSError, RuntimeError):
            return False
        return is_file and self._is_inside(path)

    def _shown(self, recording: str) -> str:
        if recording:
            return f"`{shortened(recording, _PATH_LENGTH)}`"
        return ", ".join(f"`{path}`" for path in self._given[:_MAX_NAMED]) or "the current directory"

    def _hint(self, wanted: str = "") -> str:
        found, more = self.newest()
        names = [each.recording for each in found]
        near = get_close_matches(wanted, names, n=3) or names[:_MAX_NAMED]
        if not near:
            return "there is no recording in what may be read; `toolgauge record -o run.otlp` makes one"
        others = len(names) + more - len(near)
        return f"there is {', '.join(f'`{name}`' for name in near)}{f' and {others} more' if others else ''}"


def _walk(root: Path) -> Iterator[Path]:
    """Yield files, except in hidden directories and directories of packages."""
    for place, directories, names in os.walk(root):
        directories[:] = [name for name in directories if not name.startswith(".") and name not in _SKIPPED]
        yield from (Path(place, name) for name in names)
