from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span
from pydantic import ValidationError

from tests.export.fakes import OK, always, counted, grpc_sink, request, sending, until
from tests.export.scorecards import ROOT, call, call_result, failed, passed, scorecard, shadow, trajectory
from tests.rows import each_row
from tests.walk.support import MemoryJournal
from toolgauge.export.send_queue import SendQueue
from toolgauge.export.settings import DestinationSettings, KeepSettings
from toolgauge.export.tail_sampling import Keep, Keepers
from toolgauge.model.delivery import Outgoing
from toolgauge.model.journal import ClosedId, JournalChange
from toolgauge.model.metrics import MetricRegistry
from toolgauge.model.observations import CallError
from toolgauge.model.outcomes import Errored, NotEvaluated, Outcome, Scorecard
from toolgauge.model.trajectory import Run, Trajectory
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.settings import SECOND
from toolgauge.state.ledger import NO_LEDGER, Ledger

# The last 14 digits of a trace id are its randomness: HIGH is kept by every share above 1/16, LOW by none below 15/16.
HIGH, LOW = "0" * 18 + "f" * 14, "0" * 17 + "1" + "0" * 14


@dataclass
class Agents:
    """Traces of agents that the assembler knows."""

    known: set[str] = field(default_factory=set[str])
    idle_ns: int = 30 * SECOND

    def knows(self, trace_id: str) -> bool:
        return trace_id in self.known


class Keeping:
    """A destination's `keep`, with its clock in the test's hand."""

    def __init__(self, journal: MemoryJournal | None = None, queue_bytes: int = 1 << 20, **settings: object) -> None:
        self.now_ns = 1_800_000_000 * SECOND
        self.metrics = SelfMetrics(MetricRegistry(lambda: self.now_ns))
        self.queue = SendQueue(max_bytes=queue_bytes, own_reserve_bytes=1 << 20)
        self.ledger = NO_LEDGER if journal is None else Ledger(journal)
        self.journal = journal
        chosen = KeepSettings.model_validate({"passed": 0.5, **settings})
        self.keep = Keep("backend", chosen, self.queue, self.metrics, self.ledger)
        self.agents = Agents()

    def send(self, *traces: str, state: str = "", is_root: bool = False, size: int = 10, is_read: bool = True) -> bool:
        parent = b"" if is_root else b"3" * 8
        spans = [
            Span(
                trace_id=bytes.fromhex(one), span_id=b"2" * 8, parent_span_id=parent, name="x" * size, trace_state=state
            )
            for one in traces
        ]
        body = ExportTraceServiceRequest(resource_spans=[ResourceSpans(scope_spans=[ScopeSpans(spans=spans)])])
        written = body.SerializeToString()
        outgoing = Outgoing(signal="traces", body=written, spans=len(traces), own=False, is_read=is_read)
        if self.journal is not None:
            entry = self.ledger.new_entry("traces", outgoing.body, self.now_ns, own=False)
            self.journal.submit(JournalChange(appended=(entry,)))
            self.ledger.claim_deliveries((entry.id,))
            self.ledger.end_reading(entry.id)
            outgoing = replace(outgoing, entries=(entry.id,))
        return self.keep.put(outgoing)

    def log(self, trace: str) -> None:
        records = [LogRecord(trace_id=bytes.fromhex(trace), span_id=b"2" * 8, time_unix_nano=1)]
        body = ExportLogsServiceRequest(resource_logs=[ResourceLogs(scope_logs=[ScopeLogs(log_records=records)])])
        self.keep.put(Outgoing(signal="logs", body=body.SerializeToString(), spans=0, own=False))

    def score(self, card: Scorecard, held: Sequence[bytes] = ()) -> None:
        self.agents.known.add(card.trajectory.trace_id)
        self.keep.decide(card, held)
        self.wait(0)

    def wait(self, seconds: float) -> None:
        self.now_ns += int(seconds * SECOND)
        self.keep.tick(self.now_ns, self.agents.idle_ns, self.agents.knows)

    def arrived(self) -> list[Outgoing]:
        """What leaves for the destination, which takes it at once."""
        taken = self.queue.leftovers()
        for one in taken:
            self.queue.release(one)
            self.ledger.settle(one.entries)
        return taken

    def spans(self) -> list[Span]:
        return [
            span
            for one in self.arrived()
            if one.signal == "traces"
            for group in ExportTraceServiceRequest.FromString(one.body).resource_spans
            for scope in group.scope_spans
            for span in scope.spans
        ]

    def traces(self) -> list[str]:
        return [span.trace_id.hex() for span in self.spans()]

    @property
    def sampled(self) -> float:
        return self.metrics.spans.value(("dropped", "sampled", "backend"))

    def unsampled(self, reason: str) -> float:
        return self.metrics.keep_unsampled.value(("backend", reason))


def run(trace: str = LOW, conversation: str | None = None) -> Trajectory:
    return replace(trajectory(call()), trace_id=trace, conversation_id=conversation)


def card(outcome: Outcome | None = None, of: Trajectory | None = None) -> Scorecard:
    return scorecard(call_result(outcome or passed()), of=of or run())


def test_a_run_that_failed_goes_whole_with_its_log_records():
    keeping = Keeping()
    keeping.send(LOW)
    keeping.log(LOW)
    keeping.score(card(failed()))
    assert [(one.signal, one.spans) for one in keeping.arrived()] == [("traces", 1), ("logs", 0)]
    assert (keeping.sampled, keeping.keep.spans, keeping.keep.size_bytes) == (0, 0, 0)


def test_a_run_that_passed_is_dropped_whole_and_counted_where_its_randomness_is_below_the_threshold():
    keeping = Keeping()
    keeping.send(LOW)
    keeping.log(LOW)
    keeping.score(card())
    assert (keeping.arrived(), keeping.sampled, keeping.keep.size_bytes) == ([], 1, 0)
    assert keeping.metrics.requests_dropped.value(("backend", "logs", "sampled")) == 1


BROKEN = Run(
    span=ROOT,
    above=None,
    agent=None,
    prompt=None,
    response=None,
    tools_offered=None,
    start_ns=0,
    end_ns=0,
    error=CallError(kind="timeout", message=""),
)


@each_row(
    ("settings", "result", "kept"),
    [
        ({}, card(of=replace(run(), runs=(BROKEN,))), [LOW]),
        ({}, card(Errored(error_type="timeout", message="")), [LOW]),
        ({}, scorecard(shadow(call_result(failed())), of=run()), []),
        ({"slow": {"over": "1s"}}, card(), [LOW]),
        ({"slow": {"over": "2s"}}, card(), []),
    ],
    ids=["error of the run", "error of an evaluator", "failure in trial", "slow", "not slow"],
)
def test_runs_with_errors_and_slow_ones_are_kept(settings: dict[str, object], result: Scorecard, kept: list[str]):
    keeping = Keeping(**settings)  # pyright: ignore[reportArgumentType] - settings of `keep` alone
    keeping.send(LOW)
    keeping.score(result)
    assert (keeping.traces(), keeping.sampled) == (kept, 1 - len(kept))


@each_row(
    ("first_of", "runs", "kept"),
    [
        ("tool", [("1", "search book"), ("1", "book"), ("1", "pay")], [0, 2]),
        ("version", [("1", "book"), ("1", "pay"), ("2", "book")], [0, 2]),
    ],
)
def test_the_first_run_with_a_tool_or_version_is_kept_and_no_later_one(
    first_of: str, runs: list[tuple[str, str]], kept: list[int]
):
    keeping = Keeping(first_of=[first_of])
    traces = [f"{number:018d}{'0' * 14}" for number in range(1, len(runs) + 1)]
    for trace, (version, names) in zip(traces, runs, strict=True):
        keeping.send(trace)
        calls = tuple(map(call, names.split()))
        keeping.score(card(of=replace(run(trace), calls=calls, resource={"service.version": version})))
    assert keeping.traces() == [traces[number] for number in kept]


def test_what_comes_late_follows_the_decision_on_its_trace():
    keeping = Keeping()
    keeping.send(LOW, HIGH)
    keeping.score(card())
    keeping.score(card(of=run(HIGH)))
    keeping.send(LOW, HIGH)
    assert [(span.trace_id.hex(), span.trace_state) for span in keeping.spans()] == [(HIGH, "ot=th:8")] * 2
    assert keeping.sampled == 2


def test_traces_of_a_conversation_are_kept_or_dropped_together_and_carry_its_randomness():
    fates: dict[str, set[str]] = {}
    for number in range(20):
        keeping, conversation = Keeping(), f"conversation {number}"
        for trace in (LOW, HIGH):
            keeping.send(trace)
            keeping.score(card(of=run(trace, conversation)))
        spans = keeping.spans()
        assert len(spans) in (0, 2)
        fates[conversation] = {span.trace_state for span in spans}
        assert len(fates[conversation]) == len(spans) // 2
    kept = [state for states in fates.values() for state in states]
    assert 0 < len(kept) < 20
    assert all(state.startswith("ot=th:8;rv:") and int(state[-14], 16) >= 8 for state in kept)


def test_a_conversation_that_fails_keeps_its_later_traces():
    keeping = Keeping(passed=0.0)
    traces = [f"{number:032x}" for number in (1, 2, 3)]
    for trace, outcome in zip(traces, (passed(), failed(), passed()), strict=True):
        keeping.send(trace)
        keeping.score(card(outcome, of=run(trace, "conversation")))
    assert keeping.traces() == traces[1:]


def test_the_explicit_randomness_of_a_trace_decides_and_stays():
    keeping = Keeping()
    keeping.send(LOW, state="ot=rv:ffffffffffffff")
    keeping.score(card(of=run(LOW, "conversation")))
    assert [span.trace_state for span in keeping.spans()] == ["ot=th:8;rv:ffffffffffffff"]


def test_the_randomness_of_spans_that_bear_scores_counts_too():
    keeping = Keeping()
    keeping.score(card(), [Span(trace_state="ot=rv:ffffffffffffff").SerializeToString()])
    keeping.send(LOW, state="ot=rv:ffffffffffffff")
    assert keeping.traces() == [LOW]


def test_a_trace_that_was_sampled_before_keeps_its_own_randomness_and_the_larger_threshold():
    keeping = Keeping()
    keeping.send(HIGH, state="ot=th:4")
    keeping.send(HIGH, state="ot=th:c")
    keeping.score(card(of=run(HIGH, "conversation")))
    assert [span.trace_state for span in keeping.spans()] == ["ot=th:8", "ot=th:c"]


def test_a_trace_without_an_agent_is_decided_once_its_root_has_come_and_it_is_quiet():
    keeping = Keeping(not_agent=0.5)
    keeping.send(HIGH, LOW, is_root=True)
    keeping.wait(29)
    keeping.send(HIGH)
    keeping.wait(2)
    assert (keeping.spans(), keeping.sampled) == ([], 1)
    keeping.wait(28)
    assert [span.trace_state for span in keeping.spans()] == ["ot=th:8"] * 2


def test_a_trace_without_an_agent_and_without_a_root_is_decided_at_the_end_of_the_wait():
    keeping = Keeping(wait="5m")
    keeping.send(LOW)
    keeping.wait(299)
    assert keeping.traces() == []
    keeping.wait(1)
    assert (keeping.traces(), keeping.unsampled("wait")) == ([LOW], 0)


def test_a_run_that_is_still_open_at_the_end_of_the_wait_goes_on_unsampled_and_is_counted():
    keeping = Keeping(passed=0.0, not_agent=0.0, wait="5m")
    keeping.agents.known.add(LOW)
    keeping.send(LOW, is_root=True)
    keeping.wait(300)
    assert (keeping.traces(), keeping.unsampled("wait")) == ([LOW], 1)
    keeping.score(card())
    keeping.send(LOW)
    assert (keeping.traces(), keeping.sampled) == ([LOW], 0)


def test_judges_are_waited_for():
    keeping = Keeping()
    keeping.send(LOW)
    first = replace(card(), awaits_judges=True)
    keeping.score(first)
    assert (keeping.keep.spans, keeping.sampled) == (1, 0)
    keeping.score(replace(card(failed()), by_judges=True))
    assert keeping.traces() == [LOW]


def test_a_run_that_was_not_scored_for_overload_goes_on_unsampled_and_is_counted():
    keeping = Keeping()
    keeping.send(LOW)
    keeping.score(card(NotEvaluated(reason="overload")))
    assert (keeping.traces(), keeping.unsampled("overload")) == ([LOW], 1)


def test_a_trace_that_finds_no_room_goes_on_whole_and_is_counted():
    keeping = Keeping(max_bytes=2000)
    keeping.send(LOW, size=100)
    keeping.send(HIGH, size=100)
    keeping.send(LOW, size=1000)
    assert keeping.traces() == [LOW, LOW]
    assert (keeping.unsampled("full"), keeping.keep.spans) == (2, 1)
    keeping.score(card())
    assert keeping.sampled == 0


def test_a_request_is_refused_where_neither_the_traces_nor_the_queue_have_room():
    keeping = Keeping(max_bytes=1000, queue_bytes=1000)
    assert keeping.send(LOW, size=900)
    assert not keeping.send(HIGH, size=900)
    assert keeping.traces() == [LOW]
    assert keeping.send(HIGH, size=900)


def test_small_requests_do_not_pile_up_behind_kept_traces_that_find_no_room_in_the_queue():
    keeping = Keeping(queue_bytes=2000, max_bytes=3000)
    keeping.send(LOW, size=1000)
    keeping.send(HIGH, size=1000)
    keeping.score(card(failed()))
    keeping.score(card(failed(), of=run(HIGH)))
    assert [keeping.send(LOW, size=100) for _ in range(20)].count(True) < 5
    assert keeping.keep.size_bytes <= 3000
    while keeping.traces():
        keeping.wait(1)
    assert keeping.send(LOW, size=100)


def test_a_request_whose_parts_would_each_copy_a_large_resource_goes_on_in_one_piece():
    keeping = Keeping(max_bytes=100_000)
    spans = [Span(trace_id=number.to_bytes(16, "big"), span_id=b"2" * 8) for number in range(1, 101)]
    large = Resource(attributes=[KeyValue(key="k", value=AnyValue(string_value="x" * 10_000))])
    group = ResourceSpans(resource=large, scope_spans=[ScopeSpans(spans=spans)])
    body = ExportTraceServiceRequest(resource_spans=[group]).SerializeToString()
    assert keeping.keep.put(Outgoing(signal="traces", body=body, spans=100, own=False))
    assert [one.body for one in keeping.arrived()] == [body]
    assert (keeping.unsampled("full"), keeping.keep.size_bytes) == (100, 0)


def test_traces_with_a_request_that_passed_unread_go_on_unsampled():
    keeping = Keeping(not_agent=0.0)
    keeping.send(LOW, is_root=True)
    keeping.send(LOW, is_root=True, is_read=False)
    keeping.wait(60)
    assert (keeping.traces(), keeping.unsampled("overload")) == ([LOW, LOW], 2)


def test_a_destination_that_replaces_another_one_holds_to_its_decisions():
    before, keeping = Keeping(), Keeping()
    before.send(HIGH)
    before.score(card())
    before.score(card(failed(), of=run("1" * 32, "conversation")))
    keeping.keep.follow(before.keep)
    assert (before.traces(), before.unsampled("shutdown")) == ([HIGH], 1)
    keeping.send(LOW, HIGH)
    keeping.score(card(of=run("2" * 18 + "0" * 14, "conversation")))
    keeping.send("2" * 18 + "0" * 14)
    assert [(span.trace_id.hex()[:2], span.trace_state) for span in keeping.spans()] == [(HIGH[:2], ""), ("22", "")]


def test_many_kept_traces_leave_as_one_request():
    keeping = Keeping()
    keeping.send(*(f"{number:032x}" for number in range(1, 101)), is_root=True)
    keeping.wait(30)
    assert [one.spans for one in keeping.arrived()] == [100]


def test_the_journal_has_a_request_until_every_trace_in_it_is_sent_or_dropped():
    journal = MemoryJournal()
    keeping = Keeping(journal)
    keeping.send(LOW, HIGH)
    keeping.score(card())
    assert (len(journal.left()), keeping.sampled) == (1, 1)
    keeping.score(card(failed(), of=run(HIGH)))
    assert len(journal.left()) == 1
    assert keeping.traces() == [HIGH]
    assert journal.left() == []


def test_what_an_earlier_process_decided_holds():
    before, keeping = Keeping(), Keeping()
    before.score(card())
    before.score(card(of=run(HIGH)))
    noting, keepers = Keepers(lambda: [before.keep]), Keepers(lambda: [keeping.keep])
    closed = [ClosedId(id=one, scope="trace", closed_ns=0, sampled=noting.noted(one)) for one in (LOW, HIGH)]
    assert [*keepers.restored(closed)] == closed
    keeping.send(LOW, HIGH)
    assert [(span.trace_id.hex(), span.trace_state) for span in keeping.spans()] == [(HIGH, "ot=th:8")]


def test_the_decision_without_its_judges_is_noted():
    keeping = Keeping()
    keeping.score(replace(card(), awaits_judges=True))
    decision = keeping.keep.noted(LOW)
    assert decision is not None
    assert not decision.is_kept
    assert keeping.keep.noted(HIGH) is None


async def test_what_waits_without_a_journal_goes_on_when_the_destination_ends():
    body = ExportTraceServiceRequest(
        resource_spans=[ResourceSpans(scope_spans=[ScopeSpans(spans=[Span(trace_id=b"1" * 16, span_id=b"2" * 8)])])]
    ).SerializeToString()
    async with grpc_sink(always(OK)) as seen, sending(seen.endpoint, keep=KeepSettings(passed=0.0)) as out:
        assert out.destination.put(request(body))
        assert (out.destination.spans_waiting, out.destination.queue.spans) == (1, 0)
        await out.destination.drain(5)
    assert seen.bodies == [body]
    assert out.spans() == {("forwarded", "", "otlp"): 1}
    assert counted(out.metrics.keep_unsampled) == {("otlp", "shutdown"): 1}


async def test_what_we_write_ourselves_and_metrics_do_not_wait():
    async with grpc_sink(always(OK)) as seen, sending(seen.endpoint, keep=KeepSettings(passed=0.0)) as out:
        assert out.destination.put(request(b"\n\0", spans=0, own=True))
        assert out.destination.put(request(b"\n\0", spans=0, signal="metrics"))
        await until(lambda: len(seen.bodies) == 2)


def say(keeping: Keeping, *traces: str) -> bool:
    """Have our own spans of these traces sent, as scorecards are."""
    spans = [Span(trace_id=bytes.fromhex(one), span_id=b"9" * 8, name="card") for one in traces]
    body = ExportTraceServiceRequest(resource_spans=[ResourceSpans(scope_spans=[ScopeSpans(spans=spans)])])
    outgoing = Outgoing(signal="traces", body=body.SerializeToString(), spans=0, own=True, of_traces=True)
    if keeping.journal is not None:
        entry = keeping.ledger.new_entry("traces", outgoing.body, keeping.now_ns, own=True)
        keeping.ledger.close((), (), (entry,))
        keeping.ledger.claim_deliveries((entry.id,))
        keeping.ledger.close((entry.id,), (), ())
        outgoing = replace(outgoing, entries=(entry.id,))
        taken = keeping.keep.put_own(outgoing)
        keeping.ledger.settle(outgoing.entries)
        return taken
    return keeping.keep.put_own(outgoing)


def test_what_we_say_of_a_trace_goes_where_the_trace_goes():
    keeping = Keeping()
    keeping.score(card())
    keeping.score(card(of=run(HIGH)))
    keeping.score(card(failed(), of=run("7" * 32)))
    assert say(keeping, LOW, HIGH, "7" * 32, "8" * 32)
    (sent,) = keeping.arrived()
    assert (sent.own, sent.spans) == (True, 0)
    spans = ExportTraceServiceRequest.FromString(sent.body)
    states = [
        (one.trace_id.hex(), one.trace_state) for group in spans.resource_spans for one in group.scope_spans[0].spans
    ]
    assert states == [(HIGH, "ot=th:8"), ("7" * 32, ""), ("8" * 32, "")]
    assert counted(keeping.metrics.own_dropped) == {("backend", "traces", "sampled"): 1}


def test_what_we_say_of_a_trace_that_awaits_judges_waits_with_it():
    journal = MemoryJournal()
    keeping = Keeping(journal)
    for trace in (LOW, HIGH):
        keeping.score(replace(card(of=run(trace)), awaits_judges=True))
    assert say(keeping, LOW, HIGH)
    assert (keeping.arrived(), len(journal.left())) == ([], 1)
    keeping.score(replace(card(), by_judges=True))
    assert (keeping.arrived(), len(journal.left())) == ([], 1)
    keeping.score(replace(card(failed(), of=run(HIGH)), by_judges=True))
    assert keeping.traces() == [HIGH]
    assert (journal.left(), keeping.keep.size_bytes) == ([], 0)


def test_what_we_say_of_a_trace_has_room_of_its_own_and_is_refused_beyond_it():
    keeping = Keeping(queue_bytes=10)
    keeping.score(card(failed()))
    assert keeping.send(LOW)
    assert say(keeping, LOW)
    while say(keeping, *[LOW] * 1000):
        pass
    assert not counted(keeping.metrics.own_dropped)
    assert keeping.keep.size_bytes == 0


def test_everything_that_we_say_is_sent_where_all_scorecards_are_wanted():
    keeping = Keeping(scorecards="all")
    keeping.score(card())
    assert say(keeping, LOW)
    assert keeping.traces() == [LOW]
    assert not keeping.keep.drops(LOW)


def test_a_destination_without_traces_keeps_none():
    with pytest.raises(ValidationError, match="`keep`, which is for traces"):
        DestinationSettings(endpoint="localhost:4317", signals=("metrics",), keep=KeepSettings(passed=0.0))
