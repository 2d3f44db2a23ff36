"""A Kafka broker inside librdkafka, over real sockets, and what lies in its topics: for tests without Java.

It knows producers, consumer groups and their offsets; topics are made when they are asked for, with four partitions.
"""

import contextlib
import time
from collections.abc import Generator
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

PARTITIONS = 4


@dataclass(frozen=True)
class Written:
    """A message as it lies in a topic."""

    key: str | None
    value: bytes
    headers: tuple[tuple[str, bytes], ...]
    partition: int
    offset: int


@contextlib.contextmanager
def kafka_broker() -> Generator[str]:
    """Run a broker; yield its address."""
    holder = Producer({"bootstrap.servers": "unused:1", "test.mock.num.brokers": 1, "log_level": 0})
    try:
        (broker,) = holder.list_topics(timeout=60).brokers.values()
        yield f"{broker.host}:{broker.port}"
    finally:
        holder.flush(0)


def write(broker: str, topic: str, messages: list[tuple[str | None, bytes]], headers: dict[str, str] | None = None):
    """Write messages as the Collector's exporter does: keys go to the partitions of sarama's hash."""
    producer = Producer({"bootstrap.servers": broker, "partitioner": "fnv1a_random", "log_level": 0})
    for key, value in messages:
        producer.produce(topic, value, key=key, headers=dict(headers or {}))
    assert producer.flush(60) == 0


def read(broker: str, topic: str, count: int, within_s: float = 60) -> list[Written]:
    """Read so many messages of a topic, by partition and offset."""
    consumer = Consumer(
        {"bootstrap.servers": broker, "group.id": "reader", "log_level": 0, "enable.auto.commit": False}
    )
    found: list[Written] = []
    deadline = time.monotonic() + within_s
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        while len(found) < count:
            assert time.monotonic() < deadline, f"{len(found)} of {count} messages in {topic}"
            message = consumer.poll(0.1)
            if message is not None and _is_there(message):
                found.append(_written(message))
    finally:
        consumer.close()
    return sorted(found, key=lambda written: (written.partition, written.offset))


def _is_there(message: Message) -> bool:
    error = message.error()
    assert error is None or error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE), error
    return error is None


def _written(message: Message) -> Written:
    key, headers = message.key(), message.headers()
    partition, offset = message.partition(), message.offset()
    assert isinstance(headers, list | None)
    assert partition is not None
    assert offset is not None
    return Written(
        key=None if key is None else key.decode(),
        value=message.value() or b"",
        headers=tuple((name, value) for name, value in headers or () if isinstance(value, bytes)),
        partition=partition,
        offset=offset,
    )
