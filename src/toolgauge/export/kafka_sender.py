"""One attempt to write a request to Kafka: one message a trace, as the Collector's kafka exporter with `partition_traces_by_id`.

A message is delivered when all replicas in step have it. Keys (the trace id) choose partitions as the Collector does.
"""

import asyncio
import threading
from collections.abc import Sequence
from functools import partial

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from toolgauge.export.sender import DELIVERED, Delivered, Permanent, Transient, Verdict
from toolgauge.export.settings import KafkaExporterSettings
from toolgauge.model.delivery import Signal
from toolgauge.model.errors import DecodeError, StartError
from toolgauge.net.settings import client_properties
from toolgauge.net.tls import read_pem
from toolgauge.otlp.request import TraceRequest, split_by_trace

_MILLISECOND = 1_000_000
_POLL_S = 0.5
_JOIN_S = 5.0
# Reading and dividing a body of this size may take tens of milliseconds.
_LARGE_BYTES = 256 * 1024
# Bytes of a message beside its value: key, header and numbers.
_AROUND_BYTES = 1024
_TOO_LARGE = frozenset((KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE))
_NOT_ALLOWED = frozenset((KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED))
_TIMED_OUT = frozenset((KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT))  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # librdkafka's names


class _Connection:
    def __init__(self, properties: dict[str, str | int | bool]) -> None:
        self.producer = Producer(properties)
        self._is_ending = threading.Event()

        def serve() -> None:
            while not self._is_ending.is_set():
                self.producer.poll(_POLL_S)
            self.producer.purge()
            self.producer.flush(_JOIN_S)

        self._thread = threading.Thread(target=serve, name="toolgauge-kafka-producer", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Give up the messages that are on their way; each gets its callback before."""
        self._is_ending.set()
        self._thread.join(_JOIN_S)


class KafkaSender:
    """Writes to the topics of a Kafka cluster, one message a trace."""

    def __init__(self, settings: KafkaExporterSettings, *, headers: Sequence[tuple[str, str]]) -> None:
        self._settings = settings
        self._headers: list[tuple[str, str | bytes | None]] = [*headers]
        self._max_bytes = settings.producer.max_message_bytes
        topics = settings.topics
        self._topics: dict[Signal, str] = {"traces": topics.traces, "metrics": topics.metrics, "logs": topics.logs}
        self._connection: _Connection | None = None

    async def start(self) -> None:
        """Make the producer, which connects by itself; raise `StartError` when a TLS file cannot be used."""
        self._connection = self._opened()

    async def renew(self) -> None:
        """Replace the producer: TLS files have changed; raise `StartError` when they cannot be used."""
        replaced, self._connection = self._connection, self._opened()
        if replaced is not None:
            await asyncio.to_thread(replaced.close)

    async def send(self, signal: Signal, body: bytes) -> Verdict:
        """Write the messages of a request; return when each is delivered or has failed."""
        if self._connection is None:
            return Transient("closed")
        try:
            divide = partial(split_by_trace, signal, body, self._max_bytes - _AROUND_BYTES)
            messages = [*divide()] if len(body) < _LARGE_BYTES else await asyncio.to_thread(lambda: [*divide()])
        except DecodeError:
            return Permanent("undecodable", is_about_content=True)
        ended = await asyncio.gather(*(self._write(self._connection, signal, message) for message in messages))
        failed = [(message, error) for message, error in zip(messages, ended, strict=True) if error is not None]
        if any(error.fatal() for _, error in failed):
            await self.renew()
        if not failed:
            return DELIVERED
        codes = {error.code(): error for _, error in failed}
        again = [error for code, error in codes.items() if code not in _TOO_LARGE]
        if not again:
            if len(failed) == len(messages):
                return Permanent("too_large", is_about_content=True)
            return Delivered(rejected=sum(message.count for message, _ in failed))
        for error in again:
            if error.code() in _NOT_ALLOWED:
                return Permanent(_reason(error), is_lasting=True)
        return Transient(_reason(again[0]))

    async def close(self) -> None:
        """Close the producer."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await asyncio.to_thread(connection.close)

    async def _write(self, connection: _Connection, signal: Signal, message: TraceRequest) -> KafkaError | None:
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[KafkaError | None] = loop.create_future()

        def settle(error: KafkaError | None) -> None:
            if not ended.done():
                ended.set_result(error)

        def delivered(error: KafkaError | None, _message: Message) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, error)

        try:
            connection.producer.produce(
                self._topics[signal], message.body, key=message.trace_id, headers=self._headers, on_delivery=delivered
            )
        except BufferError:
            return KafkaError(KafkaError._QUEUE_FULL)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # librdkafka's name
        except KafkaException as error:
            return error.args[0]
        return await ended

    def _opened(self) -> _Connection:
        settings = self._settings
        for file in () if settings.client_tls is None else settings.client_tls.files:
            read_pem(file)
        properties: dict[str, str | int | bool] = {
            **client_properties(settings),
            "enable.idempotence": True,
            "acks": "all",
            # That of the Collector's exporter: sarama's hash of the key.
            "partitioner": "fnv1a_random",
            "message.timeout.ms": max(1, settings.timeout // _MILLISECOND),
            "message.max.bytes": max(1000, self._max_bytes),
            "compression.type": settings.producer.compression,
        }
        try:
            return _Connection(properties)
        except KafkaException as error:
            raise StartError(f"`exporters.kafka` cannot be used: {error.args[0].str()}") from error


def _reason(error: KafkaError) -> str:
    return "timeout" if error.code() in _TIMED_OUT else error.name().lower().strip("_")
