"""Damages recorded spans of models, one at a time, as a Collector's filter or an SDK's limits do."""

# pyright: reportUnknownMemberType=false

import re
from collections.abc import Collection, Iterator, MutableSequence, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct, json
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.captures import Captured
from toolgauge import plugins
from toolgauge.assemble.assembler import Assembler
from toolgauge.assemble.settings import AssembleSettings
from toolgauge.model.metrics import MetricRegistry
from toolgauge.model.observations import CallAnswered, CallRequested, MessageSeen, ModelCall, Observation, Reading
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.otlp.decoder import Decoder
from toolgauge.pipeline.stages import Reader, model_input
from toolgauge.recognize.recognizer import Recognizer
from toolgauge.selfmetrics import SelfMetrics

Damage: TypeAlias = Literal["removed", "emptied", "cut"]
DAMAGES: tuple[Damage, ...] = ("removed", "emptied", "cut")
# What models write, in the keys and events of all dialects.
_OUTPUT = re.compile(
    r"gen_ai\.output\.messages|gen_ai\.completion(\..*)?|llm\.output_messages\..*|output\.value|ai\.response\..*"
    r"|mlflow\.spanOutputs|langfuse\.observation\.output|genkit:output|gcp\.vertex\.agent\.llm_response"
    r"|haystack\.(agent\.step\.llm|component)\.output|traceloop\.entity\.output|llm\.[a-z]+\.choices"
)
_OUTPUT_EVENTS = ("gen_ai.choice", "gen_ai.content.completion")


class Recording(Struct, frozen=True):
    """The requests of one scenario."""

    name: str
    requests: Sequence[ExportTraceServiceRequest]
    logs: Sequence[bytes]


def recordings(captured: Captured) -> Iterator[Recording]:
    """Yield the scenarios of a producer."""
    for name in captured.scenarios:
        files = captured.files(name)
        logs = [file for file in files if file.name.endswith(".logs.otlp.pb")]
        requests = [ExportTraceServiceRequest.FromString(file.read_bytes()) for file in files if file not in logs]
        yield Recording(name, requests, [file.read_bytes() for file in logs])


class Bench:
    """Reads and joins requests as the pipeline does."""

    def __init__(self) -> None:
        recognizer = Recognizer(plugins.dialects(), SelfMetrics(MetricRegistry()))
        self._reader = Reader(Decoder(recognizer.marks, recognizer.scopes), recognizer)

    def with_histories(
        self, requests: Sequence[ExportTraceServiceRequest]
    ) -> Iterator[tuple[Reading, Sequence[Observation]]]:
        """Read all spans, each with the history that its model was given."""
        for request in requests:
            for viewed in self._reader.decoder.traces(request.SerializeToString()).viewed:
                reading = self._reader.recognizer.read(viewed.span)
                if reading is not None:
                    given = model_input(viewed, reading)
                    yield reading, self._reader.read_history(given) if given is not None else ()

    def joined(
        self, requests: Sequence[ExportTraceServiceRequest], logs: Sequence[bytes] = (), *, repairs: bool = True
    ) -> dict[str, Trajectory]:
        """Join the trajectories; unless it `repairs`, no span is kept for its history."""
        reader = self._reader
        box = Assembler(AssembleSettings(), SelfMetrics(MetricRegistry()), reader.read_history, conversations=False)
        for request in requests:
            decoded = reader.decoder.traces(request.SerializeToString())
            for viewed in decoded.viewed:
                reading = reader.recognizer.read(viewed.span)
                if reading is not None:
                    box.add(reading, 0, given=model_input(viewed, reading) if repairs else None)
            box.add_heads(decoded.heads, 0)
        for body in logs:
            for record in reader.decoder.logs(body).viewed:
                reading = reader.recognizer.read(record)
                if reading is not None:
                    box.add(reading, 0)
        return {one.trace_id: one for one in box.close_all(1)}


def damaged(
    requests: Sequence[ExportTraceServiceRequest], span_id: bytes, damage: Damage
) -> list[ExportTraceServiceRequest]:
    """Return the requests with one span damaged."""
    if damage == "removed":
        return without(requests, {span_id})
    copies = _copies(requests)
    for request in copies:
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                for span in scope.spans:
                    if span.span_id == span_id:
                        _damage(span, damage)
    return copies


def without(
    requests: Sequence[ExportTraceServiceRequest], span_ids: Collection[bytes]
) -> list[ExportTraceServiceRequest]:
    """Return the requests without these spans."""
    copies = _copies(requests)
    for request in copies:
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                kept = [span for span in scope.spans if span.span_id not in span_ids]
                del scope.spans[:]
                scope.spans.extend(kept)
    return copies


def span_ids(requests: Sequence[ExportTraceServiceRequest]) -> list[bytes]:
    """Return the ids of all spans."""
    return [
        span.span_id
        for request in requests
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def _copies(requests: Sequence[ExportTraceServiceRequest]) -> list[ExportTraceServiceRequest]:
    return [ExportTraceServiceRequest.FromString(request.SerializeToString()) for request in requests]


def _damage(span: Span, damage: Damage) -> None:
    _damage_attributes(span.attributes, damage)
    for place in range(len(span.events) - 1, -1, -1):
        event = span.events[place]
        if event.name not in _OUTPUT_EVENTS:
            _damage_attributes(event.attributes, damage)
        elif damage == "emptied":
            del span.events[place]
        else:
            for attribute in event.attributes:
                _cut(attribute.value)


def _damage_attributes(attributes: MutableSequence[KeyValue], damage: Damage) -> None:
    for place in range(len(attributes) - 1, -1, -1):
        if _OUTPUT.fullmatch(attributes[place].key) is None:
            continue
        if damage == "emptied":
            del attributes[place]
        else:
            _cut(attributes[place].value)


def _cut(value: AnyValue) -> None:
    """Cut texts in the middle, as a limit to the length of attribute values does."""
    if value.HasField("string_value"):
        text = value.string_value
        # Names are shorter than any limit.
        if len(text) > 32:
            value.string_value = text[: max(32, len(text) * 2 // 3)]
    for inner in value.array_value.values:
        _cut(inner)
    for pair in value.kvlist_value.values:
        _cut(pair.value)


class Output(Struct, frozen=True):
    """A span that shows calls which a model asked for, and whether it was the first model call of its trace."""

    trace_id: str
    span_id: str
    is_first: bool


def repeated_outputs(bench: Bench, requests: Sequence[ExportTraceServiceRequest]) -> Iterator[Output]:
    """Yield the spans of models that asked for tools, where a later input of the trace repeats all that they asked for."""
    models = [
        (reading, history)
        for reading, history in bench.with_histories(requests)
        if any(type(seen) is ModelCall for seen in reading.observations)
    ]
    for reading, own in models:
        asked = [seen for seen in reading.observations if type(seen) is CallRequested]
        beside = [(one, history) for one, history in models if one.ref.trace_id == reading.ref.trace_id]
        later = [history for one, history in beside if one.start_ns >= reading.end_ns]
        # Some inputs are written down only when what came after them was added to the same list.
        is_before = not any(map(_names(own).__contains__, _names(asked)))
        if asked and is_before and any(all(map(_names(history).__contains__, _names(asked))) for history in later):
            first = not any(one.end_ns <= reading.start_ns and _has_input(one) for one, _ in beside)
            yield Output(reading.ref.trace_id, reading.ref.span_id, first)


def _names(calls: Sequence[Observation]) -> list[tuple[str, str]]:
    return [(call.name, repr(call.arguments)) for call in calls if isinstance(call, CallRequested)]


def _has_input(reading: Reading) -> bool:
    return any(
        type(seen) is CallAnswered or (type(seen) is MessageSeen and seen.role == "user")
        for seen in reading.observations
    )


def shown(calls: Sequence[ToolCall]) -> list[tuple[str, bytes, bool]]:
    """Return what is compared of calls: names, arguments in any order, and failures, in the order of the calls."""
    return [(call.name, json.encode(call.arguments, order="sorted"), call.error is not None) for call in calls]
