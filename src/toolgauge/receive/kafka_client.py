"""The consumer as a client of the brokers: its properties, its view of them, and the metadata of offsets."""

import json
import logging
from collections.abc import Sequence

from confluent_kafka import Consumer, KafkaException, TopicPartition

from toolgauge.model.metrics import Labels
from toolgauge.net.kafka import client_properties
from toolgauge.receive.settings import KafkaReceiverSettings
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
