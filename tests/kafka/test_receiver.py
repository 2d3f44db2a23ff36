"""`receivers.kafka` against a real broker under load: nothing is lost, and each run is scored as the whole that it is."""

import contextlib
import json
import signal
import threading
import time
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.kafka.real_broker import Broker, running_broker
from tests.wire.agent_runs import AgentRun, request
from tests.wire.destination import Destination, receiving
from tests.wire.kafka_runs import (
    CLOSED,
    TOPIC,
    Writer,
    assert_each_scored_once,
    consuming,
    some_runs,
    until_scored,
)
from tests.wire.support import Toolgauge, free_port, serving, until
from tests.wire.support import request as ask

pytestmark = pytest.mark.usefixtures("kafka_jars")
GROUP = "toolgauge"
# The runs that begin together, each in four messages; between two of them is time to lose a partition.
AT_ONCE, PAUSE_S = 10, 0.25


class Agents:
    """Agents that run in the background, and write to Kafka what ends, until they are stopped."""

    def __init__(self, address: str) -> None:
        self.runs: list[AgentRun] = []
        self._writer = Writer(address)
        self._stopping = threading.Event()
        self._thread: Future[None] | None = None

    def begin(self, pool: ThreadPoolExecutor) -> None:
        self._thread = pool.submit(self._work)

    def stop(self) -> list[AgentRun]:
        """Have those end that run; return all of them."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.result()
        return self.runs

    def _work(self) -> None:
        going_on: list[tuple[list[AgentRun], int]] = []
        while going_on or not self._stopping.is_set():
            if not self._stopping.is_set():
                begun = some_runs(AT_ONCE, first=len(self.runs))
                self.runs += begun
                going_on.append((begun, 0))
            for runs, part in going_on:
                self._writer.write(runs, slice(part, part + 1))
            going_on = [(runs, part + 1) for runs, part in going_on if part < 3]
            threading.Event().wait(PAUSE_S)


@contextlib.contextmanager
def agents(address: str) -> Generator[Agents]:
    running = Agents(address)
    with ThreadPoolExecutor(1) as pool:
        running.begin(pool)
        try:
            yield running
        finally:
            running.stop()


@pytest.fixture
def broker(kafka_jars: None, tmp_path: Path) -> Generator[Broker]:
    del kafka_jars
    with running_broker(tmp_path) as running:
        running.create_topic(TOPIC)
        yield running


def committed_all(broker: Broker) -> bool:
    return sum(broker.committed(GROUP, TOPIC).values()) == broker.written(TOPIC)


def some_more(running: Agents, count: int = 60) -> None:
    begun = len(running.runs)
    until(lambda: len(running.runs) >= begun + count, "more runs to begin")


def test_a_broker_that_is_killed_and_comes_back_costs_nothing(broker: Broker, tmp_path: Path):
    with receiving() as destination, serving(tmp_path, *consuming(tmp_path, broker.address, destination)) as toolgauge:
        with agents(broker.address) as running:
            some_more(running)
            broker.kill()
            until(lambda: "the brokers do not answer" in toolgauge.said(), "the broker to be missed")
            broker.start()
            some_more(running)
            runs = running.stop()
        assert_each_scored_once(destination, runs)
        until(lambda: committed_all(broker), "everything to be committed")


def test_a_consumer_that_is_killed_loses_nothing(broker: Broker, tmp_path: Path):
    with receiving() as destination:
        settings = consuming(tmp_path, broker.address, destination, "session_timeout: 2s", "heartbeat_interval: 500ms")
        with agents(broker.address) as running:
            for _ in range(3):
                with serving(tmp_path, *settings) as toolgauge:
                    some_more(running)
                    toolgauge.signal(signal.SIGKILL)
                    toolgauge.ended()
            with serving(tmp_path, *settings) as toolgauge:
                runs = running.stop()
                found = until_scored(destination, runs)
                until(lambda: committed_all(broker), "everything to be committed")
                assert toolgauge.total("toolgauge_kafka_repeats_total")
        assert not found.wrong
        # Results that were delivered in the moment before a kill, whose ids were not written yet.
        assert len(found.twice) <= 3 * AT_ONCE, found.twice


def test_consumers_come_and_go_under_load(broker: Broker, tmp_path: Path):
    def member(folder: str, destination: Destination) -> contextlib.AbstractContextManager[Toolgauge]:
        (tmp_path / folder).mkdir()
        return serving(tmp_path / folder, *consuming(tmp_path, broker.address, destination))

    with receiving() as destination, agents(broker.address) as running, member("first", destination) as first:
        some_more(running)
        with member("second", destination):
            some_more(running)
            with member("third", destination) as third:
                until(lambda: third.total("toolgauge_kafka_rebalances_total"), "partitions for the third")
                some_more(running)
            some_more(running)
        some_more(running)
        runs = running.stop()
        assert_each_scored_once(destination, runs)
        until(lambda: committed_all(broker), "everything to be committed")
        assert first.total("toolgauge_kafka_rebalances_total") >= 3
        assert first.total("toolgauge_kafka_forgotten_total")
        assert first.total("toolgauge_kafka_repeats_total")


def test_the_first_of_two_consumers_goes_while_a_destination_is_away(broker: Broker, tmp_path: Path):
    runs = some_runs(40)
    writer = Writer(broker.address)
    with receiving() as destination:
        settings = consuming(tmp_path, broker.address, destination)
        with serving(tmp_path, *settings) as first:
            destination.is_away = True
            writer.write(runs[:20])
            writer.write(runs[20:], slice(0, 3))
            until(lambda: first.books()["received"] >= 20 * 12, "the messages to be read")
            first.signal()
            with serving(tmp_path, *settings):
                destination.is_away = False
                first.ended()
                writer.write(runs[20:], slice(3, 4))
                assert_each_scored_once(destination, runs)
                until(lambda: committed_all(broker), "everything to be committed")


def remake(broker: Broker, topic: str) -> None:
    """Delete a topic, and make it again as soon as that works."""
    admin = broker.admin()
    admin.delete_topics([topic])[topic].result(60)  # pyright: ignore[reportUnknownMemberType]  # its futures hold `None`
    until(lambda: topic not in admin.list_topics(timeout=10).topics, "the topic to be gone")
    broker.create_topic(topic)


def test_a_topic_that_is_made_again_is_read_from_its_beginning(broker: Broker, tmp_path: Path):
    runs, more = some_runs(10), some_runs(20, first=10)
    with receiving() as destination:
        (*settings,) = consuming(tmp_path, broker.address, destination)
        settings[0] = settings[0].replace("earliest", "latest")
        with serving(tmp_path, *settings) as toolgauge:
            until(lambda: toolgauge.total("toolgauge_kafka_rebalances_total"), "the partitions")
            Writer(broker.address).write(runs)
            assert_each_scored_once(destination, runs)
            until(lambda: committed_all(broker), "everything to be committed")
            remake(broker, TOPIC)
            Writer(broker.address).write(more)
            until_scored(destination, more)
            until(lambda: "otlp_spans was deleted and made again" in toolgauge.said(), "the line in the log")
            until(lambda: committed_all(broker), "everything to be committed")


def test_the_topic_of_closed_traces_is_made_again(broker: Broker, tmp_path: Path):
    runs = some_runs(10)
    with receiving() as destination, serving(tmp_path, *consuming(tmp_path, broker.address, destination)):
        until(lambda: CLOSED in broker.admin().list_topics(timeout=10).topics, "the topic")
        admin = broker.admin()
        admin.delete_topics([CLOSED])[CLOSED].result(60)  # pyright: ignore[reportUnknownMemberType]  # as above
        Writer(broker.address).write(runs)
        assert_each_scored_once(destination, runs)
        until(lambda: CLOSED in admin.list_topics(timeout=10).topics, "the topic to be made again")
        until(lambda: broker.written(CLOSED) == len(runs), "the ids of closed runs")
        until(lambda: committed_all(broker), "everything to be committed")


def test_a_stop_while_the_brokers_are_away_scores_nothing_twice(broker: Broker, tmp_path: Path):
    done, going_on = some_runs(20), some_runs(20, first=20)
    writer = Writer(broker.address)
    writer.write(done)
    writer.write(going_on, slice(0, 3))
    with receiving() as destination:
        settings = consuming(tmp_path, broker.address, destination)
        with serving(tmp_path, *settings) as toolgauge:
            assert_each_scored_once(destination, done)
            until(lambda: broker.written(CLOSED) >= len(done), "the ids of closed runs to be written")
            broker.kill()
            toolgauge.signal()
            assert toolgauge.ended(28) == 0
        broker.start()
        with serving(tmp_path, *settings):
            writer.write(going_on, slice(3, 4))
            assert_each_scored_once(destination, done + going_on)
            until(lambda: committed_all(broker), "everything to be committed")


def receiver_status(admin: int) -> str:
    _, health = ask(admin, "GET", "/status?verbose", None, {})
    return json.loads(health)["components"]["pipeline:toolgauge"]["components"]["receiver:kafka"]["status"]


def test_a_topic_that_is_gone_is_shown_until_it_is_back(broker: Broker, tmp_path: Path):
    broker.create_topic("otlp_logs")
    runs, more = some_runs(10), some_runs(20, first=10)
    admin = free_port()
    with receiving() as destination:
        settings = consuming(tmp_path, broker.address, destination)
        with serving(tmp_path, *settings, f"admin.endpoint=127.0.0.1:{admin}") as toolgauge:
            Writer(broker.address).write(runs)
            assert_each_scored_once(destination, runs)
            until(lambda: committed_all(broker), "everything to be committed")
            assert receiver_status(admin) == "StatusOK"
            client = broker.admin()
            client.delete_topics([TOPIC])[TOPIC].result(60)  # pyright: ignore[reportUnknownMemberType]  # as above
            until(lambda: receiver_status(admin) == "StatusRecoverableError", "the health without the topic")
            until(lambda: f"{TOPIC}; trying again" in toolgauge.said(), "its line")
            run = AgentRun(99, time.time_ns(), time.time_ns() + 1000)
            toolgauge.send(request(run.spans()))
            until_scored(destination, [run])
            broker.create_topic(TOPIC)
            until(lambda: receiver_status(admin) == "StatusOK", "the health with the topic")
            Writer(broker.address).write(more)
            assert_each_scored_once(destination, more)
            until(lambda: committed_all(broker), "everything to be committed")
            assert toolgauge.said().count(f"{TOPIC}; trying again") == 1, toolgauge.said()
