"""`receivers.kafka` with running processes, against the broker inside librdkafka."""

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from tests.kafka_broker import kafka_broker, read
from tests.wire.agent_runs import AgentRun, request
from tests.wire.destination import Destination, receiving
from tests.wire.kafka_runs import (
    CLOSED,
    Outcome,
    Writer,
    assert_each_scored_once,
    consuming,
    some_runs,
    until_scored,
)
from tests.wire.support import Toolgauge, free_port, serving, to_grpc, until
from tests.wire.support import request as ask


@pytest.fixture
def broker() -> Iterator[str]:
    with kafka_broker() as address:
        # It makes topics for those who write into them, and for nobody else.
        writer = Writer(address)
        writer.put("", b"", CLOSED)
        writer.put("", b"")
        writer.flush()
        yield address


def requests(toolgauge: Toolgauge, outcome: str) -> float:
    return sum(
        value
        for (name, labels), value in toolgauge.samples().items()
        if name == "toolgauge_requests_total"
        and {("toolgauge_transport", "kafka"), ("toolgauge_outcome", outcome)} <= labels
    )


def hop_id(destination: Destination) -> str:
    """The id that a toolgauge puts on what it sends: that of its instance."""
    (group, *_) = ExportMetricsServiceRequest.FromString(destination.bodies("metrics")[0]).resource_metrics
    return next(one.value.string_value for one in group.resource.attributes if one.key == "service.instance.id")


def test_runs_are_scored_once_and_the_next_process_goes_on(broker: str, tmp_path: Path):
    runs, half = some_runs(20), some_runs(9, first=20)
    writer = Writer(broker)
    writer.write(runs)
    writer.write(half, slice(0, 2))
    with receiving() as destination:
        settings = consuming(tmp_path, broker, destination)
        with serving(tmp_path, *settings) as toolgauge:
            assert_each_scored_once(destination, runs)
            # What is open is needed, and nothing else.
            until(
                lambda: toolgauge.total("toolgauge_kafka_uncommitted") == 18, "the messages of closed runs to be done"
            )
            until(lambda: toolgauge.total("toolgauge_kafka_lag") == 0, "the lag to be seen as gone")
            assert toolgauge.total("toolgauge_kafka_rebalances_total") == 1
        assert not Outcome(destination, half).results
        assert {one.key for one in read(broker, CLOSED, 21)} == {run.trace_id.hex() for run in runs} | {""}
        writer.write(half, slice(2, 4))
        with serving(tmp_path, *settings) as toolgauge:
            assert_each_scored_once(destination, runs + half)
            # At least the first halves; and of closed runs what lay behind them.
            assert toolgauge.total("toolgauge_kafka_repeats_total") >= 18
            until(lambda: toolgauge.total("toolgauge_kafka_uncommitted") == 0, "everything to be done")


def test_a_process_that_is_killed_loses_nothing(broker: str, tmp_path: Path):
    runs = some_runs(20)
    writer = Writer(broker)
    with receiving() as destination:
        settings = consuming(tmp_path, broker, destination, "session_timeout: 6s")
        with serving(tmp_path, *settings) as toolgauge:
            writer.write(runs, slice(0, 2))
            until(lambda: toolgauge.total("toolgauge_kafka_uncommitted") == 40, "the first halves to be read")
            toolgauge.signal(signal.SIGKILL)
            toolgauge.ended()
        with serving(tmp_path, *settings):
            writer.write(runs, slice(2, 4))
            assert_each_scored_once(destination, runs)


def test_a_poisoned_message_and_one_of_our_own_are_skipped(broker: str, tmp_path: Path):
    runs = some_runs(5)
    writer = Writer(broker)
    with receiving() as destination, serving(tmp_path, *consuming(tmp_path, broker, destination)) as toolgauge:
        until(lambda: destination.bodies("metrics"), "the first metrics")
        writer.put(runs[0].trace_id.hex(), b"\xff\xff no request")
        writer.write(runs)
        writer.put(
            "0" * 32, request(some_runs(1, first=99)[0].spans()), headers={"x-toolgauge-hop": hop_id(destination)}
        )
        assert_each_scored_once(destination, runs)
        until(lambda: requests(toolgauge, "loop") == 1, "the message of our own to be met")
        assert requests(toolgauge, "invalid") == 1
        assert "of otlp_spans is skipped: cannot decode the request" in toolgauge.said()
        until(lambda: toolgauge.total("toolgauge_kafka_uncommitted") == 0, "everything to be done")
        assert not Outcome(destination, some_runs(1, first=99)).results


def test_without_room_messages_wait_and_nothing_passes_unread(broker: str, tmp_path: Path):
    runs = some_runs(40)
    with receiving() as destination:
        destination.is_away = True
        settings = (*consuming(tmp_path, broker, destination), "inbox.max_bytes=64KiB")
        onward = to_grpc(destination.grpc_port, "queue: {max_bytes: 256KiB}")
        with serving(tmp_path, *settings, onward) as toolgauge:
            writer = Writer(broker)
            writer.write(runs)
            until(lambda: requests(toolgauge, "refused"), "a message that finds no room")
            assert requests(toolgauge, "accepted") < 4 * len(runs)
            destination.is_away = False
            until_scored(destination, runs)
            found = Outcome(destination, runs)
            assert not found.wrong
            assert not found.twice
            assert toolgauge.total("toolgauge_spans_unread_total") == 0
            assert toolgauge.books()["dropped"] == 0


def test_brokers_that_are_away_are_shown_and_keep_nobody_from_starting_or_stopping(tmp_path: Path):
    with receiving() as destination:
        settings = consuming(tmp_path, f"127.0.0.1:{free_port()}", destination)
        admin = free_port()
        with serving(tmp_path, *settings, f"admin.endpoint=127.0.0.1:{admin}") as toolgauge:

            def status() -> str:
                _, health = ask(admin, "GET", "/status?verbose", None, {})
                return json.loads(health)["components"]["pipeline:toolgauge"]["components"]["receiver:kafka"]["status"]

            until(lambda: status() == "StatusRecoverableError", "the health of the receiver")
            run = AgentRun(1, time.time_ns(), time.time_ns() + 1000)
            toolgauge.send(request(run.spans()))
            until_scored(destination, [run])
            toolgauge.signal()
            assert toolgauge.ended() == 0, toolgauge.said()


def test_after_max_uncommitted_a_run_is_whole_where_it_began_and_incomplete_elsewhere(broker: str, tmp_path: Path):
    stays, moves = some_runs(4), some_runs(4, first=4)
    writer = Writer(broker)
    writer.write(stays + moves, slice(0, 2))
    with receiving() as destination:
        # Spans that are held for their scores wait for a destination, so to speak.
        settings = (*consuming(tmp_path, broker, destination, "max_uncommitted: 2s"), "hold.timeout=500ms")
        with serving(tmp_path, *settings) as toolgauge:
            until(lambda: toolgauge.total("toolgauge_kafka_given_up_total") == 8, "the open runs to be given up")
            until(lambda: toolgauge.total("toolgauge_kafka_uncommitted") == 0, "their messages to be committed")
            writer.write(stays, slice(2, 4))
            assert_each_scored_once(destination, stays)
        writer.write(moves, slice(2, 4))
        with serving(tmp_path, *settings):
            found = until_scored(destination, moves)
        assert {label for labels in found.results.values() for label in labels} == {"incomplete"}
