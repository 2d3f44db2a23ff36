"""Large requests are read in turns; nothing is lost and the books balance in between."""

import itertools
import tracemalloc
from collections.abc import Generator

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from tests.walk.support import Walk, key_value
from toolgauge.model.delivery import Accepted, Refused, Signal


def agent_spans(count: int) -> bytes:
    """One request of tool calls, each in a trace of its own."""
    spans = [
        Span(
            trace_id=number.to_bytes(16),
            span_id=number.to_bytes(8),
            name="execute_tool look",
            start_time_unix_nano=1,
            end_time_unix_nano=2,
            attributes=[key_value("gen_ai.operation.name", "execute_tool"), key_value("gen_ai.tool.name", "look")],
        )
        for number in range(1, count + 1)
    ]
    return ExportTraceServiceRequest(
        resource_spans=[ResourceSpans(scope_spans=[ScopeSpans(spans=spans)])]
    ).SerializeToString()


def test_a_large_request_is_read_in_turns_and_the_books_balance_at_each():
    walk = Walk()
    body = agent_spans(4000)
    pauses = 0
    for answer in walk.pipeline.consuming("traces", body, walk.now_ns):
        assert walk.books()["balance"] == 0
        if answer is None:
            pauses += 1
        else:
            assert answer == Accepted()
    assert pauses > 3
    walk.wait(60)
    assert len(walk.arrived()) == 4000


def test_another_request_that_comes_in_between_is_taken():
    walk = Walk()
    large = walk.pipeline.consuming("traces", agent_spans(2000), walk.now_ns)
    assert next(large) is None
    assert walk.pipeline.consume("traces", agent_spans(3), walk.now_ns) == Accepted()
    assert [answer for answer in large if answer is not None] == [Accepted()]
    walk.wait(60)
    assert len(walk.arrived()) == 2003


def test_room_that_others_took_in_between_costs_no_span():
    walk = Walk("annotate=off")
    large = walk.pipeline.consuming("traces", agent_spans(2000), walk.now_ns)
    assert next(large) is None
    walk.bag.room = 0
    assert [answer for answer in large if answer is not None] == [Accepted()]
    assert (walk.books()["held"], walk.books()["balance"]) == (2000, 0)
    walk.bag.room = 10
    walk.pipeline.flush()
    assert (walk.books()["held"], walk.books()["balance"]) == (0, 0)
    assert len(walk.arrived()) == 2000


def test_a_sender_that_goes_away_in_the_middle_loses_nothing():
    walk = Walk("annotate=off")
    large = walk.pipeline.consuming("traces", agent_spans(2000), walk.now_ns)
    assert next(large) is None
    assert isinstance(large, Generator)
    large.close()
    assert len(walk.arrived()) == 2000
    assert walk.books()["balance"] == 0


def spans_of_others(count: int, trace: int | None = None) -> bytes:
    """One request of spans that no dialect reads, of one trace or each of its own."""
    spans = [
        Span(trace_id=(trace or number).to_bytes(16), span_id=number.to_bytes(8), name="GET /", start_time_unix_nano=1)
        for number in range(1, count + 1)
    ]
    return ExportTraceServiceRequest(
        resource_spans=[ResourceSpans(scope_spans=[ScopeSpans(spans=spans)])]
    ).SerializeToString()


def test_spans_of_an_open_trace_that_nobody_reads_are_taken_in_turns_too():
    ticks = itertools.count(step=1_000_000)
    walk = Walk(clock=lambda: next(ticks))
    walk.send(agent_spans(1))
    held: list[float] = []
    for _ in walk.pipeline.consuming("traces", spans_of_others(20_000, trace=1), walk.now_ns):
        held.extend(walk.metrics.traces_open_bytes.current().values())
    # With two milliseconds between pauses, as this clock has them, only a few parts have their turn together.
    at_once = [after - before for before, after in itertools.pairwise(held)]
    assert max(at_once) < sum(at_once) / 10
    assert walk.metrics.traces_open.current() == {(): 1}


def test_the_first_agent_after_much_other_traffic_keeps_nobody_waiting():
    walk = Walk(clock=lambda: 0)
    for _ in range(10):
        walk.send(spans_of_others(2000))
    answers = list(walk.pipeline.consuming("traces", agent_spans(1), walk.now_ns))
    assert answers == [None] * 4 + [Accepted()]
    assert list(walk.pipeline.consuming("traces", agent_spans(1), walk.now_ns)) == [Accepted()]


# As hostile senders write them: two bytes a resource group, or a scope group.
EMPTY_GROUPS = (b"\n\0" * 50_000, b"\n\xa0\x8d\x06" + b"\x12\0" * 50_000)


@pytest.mark.parametrize("signal", ["traces", "logs", "metrics"])
@pytest.mark.parametrize("groups", EMPTY_GROUPS)
def test_groups_without_anything_in_them_keep_nobody_waiting(signal: Signal, groups: bytes):
    walk = Walk(clock=lambda: 0)
    answers = list(walk.pipeline.consuming(signal, groups, walk.now_ns))
    assert len(answers) > 10
    assert answers[-1] == Accepted()


@pytest.mark.parametrize("groups", EMPTY_GROUPS)
def test_groups_without_anything_in_them_keep_nobody_waiting_while_they_are_refused(groups: bytes):
    walk = Walk(clock=lambda: 0, has_memory=lambda _size_bytes: False)
    answers = list(walk.pipeline.consuming("traces", groups, walk.now_ns))
    assert len(answers) > 10
    assert isinstance(answers[-1], Refused)


@pytest.mark.parametrize("signal", ["traces", "logs", "metrics"])
def test_of_a_sender_that_goes_away_before_its_request_is_counted_nothing_is_taken_in(signal: Signal):
    walk = Walk(clock=lambda: 0)
    large = walk.pipeline.consuming(signal, EMPTY_GROUPS[0] + agent_spans(1), walk.now_ns)
    assert next(large) is None
    assert isinstance(large, Generator)
    large.close()
    assert walk.bag.taken == []
    assert (walk.books()["received"], walk.books()["balance"]) == (0, 0)


def agent_spans_in_groups(count: int) -> bytes:
    """One request of tool calls that are held, each in a scope group of its own, and one span of somebody else."""
    held = ExportTraceServiceRequest.FromString(agent_spans(count)).resource_spans[0].scope_spans[0].spans
    other = ExportTraceServiceRequest.FromString(spans_of_others(1)).resource_spans[0].scope_spans[0].spans
    groups = [ScopeSpans(spans=[span]) for span in (*other, *held)]
    return ExportTraceServiceRequest(resource_spans=[ResourceSpans(scope_spans=groups)]).SerializeToString()


def pauses_of(walk: Walk, body: bytes) -> int:
    return [*walk.pipeline.consuming("traces", body, walk.now_ns)].count(None)


def test_held_spans_are_taken_out_of_a_request_of_many_groups_in_turns():
    held, passed_on = Walk(clock=lambda: 0), Walk("annotate=off", clock=lambda: 0)
    body = agent_spans_in_groups(2000)
    assert pauses_of(held, body) > pauses_of(passed_on, body) + 10
    assert [span.name for span in held.arrived()] == ["GET /"]
    assert (held.books()["held"], held.books()["balance"]) == (2000, 0)


def test_a_sender_that_goes_away_while_held_spans_are_taken_out_loses_nothing():
    body = agent_spans_in_groups(2000)
    while_reading = pauses_of(Walk("annotate=off", clock=lambda: 0), body)
    walk = Walk(clock=lambda: 0)
    large = walk.pipeline.consuming("traces", body, walk.now_ns)
    for _ in range(while_reading + 5):
        assert next(large) is None
    assert isinstance(large, Generator)
    large.close()
    assert [span.name for span in walk.arrived()] == ["GET /"]
    assert (walk.books()["held"], walk.books()["balance"]) == (2000, 0)
    walk.wait(60)
    assert len(walk.arrived()) == 2001


def agent_records(count: int) -> bytes:
    """One request of log records that a dialect reads."""
    records = [LogRecord(event_name="gen_ai.choice", trace_id=number.to_bytes(16)) for number in range(1, count + 1)]
    return ExportLogsServiceRequest(
        resource_logs=[ResourceLogs(scope_logs=[ScopeLogs(log_records=records)])]
    ).SerializeToString()


def test_a_large_request_of_log_records_is_read_in_turns():
    walk = Walk(clock=lambda: 0)
    answers = list(walk.pipeline.consuming("logs", agent_records(4000), walk.now_ns))
    assert len(answers) > 10
    assert answers[-1] == Accepted()


def test_no_more_log_records_are_viewed_at_once_than_are_read_in_one_turn():
    walk = Walk()
    body = agent_records(20_000)
    tracemalloc.start()
    try:
        walk.send(body, "logs")
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # All views at once take more than ten times as much.
    assert taken < 2 * len(body)


def test_log_records_of_a_sender_that_goes_away_in_the_middle_are_passed_on():
    walk = Walk()
    large = walk.pipeline.consuming("logs", agent_records(4000), walk.now_ns)
    assert next(large) is None
    assert isinstance(large, Generator)
    large.close()
    assert [outgoing.signal for outgoing in walk.bag.taken] == ["logs"]


def test_log_records_whose_room_others_took_in_between_are_known_to_wait():
    walk = Walk()
    large = walk.pipeline.consuming("logs", agent_records(4000), walk.now_ns)
    assert next(large) is None
    walk.bag.room = 0
    assert [answer for answer in large if answer is not None] == [Accepted()]
    assert walk.pipeline.other_requests_held == 1
    walk.bag.room = 1
    walk.pipeline.flush()
    assert walk.pipeline.other_requests_held == 0
    assert [outgoing.signal for outgoing in walk.bag.taken] == ["logs"]
