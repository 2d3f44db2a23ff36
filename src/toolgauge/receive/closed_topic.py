"""The topic with the ids of closed traces: the next owner of a partition reads there which of its traces are scored already.

Partition for partition it goes with the topics that are read, so that nobody reads ids of partitions of others. The key is the id
of the trace. A trace that is `begun` is open in the process that wrote it, which has committed its first messages.
"""

import json
import time
from collections.abc import Callable, Collection, Iterable, Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic
from msgspec import Struct

from toolgauge.model.errors import StartError
from toolgauge.model.journal import ClosedId
from toolgauge.net.kafka import client_properties
from toolgauge.receive.settings import KafkaReceiverSettings

# pyright: reportUnknownMemberType=false

# Long after anybody may want an id: without it the topic would grow for ever, as each id is written once.
_CONFIG = {"cleanup.policy": "compact,delete", "retention.ms": str(7 * 24 * 3600 * 1000)}
_CALL_S = 5.0
_READ_S = 60.0
_AT_ONCE = 10_000
_SAMPLE_NS = 30_000_000_000
_NOT_ALLOWED = frozenset((KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED))


class KnownTraces(Struct):
    """What the topic holds of some partitions."""

    closed: list[ClosedId]
    begun: list[str]


class _Written:
    """How far a partition of the topic goes, and how far it went some time ago."""

    def __init__(self, offset: int, now_ns: int) -> None:
        self.end = offset
        # The first is what the owner before would have read.
        self._samples = [(now_ns, offset)]

    def note(self, now_ns: int) -> None:
        if now_ns - self._samples[-1][0] >= _SAMPLE_NS:
            self._samples.append((now_ns, self.end))

    def at(self, when_ns: int) -> int:
        """Return an offset before which nothing was written at this time or later; forget older ones."""
        while len(self._samples) > 1 and self._samples[1][0] <= when_ns:
            del self._samples[0]
        return self._samples[0][1]


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
        """See to it that the topic is there, with as many partitions as the largest of `topics`; return why it is not yet.

        Raise `StartError` where somebody has to make it, `KafkaException` while the brokers are away.
        """
        known = self._admin.list_topics(timeout=_CALL_S).topics
        counts = [len(known[topic].partitions) for topic in topics if topic in known and known[topic].error is None]
        if not counts:
            return f"there is no topic {' or '.join(sorted(topics))} yet"
        needed = max(counts)
        found = known.get(self.name)
        self.partitions = 0 if found is None else len(found.partitions)
        try:
            if not self.partitions:
                self._admin.create_topics([NewTopic(self.name, needed, -1, config=_CONFIG)])[self.name].result(_CALL_S)
            elif self.partitions < needed:
                self._admin.create_partitions([NewPartitions(self.name, needed)])[self.name].result(_CALL_S)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return None
            if error.args[0].code() in _NOT_ALLOWED:
                raise self._missing(needed) from error
            raise
        self.partitions = max(self.partitions, needed)
        return None

    def _missing(self, needed: int) -> StartError:
        command = "--create" if not self.partitions else "--alter"
        config = (
            " --config cleanup.policy=compact,delete --config retention.ms=604800000" if not self.partitions else ""
        )
        return StartError(
            f"`receivers.kafka` may not make the topic `{self.name}` with {needed} partitions",
            hint=f"make it: `kafka-topics.sh {command} --topic {self.name} --partitions {needed}{config}`",
        )

    def read(self, starts: Mapping[int, int], now_ns: int) -> KnownTraces:
        """Read partitions from these offsets to their present ends; raise `KafkaException` when that cannot be."""
        of_reader = {"group.id": self._settings.group_id, "enable.auto.commit": False, "enable.partition.eof": True}
        consumer = Consumer({**self._properties, **of_reader})
        known = KnownTraces([], [])
        try:
            ends: set[int] = set()
            begins: list[TopicPartition] = []
            for partition, offset in starts.items():
                low, high = consumer.get_watermark_offsets(TopicPartition(self.name, partition), timeout=_CALL_S)
                begin = min(max(low, offset), high)
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
                for message in consumer.consume(_AT_ONCE, 0.2):
                    error = message.error()
                    if error is None:
                        _note(message, known)
                    elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # librdkafka's name
                        ends.discard(message.partition() or 0)
        finally:
            consumer.close()
        return known

    def write(self, closed: Iterable[ClosedId], begun: Iterable[tuple[str, int]], now_ns: int) -> None:
        """Write ids of traces that have closed, and of those that are `begun`, with their partitions."""
        for one in closed:
            if one.partition is not None:
                self._put(one.partition, one.id, "closed", one.closed_ns)
        for trace_id, partition in begun:
            self._put(partition, trace_id, "begun", now_ns)

    def flush(self, timeout_s: float) -> bool:
        """Return whether all that was written is there, after so long at most."""
        return self._producer.flush(timeout_s) == 0

    def offset_at(self, partition: int, when_ns: int, now_ns: int) -> int:
        """Return from where to read on for what has closed since some time."""
        written = self._written.get(partition)
        if written is None:
            return 0
        written.note(now_ns)
        return written.at(when_ns)

    def _put(self, partition: int, trace_id: str, state: str, when_ns: int) -> None:
        def written(error: KafkaError | None, message: Message) -> None:
            offset, known = message.offset(), self._written.get(partition)
            if error is None and offset is not None and known is not None:
                known.end = max(known.end, offset + 1)

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


def _note(message: Message, known: KnownTraces) -> None:
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
        known.closed.append(ClosedId(id=trace_id, scope="trace", closed_ns=when_ns, partition=message.partition()))
    elif state == "begun":
        known.begun.append(trace_id)
