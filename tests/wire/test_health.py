"""What an orchestrator and a person hear from the admin endpoint of a running toolgauge."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import contextlib
import http.client
import json
import re
import threading
from pathlib import Path
from typing import TypeAlias

import grpc
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from tests.wire.sink import Sink
from tests.wire.support import (
    LITTLE_MEMORY,
    SENDING_SHORTLY,
    TRACES,
    Toolgauge,
    fill_memory,
    free_port,
    recorded,
    request,
    serving,
    to_grpc,
    to_http,
    until,
)

ClaimedAct: TypeAlias = tuple[str, str | None]


def admin_port(toolgauge: Toolgauge) -> int:
    found = until(lambda: re.search(r"health on port (\d+)", toolgauge.said()), "the port in the log")
    return int(found[1])


def simple(port: int) -> int:
    return request(port, "GET", "/", None, {})[0]


AWAY = ("StatusRecoverableError", "unavailable: connection refused")


def part(port: int, name: str) -> ClaimedAct:
    """Ask for one part: its status, and what is said about it."""
    status, body = request(port, "GET", "/status?verbose", None, {})
    assert status == 200
    told = json.loads(body)["components"]["pipeline:toolgauge"]["components"][name]
    return told["status"], told.get("error")


def test_a_destination_that_wants_another_token_is_a_permanent_error_of_the_signals_it_refuses(
    tmp_path: Path, sink: Sink
):
    sink.tell("/fault", "unauth:signal=traces")
    with serving(tmp_path, to_http(sink.ports["http"])) as toolgauge:
        port = admin_port(toolgauge)
        toolgauge.send_recorded("pydantic-ai", "tool_error")
        until(lambda: part(port, "exporter:otlp") == ("StatusPermanentError", "traces: http_401"), "the refusal")
        assert simple(port) == 200
        sink.tell("/fault")
        toolgauge.send_recorded("pydantic-ai", "tool_error")
        until(lambda: part(port, "exporter:otlp") == ("StatusOK", None), "it to be well again")


def test_memory_that_is_short_is_plainly_claimed_with_the_time_to_come_back_and_passes(tmp_path: Path, sink: Sink):
    sink.tell("/down")
    (body,) = recorded("pydantic-ai", "tool_error")
    onward = to_http(sink.ports["http"], "queue: {max_bytes: 1GiB}")
    with serving(tmp_path, onward, LITTLE_MEMORY, "annotate=off") as toolgauge:
        port = admin_port(toolgauge)
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
        told = "memory is short (`memory.limit`): requests are refused with a retryable status"
        until(lambda: part(port, "processor:memory_limiter") == ("StatusRecoverableError", told), "memory to be short")
        assert simple(port) == 200
        sink.tell("/up")
        until(lambda: part(port, "processor:memory_limiter") == ("StatusOK", None), "memory to suffice again")


def test_a_destination_that_is_away_is_plainly_claimed_and_health_says_no_to_the_last_once_the_signal_came(
    tmp_path: Path,
):
    with serving(tmp_path, to_grpc(free_port()), patched=SENDING_SHORTLY) as toolgauge:
        port = admin_port(toolgauge)
        toolgauge.send_recorded("pydantic-ai", "tool_error")
        until(lambda: part(port, "exporter:otlp") == AWAY, "the outage")
        assert simple(port) == 200
        toolgauge.signal()
        until(lambda: "stopping" in toolgauge.said(), "the signal to be seen")
        answers: list[tuple[int, str]] = []
        between = threading.Event()
        try:
            while True:
                status, body = request(port, "GET", "/status", None, {})
                answers.append((status, json.loads(body)["status"]))
                between.wait(0.05)
        except (OSError, http.client.HTTPException):
            pass
        assert toolgauge.ended() == 1
        # It was asked all the time in which the queue was waited for.
        assert {(503, "StatusStopping")} <= set(answers) <= {(503, "StatusStopping"), (503, "StatusStopped")}
        assert "stopped; lost: 3 spans" in toolgauge.said()
