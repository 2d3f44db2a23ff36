"""How it ends while there is work: under load, with more to score than there is time for; and what the log tells."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from pydantic import BaseModel

from tests.wire.destination import attributes, receiving
from tests.wire.sink import Sink, onward_to
from tests.wire.support import (
    IN_TEST,
    LISTEN,
    PATIENT_END,
    SOON,
    free_port,
    post,
    recorded,
    request,
    serving,
    to_grpc,
    to_http,
    until,
)
from tests.wire.test_faults_load import send_traces
from tests.wire.test_reload import other_trace
from toolgauge.config.load import load
from toolgauge.model.expected import Expected
from toolgauge.model.outcomes import Level, Scored
from toolgauge.model.ports import Evaluation
from toolgauge.model.trajectory import Trajectory
from toolgauge.score.criterion import Criterion
from toolgauge.service.service import Service


def test_under_load_it_sends_all_that_was_taken_and_ends_with_0(tmp_path: Path):
    (body,) = recorded("pydantic-ai", "tool_error")
    taken: set[bytes] = set()
    unexpected: set[int] = set()

    def work(first: int) -> None:
        number = first
        while True:
            number += 1
            sent = other_trace(body, number)
            try:
                status, _ = post(toolgauge.http_port, sent)
            except OSError:  # the end
                return
            if status == 200:
                taken.add(number.to_bytes(8, "big"))
            elif status != 503:
                unexpected.add(status)

    with receiving() as destination:
        with serving(tmp_path, to_grpc(destination.grpc_port), patched=PATIENT_END) as toolgauge:
            senders = [threading.Thread(target=work, args=(first,)) for first in (0, 1_000_000, 2_000_000)]
            for sender in senders:
                sender.start()
            until(lambda: len(taken) > 100, "requests to be taken")
            toolgauge.signal()
            code = toolgauge.ended()
            for sender in senders:
                sender.join()
            assert code == 0, toolgauge.said()
            assert "everything was delivered" in toolgauge.said()
        assert not unexpected
        arrived = [span.trace_id[:8] for span in destination.spans()]
        assert [number for number in taken if arrived.count(number) != 3] == []
        cards = [card.trace_id[:8] for card in destination.scorecards()]
        assert taken <= set(cards)
        assert len(cards) == len(set(cards))


def test_what_was_held_leaves_at_the_end_in_few_requests_as_the_queue_has_room(tmp_path: Path):
    settings = ("assemble.idle_timeout=1h", "assemble.open_idle_timeout=1h", "hold.timeout=1h")
    with receiving() as destination:
        onward = to_http(destination.http_port, "queue: {max_bytes: 64KiB}")
        with serving(tmp_path, onward, *settings, patched=PATIENT_END) as toolgauge:
            send_traces(toolgauge, range(1, 1001))
            until(lambda: toolgauge.books()["held"] == 1000, "all spans to be held")
            toolgauge.signal()
            assert toolgauge.ended() == 0
        assert len(destination.spans()) == 1000
        assert len(destination.bodies("traces")) < 100


def test_a_slow_destination_has_the_time_that_scoring_does_not_need(tmp_path: Path, sink: Sink):
    (body,) = recorded("pydantic-ai", "tool_error")
    onward = onward_to(sink, "http", "queue: {num_consumers: 1}", "signals: [traces]")
    with serving(tmp_path, onward, "annotate=off") as toolgauge:
        sink.tell("/fault", "slow:ms=600")
        for number in range(4):
            assert post(toolgauge.http_port, other_trace(body, number))[0] == 200
        toolgauge.signal()
        assert toolgauge.ended() == 0, toolgauge.said()
    assert sink.counted("unique_spans") == 12


class Endless(BaseModel):
    """Takes longer than an end may."""

    version: ClassVar[str] = "1"
    level: ClassVar[Level] = "trajectory"

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:
        del trajectory, expected
        for _ in range(15_000):
            time.sleep(0.002)  # the work of an evaluator that is too slow
            yield None
        yield None, Scored(value=1.0, explanation="too late")


async def test_what_there_is_no_time_to_score_is_plainly_claimed_as_incomplete(monkeypatch: pytest.MonkeyPatch):
    for deadline in ("_SCORING_DEADLINE_S", "_CLOSING_DEADLINE_S"):
        monkeypatch.setattr(f"toolgauge.service.service.{deadline}", 0.5)
    (body,) = recorded("pydantic-ai", "tool_error")
    endless = Criterion(name="endless", evaluator_name="endless", evaluator=Endless(), revision="r1")
    with receiving() as destination:
        settings = (*LISTEN, *SOON, *IN_TEST, "events=all", "assemble.run_end_grace=1h", "assemble.idle_timeout=1h")
        config = load((), (*settings, to_http(destination.http_port)), {})
        service = Service(config, (endless,))
        await service.start()
        for number in range(5):
            assert await asyncio.to_thread(post, service.receivers[1].port, other_trace(body, number)) == (200, b"")
        losses = await service.stop()
        assert (bool(losses), losses.incomplete, losses.dropped) == (False, 5, 0)
        said = [attributes(event) for event in destination.events()]
        assert [event["toolgauge.outcome"] for event in said] == ["not_evaluated"] * 5
        assert {event["toolgauge.not_evaluated.reason"] for event in said} == {"incomplete"}
        assert len(destination.spans()) == 15
        assert len(destination.scorecards()) == 5


HIDDEN = "do-not-tell-4111"


def hostile_bodies() -> Iterator[tuple[str, bytes]]:
    (body,) = recorded("pydantic-ai", "tool_error")
    yield "application/x-protobuf", body.replace(b"tool", HIDDEN[:4].encode())
    yield "application/x-protobuf", HIDDEN.encode() * 20
    yield "application/x-protobuf", b"\x0a\x05" + HIDDEN.encode()
    yield "application/json", b'{"resourceSpans": [{"' + HIDDEN.encode() + b'": '
    yield "application/json", json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [{"name": HIDDEN}]}]}]}).encode()
    yield HIDDEN, b"x"


def test_at_debug_the_log_is_one_object_a_line_and_tells_neither_content_nor_secrets(tmp_path: Path):
    port = free_port()
    settings = (
        "log={level: debug, format: json}",
        f"receivers.otlp.protocols.http.auth.token={HIDDEN}-token",
        to_http(port, f"headers: {{x-key: {HIDDEN}-key}}", "timeout: 200ms").replace("http://", f"http://me:{HIDDEN}@"),
    )
    with serving(tmp_path, *settings) as toolgauge:
        bearer = {"Authorization": f"Bearer {HIDDEN}-token"}
        for content_type, body in hostile_bodies():
            for more in (bearer, {"Authorization": f"Bearer {HIDDEN}"}, {f"x-{HIDDEN}": "\x01"}):
                request(toolgauge.http_port, "POST", "/v1/traces", body, {"Content-Type": content_type, **more})
        request(toolgauge.http_port, "GET", f"/{HIDDEN}", None, {})
        until(lambda: "does not accept requests" in toolgauge.said(), "the outage in the log")
        toolgauge.signal()
        until(lambda: "stopping" in toolgauge.said(), "the signal to be seen")
        # A second one: the queue has nothing to wait for.
        toolgauge.signal()
        assert toolgauge.ended() == 1
        lines = toolgauge.said().splitlines()
        assert HIDDEN not in toolgauge.said()
        assert f"@127.0.0.1:{port}" in toolgauge.said()
        events: list[dict[str, object]] = [json.loads(line) for line in lines]
        assert [event for event in events if not {"time", "level", "logger", "message"} <= set(event)] == []
        (outage,) = [event for event in events if "does not accept requests" in str(event["message"])]
        assert (outage["destination"], outage["reason"]) == ("otlp", "connection")


async def test_very_many_open_trajectories_end_in_time_and_no_span_is_lost():
    count = 3000
    tool = Span(name="execute_tool look", span_id=(1).to_bytes(8))
    tool.attributes.add(key="gen_ai.operation.name").value.string_value = "execute_tool"
    tool.attributes.add(key="gen_ai.tool.name").value.string_value = "look"
    with receiving() as destination:
        settings = (*LISTEN, *IN_TEST, "assemble.idle_timeout=1h", "assemble.max_open=100000", "annotate=scorecard")
        config = load((), (*settings, to_http(destination.http_port)), {})
        service = Service(config, ())
        await service.start()
        for first in range(0, count, count // 6):
            request = ExportTraceServiceRequest()
            spans = request.resource_spans.add().scope_spans.add().spans
            for number in range(first, first + count // 6):
                spans.add().CopyFrom(tool)
                spans[-1].trace_id = (number + 1).to_bytes(16)
            assert await asyncio.to_thread(post, service.receivers[1].port, request.SerializeToString()) == (200, b"")
        await service.stop()
        assert len(destination.spans()) == count
        assert service.metrics.faults.cells == {}
