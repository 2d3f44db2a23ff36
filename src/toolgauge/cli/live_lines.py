"""Prints results on a terminal as they arrive: one line per trajectory, and a summary at the end.

The thread that writes the log makes the lines, of at most 20 trajectories a second. Text from spans is cut and escaped.
"""

import shutil
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal, TypeAlias

from toolgauge.assemble.settings import AssembleSettings
from toolgauge.export.redact import Redactor
from toolgauge.model.outcomes import OutcomeWord, Scorecard
from toolgauge.model.trajectory import Trajectory
from toolgauge.report.findings import CriterionCounts, table_lines
from toolgauge.report.streams import is_terminal
from toolgauge.report.terminal import (
    TRACE_DIGITS,
    Style,
    counted,
    outcome_styled,
    printable,
    shortened,
    shortened_error,
)
from toolgauge.report.trajectory_rows import TrajectoryRow, row
from toolgauge.score.failing_calls import ResultCounts
from toolgauge.settings import duration_text

Printed: TypeAlias = Literal["failed", "all", "off"]
# Has a line written soon, by another thread, which makes its text; False where there is no room.
Write: TypeAlias = Callable[[Callable[[], str]], bool]

LINES_PER_SECOND = 20
# A sender that makes up names fills no memory.
_MAX_SERVICES = 1000
_MAX_NAME, _MAX_WHY = 40, 300
_MAX_CRITERIA = 20
_LEAST_ROOM = 60
# Of one width, so that failures stand below each other.
_WORDS: dict[OutcomeWord, str] = {"pass": "pass ", "fail": "FAIL ", "error": "ERROR", "not_evaluated": "  -  "}


class LiveLines:
    """Shows scorecards. `show` and `count` belong to the worker; `tick` (once a second), `adopt` and `summary` to another thread.

    Each number is written by one of the two only.
    """

    def __init__(
        self,
        printed: Literal["failed", "all"],
        redactor: Redactor,
        write: Write,
        style: Style,
        *,
        width: Callable[[], int],
    ) -> None:
        self._shows_all = printed == "all"
        self._redactor = redactor
        self._write = write
        self._style = style
        self._width = width
        # The least score that passes, by the criterion's revision, as far as known.
        self._pass_at: Mapping[str, float] = {}
        # The address of a trajectory's page; to be set before the first scorecard.
        self.page_url: Callable[[Trajectory], str] = lambda _trajectory: ""
        self._tally = ResultCounts()
        # The worker's.
        self._services: set[str] = set()
        self._dialects: set[str] = set()
        self._written = 0
        self._hidden = self._hidden_failed = 0
        # The other thread's.
        self._written_before = 0
        self._counted = self._counted_failed = 0

    def show(self, scorecard: Scorecard) -> None:
        """Count the scorecard, and have a line of it written where there is room."""
        if scorecard.results or scorecard.trajectory.calls:
            is_failed = self._tally.add(scorecard)
            trajectory = scorecard.trajectory
            services = {trajectory.service or "unknown"} - self._services
            dialects = {call.dialect for call in trajectory.calls} - self._dialects
            if (services or dialects) and len(self._services) < _MAX_SERVICES and self._has_room:
                self._services |= services
                self._dialects |= dialects
                names = [f"service {name}" for name in services] + [f"dialect {name}" for name in sorted(dialects)]
                seen = ", ".join(shortened(name, _MAX_NAME + len("service ")) for name in names)
                text = f"{_clock(scorecard.scored_at_ns)}  {self._style.head(f'first seen: {seen}')}"
                self._put(lambda: text, is_failed=False)
            if (self._shows_all or is_failed) and self._has_room:
                shown = row(scorecard, self._redactor, self._pass_at)
                calls = "judged" if scorecard.by_judges else counted(len(trajectory.calls), "call")
                page, trace_id = self.page_url(trajectory), trajectory.trace_id[:_MAX_NAME]
                self._put(partial(self._line, shown, calls, trace_id, page), is_failed=is_failed)
            elif self._shows_all or is_failed:
                self._hidden += 1
                self._hidden_failed += is_failed

    def count(self, counts: ResultCounts) -> None:
        """Count results that get no line. Belongs to the worker."""
        self._tally.join(counts)
        self._hidden += counts.scorecards if self._shows_all else counts.failed
        self._hidden_failed += counts.failed

    def adopt(self, redactor: Redactor, pass_at: Mapping[str, float] | None = None) -> None:
        """Write explanations by these settings from here on; `pass_at` has the least score that passes, by the criterion's revision."""
        self._redactor = redactor
        self._pass_at = {**self._pass_at, **(pass_at or {})}

    def tick(self) -> None:
        """Begin another second: count the results without a line in the last one."""
        self._written_before = self._written
        hidden, failed = self._hidden, self._hidden_failed
        more, more_failed = hidden - self._counted, failed - self._counted_failed
        failing = f", {more_failed:,} of them failed" if more_failed else ""
        text = self._style.aside(f"… and {more:,} more{failing}")
        if more and self._write(lambda: text):
            self._counted, self._counted_failed = hidden, failed

    def announce_first(self, now_ns: int, waits: AssembleSettings) -> None:
        """Announce the first spans of a run, unless results came first."""
        if self._written:
            return
        # Rule: only the end of a root agent span shows the end of a run; any other trace waits until no more spans come.
        grace, idle, missing = map(duration_text, (waits.run_end_grace, waits.idle_timeout, waits.open_idle_timeout))
        text = (
            f"first spans of a run have arrived; its results come {grace} after the end of its root agent span, "
            f"or without one {idle} after its last span ({missing} while a parent span is missing)"
        )
        self._write(lambda: f"{_clock(now_ns)}  {self._style.head(text)}")

    def summary(self) -> None:
        """Show the totals since the start, then a table of the criteria, the most failures first."""
        self.tick()
        tally, criteria = self._tally, dict[str, CriterionCounts]()
        trajectories = counted(tally.trajectories, "trajectory", "trajectories")
        lines = [self._style.head(f"{trajectories}, {counted(tally.calls, 'tool call')}")]
        # A copy: a worker that was given up at the end may still count.
        for (criterion, outcome), count in tuple(tally.results.items()):
            counts = criteria.setdefault(criterion, CriterionCounts(shortened(criterion, _MAX_NAME)))
            if outcome in ("pass", "fail", "error"):
                counts.words[outcome] += count
            else:
                counts.words["not_evaluated"] += count
                counts.reasons[outcome] += count
        found = sorted(criteria.values(), key=lambda one: (-one.words["fail"] - one.words["error"], one.name))
        lines += table_lines(found[:_MAX_CRITERIA], style=self._style)
        if len(found) > _MAX_CRITERIA:
            lines.append(f"… and {len(found) - _MAX_CRITERIA} more criteria")
        self._write(lambda: "\n".join(lines))

    def _line(self, shown: TrajectoryRow, calls: str, trace_id: str, page: str) -> str:
        """Make one line, cut to the width of the terminal where that leaves room for the reason."""
        style, head = self._style, f"{shown.who}  {calls}"
        # Where the web view is on, the trace id is a link to the trajectory's page.
        word, trace_id = _WORDS[shown.word], printable(trace_id)
        if style.colour or not page:
            trace_id = trace_id[:TRACE_DIGITS]
        link = style.link(trace_id, page)
        taken = len(f"{_clock(shown.time_ns)}  {word}  {head}    {trace_id if style.colour else link}")
        shorten = shortened_error if shown.word in ("fail", "error") else shortened
        why = shorten(shown.reason, min(_MAX_WHY, max(_LEAST_ROOM, self._width() - taken)))
        return f"{_clock(shown.time_ns)}  {outcome_styled(style, shown.word, word)}  {head}  {why}  {style.aside(link)}"

    @property
    def _has_room(self) -> bool:
        return self._written - self._written_before < LINES_PER_SECOND

    def _put(self, make: Callable[[], str], *, is_failed: bool) -> None:
        if self._write(make):
            self._written += 1
        else:
            self._hidden += 1
            self._hidden_failed += is_failed


def terminal_width() -> int:
    """Return the columns of the terminal, or more than any line has where there is none."""
    # In a pipe, too, `COLUMNS` of a terminal elsewhere may be set: readline exports it.
    return shutil.get_terminal_size((10_000, 24)).columns if is_terminal() else 10_000


def _clock(time_ns: int) -> str:
    return time.strftime("%H:%M:%S", time.localtime(time_ns / 1e9))
