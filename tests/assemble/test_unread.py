"""Spans that wait as bytes: when they are read, and what they weigh."""

from dataclasses import dataclass, field

from msgspec.structs import replace

from tests.assemble.support import TRACE, agent, executed, model, reading, span_id
from toolgauge.assemble.assembler import Assembler
from toolgauge.assemble.settings import AssembleSettings
from toolgauge.model.metrics import MetricRegistry
from toolgauge.model.observations import CallRequested, MessageSeen, Operation, Reading, WaitingSpan
from toolgauge.model.records import Resource, Scope, SpanRef
from toolgauge.selfmetrics import SelfMetrics

KIB = 1024


def unread(
    name: str, operation: Operation = "model_call", *, size: int = 1000, parent: str = "root", trace: str = TRACE
) -> WaitingSpan:
    return WaitingSpan(
        ref=SpanRef(trace, span_id(name)),
        parent_span_id=span_id(parent),
        parent_is_remote=None,
        operation=operation,
        dialect="test",
        raw=bytes(size),
        resource=Resource(service="shop", attributes={}),
        scope=Scope(name="test", version=""),
    )


@dataclass
class Reader:
    """Reads a call or a model call from each span, and remembers of which."""

    read_whole: list[str] = field(default_factory=list[str])
    fails: bool = False

    def read(self, span: WaitingSpan) -> Reading | None:
        self.read_whole.append(span.ref.span_id)
        return None if self.fails else self._reading(span)

    def read_history(self, span: WaitingSpan) -> tuple[CallRequested | MessageSeen, ...]:
        del span
        return ()

    def _reading(self, span: WaitingSpan) -> Reading:
        seen = executed("find", id=span.ref.span_id) if span.operation == "tool_call" else model()
        name = bytes.fromhex(span.ref.span_id).lstrip(b"\0").decode()
        return reading(name, seen, parent="root", trace=span.ref.trace_id, size=len(span.raw))


def box(reader: Reader, limit: int = 1 << 30, *, cut: int = 1 << 20) -> Assembler:
    settings = AssembleSettings(max_open_bytes=limit, max_content_bytes=cut)
    return Assembler(settings, SelfMetrics(MetricRegistry()), reader, conversations=False)


def test_a_span_that_waits_is_read_when_its_trace_is_closed():
    reader = Reader()
    one = box(reader)
    one.add(unread("call", "tool_call"), 1)
    one.add(reading("root", agent("a")), 2)
    assert reader.read_whole == []
    (trajectory,) = one.closed(60_000_000_000)
    assert [call.name for call in trajectory.calls] == ["find"]
    assert reader.read_whole == [span_id("call")]


def test_a_span_that_comes_twice_waits_once():
    reader = Reader()
    one = box(reader)
    one.add(unread("call", "tool_call"), 1)
    before = one.open_bytes
    one.add(unread("call", "tool_call"), 1)
    assert one.open_bytes == before
    (trajectory,) = one.close_all(2)
    assert len(trajectory.calls) == 1


def test_a_span_that_waits_weighs_its_bytes_and_gives_them_back():
    one = box(Reader())
    one.add(unread("a"), 1)
    light = one.open_bytes
    one.add(unread("b", size=10 * KIB), 1)
    assert 10 * KIB <= one.open_bytes - light <= 11 * KIB
    assert [*one.close_all(2)]
    assert one.open_bytes == 0


def test_the_run_ends_with_an_agent_that_waits_below_the_last_parent():
    one = box(Reader())
    one.add(unread("inner", "agent_run"), 1)
    one.add(reading("root", model()), 2)
    (trajectory,) = one.closed(20_000_000_000)
    assert trajectory.closed_because == "run_ended"


def test_when_memory_gets_short_large_spans_are_read_before_any_run_has_to_go():
    reader = Reader()
    one = box(reader, 100 * KIB)
    assert one.eviction.may_wait(unread("x", size=10 * KIB))
    for number in range(6):
        one.add(unread(f"{number}", size=10 * KIB, trace=f"{number:032x}"), number)
    # Past one half, those that waited are read, and no other large one waits.
    assert len(reader.read_whole) == 5
    assert not one.eviction.may_wait(unread("x", size=10 * KIB))
    assert len(one.eviction) == 0
    assert one.open_bytes < 30 * KIB


def test_when_there_is_room_again_spans_wait_again():
    one = box(Reader(), 100 * KIB)
    for number in range(6):
        one.add(unread(f"{number}", size=10 * KIB, trace=f"{number:032x}"), number)
    assert [*one.close_all(10)]
    assert one.eviction.may_wait(unread("x", size=10 * KIB))


def test_tool_calls_wait_although_memory_is_short():
    reader = Reader()
    one = box(reader, 100 * KIB)
    for number in range(8):
        one.add(unread(f"{number}", "tool_call", size=10 * KIB, trace=f"{number:032x}"), number)
    assert reader.read_whole == []
    assert one.eviction.may_wait(unread("x", "tool_call", size=10 * KIB))


def test_an_agent_below_another_that_exceeds_what_is_kept_is_read_and_cut():
    one = box(Reader(), cut=4 * KIB)
    one.add(unread("chat", size=3 * KIB), 1)
    one.add(unread("inner", "agent_run", size=3 * KIB), 2)
    assert one.open_bytes > 0
    assert [*one.close_all(3)]
    assert one.open_bytes == 0


def test_a_resource_that_waiting_spans_share_weighs_once():
    one = box(Reader())
    large = Resource(service="shop", attributes={}, size_bytes=10 * KIB)
    one.add(replace(unread("a"), resource=large), 1)
    first = one.open_bytes
    one.add(replace(unread("b"), resource=large), 1)
    assert first > 10 * KIB
    assert one.open_bytes - first < 2 * KIB


def test_a_trace_beyond_the_text_that_is_kept_is_read_and_cut():
    reader = Reader()
    one = box(reader, cut=4 * KIB)
    for number in range(6):
        one.add(unread(f"{number}"), number)
    assert len(reader.read_whole) == 5
    assert [*one.close_all(10)]


def test_a_span_on_which_its_dialect_fails_is_left_out():
    one = box(Reader(fails=True))
    one.add(unread("call", "tool_call"), 1)
    one.add(reading("root", agent("a")), 2)
    (trajectory,) = one.close_all(3)
    assert trajectory.calls == ()
