"""The consumer as a client of Kafka's brokers, and the way of its messages into the pipeline.

Messages are taken one after the other, each when there is room for it; that belongs to the event loop.
"""

import asyncio
import json
import logging
import threading
from collections.abc import Mapping, Sequence

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from toolgauge.model.delivery import Accepted, Answer, Assignment, Invalid, Refused, Signal
from toolgauge.model.metrics import Labels
from toolgauge.net.kafka import client_properties
from toolgauge.net.throttle import Throttle
from toolgauge.receive.broker import BrokerParts
from toolgauge.receive.otlp_handler import HOP_HEADER
from toolgauge.receive.settings import KafkaReceiverSettings
from toolgauge.selfmetrics import KafkaMetrics
from toolgauge.state.offsets import Committable

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
            topic, offset = message.topic() or "", message.offset() or 0
            signal = self._signals[topic]
            if self._is_over(epoch, assignment):
                return
            headers = message.headers()
            pairs = headers.items() if isinstance(headers, dict) else headers or ()
            if (HOP_HEADER, self._hop_id) in pairs:
                self._metrics.requests.add(1, ("kafka", signal, "loop"))
                self._parts.offsets.skip(topic, offset, assignment)
                continue
            await self._take_one(message, assignment, epoch)

    async def _take_one(self, message: Message, assignment: Assignment, epoch: int) -> None:
        topic, offset = message.topic() or "", message.offset() or 0
        signal, body = self._signals[topic], message.value() or b""
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
        entry = self._parts.offsets.add(topic, offset, assignment, self._parts.clock())
        sender = f"kafka/{topic}/{assignment.partition}"
        while isinstance(answer := await self._answer(signal, body, sender, assignment, entry), Refused):
            self._metrics.requests.add(1, ("kafka", signal, "refused"))
            await asyncio.sleep(min(answer.retry_after_s, _WAIT_S))
            if self._is_over(epoch, assignment):
                # Read again from here.
                self._parts.offsets.withdraw(entry)
                return
        if isinstance(answer, Accepted):
            self._metrics.requests.add(1, ("kafka", signal, "accepted"))
            return
        self._parts.offsets.done(entry)
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

    async def _answer(self, signal: Signal, body: bytes, sender: str, assignment: Assignment, entry: int) -> Answer:
        try:
            return await self._parts.consumer.consume_message(signal, body, sender, assignment, entry)
        except MemoryError:
            return Refused("out of memory", retry_after_s=5.0)
        except Exception as error:  # noqa: BLE001 - the receiver handler answers for whatever fails behind it
            self._parts.ledger.forget((entry,))
            return Invalid(f"it failed inside: {type(error).__name__}")

    def _is_over(self, epoch: int, assignment: Assignment) -> bool:
        return epoch != self.epoch or assignment.is_lost or self.is_stopping.is_set()
