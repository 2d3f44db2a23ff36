"""Trajectories as one HTML file that needs no network: styles and script within, and a policy that allows no others.

It is written trajectory by trajectory, so it may be larger than memory; the number of trajectories is bounded for browsers.
"""

import base64
import hashlib
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
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
from toolgauge.report.explanations import FAILED, live_outcome
from toolgauge.report.html import Templates, static_file, visible
from toolgauge.report.run_failures import FailureGroups
from toolgauge.report.trajectory_rows import row, trajectory_id
from toolgauge.report.trajectory_view import TrajectoryWriter, head

# The most that failed, and the most others.
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
    """One file, from `open` to `close`; a complete one replaces an earlier file. `left_out` counts trajectories without room."""

    def __init__(
        self,
        path: str,
        redactor: Redactor,
        pass_at: Mapping[str, float],
        trace_url: str | None,
        *,
        max_trajectories: int = _MAX_TRAJECTORIES,
    ) -> None:
        """`pass_at` is as in `shown_verdict`; there is room for `max_trajectories` failed ones and as many others."""
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
        self._groups = FailureGroups(redactor)
        self._size_bytes = 0
        self._max_trajectories = max_trajectories
        self.left_out = 0

    def open(self, title: str) -> None:
        """Begin the file. Raise `ToolgaugeError` where that fails; an earlier page stays until `close`."""
        with self._written():
            if self._path.exists():
                with self._path.open("rb") as there:
                    if there.read(len(_BEGINNING)).lower() not in (b"", _BEGINNING):
                        raise ToolgaugeError(f"cannot write `{self._path}`: it exists, and is no HTML")
            self._title = title
            self._stream = self._files.enter_context(self._part.open("wb"))
            for word in _WORST_FIRST:
                entries = TemporaryFile(dir=self._path.parent)  # noqa: SIM115 (the stack closes it)
                self._entries[word] = self._files.enter_context(entries)

    def add(self, scorecard: Scorecard) -> None:
        """Write one trajectory with its results, as long as there is room."""
        trajectory = scorecard.trajectory
        if not scorecard.results and not trajectory.calls:
            return
        total, outcome = self._counts.total(), live_outcome(scorecard.results)
        alike = self._failed if outcome in FAILED else total - self._failed
        if alike >= self._max_trajectories or self._size_bytes > _MAX_BYTES:
            self._groups.add(scorecard, "")
            self.left_out += 1
            return
        # A conversation can occur twice.
        place = f"{trajectory_id(trajectory)}-{total + 1}"
        self._groups.add(scorecard, place)
        self._counts[outcome] += 1
        with self._written():
            self._size_bytes += self._entries[outcome].write(self._entry(scorecard, place).encode())

    def close(self) -> None:
        """Complete the file and put it into its place."""
        if self._stream is None:
            return
        end = self._pages.fragment(
            "document_end.html",
            total=self._counts.total(),
            failed=self._failed,
            left_out=self.left_out,
            room=self._max_trajectories,
        )
        with self._written():
            self._stream.write(self._head())
            for entries in self._entries.values():
                entries.seek(0)
                copyfileobj(entries, self._stream)
            self._stream.write(end.encode())
            self._files.close()
            self._part.replace(self._path)

    def discard(self) -> None:
        """Remove an incomplete file."""
        self._files.close()
        self._part.unlink(missing_ok=True)

    def _head(self) -> bytes:
        style, script = static_file("toolgauge.css"), static_file("toolgauge.js")
        hashes = [f"'sha256-{base64.b64encode(hashlib.sha256(each).digest()).decode()}'" for each in (style, script)]
        policy = (
            f"default-src 'none'; style-src {hashes[0]}; script-src {hashes[1]}; base-uri 'none'; form-action 'none'"
        )
        counts = [(self._counts[word], text) for word, text in _WORST_FIRST.items() if self._counts[word]]
        shown = self._pages.fragment(
            "document_head.html", title=self._title, policy=policy, counts=counts, groups=self._groups.groups()
        )
        before, after = shown.split("<!-- style and script -->")
        return before.encode() + b"<style>" + style + b"</style>\n<script>" + script + b"</script>" + after.encode()

    def _entry(self, scorecard: Scorecard, place: str) -> str:
        trajectory = scorecard.trajectory
        names = {
            "service": [trajectory.service or ""],
            "version": [trajectory.resource.get(VERSION, "")],
            "agent": trajectory.agents,
            "tool": [call.name for call in trajectory.calls],
            "criterion": [result.criterion for result in scorecard.results],
        }
        return self._pages.fragment(
            "document_entry.html",
            id=place,
            scored_at_ns=scorecard.scored_at_ns,
            row=row(scorecard, self._redactor),
            names={
                # One a line, for the filters, without names too long to choose.
                name: "\n".join(
                    islice(
                        dict.fromkeys(
                            visible(one.replace("\n", " ")) for one in values if one and len(one) <= _MAX_NAME
                        ),
                        _MAX_NAMES,
                    )
                )
                for name, values in names.items()
            },
            shown=self._writer.shown(trajectory, scorecard.results, per_page=_CALLS),
            links=trace_links((trajectory.trace_id,), self._trace_url),
            **head(trajectory),
        )

    @property
    def _failed(self) -> int:
        return self._counts["fail"] + self._counts["error"]

    @contextmanager
    def _written(self) -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise ToolgaugeError(f"cannot write `{self._path}`: {error.strerror or error}") from error
