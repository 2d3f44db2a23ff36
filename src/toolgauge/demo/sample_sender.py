"""Recorded runs, and random draws of them as the conversations of a release; as `python -m toolgauge.demo.sample_sender` it sends them.

Each conversation is a copy of a recorded run with new ids and times, and the version and environment of the release.
Failures that a release adds are made up: the agent's later calls stay as they were recorded. The sender sends a healthy release,
then a worse one, over OTLP/gRPC, to try out dashboards and alerts.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import asyncio
import itertools
import secrets
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from random import Random

import click
import grpc
import grpc.aio
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from toolgauge.model.records import ENVIRONMENT, VERSION
from toolgauge.report.streams import echo

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
_TOOL_NAMES = ("gen_ai.tool.name", "tool.name")
_CONVERSATIONS = ("gen_ai.conversation.id", "session.id")
_RESULTS = ("gen_ai.tool.call.result", "output.value")
_FAILURE, _MESSAGE = "TimeoutError", "no answer within 5 s"


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


HEALTHY = Release(version="1.0")
WORSE = Release(version="1.1", failures_by_tool={"list_orders": 0.35})


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
    runs = [ExportTraceServiceRequest.FromString(b"".join(recording.requests)) for recording in recorded]
    while True:
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
                _fail(span)
        for group in conversation.resource_spans:
            _set_text(group.resource, VERSION, release.version)
            _set_text(group.resource, ENVIRONMENT, release.environment)
        _shift((conversation,), clock())
        yield conversation.SerializeToString()


def _fail(span: Span) -> None:
    """Make a tool call one that failed, without a result."""
    kept = [each for each in span.attributes if each.key not in _RESULTS]
    del span.attributes[:]
    span.attributes.extend((*kept, _text("error.type", _FAILURE)))
    exception = span.events.add(name="exception", time_unix_nano=span.end_time_unix_nano)
    exception.attributes.extend((_text("exception.type", _FAILURE), _text("exception.message", _MESSAGE)))
    span.status.code = Status.STATUS_CODE_ERROR
    span.status.message = f"{_FAILURE}: {_MESSAGE}"


def _text(key: str, value: str) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(string_value=value))


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


_RETRY_S = 1.0
_TIMEOUT_S = 10.0


@click.command("sender")
@click.option(
    "--endpoint",
    default="http://localhost:4317",
    envvar="OTEL_EXPORTER_OTLP_ENDPOINT",
    show_default=True,
    help="Where to send to, over gRPC without TLS; also OTEL_EXPORTER_OTLP_ENDPOINT.",
)
@click.option("--healthy", default=400, show_default=True, help="Conversations of the healthy release, 1.0.")
@click.option(
    "--worse", default=0, show_default=True, help="Conversations of the worse release, 1.1, after it; 0 is without end."
)
@click.option("--rate", default=4.0, show_default=True, help="Conversations a second.")
@click.option(
    "--seed", type=int, help="Decides what is drawn, and which calls fail. Without it, another one each time."
)
def main(endpoint: str, healthy: int, worse: int, rate: float, seed: int | None) -> None:
    """Send recorded conversations, drawn with replacement: a healthy release, then one in which a tool fails more often."""
    chosen = secrets.randbits(32) if seed is None else seed
    plan = ((HEALTHY, healthy), (WORSE, worse or None))
    asyncio.run(_send_all(endpoint.removeprefix("http://"), plan, rate=rate, seed=chosen))


async def _send_all(target: str, plan: tuple[tuple[Release, int | None], ...], *, rate: float, seed: int) -> None:
    recorded = healthy_recordings()
    async with grpc.aio.insecure_channel(target, options=(("grpc.enable_http_proxy", 0),)) as channel:
        export = channel.unary_unary(EXPORT)
        for release, count in plan:
            echo(f"sending version {release.version} to {target}: {count or 'any number of'} conversations")
            # At a steady pace, which does not slow down where an answer takes long.
            due = time.monotonic()
            for body in itertools.islice(drawn(recorded, release, seed=seed, clock=time.time_ns), count):
                while not await _is_taken(export, body):
                    await asyncio.sleep(_RETRY_S)
                    due = time.monotonic()
                due += 1 / rate
                await asyncio.sleep(max(0.0, due - time.monotonic()))
    echo("everything is sent")


async def _is_taken(export: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes], body: bytes) -> bool:
    try:
        await export(body, timeout=_TIMEOUT_S)
    except grpc.aio.AioRpcError as error:
        if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
            return False
        raise
    return True


if __name__ == "__main__":
    main()
