"""Questions in, answers out; knows nothing of the protocol. Each answer comes as lines for a model and as JSON.

No file is written, and nothing is sent but verdicts. One question at a time is worked on, so that memory stays bounded.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from threading import Lock
from typing import Annotated, Literal

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field

from toolgauge.api.mark import mark
from toolgauge.authoring.documents import criteria_lines, document
from toolgauge.authoring.evidence import Requirements
from toolgauge.authoring.labels import read_labels
from toolgauge.authoring.learner import Wanted, learn_recording
from toolgauge.authoring.runs import Choice, choose_runs
from toolgauge.config.model import Config
from toolgauge.config.problems import suggestion
from toolgauge.mcp_server.plain_text import as_json, cut, joined, within_room
from toolgauge.mcp_server.readable_files import ReadableFiles
from toolgauge.mcp_server.run_answers import failure_report, trajectory_list
from toolgauge.mcp_server.scored_recordings import (
    MAX_TRAJECTORIES,
    ScoredRecording,
    ScoredRecordings,
    ScoringFiles,
    Work,
    scored_requests,
)
from toolgauge.model.errors import ConfigError, RecordingError
from toolgauge.model.feedback import MAX_REASON
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.trajectory import Trajectory
from toolgauge.recordings.comparison import BASE, FILTERED, NEW, Question, Verdict, compare, set_beside
from toolgauge.recordings.comparison import Filters as StreamFilters
from toolgauge.recordings.comparison_tables import comparison_object, conclusion, table_lines
from toolgauge.recordings.conversation_means import Observations
from toolgauge.recordings.doctor import Doctor, diagnosis_lines, diagnosis_object
from toolgauge.recordings.producer_counts import Tally
from toolgauge.recordings.recorded_requests import scorecards
from toolgauge.report.explanations import live_outcome
from toolgauge.report.terminal import counted, printable
from toolgauge.report.trajectory_rows import MAX_TEXT, TrajectoryFilters
from toolgauge.service.pipeline_factory import offline_pipeline
from toolgauge.web.trajectory_store import KeptTrajectory

_RECORDING = (
    "A recording as `list_recordings` names it: a file, or a directory. Default: all that the server was started with."
)
_Text = Annotated[str, Field(max_length=MAX_TEXT)]
_Path = Annotated[str, Field(max_length=4096)]


class _Question(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ListRecordings(_Question):
    """List the recordings that can be asked about, the newest first."""


class _AboutRecording(_Question):
    recording: _Path = Field(default="", description=_RECORDING)


class ListTrajectories(_AboutRecording):
    """List the runs (trajectories) of a recording, failed ones first: id, service, agents, number of calls, results,
    and the worst of them in a line; and the counts of every criterion over the whole recording.
    """

    outcome: Literal["all", "failed", "error", "passed", "not_evaluated"] = Field(
        default="all", description="Only trajectories with this outcome; with `criterion` or `tool`, of their results."
    )
    service: _Text = Field(default="", description="Only of this service.")
    version: _Text = Field(default="", description="Only of this service version.")
    agent: _Text = Field(default="", description="Only those in which this agent took part.")
    tool: _Text = Field(default="", description="Only those that call this tool.")
    criterion: _Text = Field(default="", description="Only those with a result of this criterion.")
    id: _Text = Field(default="", description="Only those whose trace or conversation id begins so.")
    order: Literal["failed_first", "newest_first"] = "failed_first"
    limit: int = Field(default=20, ge=1, le=50)
    offset: int = Field(default=0, ge=0)


class ExplainFailure(_AboutRecording):
    """Answer why a recorded run of an agent failed: which criterion it does not pass, on which tool call, which
    argument was expected to be what and was what, all calls in turns with the difference marked, what could not be
    observed and what would record it. Without `trajectory` it explains the newest run that failed.
    """

    trajectory: _Text = Field(
        default="",
        description="A trace or conversation id, or the beginning of one. Default: the newest trajectory that failed.",
    )
    criterion: _Text = Field(default="", description="Under this criterion only.")
    call: int | None = Field(default=None, ge=1, description="Show the calls around the one with this number.")


class CompareRecordings(_Question):
    """Answer whether the runs in `candidate` are worse than those in `baseline`: for each criterion the difference of
    the mean scores with its interval, and a verdict. `not_enough_data` is an answer: record more.
    """

    baseline: _Path = Field(min_length=1, description="The recording to compare with: a file or a directory.")
    candidate: _Path = Field(min_length=1, description="The recording in question: a file or a directory.")
    margin: float = Field(default=0.05, gt=0, lt=1, description="The largest drop of a mean score to tolerate.")
    confidence: float = Field(default=0.95, ge=0.5, lt=1)
    only: dict[Literal["criterion", "service", "environment", "agent", "tool", "level"], str] = Field(
        default={}, description=f"Only streams with these values, by {', '.join(FILTERED)}."
    )


class SuggestCriteria(_AboutRecording):
    """Make criteria from recorded runs, as the text of a YAML file for a person to review: learned from what was usual,
    or, with `passed`, from runs that were good. It writes no file.
    """

    passed: Annotated[list[_Text], Field(max_length=50)] = Field(
        default=[],
        description="Trace ids of runs of one task that were good: their calls become the reference. Without any, criteria "
        "are learned from what was usual in the whole recording.",
    )
    labels: _Path = Field(
        default="",
        description="A CSV file with `trace_id` or `conversation_id`, and `verdict`: only runs that passed are learned from.",
    )
    min_runs: int = Field(default=20, ge=2, description="A learned rule needs evidence in at least so many runs.")


class DiagnoseRecording(_AboutRecording):
    """Find out what the producers of a recording leave out (arguments, results, tool definitions, ...), which switch
    records it, and which evaluators cannot judge meanwhile.
    """


class MarkRun(_Question):
    """Give a person's verdict on a run to a running toolgauge, which keeps it and sends it on. Only where a person asks
    for it: the verdict and the reason are theirs, never your own.
    """

    trace: _Text = Field(description="The whole trace id of the run: 32 hexadecimal digits.")
    verdict: Literal["good", "bad"]
    why: Annotated[str, Field(max_length=MAX_REASON)] = Field(default="", description="The reason, in a few words.")


_MAX_NAMED = 5
_MAX_UNREAD = 20
_ID = 120
# The most YAML in one answer.
MAX_YAML = 20_000
_ENTRY = "\n  - name: "
_MAX_STREAMS = 40
_WORST_FIRST: Mapping[Verdict, int] = {"worse": 0, "not_enough_data": 1, "better": 2, "no_difference_seen": 3}


def trajectory_of(scored: ScoredRecording, wanted: str) -> KeptTrajectory | None:
    """Find a trajectory by its id, conversation, or the beginning of its id; raise `RecordingError` for several."""
    kept, asked = scored.kept, wanted.lower()
    for found in (
        [one for one in kept if one.id.lower() == asked],
        [one for one in kept if one.trajectory.scope == "conversation" and one.trajectory.conversation_id == wanted],
        [one for one in kept if one.trajectory.conversation_id == wanted],
        [one for one in kept if _begins(one.trajectory, asked)],
    ):
        # A conversation has the trace of its last turn.
        meant = [one for one in found if one.trajectory.scope == "trace"] or found
        if len(meant) == 1:
            return meant[0]
        if meant:
            named = ", ".join(f"`{one.id}` ({live_outcome(one.results)})" for one in meant[:_MAX_NAMED])
            message = f"`{cut(wanted, _ID)}` matches {len(meant)} trajectories"
            raise RecordingError(message, hint=f"name one of them: {named}")
    return None


def _begins(trajectory: Trajectory, asked: str) -> bool:
    return trajectory.trace_id.startswith(asked) or (trajectory.conversation_id or "").lower().startswith(asked)


class ToolAnswer(Struct, frozen=True, kw_only=True):
    """The answer of a tool."""

    text: str
    json: JsonObject


class ToolAnswers:
    """Answers questions about the files that may be read. Any thread may ask."""

    def __init__(self, files: ReadableFiles, scoring: ScoringFiles, max_trajectories: int = MAX_TRAJECTORIES) -> None:
        self._files = files
        self._scoring = scoring
        self._recordings = ScoredRecordings(max_trajectories)
        self._lock = Lock()

    def recordings(self, question: ListRecordings, work: Work) -> ToolAnswer:
        """List the files that may be read."""
        del question, work
        found, more = self._files.newest()
        answer: JsonObject = {"recordings": [one._asdict() for one in found], "more": more}
        lines = [f"{counted(len(found) + more, 'recording')}, the newest first"]
        lines += [f"{one.recording}  {one.bytes:,} bytes  {one.modified}" for one in found]
        return ToolAnswer(text=joined(lines), json=as_json(answer))

    def trajectories(self, question: ListTrajectories, work: Work) -> ToolAnswer:
        """List trajectories with their worst results."""
        names = question.model_dump(include={"outcome", "service", "version", "agent", "tool", "criterion"})
        with self._lock:
            scored = self._scored(question, work)
            answer, lines = trajectory_list(
                self._files.name_of(question.recording),
                scored,
                TrajectoryFilters(**names, q=question.id),
                order=question.order,
                offset=question.offset,
                limit=question.limit,
            )
        return _answer(lines, answer, work, scored.scoring.redactor.masked)

    def failure(self, question: ExplainFailure, work: Work) -> ToolAnswer:
        """Explain why one run failed."""
        with self._lock:
            scored = self._scored(question, work)
            kept = self._found(scored, question, work)
        failed = sum(one.is_failed for one in scored.store.newest())
        answer, lines = failure_report(
            self._files.name_of(question.recording),
            kept,
            scored.scoring,
            criterion=question.criterion or None,
            call=question.call,
            other_failed=failed - kept.is_failed,
        )
        return _answer(lines, answer, work, scored.scoring.redactor.masked)

    def comparison(self, question: CompareRecordings, work: Work) -> ToolAnswer:
        """Compare two recordings as `toolgauge compare` does."""
        observations = Observations()
        with self._lock:
            sides = [(self._files.files_of(question.baseline), BASE), (self._files.files_of(question.candidate), NEW)]
            scoring = self._scoring.load()
            for files, version in sides:
                for scorecard in self._recordings.results(files, scoring, work):
                    observations.add(scorecard, version)
            observed, versions, without = set_beside(observations)
            asked = Question(margin=question.margin, confidence=question.confidence, looks_often=False)
            compared = compare(observed, versions, StreamFilters(question.only.items()), asked)
        notes = [f"no `{name}` is in both recordings: streams are compared without it" for name in without]
        words = [*conclusion(compared)]
        ordered = sorted(compared.streams, key=lambda one: (_WORST_FIRST[one.verdict], not one.pairing.decides))
        answer = comparison_object(replace(compared, streams=tuple(ordered[:_MAX_STREAMS])))
        shown: JsonObject = {"conclusion": [*words[:_MAX_STREAMS]], "notes": [*notes]}
        answer |= {"more_streams": len(ordered[_MAX_STREAMS:]), **shown}
        # The table has a stream of a single tool only where the recordings differ.
        decisive = [one for one in compared.streams if one.pairing.decides or one.verdict in ("worse", "better")]
        return _answer([*words, *notes, *table_lines(replace(compared, streams=tuple(decisive)))], answer, work)

    def suggestion(self, question: SuggestCriteria, work: Work) -> ToolAnswer:
        """Make criteria of recorded runs."""
        files = self._files.files_of(question.recording)
        labels = self._files.path_of(question.labels) if question.labels else None
        with self._lock:
            if question.passed:
                text, notes = self._expected(files, question.passed, work)
            else:
                text, notes = self._learned(files, labels, question.min_runs, work)
        total = text.count(_ENTRY)
        if len(text) > MAX_YAML:
            # The text is cut between two criteria, so that the rest is a whole file.
            end = text.rfind(_ENTRY, 0, MAX_YAML)
            text = text[: end + 1] if end > 0 else ""
        kept = text.count(_ENTRY)
        lines = [*notes, f"{counted(kept, 'criterion', 'criteria')}:" if text else "no criteria"]
        if total > kept:
            lines.append(f"{total - kept} more have no room here: `toolgauge learn FILE -o envelope.yaml` has all")
        found: JsonObject = {"yaml": text, "criteria": kept, "more_criteria": total - kept, "notes": [*notes]}
        answer = _answer(lines, found, work)
        return ToolAnswer(text=f"{answer.text}\n{answer.json['yaml']}", json=answer.json)

    def _learned(self, files: tuple[str, ...], labels: Path | None, min_runs: int, work: Work) -> tuple[str, list[str]]:
        """Learn criteria from usual runs, as `toolgauge learn` does; return the file and notes on it."""
        wanted = Wanted(labels=None if labels is None else read_labels(labels))
        learner = learn_recording(work.requests(files), wanted, self._scoring.load().config)
        if not learner.calls:
            why = wanted.why_none() or f"there is no tool call in this recording ({learner.runs} runs)"
            raise RecordingError(why, hint="`diagnose_recording` shows the reason")
        found = learner.result(Requirements(runs=min_runs))
        notes = [
            f"{summary.service or '(no service name)'}: {summary.runs} runs, {summary.calls} calls, "
            f"{counted(summary.criteria, 'criterion', 'criteria')}"
            for summary in found.services
        ]
        notes.append(f"contracts of {counted(len(found.contracts), 'tool')}")
        if not found.count:
            return "", [*notes, f"no rule has enough evidence: record more, or lower `min_runs` ({min_runs})"]
        # A file is cut between criteria: contracts without room are left out.
        text = found.text if len(found.text) <= MAX_YAML else found.criteria_text
        return text, [*notes, "learned from what is there: review it, as what was usual may be wrong"]

    def _expected(self, files: tuple[str, ...], passed: Sequence[str], work: Work) -> tuple[str, list[str]]:
        """Make the calls of these runs the reference, as `toolgauge expect --trace` does; return the file and notes on it."""
        choice = Choice(scope="trace", traces=tuple(trace.lower() for trace in passed))
        whole = self._scoring.load_for_runs(choice.scope)
        if not whole.redactor.shows_values:
            raise ConfigError(
                "a reference is made of the values of a run, and values are hidden",
                hint="the person who runs this server shows them with `toolgauge mcp --set redact.values=show`, or calls "
                "`toolgauge expect`; without `passed`, criteria are learned that hold no values",
            )
        chooser = choose_runs(work.requests(files), choice, whole.config, whole.criteria)
        found = document(
            chooser.tasks(), tools=choice.tools, case_key=choice.case_key, is_promoted=False, is_one_criterion=False
        )
        notes = [f"left out: {line}" for line in chooser.left_out]
        notes.append("calls that change state are expected; comments name what was left free, and why")
        return "".join(f"{line}\n" for line in criteria_lines(found, None)), notes

    def diagnosis(self, question: DiagnoseRecording, work: Work) -> ToolAnswer:
        """Find the facts that producers leave out, as `toolgauge doctor` does."""
        files = self._files.files_of(question.recording)
        tally = Tally()
        doctor = Doctor(tally)
        with self._lock:
            pipeline = offline_pipeline(Config(), (), tally.recognizer)
            for scorecard in scorecards(tally.counted(work.requests(files)), pipeline):
                doctor.add(scorecard.trajectory)
        # Problems come first, as many as there is room for.
        found = sorted(doctor.diagnoses(), key=lambda one: not one.has_problems)
        producers = list(within_room(map(diagnosis_object, found)))
        shown = found[: len(producers)]
        none = f"nothing recognised: none of {tally.records} spans and log records is of an agent"
        split = f"{doctor.split} of {doctor.with_calls} trajectories lack some spans, and are not evaluated as a whole"
        problems = (
            (not found, f"{none}, or no dialect knows its form"),
            (doctor.split, split),
            (tally.undecodable, f"{tally.undecodable} spans and log records cannot be decoded"),
            (tally.dialect_errors, f"a dialect failed on {tally.dialect_errors} records"),
        )
        notes = [text for is_so, text in problems if is_so]
        answer: JsonObject = {
            "recording": self._files.name_of(question.recording),
            "producers": [*producers],
            "more_producers": len(found) - len(shown),
            "notes": [*notes],
        }
        return _answer([*(line for one in shown for line in diagnosis_lines(one)), *notes], answer, work)

    def mark(self, question: MarkRun, work: Work) -> ToolAnswer:
        """Send a verdict, as `toolgauge.mark` does."""
        mark(question.trace, question.verdict, question.why)
        answer: JsonObject = {"trace": question.trace, "verdict": question.verdict}
        return _answer([f"trace {question.trace} is marked {question.verdict}"], answer, work)

    def _scored(self, question: ListTrajectories | ExplainFailure, work: Work) -> ScoredRecording:
        scoring, name = self._scoring.load(), question.criterion
        scored = self._recordings.scored(self._files.files_of(question.recording), scoring, work)
        names = [criterion.name for criterion in scored.scoring.criteria]
        if name and name not in names:
            raise ConfigError(f"no criterion called `{cut(name, _ID)}`", hint=suggestion(name, names))
        return scored

    def _found(self, scored: ScoredRecording, question: ExplainFailure, work: Work) -> KeptTrajectory:
        wanted = question.trajectory
        if not wanted:
            for outcome in ("failed", "error"):
                filters = TrajectoryFilters(outcome=outcome, criterion=question.criterion)
                if (found := next((one for one in scored.kept if filters.matches(one)), None)) is not None:
                    return found
            under = f" under `{cut(question.criterion, _ID)}`" if question.criterion else ""
            raise RecordingError(
                f"no trajectory of {scored.trajectories} failed{under}",
                hint="`list_trajectories` shows what was not evaluated; `diagnose_recording` finds out what was not recorded",
            )
        found = trajectory_of(scored, wanted)
        if found is None and not scored.is_whole:
            # It may have had no room: look for it in the recording once more.
            again = ScoredRecording(scored.scoring)
            for scorecard in scored_requests(self._files.files_of(question.recording), scored.scoring, work):
                trajectory = scorecard.trajectory
                if trajectory.conversation_id == wanted or _begins(trajectory, wanted.lower()):
                    again.add(scorecard)
            found = trajectory_of(again, wanted)
        if found is None:
            ids = [one.id for one in scored.kept]
            ids += [one.trajectory.conversation_id for one in scored.kept if one.trajectory.conversation_id is not None]
            near = get_close_matches(wanted, ids, n=3, cutoff=0.5)
            named = near or ids[:3]
            hint = f"there is {', '.join(f'`{cut(one, _ID)}`' for one in named)}" if named else None
            raise RecordingError(f"no trajectory `{cut(wanted, _ID)}` in the recording", hint=hint)
        return found


def _answer(lines: Iterable[str], answer: JsonObject, work: Work, masked: Callable[[str], str] = str) -> ToolAnswer:
    """Add the damaged files, which the answer leaves out."""
    reasons = [*work.unread.items()]
    unread: list[Json] = [{"recording": file, "reason": reason} for file, reason in reasons[:_MAX_UNREAD]]
    more = len(reasons) - len(unread)
    notes = [f"not in this answer: {reason}" for _, reason in reasons[:_MAX_UNREAD]]
    if more:
        notes.append(f"nor is anything of {more} more files")
    answer |= {"unread": unread, "more_unread": more}
    # Made printable first, as masking would replace characters that act by spaces, unseen.
    return ToolAnswer(text=joined([*notes, *(masked(printable(line)) for line in lines)]), json=as_json(answer, masked))
