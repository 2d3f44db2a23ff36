"""Spans in the attribute shapes of producers, written by hand and short: times are seconds after the start of the run."""

import hashlib
import json
from collections.abc import Mapping, Sequence

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

import toolgauge
from toolgauge.api.evaluation import EvaluatedTrajectory
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.trajectory import ToolCall, Trajectory

START_NS = 1_764_150_000_000_000_000
_SECOND_NS = 1_000_000_000
ERROR, OK = Status.STATUS_CODE_ERROR, Status.STATUS_CODE_OK

Attributes = Mapping[str, Json]


def span(
    name: str,
    attributes: Attributes,
    *,
    id: str,
    scope: str = "my.agent",
    parent: str | None = "run",
    at: float = 0,
    seconds: float = 0.1,
    trace: str = "t1",
    status: Status.StatusCode.ValueType = Status.STATUS_CODE_UNSET,
    message: str = "",
    exception: tuple[str, str] | None = None,
) -> ScopeSpans:
    """Return one span; ids are any text. Objects and lists become JSON text, as producers write them."""
    start_ns = START_NS + int(at * _SECOND_NS)
    events = []
    if exception is not None:
        recorded = {"exception.type": exception[0], "exception.message": exception[1]}
        events = [Span.Event(name="exception", time_unix_nano=start_ns, attributes=_key_values(recorded))]
    made = Span(
        trace_id=_id(trace, 16),
        span_id=_id(trace + id, 8),
        parent_span_id=b"" if parent is None else _id(trace + parent, 8),
        name=name,
        start_time_unix_nano=start_ns,
        end_time_unix_nano=start_ns + int(seconds * _SECOND_NS),
        attributes=_key_values(attributes),
        events=events,
        status=Status(code=status, message=message),
    )
    return ScopeSpans(scope=InstrumentationScope(name=scope, version="1.0.0"), spans=[made])


def run(*, trace: str = "t1", conversation: str | None = None) -> ScopeSpans:
    """Return the run of an agent by the conventions, the root of its trace."""
    attributes: dict[str, Json] = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}
    if conversation is not None:
        attributes["gen_ai.conversation.id"] = conversation
    return span("invoke_agent a", attributes, id="run", parent=None, seconds=100, trace=trace)


def chat(
    *output: Json,
    tools: Sequence[Json] | None = None,
    given: Sequence[Json] = (),
    said: str = "go",
    at: float = 1,
    id: str = "chat1",
    parent: str | None = "run",
    scope: str = "my.agent",
    trace: str = "t1",
) -> ScopeSpans:
    """Return a model call by the conventions that wrote the parts; its input has what the user said, and the messages `given`."""
    attributes: dict[str, Json] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": [{"role": "user", "parts": [{"type": "text", "content": said}]}, *given],
        "gen_ai.output.messages": [{"role": "assistant", "parts": list(output)}],
    }
    if tools is not None:
        attributes["gen_ai.tool.definitions"] = list(tools)
    return span("chat m", attributes, id=id, at=at, scope=scope, parent=parent, trace=trace)


def asked(id: str, name: str, arguments: Json = None) -> JsonObject:
    """Return the part of an output that asks for a call."""
    return {"type": "tool_call", "id": id, "name": name, "arguments": {} if arguments is None else arguments}


def answered(id: str, result: Json) -> Json:
    """Return the message of an input that answers a call."""
    return {"role": "tool", "parts": [{"type": "tool_call_response", "id": id, "response": result}]}


def tool(
    name: str,
    arguments: Json = None,
    *,
    call: str | None = None,
    result: Json = None,
    at: float = 2,
    seconds: float = 0.1,
    id: str | None = None,
    scope: str = "my.agent",
    parent: str | None = "run",
    trace: str = "t1",
    status: Status.StatusCode.ValueType = Status.STATUS_CODE_UNSET,
    message: str = "",
    exception: tuple[str, str] | None = None,
    more: Attributes | None = None,
) -> ScopeSpans:
    """Return the span of a tool by the conventions; `more` are attributes beside those."""
    attributes: dict[str, Json] = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
    recorded = {"gen_ai.tool.call.id": call, "gen_ai.tool.call.arguments": arguments, "gen_ai.tool.call.result": result}
    attributes.update({key: value for key, value in recorded.items() if value is not None})
    attributes.update(more or {})
    return span(
        f"execute_tool {name}",
        attributes,
        id=id or f"tool{at}",
        at=at,
        seconds=seconds,
        scope=scope,
        parent=parent,
        trace=trace,
        status=status,
        message=message,
        exception=exception,
    )


def request(*spans: ScopeSpans, service: str = "shop", version: str | None = None) -> ExportTraceServiceRequest:
    """Return the request in which a service sends the spans."""
    resource = Resource(
        attributes=_key_values({"service.name": service, **({"service.version": version} if version else {})})
    )
    return ExportTraceServiceRequest(resource_spans=[ResourceSpans(resource=resource, scope_spans=spans)])


def evaluated(*spans: ScopeSpans, criteria: Sequence[toolgauge.Criterion] = ()) -> tuple[EvaluatedTrajectory, ...]:
    """Return what `toolgauge.evaluate` makes of the spans of one service."""
    return toolgauge.evaluate(request(*spans), criteria).trajectories


def trajectory_of(*spans: ScopeSpans) -> Trajectory:
    """Return the only trajectory of the spans."""
    (one,) = evaluated(*spans)
    return one.trajectory


def call_of(*spans: ScopeSpans) -> ToolCall:
    """Return the only call of the only trajectory of the spans."""
    (call,) = trajectory_of(*spans).calls
    return call


def _id(text: str, size: int) -> bytes:
    return hashlib.sha256(text.encode()).digest()[:size]


def _key_values(attributes: Attributes) -> list[KeyValue]:
    return [KeyValue(key=key, value=_value(value)) for key, value in attributes.items()]


def _value(value: Json) -> AnyValue:
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    return AnyValue(string_value=value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
