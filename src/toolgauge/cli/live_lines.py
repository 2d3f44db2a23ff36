"""Results on a terminal as they come in: one line a trajectory, and a summary at the end.

The worker hands over a small row a trajectory, at most 20 a second, and counts the others; a thread that writes the log makes
lines of them. Everything from spans is hostile: it is cut by the worker and made printable where a line is made of it.
"""

import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Literal, TypeAlias

from msgspec import Struct

from toolgauge.assemble.settings import AssembleSettings
from toolgauge.export.redact import Redactor
from toolgauge.model.error_causes import with_cause
from toolgauge.model.outcomes import Errored, NotEvaluated, OutcomeWord, Result, Scorecard, Scored, outcome_word
from toolgauge.model.records import VERSION
from toolgauge.model.trajectory import Trajectory
from toolgauge.pipeline.pipeline import ScorecardSink
from toolgauge.report.explanations import brief_reason, deciding, requirement, worst_result
from toolgauge.report.kept import ObservedSink
from toolgauge.report.terminal import Style, counted, printable, shortened, shortened_error
from toolgauge.score.result_counts import SHADOW, ResultCounts
from toolgauge.settings import duration_text

Printed: TypeAlias = Literal["failed", "all", "off"]
# Has a line written soon, by another thread, which makes its text; False where there is no room.
Write: TypeAlias = Callable[[Callable[[], str]], bool]

LINES_PER_SECOND = 20
# A sender that makes up names fills no memory.
_MAX_SERVICES = 1000
_MAX_NAME, _MAX_WHY = 40, 300
_MAX_CRITERIA, _MAX_REASONS = 20, 4
_LEAST_ROOM = 60


class Row(Struct, frozen=True, kw_only=True, gc=False):
    """What a line shows of one trajectory; texts are cut, and not yet printable. `word` is `None` without any result.

    `page` is the address of its page, empty where no web view is on.
    """

    time_ns: int
    service: str
    version: str
    agent: str
    calls: int
    word: OutcomeWord | None
    why: str
    trace_id: str
    page: str
    by_judges: bool = False


class LiveLines:
    """Shows the scorecards that pass through a sink.

    `show` belongs to the worker; `tick`, to be called once a second, `adopt` and `summary` (after the last scorecard) to another
    thread. Each number is written by one of the two only.
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
        """`width` is the number of columns that a line may fill."""
        self._shows_all = printed == "all"
        self._redactor = redactor
        self._write = write
        self._style = style
        self._width = width
        # The least score that passes, by the criterion's revision, as far as known.
        self._pass_at: Mapping[str, float] = {}
        # The address of a trajectory's page; to be set before the first scorecard.
        self.page_url: Callable[[Trajectory], str] = lambda _trajectory: ""
        self._tally = Tally()
        # The worker's.
        self._services: set[str] = set()
        self._dialects: set[str] = set()
        self._written = 0
        self._hidden = self._hidden_failed = 0
        # The other thread's.
        self._written_before = 0
        self._counted = self._counted_failed = 0

    def observe(self, sink: ScorecardSink) -> ScorecardSink:
        """Wrap a sink: what passes through it is shown."""
        return ObservedSink(sink, self.show)

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
                self._put(partial(_new_line, scorecard.scored_at_ns, names, self._style), is_failed=False)
            self._show(scorecard, is_failed=is_failed)

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
        """Begin another second: count what was not shown in the last one."""
        self._written_before = self._written
        hidden, failed = self._hidden, self._hidden_failed
        more, more_failed = hidden - self._counted, failed - self._counted_failed
        if more and self._write(partial(_counted_line, more, more_failed, self._style)):
            self._counted, self._counted_failed = hidden, failed

    def announce_first(self, now_ns: int, waits: AssembleSettings) -> None:
        """Show that spans of a run have arrived, unless results came first: these wait for what senders keep back."""
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
        """Show what was counted since the start."""
        self.tick()
        text = "\n".join(self._tally.lines(self._style))
        self._write(lambda: text)

    def _show(self, scorecard: Scorecard, *, is_failed: bool) -> None:
        if not (self._shows_all or is_failed):
            return
        if self._has_room:
            row = _row(scorecard, self._redactor, self._pass_at, self.page_url(scorecard.trajectory))
            self._put(partial(line_of, row, self._style, self._width), is_failed=is_failed)
        else:
            self._hidden += 1
            self._hidden_failed += is_failed

    @property
    def _has_room(self) -> bool:
        return self._written - self._written_before < LINES_PER_SECOND

    def _put(self, make: Callable[[], str], *, is_failed: bool) -> None:
        if self._write(make):
            self._written += 1
        else:
            self._hidden += 1
            self._hidden_failed += is_failed


# Of one width, so that failures stand below each other.
_WORDS: dict[OutcomeWord | None, str] = {
    "pass": "pass ",
    "fail": "FAIL ",
    "error": "ERROR",
    "not_evaluated": "  -  ",
    None: "  -  ",
}


def _row(scorecard: Scorecard, redactor: Redactor, pass_at: Mapping[str, float], page: str) -> Row:
    trajectory = scorecard.trajectory
    results = deciding(scorecard.results)
    worst = worst_result(results)
    return Row(
        time_ns=scorecard.scored_at_ns,
        service=(trajectory.service or "unknown service")[: _MAX_NAME + 1],
        version=trajectory.resource.get(VERSION, "")[: _MAX_NAME + 1],
        agent=_agents(trajectory),
        calls=len(trajectory.calls),
        word=None if worst is None else outcome_word(worst.outcome),
        why="no criterion applies" if worst is None else _why(worst, results, redactor, pass_at),
        trace_id=trajectory.trace_id[:_MAX_NAME],
        page=page,
        by_judges=scorecard.by_judges,
    )


def _agents(trajectory: Trajectory) -> str:
    if not trajectory.agents:
        return ""
    more = len(trajectory.agents) - 1
    return trajectory.agents[0][:_MAX_NAME] + (f" +{more}" if more else "")


def _why(worst: Result, results: Sequence[Result], redactor: Redactor, pass_at: Mapping[str, float]) -> str:
    words = Counter(outcome_word(result.outcome) for result in results)
    match worst.outcome:
        case Scored(passed=True):
            unseen = f", {words['not_evaluated']} not evaluated" if words["not_evaluated"] else ""
            return f"{words['pass']} passed{unseen}"
        case NotEvaluated(reason=reason):
            return f"{words['not_evaluated']} not evaluated, {worst.criterion[:_MAX_NAME]}: {reason}"
        case Scored(value=value):
            # Rule: a failing score between 0 and 1 stands beside the score that passes.
            needed = "" if value == 0 else requirement(worst, pass_at)
            figure = f" {value:.2f}{f' ({needed})' if needed else ''}"
        case Errored(error_type=error_type):
            figure = f" {error_type[:_MAX_NAME]}"
    shadow = SHADOW if worst.enforce == "shadow" else ""
    others = words["fail"] + words["error"] - 1
    more = f" (and {others} more)" if others else ""
    explanation = with_cause(brief_reason(worst.outcome, redactor), _MAX_WHY)
    tool = "" if worst.call is None else worst.call.name[:_MAX_NAME]
    # Most explanations name the tool.
    of = f" of {tool}" if tool not in explanation else ""
    return f"{worst.criterion[:_MAX_NAME]}{figure}{of}{shadow}{more}: {explanation}"


def terminal_width() -> int:
    """Return the columns of the terminal, or more than any line has where there is none."""
    # In a pipe, too, `COLUMNS` of a terminal elsewhere may be set: readline exports it.
    return shutil.get_terminal_size((10_000, 24)).columns if sys.stdout.isatty() else 10_000


def line_of(row: Row, style: Style, width: Callable[[], int]) -> str:
    """Make one line of a row, cut to `width` columns where that leaves room for the reason."""
    calls = "judged" if row.by_judges else counted(row.calls, "call")
    service = " ".join(filter(None, (shortened(row.service, _MAX_NAME), shortened(row.version, _MAX_NAME))))
    names = filter(None, (service, shortened(row.agent, _MAX_NAME), calls))
    head, word, trace_id = "  ".join(names), _WORDS[row.word], printable(row.trace_id)
    # Where the web view is on, the trace id is a link to the trajectory's page.
    link = style.link(trace_id, row.page)
    taken = len(f"{_clock(row.time_ns)}  {word}  {head}    {trace_id if style.colour else link}")
    shorten = shortened_error if row.word in ("fail", "error") else shortened
    why = shorten(row.why, min(_MAX_WHY, max(_LEAST_ROOM, width() - taken)))
    return f"{_clock(row.time_ns)}  {_coloured(row.word, word, style)}  {head}  {why}  {style.aside(link)}"


def _coloured(word: OutcomeWord | None, text: str, style: Style) -> str:
    match word:
        case "pass":
            return style.good(text)
        case "fail" | "error":
            return style.bad(text)
        case "not_evaluated" | None:
            return style.doubtful(text)


def _clock(time_ns: int) -> str:
    return time.strftime("%H:%M:%S", time.localtime(time_ns / 1e9))


def _new_line(time_ns: int, names: Sequence[str], style: Style) -> str:
    shown = ", ".join(shortened(name, _MAX_NAME + len("service ")) for name in names)
    return f"{_clock(time_ns)}  {style.head(f'first seen: {shown}')}"


def _counted_line(more: int, failed: int, style: Style) -> str:
    return style.aside(f"… and {more:,} more{f', {failed:,} of them failed' if failed else ''}")


class Tally(ResultCounts):
    """Counts since the start, as a summary. Belongs to the worker, but for `lines`."""

    def lines(self, style: Style) -> Iterator[str]:
        """Summarise: the totals, then a table of the criteria, those with the most failures first."""
        trajectories = counted(self.trajectories, "trajectory", "trajectories")
        yield style.head(f"{trajectories}, {counted(self.calls, 'tool call')}")
        total = _Counts("")
        criteria: dict[str, _Counts] = {}
        # A copy: a worker that was given up at the end may still count.
        for (criterion, outcome), count in tuple(self.results.items()):
            total.add(outcome, count)
            criteria.setdefault(criterion, _Counts(criterion)).add(outcome, count)
        if not criteria:
            return
        errors = f", {counted(total.errors, 'error')}" if total.errors else ""
        yield f"results: {total.passed:,} passed, {total.failed:,} failed{errors}, {total.unseen.total():,} not evaluated{total.why}"
        yield from _table(sorted(criteria.values(), key=_order), style)


class _Counts:
    """Counts of the results of one criterion, or of all."""

    def __init__(self, name: str) -> None:
        self.name = shortened(name, _MAX_NAME)
        self.passed = self.failed = self.errors = 0
        self.unseen: Counter[str] = Counter()

    def add(self, outcome: str, count: int) -> None:
        match outcome:
            case "pass":
                self.passed += count
            case "fail":
                self.failed += count
            case "error":
                self.errors += count
            case reason:
                self.unseen[reason] += count

    @property
    def why(self) -> str:
        """The commonest reasons why something was not evaluated."""
        shown = [f"{reason} {count:,}" for reason, count in self.unseen.most_common(_MAX_REASONS)]
        return f" ({', '.join(shown)}{', …' if len(self.unseen) > len(shown) else ''})" if shown else ""


def _order(counts: _Counts) -> tuple[int, str]:
    return -counts.failed - counts.errors, counts.name


def _table(criteria: Sequence[_Counts], style: Style) -> Iterator[str]:
    shown = criteria[:_MAX_CRITERIA]
    width = max(len("criterion"), *(len(counts.name) for counts in shown))
    yield style.aside(f"{'criterion':<{width}}  {'passed':>8}  {'failed':>8}  {'errors':>8}  not evaluated")
    for counts in shown:
        failed, errors = (f"{count:>8,}" for count in (counts.failed, counts.errors))
        yield (
            f"{counts.name:<{width}}  {counts.passed:>8,}  {style.bad(failed) if counts.failed else failed}  "
            f"{style.bad(errors) if counts.errors else errors}  {counts.unseen.total():,}{counts.why}"
        )
    if len(criteria) > len(shown):
        yield f"… and {len(criteria) - len(shown)} more criteria"
