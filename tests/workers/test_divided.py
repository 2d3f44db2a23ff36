"""How the front divides requests, and what it hands over a second time."""

import asyncio
from collections.abc import Sequence

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from toolgauge.model.delivery import Accepted, Answer, Invalid, Refused, Signal
from toolgauge.otlp.request import Divider, Part
from toolgauge.service.workers.front import DividedIntake
from toolgauge.service.workers.worker_process import WorkerProcess

KEYS = ("gen_ai.conversation.id", "session.id")
FIRST = bytes(15) + b"\x02"


def request(*spans: tuple[bytes, str | None], service: str = "shop") -> bytes:
    """Spans by trace id and conversation id."""
    built = ExportTraceServiceRequest()
    group = built.resource_spans.add()
    group.resource.attributes.add(key="service.name").value.string_value = service
    scope = group.scope_spans.add()
    for number, (trace_id, conversation) in enumerate(spans, 1):
        span = scope.spans.add(trace_id=trace_id, span_id=number.to_bytes(8), name=f"span {number}")
        if conversation is not None:
            span.attributes.add(key="gen_ai.conversation.id").value.string_value = conversation
    return built.SerializeToString()


def traces(part: Part) -> set[bytes]:
    return {
        span.trace_id
        for group in ExportTraceServiceRequest.FromString(part.body).resource_spans
        for scope in group.scope_spans
        for span in scope.spans
    }


def test_all_spans_of_a_trace_are_in_one_part_with_their_resource():
    ids = [number.to_bytes(16) for number in range(1, 50)]
    body = request(*((trace_id, None) for trace_id in (*ids, *ids)))
    parts = Divider(3).divide("traces", body)
    assert sorted(part.worker for part in parts) == [0, 1, 2]
    assert sum(part.items for part in parts) == 98
    seen = [trace_id for part in parts for trace_id in traces(part)]
    assert sorted(seen) == sorted(ids)
    for part in parts:
        (group,) = ExportTraceServiceRequest.FromString(part.body).resource_spans
        assert group.resource.attributes[0].value.string_value == "shop"


def test_traces_of_a_conversation_go_to_one_worker_and_later_spans_follow():
    divider = Divider(16, KEYS)
    ids = [number.to_bytes(16) for number in range(1, 20)]
    workers = {divider.divide("traces", request((each, None), (each, "c-1")))[0].worker for each in ids}
    assert len(workers) == 1
    assert {divider.divide("traces", request((each, None)))[0].worker for each in ids} == workers


def test_a_trace_that_shows_its_conversation_late_stays_where_it_began():
    divider = Divider(16, KEYS)
    ids = [number.to_bytes(16) for number in range(1, 20)]
    before = [divider.divide("traces", request((each, None)))[0].worker for each in ids]
    after = [divider.divide("traces", request((each, "c-1")))[0].worker for each in ids]
    assert before == after
    assert len(set(before)) > 1


def test_log_records_go_with_their_trace_and_metrics_to_the_first_worker():
    divider = Divider(16)
    built = ExportLogsServiceRequest()
    ids = [number.to_bytes(16) for number in range(1, 20)]
    built.resource_logs.add().scope_logs.add().log_records.extend(LogRecord(trace_id=each) for each in (*ids, b""))
    of_logs = {part.worker: part.items for part in divider.divide("logs", built.SerializeToString())}
    of_spans = [divider.divide("traces", request((each, None)))[0].worker for each in ids]
    assert set(of_logs) == {*of_spans, 0}
    assert sum(of_logs.values()) == 20
    assert divider.divide("metrics", b"any") == [Part(0, b"any", 0)]


class Worker(WorkerProcess):
    """Takes requests, unless it is away."""

    def __init__(self) -> None:
        self.is_away = False
        self.taken: list[bytes] = []

    async def consume(self, signal: Signal, body: bytes, sender: str | None, spans: int) -> Answer:
        del signal, sender, spans
        if self.is_away:
            return Refused("away")
        self.taken.append(body)
        return Accepted()


def intake(workers: Sequence[Worker], *, has_memory: bool = True) -> tuple[DividedIntake, list[tuple[int, str]]]:
    refused: list[tuple[int, str]] = []
    made = DividedIntake(
        Divider(len(workers)),
        workers,
        has_memory=lambda _size: has_memory,
        refused=lambda spans, reason: refused.append((spans, reason)),
        on_accepted=lambda _signal, _body: None,
    )
    return made, refused


def test_what_one_worker_has_taken_is_not_handed_over_again_when_the_sender_comes_back():
    workers = (Worker(), Worker())
    made, _ = intake(workers)
    body = request(*((number.to_bytes(16), None) for number in range(1, 20)))
    workers[1].is_away = True
    assert asyncio.run(made.consume("traces", body, None)) == Refused("away")
    workers[1].is_away = False
    assert asyncio.run(made.consume("traces", body, None)) == Accepted()
    assert [len(worker.taken) for worker in workers] == [1, 1]
    # The same once more is another request.
    assert asyncio.run(made.consume("traces", body, None)) == Accepted()
    assert [len(worker.taken) for worker in workers] == [2, 2]


def test_what_cannot_be_divided_or_taken_is_answered_by_the_front():
    made, refused = intake((Worker(), Worker()), has_memory=False)
    assert isinstance(asyncio.run(made.consume("traces", b"\x0a\xff", None)), Invalid)
    assert asyncio.run(made.consume("traces", request((FIRST, None)), None)) == Refused("memory is short")
    made.close()
    assert asyncio.run(made.consume("traces", request((FIRST, None)), None)) == Refused("shutting down")
    assert refused == [(1, "memory"), (1, "shutdown")]
