"""What a program evaluates, as recorded requests: recordings by their paths, spans of the SDK, or OTLP messages.

Spans go through the SDK's own OTLP encoder, one request a trace, so that they are read as they would be off the wire.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias, TypeGuard, cast

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
from opentelemetry.sdk.trace import ReadableSpan

from toolgauge.export.sdk import trace_request
from toolgauge.model.delivery import Signal
from toolgauge.model.errors import RecordingError
from toolgauge.otlp.request import newest_time_ns
from toolgauge.recordings.recorded_requests import RecordedRequest, find_files, read

Message: TypeAlias = ExportTraceServiceRequest | TracesData | ExportLogsServiceRequest | LogsData
Path: TypeAlias = str | os.PathLike[str]
Source: TypeAlias = Path | Message | Iterable[Path] | Iterable[ReadableSpan | Message]

_ALLOWED = "give paths of recordings, spans of the OpenTelemetry SDK, or OTLP messages"


def requests(source: Source) -> Iterator[RecordedRequest]:
    """Return the requests of a source in order of recorded time; raise `TypeError` for anything else."""
    given = _given(source)
    paths = [os.fsdecode(one) for one in given if is_path(one)]
    if not paths:
        return iter(_of_objects(given))
    if len(paths) < len(given):
        raise TypeError(f"a source has paths and other objects: {_ALLOWED}, one kind at a time")
    if "" in paths:
        raise RecordingError("the path of a recording is empty")
    return read(find_files(paths), _no_progress)


def is_path(value: object) -> TypeGuard[Path]:
    """Return whether the value is a path."""
    return isinstance(value, str | os.PathLike)


def _given(source: object) -> Sequence[object]:
    if is_path(source):
        return (source,)
    match source:
        case ReadableSpan() | ExportTraceServiceRequest() | TracesData() | ExportLogsServiceRequest() | LogsData():
            return (source,)
        case bytes() | bytearray() | memoryview():
            raise TypeError(f"bytes are no source: {_ALLOWED}; `ExportTraceServiceRequest.FromString` reads a request")
        case Iterable() if not isinstance(source, Mapping):
            return tuple(cast("Iterable[object]", source))
        case _:
            raise TypeError(f"a `{type(source).__name__}` is no source: {_ALLOWED}")


def _of_objects(given: Iterable[object]) -> Sequence[RecordedRequest]:
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
    return sorted(recorded, key=lambda request: request.time_ns)


def _no_progress(size: int) -> None:
    del size
