"""Answers about whole recordings: `toolgauge compare`, `learn`, `expect` and `doctor` for a client. Nothing is written."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from toolgauge.authoring.documents import document
from toolgauge.authoring.evidence import Requirements as Evidence
from toolgauge.authoring.labels import read_labels
from toolgauge.authoring.learner import Options, Wanted, learn_recording
from toolgauge.authoring.reference_text import criteria_lines
from toolgauge.authoring.tasks import Choice, Counted, choose_runs
from toolgauge.config.model import Config
from toolgauge.mcp_server.plain_text import within_room
from toolgauge.mcp_server.scored_recordings import ScoredRecordings, Scoring, ScoringFiles, Work
from toolgauge.model.errors import ConfigError, RecordingError
from toolgauge.model.json import Json, JsonObject
from toolgauge.recordings.comparison import BASE, NEW, Filters, compare, set_beside
from toolgauge.recordings.comparison_tables import comparison_object, conclusion, table_lines
from toolgauge.recordings.conversation_means import Observations
from toolgauge.recordings.doctor import Doctor, diagnosis_lines, diagnosis_object
from toolgauge.recordings.recorded_requests import scorecards
from toolgauge.recordings.stats import Tally
from toolgauge.recordings.verdict import Question, Verdict
from toolgauge.report.terminal import counted
from toolgauge.service.pipeline_factory import offline_pipeline

# So much YAML is in one answer.
MAX_YAML = 20_000
_ENTRY = "\n  - name: "
# As `toolgauge learn` has them without options.
_TOLERANCE, _MOST_ALARMS = 0.01, 0.05
_MAX_STREAMS = 40
_WORST_FIRST: Mapping[Verdict, int] = {"worse": 0, "not_enough_data": 1, "better": 2, "no_difference_seen": 3}


def learned(
    files: tuple[str, ...], scoring: ScoringFiles, work: Work, *, labels: Path | None, min_runs: int
) -> tuple[JsonObject, list[str]]:
    """Learn criteria from usual runs, as `toolgauge learn` does."""
    wanted = Wanted(labels=None if labels is None else read_labels(labels))
    learner = learn_recording(work.requests(files), wanted, scoring.load().config)
    if not learner.calls:
        why = wanted.why_none() or f"there is no tool call in this recording ({learner.runs} runs)"
        raise RecordingError(why, hint="`diagnose_recording` shows the reason")
    requirements = Evidence(runs=min_runs, tolerance=_TOLERANCE)
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


def expected(
    files: tuple[str, ...], scoring: ScoringFiles, work: Work, *, passed: Sequence[str]
) -> tuple[JsonObject, list[str]]:
    """Make the calls of these runs the reference, as `toolgauge expect --trace` does."""
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


def _bounded(text: str, notes: list[str]) -> tuple[JsonObject, list[str]]:
    """Cut the text between two criteria, so that the rest is a whole file."""
    total = text.count(_ENTRY)
    if len(text) > MAX_YAML:
        end = text.rfind(_ENTRY, 0, MAX_YAML)
        text = text[: end + 1] if end > 0 else ""
    kept = text.count(_ENTRY)
    lines = [*notes, f"{counted(kept, 'criterion', 'criteria')}:" if text else "no criteria"]
    if total > kept:
        lines.append(f"{total - kept} more have no room here: `toolgauge learn FILE -o envelope.yaml` has all")
    return {"yaml": text, "criteria": kept, "more_criteria": total - kept, "notes": [*notes]}, lines


def diagnose(name: str, files: tuple[str, ...], work: Work) -> tuple[JsonObject, Sequence[str]]:
    """Diagnose a recording as `toolgauge doctor` does; return the answer and lines for it."""
    tally = Tally()
    doctor = Doctor(tally)
    for scorecard in scorecards(tally.counted(work.requests(files)), offline_pipeline(Config(), (), tally.recognizer)):
        doctor.add(scorecard.trajectory)
    # Those with problems first, as many as there is room for.
    found = sorted(doctor.diagnoses(), key=lambda one: not one.has_problems)
    producers = list(within_room(map(diagnosis_object, found)))
    shown = found[: len(producers)]
    none = f"nothing recognised: none of {tally.in_recording.total()} spans and log records is of an agent"
    split = f"{doctor.split} of {doctor.with_calls} trajectories lack some spans, and are not evaluated as a whole"
    problems = (
        (not found, f"{none}, or no dialect knows its form"),
        (doctor.split, split),
        (tally.undecodable, f"{tally.undecodable} spans and log records cannot be decoded"),
        (tally.dialect_errors, f"a dialect failed on {tally.dialect_errors} records"),
    )
    notes = [text for is_so, text in problems if is_so]
    answer: JsonObject = {"recording": name, "producers": [*producers], "more_producers": len(found) - len(shown)}
    return {**answer, "notes": [*notes]}, [*(line for one in shown for line in diagnosis_lines(one)), *notes]


def compare_recordings(
    recordings: ScoredRecordings,
    baseline: tuple[str, ...],
    candidate: tuple[str, ...],
    scoring: Scoring,
    work: Work,
    question: Question,
    filters: Filters,
) -> tuple[JsonObject, Sequence[str]]:
    """Compare two recordings as `toolgauge compare` does; return the answer and lines for it."""
    observations = Observations()
    for files, version in ((baseline, BASE), (candidate, NEW)):
        for scorecard in recordings.results(files, scoring, work):
            observations.add(scorecard, version)
    observed, versions, without = set_beside(observations)
    compared = compare(observed, versions, filters, question)
    notes = [f"no `{name}` is in both recordings: streams are compared without it" for name in without]
    # The worst first.
    ordered = sorted(compared.streams, key=lambda one: (_WORST_FIRST[one.verdict], not one.pairing.decides))
    answer = comparison_object(replace(compared, streams=tuple(ordered[:_MAX_STREAMS])))
    words: list[Json] = [*conclusion(compared)]
    shown: JsonObject = {"conclusion": words[:_MAX_STREAMS], "notes": [*notes]}
    answer |= {"more_streams": len(ordered[_MAX_STREAMS:]), **shown}
    # Of single tools, those that differ.
    telling = [one for one in compared.streams if one.pairing.decides or one.verdict in ("worse", "better")]
    table = table_lines(replace(compared, streams=tuple(telling)))
    return answer, [*conclusion(compared), *notes, *table]
