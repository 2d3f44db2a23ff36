"""Questions in, answers out; knows nothing of the protocol. Each answer comes as lines for a model and as JSON.

Nothing is written and nothing is sent. One question at a time is worked on, so that memory stays bounded.
"""

from collections.abc import Iterable
from threading import Lock

from msgspec import Struct

from toolgauge.config.problems import suggestion
from toolgauge.mcp_server.comparison_answer import compare_recordings
from toolgauge.mcp_server.failure_report import failure_report
from toolgauge.mcp_server.found_trajectory import is_meant, newest_failed, trajectory_of, unknown_trajectory
from toolgauge.mcp_server.plain_text import as_json, cut, joined
from toolgauge.mcp_server.producer_gaps import diagnose
from toolgauge.mcp_server.questions import (
    CompareRecordings,
    DiagnoseRecording,
    ExplainFailure,
    ListRecordings,
    ListTrajectories,
    SuggestCriteria,
)
from toolgauge.mcp_server.readable_files import FoundRecording, ReadableFiles
from toolgauge.mcp_server.report_lines import failure_lines
from toolgauge.mcp_server.scored_recordings import (
    MAX_TRAJECTORIES,
    ScoredRecording,
    ScoredRecordings,
    Work,
    only,
    scored_requests,
)
from toolgauge.mcp_server.scoring_files import Scoring, ScoringFiles
from toolgauge.mcp_server.suggested_criteria import expected, learned, suggestion_lines
from toolgauge.mcp_server.trajectory_list import list_lines, trajectory_list
from toolgauge.model.errors import ConfigError
from toolgauge.model.json import JsonObject
from toolgauge.offline.compare.verdict import Question
from toolgauge.offline.compare.versions import Filters as StreamFilters
from toolgauge.report.filters import Filters
from toolgauge.report.kept import KeptTrajectory
from toolgauge.report.terminal import counted


class RecordingList(Struct, frozen=True, kw_only=True):
    """The recordings that can be asked about, the newest first."""

    recordings: list[FoundRecording]
    more: int


class Answer(Struct, frozen=True, kw_only=True):
    """What a tool answers."""

    text: str
    json: JsonObject


class Answers:
    """Answers questions about the files that may be read. Any thread may ask."""

    def __init__(self, files: ReadableFiles, scoring: ScoringFiles, max_trajectories: int = MAX_TRAJECTORIES) -> None:
        """`max_trajectories` of each recording are kept in memory."""
        self._files = files
        self._scoring = scoring
        self._recordings = ScoredRecordings(max_trajectories)
        self._lock = Lock()

    def recordings(self, question: ListRecordings, work: Work) -> Answer:
        """List the files that may be read."""
        del question, work
        found, more = self._files.newest()
        lines = [f"{counted(len(found) + more, 'recording')}, the newest first"]
        lines += [f"{one.recording}  {one.bytes:,} bytes  {one.modified}" for one in found]
        return _answer(lines, RecordingList(recordings=found, more=more))

    def trajectories(self, question: ListTrajectories, work: Work) -> Answer:
        """List trajectories with their worst results."""
        filters = Filters(
            outcome=question.outcome,
            service=question.service,
            version=question.version,
            agent=question.agent,
            tool=question.tool,
            criterion=question.criterion,
            q=question.id,
        )
        with self._lock:
            scored = self._scored(question.recording, self._scoring.load(), work)
            _check_criterion(question.criterion, scored.scoring)
            found = trajectory_list(
                self._files.name_of(question.recording),
                scored,
                filters,
                order=question.order,
                offset=question.offset,
                limit=question.limit,
            )
        return _answer(list_lines(found), found)

    def failure(self, question: ExplainFailure, work: Work) -> Answer:
        """Explain why one run failed."""
        with self._lock:
            scored = self._scored(question.recording, self._scoring.load(), work)
            _check_criterion(question.criterion, scored.scoring)
            kept = self._found(scored, question, work)
        failed = sum(one.is_failed for one in scored.store.newest())
        report = failure_report(
            self._files.name_of(question.recording),
            kept,
            scored.scoring,
            criterion=question.criterion or None,
            call=question.call,
            other_failed=failed - kept.is_failed,
        )
        return _answer(failure_lines(report), report)

    def comparison(self, question: CompareRecordings, work: Work) -> Answer:
        """Compare two recordings."""
        with self._lock:
            found = compare_recordings(
                self._recordings,
                self._files.files_of(question.baseline),
                self._files.files_of(question.candidate),
                self._scoring.load(),
                work,
                Question(margin=question.margin, confidence=question.confidence, looks_often=False),
                StreamFilters(question.only.items()),
            )
        return _answer(found.lines, found.answer)

    def suggestion(self, question: SuggestCriteria, work: Work) -> Answer:
        """Make criteria of recorded runs."""
        files = self._files.files_of(question.recording)
        labels = self._files.path_of(question.labels) if question.labels else None
        with self._lock:
            if question.passed:
                found = expected(files, self._scoring, work, passed=question.passed)
            else:
                found = learned(files, self._scoring, work, labels=labels, min_runs=question.min_runs)
        text = joined(suggestion_lines(found))
        described = as_json(found)
        return Answer(text=f"{text}\n{described['yaml']}", json=described)

    def diagnosis(self, question: DiagnoseRecording, work: Work) -> Answer:
        """Find out what producers leave out."""
        files = self._files.files_of(question.recording)
        with self._lock:
            found = diagnose(self._files.name_of(question.recording), files, work)
        return _answer(found.lines, found.answer)

    def _scored(self, recording: str, scoring: Scoring, work: Work) -> ScoredRecording:
        return self._recordings.scored(self._files.files_of(recording), scoring, work)

    def _found(self, scored: ScoredRecording, question: ExplainFailure, work: Work) -> KeptTrajectory:
        wanted = question.trajectory
        if not wanted:
            return newest_failed(scored, question.criterion)
        found = trajectory_of(scored, wanted)
        if found is None and not scored.is_whole:
            # There was no room for it: it is looked for in the recording once more.
            again = scored_requests(self._files.files_of(question.recording), scored.scoring, work)
            found = trajectory_of(only(again, scored.scoring, lambda trajectory: is_meant(trajectory, wanted)), wanted)
        if found is None:
            raise unknown_trajectory(scored, wanted)
        return found


def _check_criterion(name: str, scoring: Scoring) -> None:
    names = [criterion.name for criterion in scoring.criteria]
    if name and name not in names:
        raise ConfigError(f"no criterion called `{cut(name, 120)}`", hint=suggestion(name, names))


def _answer(lines: Iterable[str], answer: Struct) -> Answer:
    return Answer(text=joined(lines), json=as_json(answer))
