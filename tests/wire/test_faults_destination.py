"""Senders go on while the destination misbehaves: nothing that was acknowledged is lost, and nothing is scored twice."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import signal
from pathlib import Path

import grpc
import pytest

from tests.wire.sink import Load, Report, Sink, onward_to
from tests.wire.support import TRACES, Toolgauge, post, recorded, serving, until


def assert_all_arrived(toolgauge: Toolgauge, sink: Sink, sent: Report, deadline_s: float = 240) -> None:
    """All that was acknowledged is there, every tool span is scored once, and the books say so."""
    toolgauge.settled(sent["acked_spans"], deadline_s)
    until(lambda: toolgauge.total("toolgauge_traces_open") == 0, "all trajectories to be closed", deadline_s)
    books = toolgauge.assert_books_balance()
    assert books["forwarded"] == books["received"] - books["refused"] == sent["acked_spans"]
    assert sink.counted("unique_spans") == sent["acked_spans"]
    # What is closed may be in the middle of being counted.
    until(
        lambda: sink.scores("scorecard_spans") == toolgauge.total("toolgauge_trajectories_total") > 0, "all scorecards"
    )
    until(lambda: sink.events() == scored(toolgauge) > 0, "all events, each once")


def scored(toolgauge: Toolgauge) -> float:
    """How many results there are that become events."""
    return sum(
        value
        for (name, labels), value in toolgauge.samples().items()
        if name == "toolgauge_evaluations_total" and _is_event(dict(labels))
    )


def _is_event(labels: dict[str, str]) -> bool:
    # What cannot fail is counted and no event.
    is_scored = labels["toolgauge_outcome"] in ("pass", "fail", "error")
    return is_scored and labels["gen_ai_evaluation_name"] not in ("default.tool_use", "default.coverage")


def load(toolgauge: Toolgauge, *, seconds: int, rate: int) -> Load:
    # No planted faults: two invented calls of one model span would look like one score that came twice.
    numbers = {"fault-share": 0, "duration": seconds, "rate": rate, "batch": 64, "timeout": 30}
    return Load(toolgauge, *(word for name, number in numbers.items() for word in (f"--{name}", str(number))))


def test_under_load_a_destination_that_refuses_most_requests_gets_everything_once(tmp_path: Path, sink: Sink):
    with serving(tmp_path, onward_to(sink, "grpc")) as toolgauge:
        sink.tell("/fault", "unavailable:p=0.7@0-2")
        with load(toolgauge, seconds=2, rate=800) as running:
            sent = running.report()
        assert_all_arrived(toolgauge, sink, sent)
        assert sink.counted("duplicate_spans") == 0


@pytest.mark.long
def test_a_long_outage_under_load_stays_within_memory_and_ends_by_itself(tmp_path: Path, sink: Sink):
    limit_mib = 180
    onward = onward_to(sink, "grpc", "queue: {max_bytes: 1GiB}")
    settings = (f"memory.limit={limit_mib}MiB", "hold.max_bytes=1GiB", "assemble.max_open_bytes=1GiB")
    with serving(tmp_path, onward, *settings) as toolgauge:
        sink.tell("/down")
        with load(toolgauge, seconds=8, rate=0) as running:
            until(lambda: toolgauge.total("toolgauge_memory_state"), "memory to be short")
            books = toolgauge.assert_books_balance()
            (body,) = recorded("pydantic-ai", "tool_error")
            until(lambda: post(toolgauge.http_port, body)[0] == 503, "a request to be refused")
            assert toolgauge.memory_mib("VmHWM") < limit_mib
            sink.tell("/up")
            sent = running.report()
        until(lambda: not toolgauge.total("toolgauge_memory_state"), "memory to suffice again")
        assert_all_arrived(toolgauge, sink, sent)
        assert toolgauge.books()["refused"] > books["refused"] >= 0
        assert "requests are refused with a retryable status" in toolgauge.said()
        assert "accepting requests again" in toolgauge.said()


def test_requests_that_are_refused_leave_nothing_in_memory(tmp_path: Path, sink: Sink):
    sink.tell("/down")
    (small,) = recorded("pydantic-ai", "tool_error")
    # Unknown fields: bytes that cost nothing to read.
    large = small + b"\xfa\x7f\x80\x80\x20" + bytes(1 << 19)
    onward = onward_to(sink, "grpc", "queue: {max_bytes: 64KiB}")
    with serving(tmp_path, onward, "annotate=off") as toolgauge:
        until(lambda: post(toolgauge.http_port, small)[0] == 503, "the queue to be full")
        with grpc.insecure_channel(f"127.0.0.1:{toolgauge.grpc_port}") as channel:
            export = channel.unary_unary(TRACES)
            before = 0.0
            for number in range(200):
                assert export.future(large, timeout=60).code() is grpc.StatusCode.UNAVAILABLE
                if number == 50:
                    before = toolgauge.memory_mib()
        assert toolgauge.memory_mib() - before < 30
        toolgauge.signal(signal.SIGKILL)
        toolgauge.ended()
