"""Recorded runs, and random draws of them as the conversations of a release.

Each conversation is a copy of a recorded run with new ids and times, and the version and environment of the release.
Failures that a release adds are made up: the agent's later calls stay as they were recorded.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
import itertools
import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from random import Random
from typing import Literal, TypeAlias, get_args

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from toolgauge.model.records import ENVIRONMENT, VERSION

Fault: TypeAlias = Literal["invented_tool", "bad_arguments", "repeats", "ungrounded_id"]
FAULTS: tuple[Fault, ...] = get_args(Fault)
_TOOL_NAME, _ARGUMENTS, _OUTPUT = "tool.name", "input.value", "output.value"
_REQUEST = "llm.output_messages.0.message.tool_calls.{}.tool_call."
_REQUEST_ID, _REQUEST_NAME, _REQUEST_ARGUMENTS = (
    _REQUEST.format(0) + name for name in ("id", "function.name", "function.arguments")
)
_COPIES = 4
_CHANGED_TOOL = "refund_order"
_REPEATED_TOOL = "list_orders"


def plant(spans: Sequence[Span], fault: Fault, random: Random) -> list[Span]:
    """Plant a fault where a conversation has the calls for it, and return the spans to add."""
    match fault:
        case "invented_tool":
            # Beside the first call that a model requested.
            added = {"id": "call_planted", "function.name": "send_money", "function.arguments": "{}"}
            for asking in [span for span in spans if text_of(span, _REQUEST_NAME)][:1]:
                asking.attributes.extend(text(_REQUEST.format(1) + name, value) for name, value in added.items())
        case "bad_arguments":
            _change_arguments(spans, "amount", lambda: "everything")
            for span in spans:
                if text_of(span, _TOOL_NAME) == _CHANGED_TOOL:
                    fail(span, "ValidationError", "amount: a number is required")
        case "ungrounded_id":
            _change_arguments(spans, "order_id", lambda: f"A-{random.randrange(10**6, 10**7)}")
        case "repeats":
            return _repeated(spans, random)
    return []


def text_of(span: Span, key: str) -> str | None:
    """Return a text attribute of a span."""
    return next((each.value.string_value for each in span.attributes if each.key == key), None)


def text(key: str, value: str) -> KeyValue:
    """Make a text attribute."""
    return KeyValue(key=key, value=AnyValue(string_value=value))


def fail(span: Span, kind: str, message: str) -> None:
    """Make a tool call one that failed, without a result."""
    kept = [each for each in span.attributes if each.key not in ("gen_ai.tool.call.result", _OUTPUT)]
    del span.attributes[:]
    span.attributes.extend((*kept, text("error.type", kind)))
    exception = span.events.add(name="exception", time_unix_nano=span.end_time_unix_nano)
    exception.attributes.extend((text("exception.type", kind), text("exception.message", message)))
    span.status.code = Status.STATUS_CODE_ERROR
    span.status.message = f"{kind}: {message}"


def _change_arguments(spans: Sequence[Span], name: str, value: Callable[[], str]) -> None:
    """Change an argument of the refund, in the request and in the call."""
    changed = value()
    for span in spans:
        is_call = text_of(span, _TOOL_NAME) == _CHANGED_TOOL
        key = _ARGUMENTS if is_call else _REQUEST_ARGUMENTS
        if is_call or text_of(span, _REQUEST_NAME) == _CHANGED_TOOL:
            for each in span.attributes:
                if each.key == key:
                    each.value.string_value = json.dumps({**json.loads(each.value.string_value), name: changed})


def _repeated(spans: Sequence[Span], random: Random) -> list[Span]:
    """Make more of one request and its call, each with a result of its own, and move all later spans."""
    asking = next((span for span in spans if text_of(span, _REQUEST_NAME) == _REPEATED_TOOL), None)
    call = next((span for span in spans if text_of(span, _TOOL_NAME) == _REPEATED_TOOL), None)
    if asking is None or call is None or call.status.code == Status.STATUS_CODE_ERROR:
        return []
    end_ns, length_ns = call.end_time_unix_nano, call.end_time_unix_nano - asking.start_time_unix_nano + 1
    for span in spans:
        if span.start_time_unix_nano >= end_ns:
            span.start_time_unix_nano += _COPIES * length_ns
        if span is not call and span.end_time_unix_nano >= end_ns:
            span.end_time_unix_nano += _COPIES * length_ns
    added: list[Span] = []
    for number in range(1, _COPIES + 1):
        for original in (asking, call):
            copy = Span()
            copy.CopyFrom(original)
            copy.span_id = random.randbytes(8)
            copy.start_time_unix_nano += number * length_ns
            copy.end_time_unix_nano += number * length_ns
            for each in copy.attributes:
                if each.key == _REQUEST_ID:
                    each.value.string_value += f"_{number}"
                elif each.key == _OUTPUT and original is call:
                    each.value.string_value = json.dumps([{"order_id": "A-1001", "total": 42.5, "page": number}])
            added.append(copy)
    return added


EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
_TOOL_NAMES = ("gen_ai.tool.name", "tool.name")
_CONVERSATIONS = ("gen_ai.conversation.id", "session.id")
_FAILURE = "TimeoutError"
_MESSAGE = "no answer within 5 s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One run of one framework. `framework` and `scenario` are how the files are called."""

    framework: str
    scenario: str
    requests: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A version of the agents, and the share of each tool's calls that it makes fail besides the recorded failures."""

    version: str
    environment: str = "trial"
    failures: float = 0.02
    failures_by_tool: Mapping[str, float] = field(default_factory=dict[str, float])
    # Every so many conversations one of these faults is planted, in turn; 0 for never.
    fault_every: int = 0
    faults: tuple[Fault, ...] = FAULTS


HEALTHY = Release(version="1.0")
WORSE = Release(version="1.1", failures_by_tool={"list_orders": 0.35}, fault_every=12)


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


# Recorded runs in which a call failed for good, or asked for a tool that was not on offer.
_FAILING = ("error", "unknown_tool")


def healthy_recordings() -> tuple[Recording, ...]:
    """Read the runs that a healthy release consists of: drawn again and again, any other would be below an objective."""
    return tuple(recording for recording in recordings() if recording.scenario not in _FAILING)


def spans(request: ExportTraceServiceRequest) -> Iterator[Span]:
    """Yield all spans of a request."""
    for group in request.resource_spans:
        for scope in group.scope_spans:
            yield from scope.spans


def moved_to(now_ns: int, recording: Recording) -> tuple[bytes, ...]:
    """Shift all time stamps so that the newest span ended at `now_ns`."""
    requests = [ExportTraceServiceRequest.FromString(body) for body in recording.requests]
    _shift(requests, now_ns)
    return tuple(request.SerializeToString() for request in requests)


def drawn(recorded: Sequence[Recording], release: Release, *, seed: int, clock: Callable[[], int]) -> Iterator[bytes]:
    """Draw conversations of a release without end, one export request each, reproducibly by seed and clock."""
    random = Random(f"{seed} {release.version}")  # noqa: S311 (no secret)
    # Another one, so that planting changes no drawing.
    of_faults = Random(f"{seed} {release.version} faults")  # noqa: S311 (no secret)
    runs = [ExportTraceServiceRequest.FromString(b"".join(recording.requests)) for recording in recorded]
    for number in itertools.count():
        conversation = ExportTraceServiceRequest()
        conversation.CopyFrom(random.choice(runs))
        # Give the conversation and each of its traces another id.
        traces: dict[bytes, bytes] = {}
        conversation_id = str(uuid.UUID(bytes=random.randbytes(16)))
        for span in spans(conversation):
            for identified in (span, *span.links):
                identified.trace_id = traces.setdefault(identified.trace_id, random.randbytes(16))
            for attribute in span.attributes:
                if attribute.key in _CONVERSATIONS:
                    attribute.value.string_value = conversation_id
        for span in spans(conversation):
            tool = next((entry.value.string_value for entry in span.attributes if entry.key in _TOOL_NAMES), None)
            if tool is not None and random.random() < release.failures_by_tool.get(tool, release.failures):
                fail(span, _FAILURE, _MESSAGE)
        if release.fault_every and number % release.fault_every == 0:
            fault = release.faults[number // release.fault_every % len(release.faults)]
            scopes = [scope for group in conversation.resource_spans for scope in group.scope_spans]
            planted = plant(list(spans(conversation)), fault, of_faults)
            max(scopes, key=lambda scope: len(scope.spans)).spans.extend(planted)
        for group in conversation.resource_spans:
            _set_text(group.resource, VERSION, release.version)
            _set_text(group.resource, ENVIRONMENT, release.environment)
        _shift((conversation,), clock())
        yield conversation.SerializeToString()


def _shift(requests: Sequence[ExportTraceServiceRequest], now_ns: int) -> None:
    shift = now_ns - max(span.end_time_unix_nano for request in requests for span in spans(request))
    for request in requests:
        for span in spans(request):
            span.start_time_unix_nano += shift
            span.end_time_unix_nano += shift
            for event in span.events:
                event.time_unix_nano += shift


def _set_text(resource: Resource, key: str, text: str) -> None:
    value = next((attribute.value for attribute in resource.attributes if attribute.key == key), None)
    if value is None:
        value = resource.attributes.add(key=key).value
    value.string_value = text
