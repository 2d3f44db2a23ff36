"""Criteria made from recorded runs, as text: `toolgauge learn` and `toolgauge expect` for a client. Nothing is written."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from toolgauge.mcp_server.scored_recordings import Work
from toolgauge.mcp_server.scoring_files import ScoringFiles
from toolgauge.model.errors import ConfigError, RecordingError
from toolgauge.offline.backtest.labels import read_labels
from toolgauge.offline.expect.choosing import Counted, choose_runs
from toolgauge.offline.expect.documents import document
from toolgauge.offline.expect.reference_text import criteria_lines
from toolgauge.offline.expect.tasks import Choice
from toolgauge.offline.learn.evidence import Requirements
from toolgauge.offline.learn.learner import Options
from toolgauge.offline.learn.wanted_runs import Wanted, learn_recording
from toolgauge.report.terminal import counted

# So much YAML is in one answer.
MAX_YAML = 20_000
_ENTRY = "\n  - name: "
# As `toolgauge learn` has them without options.
_TOLERANCE, _MOST_ALARMS = 0.01, 0.05


class SuggestedCriteria(Struct, frozen=True, kw_only=True):
    """A criteria file for a person to review; `toolgauge replay --criteria FILE` takes it."""

    yaml: Annotated[str, Meta(description="the text of a criteria file; empty where there is too little evidence")]
    criteria: Annotated[int, Meta(description="criteria in `yaml`")]
    more_criteria: Annotated[int, Meta(description="further criteria, for which the answer has no room")]
    notes: list[str]


def learned(
    files: tuple[str, ...], scoring: ScoringFiles, work: Work, *, labels: Path | None, min_runs: int
) -> SuggestedCriteria:
    """Learn criteria from what was usual, as `toolgauge learn` does."""
    wanted = Wanted(labels=None if labels is None else read_labels(labels))
    learner = learn_recording(work.requests(files), wanted, scoring.load().config)
    if not learner.calls:
        raise RecordingError(
            wanted.why_none() or f"there is no tool call in this recording ({learner.runs} runs)",
            hint="`diagnose_recording` looks for the reason",
        )
    requirements = Requirements(runs=min_runs, tolerance=_TOLERANCE)
    text, summaries = learner.result(Options(requirements=requirements, most_alarms=_MOST_ALARMS))
    notes = [
        f"{summary.service or '(no service name)'}: {summary.runs} runs, {summary.calls} calls, "
        f"{counted(summary.criteria, 'criterion', 'criteria')}"
        for summary in summaries
    ]
    if not any(summary.criteria for summary in summaries):
        notes.append(f"no rule has enough evidence: record more, or lower `min_runs` ({min_runs})")
        return _bounded("", notes)
    return _bounded(text, [*notes, "learned from what is there: review it, as what was usual may be wrong"])


def expected(files: tuple[str, ...], scoring: ScoringFiles, work: Work, *, passed: Sequence[str]) -> SuggestedCriteria:
    """Make what these runs did the reference, as `toolgauge expect --trace` does."""
    choice = Choice(scope="trace", traces=tuple(trace.lower() for trace in passed))
    whole = scoring.load_for_runs(choice.scope)
    if not whole.redactor.shows_values:
        raise ConfigError(
            "a reference is made of the values of a run, and values are hidden",
            hint="the person who runs this server shows them with `toolgauge mcp --set redact.values=show`, or calls "
            "`toolgauge expect`; without `passed`, criteria are learned that hold no values",
        )
    counting = Counted()
    chooser = choose_runs(work.requests(files), choice, counting, whole.config, whole.criteria)
    found = document(
        chooser.tasks(), tools=counting.tools, case_key=counting.case_key, is_promoted=False, is_one_criterion=False
    )
    notes = [f"left out: {line}" for line in chooser.left_out]
    notes.append("calls that change state are expected; comments name what was left free, and why")
    return _bounded("".join(f"{line}\n" for line in criteria_lines(found, None)), notes)


def suggestion_lines(answer: SuggestedCriteria) -> list[str]:
    """Write the suggestion for a model to read."""
    lines = [*answer.notes, f"{counted(answer.criteria, 'criterion', 'criteria')}:" if answer.yaml else "no criteria"]
    if answer.more_criteria:
        lines.append(f"{answer.more_criteria} more have no room here: `toolgauge learn FILE -o envelope.yaml` has all")
    return lines


def _bounded(text: str, notes: list[str]) -> SuggestedCriteria:
    """Cut the text between two criteria, so that the rest is a whole file."""
    total = text.count(_ENTRY)
    if len(text) > MAX_YAML:
        end = text.rfind(_ENTRY, 0, MAX_YAML)
        text = text[: end + 1] if end > 0 else ""
    kept = text.count(_ENTRY)
    return SuggestedCriteria(yaml=text, criteria=kept, more_criteria=total - kept, notes=notes)
