"""Reads from Kafka in a consumer group, and commits messages once they are forwarded and scored.

The receiver's thread polls; the event loop takes the messages one by one while the partitions are paused. The `range`
assignment keeps spans and log records of a trace in one process. A rebalance gives up all partitions; open
trajectories of partitions that do not come back are dropped, and their next owner reads them again.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, Message, TopicPartition

from toolgauge.model.delivery import Assignment
from toolgauge.model.errors import StartError
from toolgauge.model.metrics import Labels
from toolgauge.net.throttle import Throttle
from toolgauge.net.tls import read_pem
from toolgauge.receive.kafka_client import (
    CALL_S,
    ClosedTopic,
    MessageTaker,
    TopicIds,
    consumer_properties,
    lag_of,
    leaders_answer,
    read_metadata,
    start_of,
)
from toolgauge.receive.otlp_handler import BrokerParts
from toolgauge.receive.settings import KafkaReceiverSettings
from toolgauge.selfmetrics import KafkaMetrics

_LOG = logging.getLogger("toolgauge.receive")
_MILLISECOND = 1_000_000
_AT_ONCE = 200
_POLL_S = 0.1
# A batch that takes longer has the partitions paused.
_PATIENCE_S = 0.5
_COMMIT_EVERY_S = 1.0
_TRY_AGAIN_S = 1.0
# How long a start waits for the brokers' answer: mistakes of the configuration show by then.
_START_S = 5.0
_NS_PER_S = 1_000_000_000
_UNKNOWN = frozenset((KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED))
_REFUSALS = frozenset((KafkaError._AUTHENTICATION, KafkaError._SSL))  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # as below
_RESET = KafkaError._AUTO_OFFSET_RESET  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # librdkafka's name


class KafkaReceiver:
    """Reads spans and log records from Kafka in a consumer group."""

    Settings = KafkaReceiverSettings

    def __init__(self, settings: KafkaReceiverSettings, parts: BrokerParts) -> None:
        self._settings = settings
        self._signals = settings.signals
        self._parts = parts
        self._kafka_metrics = KafkaMetrics(parts.metrics.registry)
        self._taker = MessageTaker(self._signals, parts, self._kafka_metrics)
        self._throttle = Throttle()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._began: Future[None] = Future()
        self._is_stopping = self._taker.is_stopping
        self._is_leaving = threading.Event()
        # Why nothing can be read, and since when; `None` where all is well.
        self.trouble: tuple[str, int] | None = None
        # The thread's from here on.
        self._assignments: dict[int, Assignment] = {}
        self._committed: dict[tuple[str, int], tuple[int, str]] = {}
        self._batch: Future[None] | None = None
        self._is_paused = False
        self._backlog: list[Message] = []
        # Topics that were made again, until their partitions are read from the beginning.
        self._remade: set[str] = set()
        self._is_gone = False
        self._waits_for_partitions = True
        self._is_reachable = True
        self._is_stalled = False
        self._is_written = True
        self._commit_due_s = 0.0
        self._has_to_rejoin = False
        self._lag: dict[Labels, float] = {}
        self._kafka_metrics.lag.observe = lambda: dict(self._lag)
        self._kafka_metrics.uncommitted.observe = lambda: {(): parts.offsets.needed}

    async def start(self) -> None:
        """Begin to read; brokers that are away are tried again. Raise `StartError` for a wrong configuration."""
        self._loop = asyncio.get_running_loop()
        tls = self._settings.client_tls
        for file in () if tls is None else tls.files:
            read_pem(file)
        self._thread = threading.Thread(target=self._run, name="toolgauge-kafka-consumer", daemon=True)
        self._thread.start()
        try:
            async with asyncio.timeout(_START_S):
                await asyncio.shield(asyncio.wrap_future(self._began))
        except TimeoutError:
            _LOG.warning("kafka: the brokers do not answer; they are tried again")
        except StartError:
            await self.leave(0)
            raise

    async def stop(self, grace_s: float) -> None:
        """Take no more messages, and drop open trajectories: the next owners of the partitions read them again."""
        if self._thread is None or self._is_stopping.is_set():
            return
        self._is_stopping.set()
        for assignment in tuple(self._assignments.values()):
            assignment.is_lost = True
        try:
            async with asyncio.timeout(max(grace_s, _POLL_S)):
                self._kafka_metrics.forgotten.add(await self._parts.traces.forget())
        except TimeoutError:
            _LOG.warning("kafka: there was no time to drop the open trajectories: some may be scored in part")

    async def leave(self, timeout_s: float) -> None:
        """Commit all done messages, and leave the group, within the time."""
        self._is_stopping.set()
        self._is_leaving.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            await asyncio.to_thread(thread.join, max(timeout_s, _POLL_S))
            if thread.is_alive():
                _LOG.warning("kafka: the brokers do not answer; what was not committed is read again")

    def _run(self) -> None:
        try:
            properties = {
                **consumer_properties(self._settings),
                "stats_cb": self._observe,
                "error_cb": self._look_at_error,
            }
            self._closed_topic = ClosedTopic(self._settings, self._is_leaving.is_set)
            self._topic_ids = TopicIds(self._settings, (*self._signals, self._closed_topic.name))
            self._consumer = Consumer(properties)
        except KafkaException as error:
            self._began.set_exception(StartError(f"`receivers.kafka` cannot be used: {error.args[0].str()}"))
            return
        try:
            if self._join():
                while not self._is_leaving.is_set():
                    try:
                        self._turn()
                    except (KafkaException, RuntimeError) as error:
                        self._fail(f"cannot be read: {error}")
                        self._has_to_rejoin = not self._is_leaving.wait(_TRY_AGAIN_S)
                self._interrupt()
                self._commit(CALL_S)
        finally:
            self._lag.clear()
            self._closed_topic.close()
            self._consumer.close()

    def _join(self) -> bool:
        """Make the topic of closed traces, as often as it takes, and enter the group; False when the process ends before."""
        while not self._is_leaving.is_set():
            try:
                lacking = self._closed_topic.make(tuple(self._signals))
            except StartError as error:
                if not self._began.done():
                    self._began.set_exception(error)
                    return False
                lacking = f"{error.message}; {error.hint}"
            except KafkaException as error:
                lacking = f"the brokers do not answer: {error.args[0].str()}"
            if lacking is None:
                self._mend()
                self._subscribe()
                if not self._began.done():
                    self._began.set_result(None)
                return True
            self._fail(lacking)
            self._is_leaving.wait(_TRY_AGAIN_S)
        return False

    def _subscribe(self) -> None:
        self._consumer.subscribe(
            list(self._signals), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    def _fail(self, why: str) -> None:
        if self.trouble is None or self.trouble[0] != why:
            self.trouble = (why, self._parts.clock())
            _LOG.warning("kafka: %s; trying again", why)

    def _mend(self) -> None:
        if self.trouble is not None and not self._is_gone:
            self.trouble = None
            _LOG.info("kafka: consuming again")

    def _turn(self) -> None:
        if self._has_to_rejoin:
            self._has_to_rejoin = False
            self._lose(tuple(self._assignments))
            self._consumer.unsubscribe()
            self._subscribe()
        if self._batch is None:
            # First the messages that came before a pause took hold.
            came, self._backlog = self._backlog, []
            self._hand_over(came or self._consumer.consume(_AT_ONCE, _POLL_S))
        if self._batch is not None:
            self._wait_for(self._batch)
        self._show_stall()
        if time.monotonic() >= self._commit_due_s:
            self._commit_due_s = time.monotonic() + _COMMIT_EVERY_S
            self._commit(_COMMIT_EVERY_S)
            self._look_at_topics()

    def _look_at_topics(self) -> None:
        """Read topics that were made again from their beginning; make the topic of closed traces where it is gone."""
        remade, missing = self._topic_ids.remade() & self._signals.keys(), self._topic_ids.missing
        if self._closed_topic.name in missing:
            missing.discard(self._closed_topic.name)
            _LOG.warning("kafka: the topic %s is gone; making it again", self._closed_topic.name)
            try:
                self._closed_topic.make(tuple(self._signals))
            except StartError as error:
                self._fail(f"{error.message}; {error.hint}")
        # One of the two may never have been there.
        gone = missing if missing >= self._signals.keys() else missing & self._topic_ids.known
        was_gone, self._is_gone = self._is_gone, bool(gone)
        if gone:
            self._fail(f"there is no topic {' or '.join(sorted(gone))}")
        elif was_gone:
            self._mend()
        if remade:
            text = "kafka: %s was deleted and made again: it is read from its beginning; messages that were not read before are lost"
            _LOG.error(text, " and ".join(sorted(remade)))
            self._remade |= remade
            self._interrupt()
            # Open trajectories stay open: nobody can read them again.
            for assignment in self._assignments.values():
                self._parts.ledger.forget(self._parts.offsets.drop(assignment))
            self._on_assign(self._consumer, self._consumer.assignment())

    def _hand_over(self, messages: Sequence[Message]) -> None:
        taken: list[tuple[Message, Assignment]] = []
        for message in messages:
            error = message.error()
            if error is not None:
                self._look_at_error(error)
                continue
            assignment = self._assignments.get(message.partition() or 0)
            if assignment is None or assignment.is_lost:
                continue
            if assignment.began_ns == 0:
                assignment.began_ns = message.timestamp()[1] * _MILLISECOND
            taken.append((message, assignment))
        if taken and not self._is_stopping.is_set():
            self._mend()
            self._batch = self._on_loop(self._taker.take(taken, self._taker.epoch))

    def _look_at_error(self, error: KafkaError) -> None:
        if error.code() == _RESET:
            _LOG.error("kafka: messages were deleted before they were read: %s", error.str())
            self._has_to_rejoin = True
        elif error.code() in _UNKNOWN:
            if self._throttle.suppressed(error.str()) is not None:
                _LOG.warning("kafka: %s", error.str())
        elif error.fatal() or error.code() > 0 or error.code() in _REFUSALS:
            self._fail(error.str())

    def _wait_for(self, batch: Future[None]) -> None:
        try:
            batch.result(_POLL_S if self._is_paused else _PATIENCE_S)
        except NotYet:
            if not self._is_paused:
                self._consumer.pause(self._consumer.assignment())
                self._is_paused = True
            # Nothing comes: that is for the group.
            message = self._consumer.poll(0)
            if message is not None:
                self._backlog.append(message)
            return
        except Exception as error:  # noqa: BLE001 - a fault behind the receiver must not end its thread
            _LOG.error("kafka: messages could not be taken: %s", type(error).__name__)
            self._has_to_rejoin = True
        if self._batch is batch:
            self._batch = None
        if self._is_paused:
            self._is_paused = False
            self._consumer.resume(self._consumer.assignment())

    def _interrupt(self) -> bool:
        self._taker.epoch += 1
        batch, self._batch = self._batch, None
        self._is_paused = False
        self._backlog.clear()
        if batch is None:
            return True
        try:
            batch.result(CALL_S)
        except Exception:  # noqa: BLE001 - a fault behind the receiver must not end its thread
            return False
        return True

    def _on_loop(self, work: Coroutine[object, object, None]) -> Future[None]:
        if self._loop is None:
            raise RuntimeError("not started")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _on_revoke(self, _consumer: Consumer, _partitions: list[TopicPartition]) -> None:
        self._waits_for_partitions = True
        # Before the ids of closed traces are written, no more may close: another process would score them as well.
        self._show_stall()
        has_ended = self._interrupt()
        if has_ended and not self._is_leaving.is_set():
            try:
                self._on_loop(self._parts.traces.stalled()).result(CALL_S)
            except NotYet:
                has_ended = False
        if not has_ended:
            self._lose(tuple(self._assignments))
        # At the end the next reader scores the traces that are left.
        self._commit(CALL_S, is_giving_up=not self._is_leaving.is_set())
        self._consumer.unassign()

    def _on_lost(self, _consumer: Consumer, _partitions: list[TopicPartition]) -> None:
        self._kafka_metrics.rebalances.add(1, ("lost",))
        _LOG.warning("kafka: the group went on without this process; what was open is read again by others")
        self._waits_for_partitions = True
        self._lose(tuple(self._assignments))
        self._consumer.unassign()

    def _on_assign(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._kafka_metrics.rebalances.add(1, ("assigned",))
        self._interrupt()
        if self._is_stopping.is_set():
            self._consumer.assign([])
            return
        try:
            self._assign(partitions)
        except (KafkaException, NotYet, StartError) as error:
            self._fail(f"partitions cannot be taken over: {error}")
            self._lose(tuple(self._assignments))
            self._consumer.assign([])
            self._has_to_rejoin = not self._is_leaving.wait(_TRY_AGAIN_S)

    def _assign(self, partitions: list[TopicPartition]) -> None:
        committed = self._consumer.committed(partitions, timeout=CALL_S) if partitions else []
        numbers = {part.partition for part in partitions}
        moved = {
            part.partition
            for part in committed
            if part.topic not in self._remade
            and (part.offset, part.metadata or "")
            != self._committed.get((part.topic, part.partition), (OFFSET_INVALID, ""))
        }
        self._lose([number for number in self._assignments if number not in numbers or number in moved])
        coming = [part for part in committed if self._parts.offsets.position(part.topic, part.partition) is None]
        if coming:
            self._take_over(coming)
        places = [
            TopicPartition(part.topic, part.partition, self._parts.offsets.position(part.topic, part.partition) or 0)
            for part in partitions
        ]
        self._consumer.assign(places)
        self._remade.clear()
        self._waits_for_partitions = False
        self._mend()

    def _take_over(self, coming: Sequence[TopicPartition]) -> None:
        numbers = {part.partition for part in coming}
        if max(numbers) >= self._closed_topic.partitions:
            self._closed_topic.make(tuple(self._signals))
        starts = dict.fromkeys(numbers, -1)
        begins_with_latest = self._settings.initial_offset == "latest"
        for part in coming:
            offset, read, closed_from = read_metadata(part)
            assignment = self._assignments.setdefault(part.partition, Assignment(partition=part.partition))
            if is_remade := part.topic in self._remade:
                offset, read = None, 0
            offset, is_missing = start_of(
                self._consumer, part, offset, begins_with_latest=begins_with_latest and not is_remade
            )
            if is_missing:
                # Until the first message shows it.
                assignment.began_ns = 0
            self._parts.offsets.begin(part.topic, part.partition, offset)
            self._taker.read_before[part.topic, part.partition] = read
            self._committed[part.topic, part.partition] = (part.offset, part.metadata or "")
            before = starts[part.partition]
            starts[part.partition] = closed_from if before < 0 else min(before, closed_from)
        closed, begun = self._closed_topic.read(starts, self._parts.clock())
        # Before any message of theirs: both wait for their turns in the same order.
        self._on_loop(self._parts.traces.remember(closed, begun))

    def _lose(self, numbers: Sequence[int]) -> None:
        """Drop open trajectories of partitions; requests on their way to a destination still go there."""
        lost = [self._assignments.pop(number) for number in numbers]
        if not lost:
            return
        for assignment in lost:
            assignment.is_lost = True
            self._parts.ledger.forget(self._parts.offsets.drop(assignment))
            self._committed = {part: at for part, at in self._committed.items() if part[1] != assignment.partition}

        async def forget() -> None:
            self._kafka_metrics.forgotten.add(await self._parts.traces.forget())

        self._on_loop(forget())

    def _commit(self, timeout_s: float, *, is_giving_up: bool = False) -> None:
        now_ns = self._parts.clock()
        begun = self._overdue(now_ns)
        committable = self._parts.offsets.committable(now_ns)
        closed = self._parts.offsets.take_closed(undelivered=is_giving_up)
        self._closed_topic.write(closed, begun, now_ns)
        self._is_written = self._closed_topic.flush(timeout_s)
        self._lag = lag_of(self._consumer, committable)
        changed: list[TopicPartition] = []
        for part in committable:
            closed_from = self._closed_topic.offset_at(part.partition, part.since_ns - self._parts.late_ns, now_ns)
            metadata = f"{part.read}:{closed_from}"
            if self._committed.get((part.topic, part.partition)) != (part.offset, metadata):
                changed.append(TopicPartition(part.topic, part.partition, part.offset, metadata))
        if not changed or not self._is_written:
            return

        def commit() -> None:
            try:
                done = self._consumer.commit(offsets=changed, asynchronous=False) or []
            except (KafkaException, RuntimeError):
                # Next time; or it is read again.
                return
            failed = {(part.topic, part.partition) for part in done if part.error is not None}
            for part in changed:
                if (part.topic, part.partition) not in failed:
                    self._committed[part.topic, part.partition] = (part.offset, part.metadata or "")

        # A commit waits for the brokers as long as it likes.
        committing = threading.Thread(target=commit, daemon=True)
        committing.start()
        committing.join(timeout_s)

    def _overdue(self, now_ns: int) -> Sequence[tuple[str, int]]:
        """Give up messages that wait too long for an open trajectory; return those traces, with their partitions."""
        # What waits for a destination is not given up.
        overdue = self._parts.offsets.older(now_ns - self._settings.max_uncommitted)
        messages = [message for message in overdue if self._parts.ledger.is_delivered(message)]
        if not messages or self._is_stopping.is_set() or self._loop is None:
            return ()
        asking = asyncio.run_coroutine_threadsafe(self._parts.traces.open_traces_of(messages), self._loop)
        try:
            found = asking.result(CALL_S)
        except NotYet:
            return ()
        begun = [(trace_id, assignment.partition) for trace_id, assignment in found if not assignment.is_lost]
        for message in messages:
            self._parts.offsets.done(message)
        if begun:
            self._kafka_metrics.given_up.add(len(begun))
        return begun

    def _observe(self, statistics: str) -> None:
        is_reachable = leaders_answer(statistics)
        if self._is_reachable and not is_reachable:
            self._fail("the brokers do not answer")
        elif is_reachable and not self._is_reachable:
            self._mend()
        self._is_reachable = is_reachable

    def _show_stall(self) -> None:
        is_stalled = self._waits_for_partitions or self._is_paused or not self._is_reachable or not self._is_written
        if is_stalled == self._is_stalled:
            return
        self._is_stalled = is_stalled
        if is_stalled:
            self._parts.traces.stall()
        else:
            self._parts.traces.resume()
