"""Recorded agent runs with verdicts, for benchmarks and tests: `manifest.jsonl.xz` beside a folder of streams for each dialect.

A row of the manifest names a run, the calls that were expected and made, whether the run passed, and for each dialect its
conversation. The recordings are not in this repository.
"""

import json
import lzma
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from toolgauge.model.outcomes import Outcome, Result, Scored, outcome_word
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.recordings.recorded_requests import RecordedRequest, find_files, read, scorecards
from toolgauge.score.criterion import ToolKinds
from toolgauge.service.criteria_factory import load_for_replay
from toolgauge.service.pipeline_factory import offline_pipeline

DIALECTS = ("genai", "openinference")
CASE_KEY = "eval.case.id"
_KINDS = ToolKinds()


@dataclass(frozen=True)
class Run:
    """One row of a manifest."""

    row: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self.row["run"]

    @property
    def source(self) -> str:
        return self.row["source"]

    @property
    def domain(self) -> str:
        return self.row["domain"]

    @property
    def has_passed(self) -> bool:
        return self.row["verdict"]["passed"]

    @property
    def has_wrong_state(self) -> bool:
        """Whether the benchmark compared the records after the run with the expected ones, and found a difference."""
        detail = self.row["verdict"]["detail"]
        return 0.0 in (detail.get("DB"), detail.get("r_actions"))

    @cached_property
    def has_failed_call(self) -> bool:
        return any(call["error"] for call in self.row["observed"])

    @cached_property
    def most_identical(self) -> int:
        """How often the most frequent call was made, arguments included."""
        made = Counter(json.dumps([call["name"], call["args"]], sort_keys=True) for call in self.row["observed"])
        return max(made.values(), default=0)

    @cached_property
    def has_unmended_failure(self) -> bool:
        """Whether a call failed that the same tool never did successfully later."""
        last = {call["name"]: call for call in self.row["observed"]}
        return any(call["error"] for call in last.values())

    def conversation(self, dialect: str) -> str:
        return self.row["otlp"][dialect]["conversation_id"]

    def trace_ids(self, dialect: str) -> list[str]:
        return self.row["otlp"][dialect]["trace_ids"]

    @property
    def reference(self) -> dict[str, Any]:
        """The calls that the agent was expected to make, as a line of a reference file."""
        expected = [
            {"name": call["name"], "args": {k: call["args"][k] for k in compared(call)}}
            for call in self.row["expected"]
            if call["requestor"] != "user"
        ]
        return {"case": self.row["task"], "expected": expected}


def compared(call: Mapping[str, Any]) -> Iterable[str]:
    """Return the arguments that the benchmark compares."""
    return call["args"] if call["compare"] is None else [name for name in call["compare"] if name in call["args"]]


@dataclass
class ScoredRun:
    """What became of a run: its trajectories and all their results."""

    run: Run
    trajectories: list[Trajectory] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)

    @property
    def conversations(self) -> list[Trajectory]:
        """The trajectories that hold the whole conversation."""
        return [trajectory for trajectory in self.trajectories if trajectory.scope == "conversation"]

    def fails(self, *, prefix: str = "default.") -> dict[str, list[Result]]:
        """Return the results that failed, by criterion."""
        failed: dict[str, list[Result]] = defaultdict(list)
        for result in self.results:
            if result.criterion.startswith(prefix) and word(result) == "fail":
                failed[result.criterion].append(result)
        return failed

    def value(self, criterion: str) -> float | None:
        """Return the one score of a criterion that judges the whole."""
        scores = [r.outcome.value for r in self.results if r.criterion == criterion and isinstance(r.outcome, Scored)]
        assert len(scores) <= 1, (self.run.name, criterion, scores)
        return scores[0] if scores else None

    def by_place(self) -> dict[tuple[str, int | None], tuple[str, float | None]]:
        """Return outcome and value by criterion and order of the call."""
        return {(r.criterion, None if r.call is None else r.call.order): (word(r), number(r)) for r in self.results}


def word(result: Result) -> str:
    return outcome_word(result.outcome)


def number(result: Result) -> float | None:
    outcome: Outcome = result.outcome
    return outcome.value if isinstance(outcome, Scored) else None


def writes(call: ToolCall) -> bool:
    """Return whether the call is of a tool that changes state, as without configuration."""
    return _KINDS.writes(call.name)


def recordings_folder(named: Path) -> Path:
    """Find the folder of all recordings, where one in it may be named."""
    return next(folder for folder in (named, *named.parents) if (folder / "tau" / "manifest.jsonl.xz").exists())


def runs_of(folder: Path) -> list[Run]:
    """Read the manifest of a folder."""
    with lzma.open(folder / "manifest.jsonl.xz", "rt", encoding="utf-8") as lines:
        return [Run(json.loads(line)) for line in lines]


def scored_runs(
    folder: Path,
    dialect: str,
    *,
    criteria: str = "",
    overrides: Sequence[str] = ("defaults.scope=conversation",),
    rewrite: Callable[[Iterator[RecordedRequest]], Iterator[RecordedRequest]] = iter,
) -> dict[str, ScoredRun]:
    """Replay all streams of a dialect and return what became of each run, by its name.

    `criteria` is YAML in which `CASES` stands for a file of references; with `rewrite` other requests are replayed.
    """
    runs = {run.conversation(dialect): ScoredRun(run) for run in runs_of(folder)}
    with tempfile.TemporaryDirectory() as temporary:
        files = _criteria_files(Path(temporary), criteria, [scored.run for scored in runs.values()])
        config, made = load_for_replay((), overrides, files, {})
    requests = rewrite(read(find_files([str(folder / dialect)]), lambda _size: None))
    for scorecard in scorecards(requests, offline_pipeline(config, made)):
        scored = runs.get(scorecard.trajectory.conversation_id or "")
        if scored is not None:
            scored.trajectories.append(scorecard.trajectory)
            scored.results += scorecard.results
    return {scored.run.name: scored for scored in runs.values()}


def _criteria_files(folder: Path, criteria: str, runs: Sequence[Run]) -> list[str]:
    if not criteria:
        return []
    references = {run.row["task"]: run.reference for run in runs}
    cases = folder / "cases.jsonl"
    cases.write_text("".join(f"{json.dumps(reference)}\n" for reference in references.values()))
    file = folder / "criteria.yaml"
    file.write_text(criteria.replace("CASES", f"{{file: {cases}, key: {CASE_KEY}}}"))
    return [str(file)]


def one_trace_a_conversation(
    requests: Iterator[RecordedRequest], runs: Sequence[Run], dialect: str
) -> Iterator[RecordedRequest]:
    """Join the traces of each run to one, below a span of their own that ends last."""
    first = {trace: run.trace_ids(dialect)[0] for run in runs for trace in run.trace_ids(dialect)}
    bodies = list(requests)
    left = Counter(first[span.trace_id.hex()] for request in bodies for span in _spans(request))
    times: dict[str, tuple[int, int]] = {}
    for request in bodies:
        body = ExportTraceServiceRequest.FromString(request.body)
        for resource in body.resource_spans:
            for scope in resource.scope_spans:
                tops = [top for span in list(scope.spans) if (top := _join(span, first, times, left)) is not None]
                scope.spans.extend(tops)
        yield RecordedRequest(request.time_ns, request.signal, body.SerializeToString())


def _join(span: Span, first: Mapping[str, str], times: dict[str, tuple[int, int]], left: Counter[str]) -> Span | None:
    """Move a span to the trace of its conversation; with the last one comes the span above all."""
    trace = first[span.trace_id.hex()]
    start, end = times.get(trace, (span.start_time_unix_nano, 0))
    times[trace] = min(start, span.start_time_unix_nano), max(end, span.end_time_unix_nano)
    span.trace_id, top = bytes.fromhex(trace), bytes.fromhex(trace)[:8]
    span.parent_span_id = span.parent_span_id or top
    left[trace] -= 1
    if left[trace]:
        return None
    start, end = times[trace]
    return Span(
        trace_id=span.trace_id, span_id=top, name="conversation", start_time_unix_nano=start, end_time_unix_nano=end
    )


def _spans(request: RecordedRequest) -> Iterator[Span]:
    for resource in ExportTraceServiceRequest.FromString(request.body).resource_spans:
        for scope in resource.scope_spans:
            yield from scope.spans


def area_under_curve(passed: Sequence[float], failed: Sequence[float]) -> float:
    """Return the chance that a passed run scores higher than a failed one; ties count half."""
    wins = sum((better > worse) + 0.5 * (better == worse) for better in passed for worse in failed)
    return wins / (len(passed) * len(failed))
