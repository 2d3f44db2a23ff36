"""Counts the open deliveries and trajectories that still need a source (a request in the journal or of a broker).

A row that every destination has is marked `delivered` while trajectories still need it: a restart reads it again, and does
not send it again. `OffsetJournal` decides up to which offset messages of a broker may be committed.
"""

import itertools
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from typing import Protocol, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from toolgauge.model.delivery import NO_ENTRY, Assignment, BrokerMessage, JournalRow, Outgoing, Signal, Source
from toolgauge.model.journal import ClosedId, JournalChange, JournalEntry, ShownValues


class JournalWriter(Protocol):
    """Writes changes, in the order in which they are submitted. Any thread may call."""

    def next_id(self) -> JournalRow:
        """Return an id that no entry has had."""
        ...

    def keeps(self, entries: Collection[Source]) -> bool:
        """Return whether these sources reach the next process if this one ends now."""
        ...

    def submit(self, change: JournalChange) -> None:
        """Write the change soon."""
        ...

    def begin_work(self, subject: str) -> None:
        """Note the run or request that is taken up next, for a process after a crash."""
        ...


class _Claims(Struct, kw_only=True):
    """Claims on one source. Each count begins with one claim, which ends when the source has been read."""

    # Whether the journal knows that it is delivered.
    is_marked: bool
    deliveries: int = 1
    trajectories: int = 1


class Ledger:
    """Counts claims on sources. May be used in any thread; unknown sources are not needed by anyone."""

    def __init__(self, journal: JournalWriter | None) -> None:
        """Without a journal and a broker, nothing is counted: no request is read again."""
        # Whether anything outlives the process.
        self.has_journal = journal is not None
        self._journal = journal or OffsetJournal(None)
        self.begin_work = self._journal.begin_work
        self._claims: dict[Source, _Claims] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._claims)

    def keeps(self, entries: Sequence[Source]) -> bool:
        """Return whether a process that ends now leaves these sources to the next one."""
        return bool(entries) and self._journal.keeps(entries)

    def new_entry(self, signal: Signal, body: bytes, received_ns: int, *, own: bool) -> JournalEntry:
        """Return an entry that is needed until it has been `read`. The caller has it written, where there is a journal."""
        row = self._journal.next_id() if self.has_journal else NO_ENTRY
        entry = JournalEntry(id=row, signal=signal, body=body, received_ns=received_ns, own=own)
        if self.has_journal:
            self.restore(entry)
        return entry

    def journaled(self, outgoing: Outgoing, now_ns: int) -> Outgoing:
        """Write a request of our own that belongs to no trajectory; return it with its entry."""
        entry = self.new_entry(outgoing.signal, outgoing.body, now_ns, own=True)
        self.close((entry.id,), (), (entry,))
        return replace(outgoing, entries=(entry.id,))

    def keep(self, signal: Signal, body: bytes, received_ns: int) -> JournalRow:
        """Write a request that one open trajectory needs and that is not sent; return the id of its entry."""
        entry = replace(self.new_entry(signal, body, received_ns, own=False), delivered=True)
        self._journal.submit(JournalChange(appended=(entry,)))
        with self._lock:
            self._claims[entry.id] = _Claims(is_marked=True, deliveries=0)
        return entry.id

    def restore(self, entry: JournalEntry) -> None:
        """Count claims on an entry that an earlier process left."""
        with self._lock:
            self._claims[entry.id] = _Claims(is_marked=entry.delivered or entry.own)

    def add_message(self, message: BrokerMessage) -> None:
        """Count claims on a message. Nothing of it is written: the broker has it."""
        with self._lock:
            self._claims[message] = _Claims(is_marked=False)

    def forget(self, entries: Iterable[Source]) -> None:
        """Drop these without writing anything: another process has them."""
        with self._lock:
            for source in entries:
                self._claims.pop(source, None)

    def is_delivered(self, source: Source) -> bool:
        """Return whether only open trajectories need the source."""
        claims = self._claims.get(source)
        return claims is not None and not claims.deliveries

    def claim_deliveries(self, entries: Iterable[Source], count: int = 1) -> None:
        """Count this many more deliveries that are owed of each."""
        with self._lock:
            for source in entries:
                if (claims := self._claims.get(source)) is not None:
                    claims.deliveries += count

    def claim_trajectories(self, source: Source, count: int) -> None:
        """Count this many more open trajectories that need it."""
        with self._lock:
            if (claims := self._claims.get(source)) is not None:
                claims.trajectories += count

    def settle(self, entries: Iterable[Source]) -> None:
        """End one delivery of each."""
        self._release(entries, JournalChange(), deliveries=1)

    def end_reading(self, source: Source) -> None:
        """End the claims of the reader: only claims made meanwhile keep the source."""
        self._release((source,), JournalChange(), deliveries=1, trajectories=1)

    def close(
        self,
        entries: Iterable[Source],
        closed: Sequence[ClosedId],
        own: Sequence[JournalEntry],
        shown: Sequence[ShownValues] = (),
    ) -> None:
        """Write closed trajectories with our requests about them and the values they showed, all or nothing; end their claims."""
        self._release(entries, JournalChange(appended=own, closed=closed, shown=shown), trajectories=1)

    def _release(
        self, entries: Iterable[Source], change: JournalChange, *, deliveries: int = 0, trajectories: int = 0
    ) -> None:
        """End claims, and write the change with the delivered rows and the sources that are not needed any more."""
        if not self.has_journal:
            return
        delivered: list[JournalRow] = []
        rows: list[JournalRow] = []
        messages: list[BrokerMessage] = []
        with self._lock:
            for source in entries:
                claims = self._claims.get(source)
                if claims is None:
                    continue
                claims.deliveries -= deliveries
                claims.trajectories -= trajectories
                if claims.deliveries:
                    continue
                if not claims.trajectories:
                    del self._claims[source]
                    if isinstance(source, int):
                        rows.append(source)
                    else:
                        messages.append(source)
                elif not claims.is_marked and isinstance(source, int):
                    claims.is_marked = True
                    delivered.append(source)
        if rows or messages or delivered or change.closed or change.appended or change.shown:
            self._journal.submit(replace(change, delivered=delivered, removed=rows, messages=messages))


# A topic and the number of one of its partitions.
TopicPart: TypeAlias = tuple[str, int]


class Committable(Struct, frozen=True):
    """The `offset` of a partition that may be committed, the next one to `read`, and when the first needed one was read."""

    topic: str
    partition: int
    offset: int
    read: int
    since_ns: int


class _Partition(Struct):
    """The needed messages of one partition, with the time when each was read."""

    next_offset: int
    # In order of offsets. A dict would walk over all that was removed from its front.
    needed: OrderedDict[BrokerMessage, int] = field(default_factory=OrderedDict[BrokerMessage, int])


class _Batch(Struct):
    """Ids of traces that closed together, and the requests of our own about them that are not delivered."""

    undelivered: set[JournalRow]
    closed: Sequence[ClosedId]


class OffsetJournal:
    """A thread-safe `JournalWriter` that keeps messages itself. `take_closed` returns closed traces once scores are delivered."""

    def __init__(self, journal: JournalWriter | None) -> None:
        self._journal = journal
        self._own_ids = itertools.count(1)
        self._lock = threading.RLock()
        self._partitions: dict[TopicPart, _Partition] = {}
        self._undelivered: dict[JournalRow, _Batch] = {}
        self._closed: list[ClosedId] = []

    def next_id(self) -> JournalRow:
        """Return an id for a journal entry."""
        return next(self._own_ids) if self._journal is None else self._journal.next_id()

    def keeps(self, entries: Collection[Source]) -> bool:
        """Return whether the next process finds these entries in the journal, or reads and scores their messages again."""
        messages = [source for source in entries if isinstance(source, BrokerMessage)]
        if messages:
            parts = [self._partitions.get((one.topic, one.assignment.partition)) for one in messages]
            return all(part is not None and one in part.needed for one, part in zip(messages, parts, strict=True))
        return self._journal is not None and self._journal.keeps(entries)

    def submit(self, change: JournalChange) -> None:
        """Release messages and deliver ids; hand the rest to the journal."""
        with self._lock:
            closed = [one for one in change.closed if one.partition is not None]
            own = [entry.id for entry in change.appended if entry.own]
            if closed and own:
                self._undelivered.update(dict.fromkeys(own, _Batch(set(own), closed)))
            else:
                self._closed.extend(closed)
            for message in change.messages:
                self.done(message)
            for row in change.removed:
                if (batch := self._undelivered.pop(row, None)) is not None:
                    batch.undelivered.discard(row)
                    if not batch.undelivered:
                        self._closed.extend(batch.closed)
        if self._journal is not None and (
            change.appended or change.removed or change.delivered or change.closed or change.shown
        ):
            self._journal.submit(change)

    def begin_work(self, subject: str) -> None:
        """Have the journal note it."""
        if self._journal is not None:
            self._journal.begin_work(subject)

    def begin(self, topic: str, partition: int, offset: int) -> None:
        """Read a partition from this offset on."""
        with self._lock:
            self._partitions[topic, partition] = _Partition(offset)

    def add(self, topic: str, offset: int, assignment: Assignment, now_ns: int) -> BrokerMessage:
        """Return the message that was read, which is needed from here on. Offsets rise; there may be gaps between them."""
        message = BrokerMessage(topic, offset, assignment)
        with self._lock:
            part = self._partitions[topic, assignment.partition]
            part.needed[message] = now_ns
            part.next_offset = offset + 1
        return message

    def skip(self, topic: str, offset: int, assignment: Assignment) -> None:
        """Pass a message that is not needed."""
        with self._lock:
            self._partitions[topic, assignment.partition].next_offset = offset + 1

    def done(self, message: BrokerMessage) -> _Partition | None:
        """Release a message; return the partition that needed it, `None` without one."""
        with self._lock:
            part = self._partitions.get((message.topic, message.assignment.partition))
            return None if part is None or part.needed.pop(message, None) is None else part

    def withdraw(self, message: BrokerMessage) -> None:
        """Read the newest message of its partition again: it was not taken."""
        with self._lock:
            if (part := self.done(message)) is not None:
                part.next_offset = message.offset

    def drop(self, assignment: Assignment) -> list[BrokerMessage]:
        """Forget a lost partition; return its messages that are needed."""
        with self._lock:
            lost = [key for key in self._partitions if key[1] == assignment.partition]
            return [message for key in lost for message in self._partitions.pop(key).needed]

    def position(self, topic: str, partition: int) -> int | None:
        """Return the offset of the next message to read; `None` where the partition is not read."""
        with self._lock:
            part = self._partitions.get((topic, partition))
            return None if part is None else part.next_offset

    def committable(self, now_ns: int) -> list[Committable]:
        """Return the offsets that may be committed, one a partition."""
        with self._lock:
            found: list[Committable] = []
            for (topic, partition), part in self._partitions.items():
                first, since_ns = next(iter(part.needed.items()), (None, now_ns))
                offset = part.next_offset if first is None else first.offset
                found.append(Committable(topic, partition, offset, part.next_offset, since_ns))
            return found

    def older(self, than_ns: int) -> list[BrokerMessage]:
        """Return needed messages that were read before this time."""
        with self._lock:
            old = (
                itertools.takewhile(lambda one: one[1] < than_ns, part.needed.items())
                for part in self._partitions.values()
            )
            return [message for of_part in old for message, _ in of_part]

    @property
    def needed(self) -> int:
        """How many messages are needed."""
        with self._lock:
            return sum(len(part.needed) for part in self._partitions.values())

    def take_closed(self, *, undelivered: bool = False) -> Sequence[ClosedId]:
        """Return the traces that have closed since the last call; also those with `undelivered` scores, if wanted."""
        with self._lock:
            closed, self._closed = self._closed, []
            if undelivered:
                for batch in {id(batch): batch for batch in self._undelivered.values()}.values():
                    closed.extend(batch.closed)
                self._undelivered.clear()
            return closed


NO_LEDGER = Ledger(None)
