"""The client of Kafka's brokers: consumes messages and hands them to the pipeline.

Messages are taken one after the other, each when there is room for it; that belongs to the event loop.
"""

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, TopicDescription  # pyright: ignore[reportPrivateImportUsage]  # public by its documentation
from confluent_kafka.cimpl import NewPartitions, NewTopic

from toolgauge.model.delivery import Accepted, Answer, Assignment, BrokerMessage, Invalid, Refused, Signal
from toolgauge.model.errors import StartError
from toolgauge.model.journal import ClosedId
from toolgauge.model.metrics import Labels
from toolgauge.net.settings import client_properties
from toolgauge.net.throttle import Throttle
from toolgauge.receive.otlp_handler import HOP_HEADER, BrokerParts
from toolgauge.receive.settings import KafkaReceiverSettings
from toolgauge.selfmetrics import KafkaMetrics
from toolgauge.state.ledger import Committable

# pyright: reportUnknownMemberType=false

# Long after anybody may want an id: without it the topic would grow for ever, as each id is written once.
_CONFIG = {"cleanup.policy": "compact,delete", "retention.ms": str(7 * 24 * 3600 * 1000)}
_READ_S = 60.0
_READ_AT_ONCE = 10_000
_SAMPLE_NS = 30_000_000_000
_LOOK_EVERY_S = 5.0
_NOT_ALLOWED = frozenset((KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED))


class _Written:
    """How far a partition of the topic goes, and how far it went some time ago."""

    def __init__(self, offset: int, now_ns: int) -> None:
        self.end = offset
        # The first is what the owner before would have read.
        self._samples = [(now_ns, offset)]

    def at(self, when_ns: int, now_ns: int) -> int:
        """Return an offset before which nothing was written at this time or later; forget older ones."""
        if now_ns - self._samples[-1][0] >= _SAMPLE_NS:
            self._samples.append((now_ns, self.end))
        while len(self._samples) > 1 and self._samples[1][0] <= when_ns:
            del self._samples[0]
        return self._samples[0][1]


class TopicIds:
    """Notices topics that are deleted or made again: their offsets begin again, which nothing else shows."""

    def __init__(self, settings: KafkaReceiverSettings, names: Collection[str]) -> None:
        self._admin = AdminClient({**client_properties(settings)})
        self._names = TopicCollection([*names])
        self._answers: dict[str, Future[TopicDescription]] = {}
        self._due_s = 0.0
        self._known: dict[str, str] = {}
        self.missing: set[str] = set()

    @property
    def known(self) -> frozenset[str]:
        """The topics that have been there."""
        return frozenset(self._known)

    def remade(self) -> set[str]:
        """Return the topics that were made again since the last call, and note `missing` ones. Never waits."""
        remade: set[str] = set()
        if not all(answer.done() for answer in self._answers.values()):
            return remade
        answers, self._answers = self._answers, {}
        for name, answer in answers.items():
            error = answer.exception()
            if error is None:
                self.missing.discard(name)
                topic_id = str(answer.result().topic_id)
                if self._known.setdefault(name, topic_id) != topic_id:
                    remade.add(name)
                self._known[name] = topic_id
            elif isinstance(error, KafkaException) and error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                self.missing.add(name)
        if time.monotonic() >= self._due_s:
            self._due_s = time.monotonic() + _LOOK_EVERY_S
            self._answers = self._admin.describe_topics(self._names, request_timeout=CALL_S)
        return remade


class ClosedTopic:
    """Reads and writes the topic. Belongs to one thread; no call waits longer than it may."""

    def __init__(self, settings: KafkaReceiverSettings, is_ending: Callable[[], bool]) -> None:
        self._settings = settings
        self._is_ending = is_ending
        self.name = settings.closed_traces.topic
        self._properties: dict[str, str | int | float | bool] = {
            **client_properties(settings),
            "allow.auto.create.topics": False,
        }
        self._admin = AdminClient(self._properties)
        self._producer = Producer({**self._properties, "enable.idempotence": True, "message.timeout.ms": 0})
        self._written: dict[int, _Written] = {}
        self.partitions = 0

    def make(self, topics: Collection[str]) -> str | None:
        """Make the topic with as many partitions as the largest of `topics`; return why not yet, or raise `StartError`."""
        known = self._admin.list_topics(timeout=CALL_S).topics
        counts = [len(known[topic].partitions) for topic in topics if topic in known and known[topic].error is None]
        if not counts:
            return f"there is no topic {' or '.join(sorted(topics))} yet"
        needed = max(counts)
        found = known.get(self.name)
        self.partitions = 0 if found is None else len(found.partitions)
        try:
            if not self.partitions:
                self._admin.create_topics([NewTopic(self.name, needed, -1, config=_CONFIG)])[self.name].result(CALL_S)
            elif self.partitions < needed:
                self._admin.create_partitions([NewPartitions(self.name, needed)])[self.name].result(CALL_S)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return None
            if error.args[0].code() in _NOT_ALLOWED:
                command, config = "--alter", ""
                if not self.partitions:
                    command = "--create"
                    config = " --config cleanup.policy=compact,delete --config retention.ms=604800000"
                raise StartError(
                    f"`receivers.kafka` may not make the topic `{self.name}` with {needed} partitions",
                    hint=f"make it: `kafka-topics.sh {command} --topic {self.name} --partitions {needed}{config}`",
                ) from error
            raise
        self.partitions = max(self.partitions, needed)
        return None

    def read(self, starts: Mapping[int, int], now_ns: int) -> tuple[list[ClosedId], list[str]]:
        """Read partitions from these offsets to their present ends; return the closed and the begun traces.
        Raises `KafkaException` when the brokers do not answer.
        """
        of_reader = {"group.id": self._settings.group_id, "enable.auto.commit": False, "enable.partition.eof": True}
        consumer = Consumer({**self._properties, **of_reader})
        closed: list[ClosedId] = []
        begun: list[str] = []
        try:
            ends: set[int] = set()
            begins: list[TopicPartition] = []
            for partition, offset in starts.items():
                low, high = consumer.get_watermark_offsets(TopicPartition(self.name, partition), timeout=CALL_S)
                # Of a topic that was made again nothing is known.
                begin = max(low, offset) if offset <= high else low
                self._written[partition] = _Written(begin, now_ns)
                self._written[partition].end = high
                if begin < high:
                    ends.add(partition)
                    begins.append(TopicPartition(self.name, partition, begin))
            consumer.assign(begins)
            until_s = time.monotonic() + _READ_S
            while ends:
                if self._is_ending() or time.monotonic() > until_s:
                    raise KafkaException(KafkaError(KafkaError.REQUEST_TIMED_OUT))
                for message in consumer.consume(_READ_AT_ONCE, 0.2):
                    error = message.error()
                    if error is None:
                        _note(message, closed, begun)
                    elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # librdkafka's name
                        ends.discard(message.partition() or 0)
        finally:
            consumer.close()
        return closed, begun

    def write(self, closed: Iterable[ClosedId], begun: Iterable[tuple[str, int]], now_ns: int) -> None:
        """Write ids of `closed` traces, and of `begun` ones with their partitions."""
        for one in closed:
            if one.partition is not None:
                self._put(one.partition, one.id, "closed", one.closed_ns)
        for trace_id, partition in begun:
            self._put(partition, trace_id, "begun", now_ns)

    def flush(self, timeout_s: float) -> bool:
        """Return whether the brokers have all written ids, after so long at most."""
        return self._producer.flush(timeout_s) == 0

    def offset_at(self, partition: int, when_ns: int, now_ns: int) -> int:
        """Return the offset from which to read for traces that have closed since some time."""
        written = self._written.get(partition)
        return 0 if written is None else written.at(when_ns, now_ns)

    def _put(self, partition: int, trace_id: str, state: str, when_ns: int) -> None:
        def written(error: KafkaError | None, message: Message) -> None:
            offset, known = message.offset(), self._written.get(partition)
            if error is None and offset is not None and known is not None:
                if offset < known.end:
                    # The topic was made again.
                    known = self._written[partition] = _Written(0, when_ns)
                known.end = offset + 1

        value = json.dumps({"state": state, "time_unix_nano": when_ns})
        while True:
            try:
                self._producer.produce(self.name, value, key=trace_id, partition=partition, on_delivery=written)
            except BufferError:
                if self._producer.poll(0.1) == 0 and self._is_ending():
                    return
            else:
                return

    def close(self) -> None:
        """Give up ids that are not written."""
        self._producer.purge()
        self._producer.flush(0.1)


def _note(message: Message, closed: list[ClosedId], begun: list[str]) -> None:
    key, value = message.key(), message.value()
    if key is None or value is None:
        return
    try:
        trace_id, written = key.decode(), json.loads(value)
        state, when_ns = written["state"], int(written["time_unix_nano"])
    except (ValueError, KeyError, TypeError):
        # Somebody else's, in a topic that is ours alone.
        return
    if state == "closed":
        closed.append(ClosedId(id=trace_id, scope="trace", closed_ns=when_ns, partition=message.partition()))
    elif state == "begun":
        begun.append(trace_id)


_LOG = logging.getLogger("toolgauge.receive")
# How long one question to the brokers may take.
CALL_S = 5.0
_MILLISECOND = 1_000_000


def consumer_properties(settings: KafkaReceiverSettings) -> dict[str, object]:
    """Write the settings as librdkafka's properties of a member of the group."""
    properties: dict[str, object] = {
        **client_properties(settings),
        "group.id": settings.group_id,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        # Messages that were deleted before they were read are noticed.
        "auto.offset.reset": "error",
        "partition.assignment.strategy": "range",
        "session.timeout.ms": settings.session_timeout // _MILLISECOND,
        "heartbeat.interval.ms": settings.heartbeat_interval // _MILLISECOND,
        # Fetched ahead, of all partitions together.
        "queued.max.messages.kbytes": 16 * 1024,
        "queued.min.messages": 1000,
        "topic.metadata.refresh.interval.ms": 10_000,
        "statistics.interval.ms": 1000,
    }
    if settings.group_instance_id is not None:
        properties["group.instance.id"] = settings.group_instance_id
    return properties


def leaders_answer(statistics: str) -> bool:
    """Return whether the leaders of all partitions that are read are connected, by librdkafka's statistics."""
    seen = json.loads(statistics)
    states = {broker["nodeid"]: broker["state"] for broker in seen["brokers"].values() if broker["nodeid"] >= 0}
    leaders = {
        part["leader"]
        for topic in seen["topics"].values()
        for part in topic["partitions"].values()
        if part["desired"] and part["fetch_state"] not in ("none", "stopped")
    }
    return all(states.get(leader) == "UP" for leader in leaders) if leaders else "UP" in states.values()


def start_of(
    consumer: Consumer, part: TopicPartition, committed: int | None, *, begins_with_latest: bool
) -> tuple[int, bool]:
    """Return the offset to begin with, and whether there were earlier messages, which are not read."""
    low, high = consumer.get_watermark_offsets(TopicPartition(part.topic, part.partition), timeout=CALL_S)
    if committed is not None and low <= committed <= high:
        return committed, False
    if committed is not None and committed < low:
        _LOG.error(
            "kafka: %d messages of partition %d of %s were deleted before they were read",
            low - committed,
            part.partition,
            part.topic,
        )
    if committed is None and begins_with_latest:
        return high, high > 0
    return low, low > 0


def lag_of(consumer: Consumer, parts: Sequence[Committable]) -> dict[Labels, float]:
    """Count the messages of each partition that are still to be read, as far as that is known."""
    lag: dict[Labels, float] = {}
    for part in parts:
        try:
            _, high = consumer.get_watermark_offsets(TopicPartition(part.topic, part.partition), cached=True)
        except KafkaException:
            continue
        if high >= 0:
            lag[part.topic, str(part.partition)] = max(0, high - part.read)
    return lag


def read_metadata(part: TopicPartition) -> tuple[int | None, int, int]:
    """Return the committed offset, how far was read, and from where the ids of closed traces are needed."""
    if part.offset < 0:
        return None, 0, 0
    read, _, closed_from = (part.metadata or "").partition(":")
    if not read.isdecimal() or not closed_from.isdecimal():
        return part.offset, 0, 0
    return part.offset, int(read), int(closed_from)


_WAIT_S = 0.1


class MessageTaker:
    """Hands messages to the consumer. One that is refused is handed over again; one that cannot be read is skipped and logged."""

    def __init__(self, signals: Mapping[str, Signal], parts: BrokerParts, kafka_metrics: KafkaMetrics) -> None:
        self._signals = signals
        self._parts = parts
        self._metrics = parts.metrics
        self._kafka_metrics = kafka_metrics
        self._hop_id = parts.hop_id.encode()
        self._throttle = Throttle()
        # Of the messages that are being taken; another one ends that.
        self.epoch = 0
        self.is_stopping = threading.Event()
        # How far each partition was read before, by this process or another one.
        self.read_before: dict[tuple[str, int], int] = {}

    async def take(self, messages: Sequence[tuple[Message, Assignment]], epoch: int) -> None:
        """Take messages in their order, each when there is room for it, until another epoch begins or all is to stop."""
        for message, assignment in messages:
            if self._is_over(epoch, assignment):
                return
            await self._take_one(message, assignment, epoch)

    async def _take_one(self, message: Message, assignment: Assignment, epoch: int) -> None:
        topic, offset = message.topic() or "", message.offset() or 0
        signal, body = self._signals[topic], message.value() or b""
        headers = message.headers()
        if (HOP_HEADER, self._hop_id) in (headers.items() if isinstance(headers, dict) else headers or ()):
            self._metrics.requests.add(1, ("kafka", signal, "loop"))
            self._parts.offsets.skip(topic, offset, assignment)
            return
        key = message.key()
        has_key = signal != "traces" or (key is not None and len(key) == 32)
        if not has_key and self._throttle.suppressed(f"key {topic}") is not None:
            _LOG.warning(
                "kafka: the messages of %s are not keyed by trace id, so spans of a trace may come to several processes: set "
                "`partition_traces_by_id` of the Collector's kafka exporter",
                topic,
            )
        if offset < self.read_before.get((topic, assignment.partition), 0):
            self._kafka_metrics.repeats.add(1)
        taken = self._parts.offsets.add(topic, offset, assignment, self._parts.clock())
        sender = f"kafka/{topic}/{assignment.partition}"
        while isinstance(answer := await self._answer(signal, body, sender, taken), Refused):
            self._metrics.requests.add(1, ("kafka", signal, "refused"))
            await asyncio.sleep(min(answer.retry_after_s, _WAIT_S))
            if self._is_over(epoch, assignment):
                # Read again from here.
                self._parts.offsets.withdraw(taken)
                return
        if isinstance(answer, Accepted):
            self._metrics.requests.add(1, ("kafka", signal, "accepted"))
            return
        self._parts.offsets.done(taken)
        self._metrics.requests.add(1, ("kafka", signal, "invalid"))
        if isinstance(answer, Invalid):
            self._metrics.requests_invalid.add(1, ("kafka", signal, answer.reason))
        _LOG.error(
            "kafka: message %d of partition %d of %s is skipped: %s",
            offset,
            assignment.partition,
            topic,
            answer.message,
            extra={"topic": topic, "partition": assignment.partition, "offset": offset},
        )

    async def _answer(self, signal: Signal, body: bytes, sender: str, message: BrokerMessage) -> Answer:
        try:
            return await self._parts.consumer.consume_message(signal, body, sender, message)
        except MemoryError:
            return Refused("out of memory", retry_after_s=5.0)
        except Exception as error:  # noqa: BLE001 - the receiver handler answers for any failure behind it
            self._parts.ledger.forget((message,))
            return Invalid(f"it failed inside: {type(error).__name__}")

    def _is_over(self, epoch: int, assignment: Assignment) -> bool:
        return epoch != self.epoch or assignment.is_lost or self.is_stopping.is_set()
