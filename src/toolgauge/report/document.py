"""Trajectories as one HTML file that stands alone: no network, styles and script within, and a policy that allows no others.

It is written trajectory by trajectory, so that it may be larger than what fits into memory; how many it holds is bounded, as
browsers have to open it. A file travels: what its values show is up to the redactor.
"""

import base64
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import BinaryIO

from toolgauge.export.redact import Redactor
from toolgauge.export.regression_events import trace_links
from toolgauge.model.errors import ToolgaugeError
from toolgauge.model.outcomes import OutcomeWord, Scorecard
from toolgauge.model.records import VERSION
from toolgauge.report.html import Templates, static_file, visible
from toolgauge.report.kept import KeptTrajectory, trajectory_id
from toolgauge.report.trajectory_rows import row_of
from toolgauge.report.trajectory_view import TrajectoryWriter, head

# Of those that failed, and of all others.
_MAX_TRAJECTORIES = 1_000
_MAX_BYTES = 128 * 1024 * 1024
_CALLS = 200
_MAX_NAMES, _MAX_NAME = 100, 200
_BEGINNING = b"<!doctype html>"
# The order of the entries, and how they are counted above them.
_WORST_FIRST: Mapping[OutcomeWord, str] = {
    "fail": "failed",
    "error": "with an error of the evaluation",
    "not_evaluated": "not evaluated",
    "pass": "passed",
}


class TrajectoryDocument:
    """One file, from `open` to `close`; it is in its place when it is complete. `left_out` counts what it has no room for."""

    def __init__(
        self,
        path: str,
        redactor: Redactor,
        pass_at: Mapping[str, float],
        trace_url: str | None,
        *,
        max_trajectories: int = _MAX_TRAJECTORIES,
    ) -> None:
        """`pass_at` is as in `VerdictWriter`; `max_trajectories` of those that failed, and of all others, have room."""
        self._path = Path(path)
        self._part = self._path.with_name(f".{self._path.name}.part")
        self._redactor = redactor
        self._trace_url = trace_url
        self._writer = TrajectoryWriter(redactor, pass_at)
        self._pages = Templates()
        self._title = ""
        self._files = ExitStack()
        self._stream: BinaryIO | None = None
        # The file begins with failures, which come at any time: each outcome has its entries until the end.
        self._entries: dict[OutcomeWord, BinaryIO] = {}
        self._counts = Counter[OutcomeWord]()
        self._size_bytes = 0
        self._failed = self._others = 0
        self._max_trajectories = max_trajectories
        self.left_out = 0

    def open(self, title: str) -> None:
        """Begin the file. Raise `ToolgaugeError` where that cannot be; a page that is there stays until `close`."""
        self._check_place()
        self._title = title
        try:
            self._stream = self._files.enter_context(self._part.open("wb"))
            for word in _WORST_FIRST:
                entries = TemporaryFile(dir=self._path.parent)  # noqa: SIM115 (the stack closes it)
                self._entries[word] = self._files.enter_context(entries)
        except OSError as error:
            raise self._error(error) from error

    def add(self, scorecard: Scorecard) -> None:
        """Write one trajectory with its results, as long as there is room."""
        trajectory = scorecard.trajectory
        if not scorecard.results and not trajectory.calls:
            return
        kept = KeptTrajectory(
            id=trajectory_id(trajectory),
            number=self._failed + self._others + 1,
            trajectory=trajectory,
            results=scorecard.results,
            scored_at_ns=scorecard.scored_at_ns,
            size_bytes=0,
        )
        if (
            self._failed if kept.is_failed else self._others
        ) >= self._max_trajectories or self._size_bytes > _MAX_BYTES:
            self.left_out += 1
            return
        if kept.is_failed:
            self._failed += 1
        else:
            self._others += 1
        self._counts[kept.outcome] += 1
        self._size_bytes += self._write(self._entries[kept.outcome], self._entry(kept).encode())

    def close(self) -> None:
        """Complete the file and put it into its place."""
        if self._stream is None:
            return
        end = self._pages.fragment(
            "document_end.html",
            total=self._failed + self._others,
            failed=self._failed,
            left_out=self.left_out,
            room=self._max_trajectories,
        )
        self._write(self._stream, self._head())
        try:
            for entries in self._entries.values():
                entries.seek(0)
                copyfileobj(entries, self._stream)
            self._stream.write(end.encode())
            self._files.close()
            self._part.replace(self._path)
        except OSError as error:
            raise self._error(error) from error

    def discard(self) -> None:
        """Remove what was written, where it is not complete."""
        self._files.close()
        self._part.unlink(missing_ok=True)

    def _head(self) -> bytes:
        style, script = static_file("toolgauge.css"), static_file("toolgauge.js")
        policy = f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; base-uri 'none'; form-action 'none'"
        counts = [(self._counts[word], text) for word, text in _WORST_FIRST.items() if self._counts[word]]
        shown = self._pages.fragment("document_head.html", title=self._title, policy=policy, counts=counts)
        before, after = shown.split("<!-- style and script -->")
        return before.encode() + b"<style>" + style + b"</style>\n<script>" + script + b"</script>" + after.encode()

    def _entry(self, kept: KeptTrajectory) -> str:
        trajectory = kept.trajectory
        names = {
            "service": [trajectory.service or ""],
            "version": [trajectory.resource.get(VERSION, "")],
            "agent": trajectory.agents,
            "tool": [call.name for call in trajectory.calls],
            "criterion": [result.criterion for result in kept.results],
        }
        return self._pages.fragment(
            "document_entry.html",
            kept=kept,
            # A conversation can be there twice.
            id=f"{kept.id}-{kept.number}",
            row=row_of(kept, self._redactor),
            names={name: _lines(values) for name, values in names.items()},
            shown=self._writer.shown(trajectory, kept.results, per_page=_CALLS),
            links=trace_links((trajectory.trace_id,), self._trace_url),
            **head(trajectory),
        )

    def _check_place(self) -> None:
        try:
            with self._path.open("rb") as there:
                if there.read(len(_BEGINNING)).lower() not in (b"", _BEGINNING):
                    raise ToolgaugeError(f"cannot write `{self._path}`: it exists, and is no HTML")
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._error(error) from error

    def _write(self, stream: BinaryIO, content: bytes) -> int:
        try:
            return stream.write(content)
        except OSError as error:
            raise self._error(error) from error

    def _error(self, error: OSError) -> ToolgaugeError:
        return ToolgaugeError(f"cannot write `{self._path}`: {error.strerror or error}")


def _hash(content: bytes) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(content).digest()).decode()}"


def _lines(names: Iterable[str]) -> str:
    """Write names one a line, for the filters; those that are too long to choose are left out."""
    distinct = dict.fromkeys(visible(name.replace("\n", " ")) for name in names if name and len(name) <= _MAX_NAME)
    return "\n".join(islice(distinct, _MAX_NAMES))
