"""`toolgauge.check`: recorded or captured traffic, scored as `toolgauge check` scores it, without an event loop."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias, TypeGuard, cast

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
from opentelemetry.sdk.trace import ReadableSpan

from toolgauge.api.evaluation import CriterionResult, EvaluatedTrajectory, Evaluation
from toolgauge.api.written_criterion import Criterion
from toolgauge.export.sdk import trace_request
from toolgauge.model.delivery import Signal
from toolgauge.model.errors import RecordingError
from toolgauge.otlp.request import newest_time_ns
from toolgauge.recordings.recorded_requests import RecordedRequest, find_files, read, scorecards
from toolgauge.report.explanations import shown_verdict
from toolgauge.report.trajectory_view import TrajectoryWriter
from toolgauge.service.criteria_factory import load_for_replay
from toolgauge.service.pipeline_factory import offline_pipeline, redactor

Message: TypeAlias = ExportTraceServiceRequest | TracesData | ExportLogsServiceRequest | LogsData
Path: TypeAlias = str | os.PathLike[str]
Source: TypeAlias = Path | Message | Iterable[Path] | Iterable[ReadableSpan | Message]

_ALLOWED = "give paths of recordings, spans of the OpenTelemetry SDK, or OTLP messages"


def requests(source: Source) -> Iterator[RecordedRequest]:
    """Return the requests of a source in order of recorded time; raise `TypeError` for anything else."""
    given = _given(source)
    paths = [os.fsdecode(one) for one in given if is_path(one)]
    if not paths:
        traces: dict[int, list[ReadableSpan]] = {}
        bodies: list[tuple[Signal, bytes]] = []
        for one in given:
            match one:
                case ReadableSpan():
                    context = one.get_span_context()
                    traces.setdefault(0 if context is None else context.trace_id, []).append(one)
                case ExportTraceServiceRequest() | TracesData():
                    bodies.append(("traces", one.SerializeToString()))
                case ExportLogsServiceRequest() | LogsData():
                    bodies.append(("logs", one.SerializeToString()))
                case _:
                    raise TypeError(f"a `{type(one).__name__}` in a source: {_ALLOWED}")
        bodies.extend(("traces", trace_request(spans)) for spans in traces.values())
        recorded = [RecordedRequest(newest_time_ns(signal, body), signal, body) for signal, body in bodies]
        return iter(sorted(recorded, key=lambda request: request.time_ns))
    if len(paths) < len(given):
        raise TypeError(f"a source has paths and other objects: {_ALLOWED}, one kind at a time")
    if "" in paths:
        raise RecordingError("the path of a recording is empty")
    return read(find_files(paths), lambda _size: None)


def is_path(value: object) -> TypeGuard[Path]:
    """Return whether the value is a path."""
    return isinstance(value, str | os.PathLike)


def _given(source: object) -> Sequence[object]:
    match source:
        case bytes() | bytearray() | memoryview():
            raise TypeError(f"bytes are no source: {_ALLOWED}; `ExportTraceServiceRequest.FromString` reads a request")
        case Iterable() if not isinstance(source, str | os.PathLike | Mapping):
            return tuple(cast("Iterable[object]", source))
        case _:
            return (source,)


class LoadedCriteria:
    """Configuration and criteria, read and ready to score. Raises `ConfigError` when a file is wrong."""

    def __init__(
        self,
        criteria: Path | Criterion | Iterable[Path | Criterion],
        config: Path | Sequence[Path],
        overrides: Sequence[str],
        *,
        defaults: bool = True,
    ) -> None:
        files, written = _by_kind(criteria)
        configs = tuple(map(os.fsdecode, (config,) if isinstance(config, str | os.PathLike) else config))
        self.config, self.criteria = load_for_replay(
            configs, overrides, files, os.environ, written=[one.written for one in written], defaults=defaults
        )
        redact = self.config.redact
        shows = redact.values == "show" or "values" not in redact.model_fields_set
        self.redactor = redactor(self.config, show_values=shows)

    def evaluate(self, source: Source) -> Evaluation:
        """Score the tool calls of a source."""
        pass_at = {one.revision: one.pass_at for one in self.criteria}
        writer = TrajectoryWriter(self.redactor, pass_at)
        default = {one.name for one in self.criteria if one.is_default}
        trajectories = tuple(
            EvaluatedTrajectory(
                trajectory=scorecard.trajectory,
                writer=writer,
                results=tuple(
                    CriterionResult.of(shown_verdict(one, self.redactor, pass_at), is_default=one.criterion in default)
                    for one in scorecard.results
                ),
            )
            for scorecard in scorecards(requests(source), offline_pipeline(self.config, self.criteria))
        )
        return Evaluation(trajectories=trajectories, criteria=tuple(one.name for one in self.criteria), writer=writer)


def check(
    source: Source,
    criteria: Path | Criterion | Iterable[Path | Criterion] = (),
    *,
    config: Path | Sequence[Path] = (),
    overrides: Sequence[str] = (),
    defaults: bool = True,
) -> Evaluation:
    """Score the tool calls of a source.

    `source` is a recording's path, a directory, several of these, spans of the OpenTelemetry SDK, or OTLP messages.
    `criteria` are paths of criteria files and `Criterion` objects; they count besides the default criteria, unless
    `defaults` is False. `config` and `overrides` are what `toolgauge check` takes as `--config` and `--set`.

    Values are shown unless the configuration has `redact.values`; secrets stay masked. Raises `ConfigError` for wrong
    criteria or configuration, `RecordingError` for what cannot be read, `TypeError` for any other source.
    """
    return LoadedCriteria(criteria, config, overrides, defaults=defaults).evaluate(source)


def _by_kind(criteria: object) -> tuple[list[str], list[Criterion]]:
    """Separate files from objects; not every caller has a type checker."""
    is_one = is_path(criteria) or isinstance(criteria, Criterion)
    given = (criteria,) if is_one else tuple(cast("Iterable[object]", criteria))
    files: list[str] = []
    written: list[Criterion] = []
    for one in given:
        if isinstance(one, Criterion):
            written.append(one)
        elif is_path(one):
            files.append(os.fsdecode(one))
        else:
            raise TypeError(
                f"a `{type(one).__name__}` is not a criterion: give `toolgauge.Criterion` objects or paths of criteria files"
            )
    return files, written
