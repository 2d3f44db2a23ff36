"""The recorded traffic that the demo sends: real frameworks against scripted models, moved to the present.

A recording is several export requests, in the order in which its framework sent them (children often come before
their parents). Only time stamps are changed.
"""

# pyright: reportUnknownMemberType=false

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One run of one framework. `framework` and `scenario` are how the files are called."""

    framework: str
    scenario: str
    requests: tuple[bytes, ...]


def recordings() -> tuple[Recording, ...]:
    """Read the packaged recordings, in order of their names."""
    bodies: dict[tuple[str, str], list[bytes]] = {}
    folder = files("toolgauge.demo") / "traffic"
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        framework, scenario, *_ = file.name.split(".")
        bodies.setdefault((framework, scenario), []).append(file.read_bytes())
    return tuple(
        Recording(framework=framework, scenario=scenario, requests=tuple(requests))
        for (framework, scenario), requests in bodies.items()
    )


def origins(recorded: Sequence[Recording]) -> dict[str, str]:
    """Map each trace id, in hex, to its framework and scenario."""
    return {
        span.trace_id.hex(): f"{recording.framework}, scenario {recording.scenario}"
        for recording in recorded
        for body in recording.requests
        for span in _spans(ExportTraceServiceRequest.FromString(body))
    }


def moved_to(now_ns: int, recording: Recording) -> tuple[bytes, ...]:
    """Shift all time stamps so that the newest span ended at `now_ns`."""
    requests = [ExportTraceServiceRequest.FromString(body) for body in recording.requests]
    shift = now_ns - max(span.end_time_unix_nano for request in requests for span in _spans(request))
    for request in requests:
        for span in _spans(request):
            span.start_time_unix_nano += shift
            span.end_time_unix_nano += shift
            for event in span.events:
                event.time_unix_nano += shift
    return tuple(request.SerializeToString() for request in requests)


def _spans(request: ExportTraceServiceRequest) -> Iterator[Span]:
    for group in request.resource_spans:
        for scope in group.scope_spans:
            yield from scope.spans
