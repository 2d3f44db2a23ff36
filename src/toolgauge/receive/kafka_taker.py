"""Messages of Kafka -> the pipeline, one after the other, each when there is room for it. Belongs to the event loop."""

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping, Sequence

from confluent_kafka import Message

from toolgauge.model.delivery import (
    Accepted,
    Answer,
    Assignment,
    BrokerMessage,
    Invalid,
    MessageConsumer,
    Refused,
    Signal,
)
from toolgauge.net.throttle import Throttle
from toolgauge.receive.kafka_metrics import KafkaMetrics
from toolgauge.receive.otlp_handler import HOP_HEADER
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.state.ledger import Ledger
from toolgauge.state.offsets import OffsetJournal

_LOG = logging.getLogger("toolgauge.receive")
_WAIT_S = 0.1


class MessageTaker:
    """Hands messages to the consumer. One that is refused is handed over again; one that cannot be read is skipped and logged."""

    def __init__(
        self,
        signals: Mapping[str, Signal],
        consumer: MessageConsumer,
        *,
        offsets: OffsetJournal,
        ledger: Ledger,
        metrics: SelfMetrics,
        kafka_metrics: KafkaMetrics,
        hop_id: str,
        clock: Callable[[], int],
    ) -> None:
        self._signals = signals
        self._consumer = consumer
        self._offsets = offsets
        self._ledger = ledger
        self._metrics = metrics
        self._kafka_metrics = kafka_metrics
        self._hop_id = hop_id.encode()
        self._clock = clock
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
            if self._is_own(message):
                self._metrics.requests.add(1, ("kafka", signal, "loop"))
                self._offsets.skip(topic, offset, assignment)
                continue
            await self._take_one(message, assignment, epoch)

    async def _take_one(self, message: Message, assignment: Assignment, epoch: int) -> None:
        topic, offset = message.topic() or "", message.offset() or 0
        signal, body = self._signals[topic], message.value() or b""
        self._look_at_key(signal, topic, message)
        if offset < self.read_before.get((topic, assignment.partition), 0):
            self._kafka_metrics.repeats.add(1)
        taken = self._offsets.add(topic, offset, assignment, self._clock())
        answer = await self._answer(signal, body, f"kafka/{topic}/{assignment.partition}", taken)
        while isinstance(answer, Refused):
            self._metrics.requests.add(1, ("kafka", signal, "refused"))
            await asyncio.sleep(min(answer.retry_after_s, _WAIT_S))
            if self._is_over(epoch, assignment):
                # Read again from here.
                self._offsets.withdraw(taken)
                return
            answer = await self._answer(signal, body, f"kafka/{topic}/{assignment.partition}", taken)
        if isinstance(answer, Accepted):
            self._metrics.requests.add(1, ("kafka", signal, "accepted"))
            return
        self._offsets.done(taken)
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
            return await self._consumer.consume_message(signal, body, sender, message)
        except MemoryError:
            return Refused("out of memory", retry_after_s=5.0)
        except Exception as error:  # noqa: BLE001 - the receiver handler answers for whatever fails behind it
            self._ledger.forget((message,))
            return Invalid(f"it failed inside: {type(error).__name__}")

    def _is_over(self, epoch: int, assignment: Assignment) -> bool:
        return epoch != self.epoch or assignment.is_lost or self.is_stopping.is_set()

    def _is_own(self, message: Message) -> bool:
        headers = message.headers()
        pairs = headers.items() if isinstance(headers, dict) else headers or ()
        return any(name == HOP_HEADER and value == self._hop_id for name, value in pairs)

    def _look_at_key(self, signal: Signal, topic: str, message: Message) -> None:
        key = message.key()
        if (
            signal == "traces"
            and (key is None or len(key) != 32)
            and self._throttle.suppressed(f"key {topic}") is not None
        ):
            _LOG.warning(
                "kafka: the messages of %s are not keyed by trace id, so spans of a trace may come to several processes: set "
                "`partition_traces_by_id` of the Collector's kafka exporter",
                topic,
            )
