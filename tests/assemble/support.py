"""Builds readings by hand: one function for each kind of span."""

import sys
from collections.abc import Callable

from msgspec.structs import replace

from toolgauge.assemble.assembler import Assembler
from toolgauge.assemble.join import GatheredTrace, join
from toolgauge.assemble.settings import AssembleSettings
from toolgauge.model.content import NOT_RECORDED, Content, Recorded
from toolgauge.model.json import Json
from toolgauge.model.metrics import MetricRegistry
from toolgauge.model.observations import (
    AgentRun,
    CallAnswered,
    CallError,
    CallExecuted,
    CallRequested,
    ConversationSeen,
    MessageSeen,
    ModelCall,
    ModelInput,
    Observation,
    Reading,
)
from toolgauge.model.records import SpanHead, SpanRef, packed_head
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.selfmetrics import SelfMetrics

TRACE = "0" * 31 + "1"
SECOND_NS = 1_000_000_000


def span_id(name: str) -> str:
    """Return a span id that can be read in a failing test: the name in hex."""
    return name.encode().hex().rjust(16, "0")


def reading(
    name: str,
    *observations: Observation,
    parent: str | None = None,
    start: int = 0,
    end: int | None = None,
    trace: str = TRACE,
    is_log: bool = False,
    is_remote: bool | None = None,
    service: str | None = "shop",
    scope: str = "test",
    size: int = 500,
    attributes: tuple[tuple[str, str | int | float | bool], ...] = (),
    version: str | None = None,
) -> Reading:
    """Return the reading of a span; times are in milliseconds."""
    return Reading(
        ref=SpanRef(trace, span_id(name)),
        is_log=is_log,
        parent_span_id=span_id(parent) if parent is not None else None,
        parent_is_remote=is_remote,
        start_ns=start * 1_000_000,
        end_ns=(start + 1 if end is None else end) * 1_000_000,
        service=service,
        scope=scope,
        dialect="test" if observations else None,
        status="unset",
        observations=observations,
        size_bytes=size,
        attributes=attributes,
        resource={} if version is None else {"service.version": version},
    )


def log(name: str, *observations: Observation, start: int = 0, trace: str = TRACE, size: int = 300) -> Reading:
    """Return the reading of a log record that belongs to the span."""
    return reading(name, *observations, start=start, end=start, trace=trace, is_log=True, size=size)


def head(name: str, *, parent: str | None = None, trace: str = TRACE, is_remote: bool | None = None) -> SpanHead:
    """Return the ids of an unread span."""
    return packed_head(
        bytes.fromhex(trace),
        bytes.fromhex(span_id(name)),
        bytes.fromhex(span_id(parent)) if parent is not None else b"",
        flags=0x300 if is_remote else 0x100,
    )


def args(**arguments: Json) -> Recorded:
    """Return recorded arguments."""
    return Recorded(dict(arguments))


def requested(
    name: str, arguments: Content = NOT_RECORDED, *, id: str | None = None, position: int = 0, usable: bool = True
) -> CallRequested:
    """Return a request."""
    return CallRequested(name=name, arguments=arguments, call_id=id, position=position, usable=usable)


def executed(
    name: str,
    arguments: Content = NOT_RECORDED,
    *,
    id: str | None = None,
    result: Content = NOT_RECORDED,
    error: CallError | None = None,
    mcp: bool = False,
) -> CallExecuted:
    """Return an execution."""
    return CallExecuted(
        name=name, arguments=arguments, call_id=id, result=result, error=error, protocol="mcp" if mcp else None
    )


def answered(
    id: str | None, result: Json = "ok", *, name: str | None = None, error: CallError | None = None
) -> CallAnswered:
    """Return an answer from a history."""
    return CallAnswered(call_id=id, name=name, result=Recorded(result), error=error)


def agent(name: str | None) -> AgentRun:
    """Return an agent run."""
    return AgentRun(agent=name)


def model() -> ModelCall:
    """Return a model call."""
    return ModelCall()


def conversation(conversation_id: str, rank: int = 0) -> ConversationSeen:
    """Return a conversation id."""
    return ConversationSeen(conversation_id=conversation_id, rank=rank)


def assembler(
    settings: AssembleSettings | None = None, *, conversations: bool = False
) -> tuple[Assembler, SelfMetrics]:
    """Return an assembler with the metrics that it writes to."""
    metrics = SelfMetrics(MetricRegistry())
    return Assembler(settings or AssembleSettings(), metrics, no_history, conversations=conversations), metrics


def no_history(given: ModelInput) -> tuple[CallRequested | MessageSeen, ...]:
    """Read no history: what is built by hand has none."""
    raise AssertionError(given)


def joined(*readings: Reading, parents: dict[str, str | None] | None = None) -> Trajectory:
    """Join the readings of one or several traces."""
    by_trace: dict[str, list[Reading]] = {}
    for one in readings:
        by_trace.setdefault(one.ref.trace_id, []).append(one)
    traces = [
        GatheredTrace(trace_id=trace, readings=these, parents=_parents(these, parents))
        for trace, these in by_trace.items()
    ]
    trajectory = join(traces, scope="trace", closed_because="idle")
    assert trajectory is not None
    return trajectory


def _parents(readings: list[Reading], more: dict[str, str | None] | None) -> dict[str, str | None]:
    known = {one.ref.span_id: one.parent_span_id for one in readings if not one.is_log}
    return known | {span_id(name): span_id(parent) if parent else None for name, parent in (more or {}).items()}


def shown(trajectory: Trajectory) -> list[tuple[int, int, str, str]]:
    """Return turn, position, name and state of all calls."""
    return [(call.turn, call.position, call.name, call.state) for call in trajectory.calls]


def only_call(trajectory: Trajectory) -> ToolCall:
    """Return the one call."""
    (call,) = trajectory.calls
    return call


def moved(one: Reading, *, service: str, by_ms: int) -> Reading:
    """Return the reading as a service with another clock would have written it."""
    return replace(
        one, service=service, start_ns=one.start_ns + by_ms * 1_000_000, end_ns=one.end_ns + by_ms * 1_000_000
    )


def functions_called(work: Callable[[], object]) -> int:
    """Do it, and count the functions that were called for that: unlike time, they are the same on every machine."""
    called = 0

    def count(_frame: object, event: str, _told: object) -> None:
        nonlocal called
        called += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return called
