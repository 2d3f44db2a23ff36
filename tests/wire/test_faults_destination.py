"""Senders go on while the destination misbehaves: nothing that was acknowledged is lost, and nothing is scored twice."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import contextlib
import http.client
import signal
import time
from pathlib import Path

import grpc
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from tests.wire.sink import Load, Report, Sink, onward_to
from tests.wire.support import LITTLE_MEMORY, TRACES, Toolgauge, fill_memory, post, recorded, serving, until

BATCH = 64


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
    assert_every_score_came_once(toolgauge, sink)


def assert_every_score_came_once(toolgauge: Toolgauge, sink: Sink) -> None:
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


def load(toolgauge: Toolgauge, *, seconds: float, rate: int = 800) -> Load:
    # No planted faults: two invented calls of one model span would look like one score that came twice.
    return Load(
        toolgauge,
        "--fault-share",
        "0",
        "--duration",
        str(seconds),
        "--rate",
        str(rate),
        "--batch",
        str(BATCH),
        "--timeout",
        "30",
    )


def test_under_load_a_destination_that_refuses_most_requests_gets_everything_once(tmp_path: Path, sink: Sink):
    with serving(tmp_path, onward_to(sink, "grpc")) as toolgauge:
        sink.tell("/fault", "unavailable:p=0.7@0-3")
        with load(toolgauge, seconds=3) as running:
            sent = running.report()
        assert_all_arrived(toolgauge, sink, sent)
        assert sink.counted("duplicate_spans") == 0


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_two_cuts_after_the_data_was_taken_make_duplicates_of_those_requests_alone(
    tmp_path: Path, sink: Sink, protocol: str
):
    with serving(tmp_path, onward_to(sink, protocol)) as toolgauge:
        sink.tell("/fault", "lost_ack:first=2,signal=traces")
        with load(toolgauge, seconds=2) as running:
            sent = running.report()
        toolgauge.settled(sent["acked_spans"])
        until(lambda: toolgauge.total("toolgauge_traces_open") == 0, "all trajectories to be closed")
        assert sink.counted("unique_spans") == sent["acked_spans"]
        assert toolgauge.assert_books_balance()["dropped"] == 0
        # Requests that waited together are sent as one, which may be nearly all where the machine is slow.
        assert 0 < sink.counted("duplicate_spans") <= sent["acked_spans"]
        if protocol == "http":
            # A cut of gRPC takes the answers of all that is on the way over the same connection, events among it.
            assert_every_score_came_once(toolgauge, sink)


def test_seconds_without_a_destination_lose_nothing(tmp_path: Path, sink: Sink):
    with serving(tmp_path, onward_to(sink, "grpc")) as toolgauge, load(toolgauge, seconds=5, rate=400) as running:
        until(lambda: sink.counted("unique_spans") > 0, "the first spans")
        sink.tell("/down")
        ends = time.monotonic() + 3
        while time.monotonic() < ends:
            toolgauge.assert_books_balance()
            time.sleep(0.3)
        sink.tell("/up")
        sent = running.report()
        assert_all_arrived(toolgauge, sink, sent)
        assert toolgauge.said().count("does not accept requests") == 1
        assert sink.counted("duplicate_spans") <= sent["acked_spans"]


@pytest.mark.parametrize(
    ("protocol", "fault", "fate"),
    [
        ("grpc", "exhausted", "dropped"),
        ("grpc", "exhausted:retry=0.2,first=3", "sent again"),
        ("http", "exhausted:first=3", "sent again"),
        ("grpc", "invalid", "dropped"),
        ("http", "invalid", "dropped"),
        ("grpc", "unauth", "dropped"),
        ("http", "code:code=BAD_GATEWAY,http=502,first=3", "sent again"),
    ],
)
def test_what_is_to_be_sent_again_is_and_what_is_not_is_dropped_at_once(
    tmp_path: Path, sink: Sink, protocol: str, fault: str, fate: str
):
    (body,) = recorded("pydantic-ai", "tool_error")
    with serving(tmp_path, onward_to(sink, protocol), "annotate=off") as toolgauge:
        separator = "," if ":" in fault else ":"
        sink.tell("/fault", f"{fault}{separator}signal=traces")
        toolgauge.send(body, "http")
        books = toolgauge.settled(3)
        assert (books["dropped"], books["forwarded"]) == ((3, 0) if fate == "dropped" else (0, 3))
        assert sink.counted("unique_spans") == books["forwarded"]
        retried = toolgauge.total("toolgauge_send_retries_total")
        assert (retried > 0) == (fate == "sent again")


def test_a_slow_destination_delays_senders_by_nothing_until_the_queue_is_full(tmp_path: Path, sink: Sink):
    (body,) = recorded("pydantic-ai", "tool_error")
    onward = onward_to(sink, "http", "queue: {max_bytes: 256KiB}")
    with serving(tmp_path, onward, "annotate=off") as toolgauge:
        sink.tell("/fault", "slow:ms=1500@0-3")
        took_s: list[float] = []
        taken = 0
        for _ in range(150):
            began = time.monotonic()
            status, _ = post(toolgauge.http_port, body)
            took_s.append(time.monotonic() - began)
            assert status in (200, 503)
            taken += status == 200
        # Most of them: a busy machine delays some.
        assert sorted(took_s)[len(took_s) // 2] < 1
        assert taken > 0
        books = toolgauge.settled(450)
        assert books["forwarded"] == 3 * taken == sink.counted("unique_spans") + sink.counted("duplicate_spans")


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
            most = 0.0
            for _ in range(20):
                most = max(most, toolgauge.memory_mib())
                time.sleep(0.1)
            assert most < limit_mib
            sink.tell("/up")
            sent = running.report()
        until(lambda: not toolgauge.total("toolgauge_memory_state"), "memory to suffice again")
        assert_all_arrived(toolgauge, sink, sent)
        assert toolgauge.books()["refused"] > books["refused"] >= 0
        reasons = {
            dict(labels)["toolgauge_reason"]
            for (name, labels), value in toolgauge.samples().items()
            if value and name == "toolgauge_spans_total" and dict(labels)["toolgauge_outcome"] == "refused"
        }
        assert reasons == {"memory"}
        assert "requests are refused with a retryable status" in toolgauge.said()
        assert "accepting requests again" in toolgauge.said()


def test_memory_that_is_short_is_plainly_claimed_with_the_time_to_come_back(tmp_path: Path, sink: Sink):
    sink.tell("/down")
    (body,) = recorded("pydantic-ai", "tool_error")
    onward = onward_to(sink, "http", "queue: {max_bytes: 1GiB}")
    with serving(tmp_path, onward, LITTLE_MEMORY, "annotate=off") as toolgauge:
        fill_memory(toolgauge, body)
        headers = {"Content-Type": "application/x-protobuf"}
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", toolgauge.http_port, timeout=60)) as connection:
            connection.request("POST", "/v1/traces", body, headers)
            answer = connection.getresponse()
            assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
            assert Status.FromString(answer.read()).message == "memory is short"
        with grpc.insecure_channel(f"127.0.0.1:{toolgauge.grpc_port}") as channel:
            call = channel.unary_unary(TRACES).future(body, timeout=60)
            assert call.code() is grpc.StatusCode.UNAVAILABLE
            (packed,) = [value for key, value in call.trailing_metadata() if key == "grpc-status-details-bin"]
            assert isinstance(packed, bytes)
            (detail,) = Status.FromString(packed).details
            assert RetryInfo.FromString(detail.value).retry_delay.seconds == 1
        assert toolgauge.total("toolgauge_memory_state") == 1
        # There is nothing to wait for.
        toolgauge.signal(signal.SIGKILL)
        toolgauge.ended()


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
            for number in range(400):
                assert export.future(large, timeout=60).code() is grpc.StatusCode.UNAVAILABLE
                if number == 50:
                    before = toolgauge.memory_mib()
        assert toolgauge.memory_mib() - before < 30
        toolgauge.signal(signal.SIGKILL)
        toolgauge.ended()
