"""Which messages of a broker are still needed, and so which offset of each partition may be committed.

A message is needed until it has been sent on, and until the trajectories that hold it have closed and their scores are
delivered. The ledger counts that, as it does for the journal: here arrive its changes. What is not committed is read again
after a crash, by this process or another one; so nothing of it is written anywhere else.
"""

import itertools
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterator, Sequence
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from toolgauge.model.delivery import Assignment
from toolgauge.model.journal import ClosedId, JournalChange
from toolgauge.state.ledger import JournalWriter

# A topic and the number of a partition of it.
TopicPart: TypeAlias = tuple[str, int]


class Committable(Struct, frozen=True):
    """What may be committed of a partition: the `offset` of the first message that is needed, or of the next one.

    `read` is the offset of the next message to read, `since_ns` when the first one that is needed was read.
    """

    topic: str
    partition: int
    offset: int
    read: int
    since_ns: int


class PartOffsets:
    """The messages of one partition that are needed. Offsets rise; there may be gaps between them."""

    def __init__(self, offset: int) -> None:
        self.next_offset = offset
        # When each was read, in order of offsets. Not a dict, whose front is slow to find when much was taken from there.
        self._needed: OrderedDict[int, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._needed)

    def add(self, offset: int, now_ns: int) -> None:
        """Note that a message was read and is needed."""
        self._needed[offset] = now_ns
        self.next_offset = offset + 1

    def skip(self, offset: int) -> None:
        """Note that a message was read and is not needed."""
        self.next_offset = offset + 1

    def done(self, offset: int) -> None:
        """Note that a message is needed no more."""
        self._needed.pop(offset, None)

    @property
    def committable(self) -> int:
        """The offset from which reading would have to go on."""
        return next(iter(self._needed), self.next_offset)

    def since_ns(self, now_ns: int) -> int:
        """Return when the first message that is needed was read; `now_ns` where none is."""
        return next(iter(self._needed.values()), now_ns)

    def older(self, than_ns: int) -> Iterator[int]:
        """Yield the offsets of needed messages that were read before this time."""
        for offset, read_ns in self._needed.items():
            if read_ns >= than_ns:
                return
            yield offset


class _Message(Struct, frozen=True):
    topic: str
    offset: int
    assignment: Assignment


class _Batch(Struct):
    """Ids of traces that closed together, and what we have to send of them."""

    undelivered: set[int]
    closed: Sequence[ClosedId]


class OffsetJournal:
    """Implements `state.ledger.JournalWriter` for messages, whose entries have negative ids; the rest goes to `journal`.

    May be used in any thread. Ids of closed traces are for `take_closed` when their scores are delivered.
    """

    def __init__(self, journal: JournalWriter | None) -> None:
        self._journal = journal
        self._own_ids = itertools.count(1)
        self._message_ids = itertools.count(-1, -1)
        self._lock = threading.Lock()
        self._parts: dict[TopicPart, PartOffsets] = {}
        self._messages: dict[int, _Message] = {}
        self._ids: dict[tuple[str, int, int], int] = {}
        self._undelivered: dict[int, _Batch] = {}
        self._closed: list[ClosedId] = []

    def next_id(self) -> int:
        """Return an id for an entry that is no message."""
        return next(self._own_ids) if self._journal is None else self._journal.next_id()

    def keeps(self, entries: Collection[int]) -> bool:
        """Return whether the next process finds these entries in the journal, or reads and scores their messages again."""
        messages = [entry for entry in entries if entry < 0]
        if messages:
            return all(entry in self._messages for entry in messages)
        return self._journal is not None and self._journal.keeps(entries)

    def submit(self, change: JournalChange) -> None:
        """Take note of entries that are done with."""
        with self._lock:
            if change.closed:
                self._wait_for([entry.id for entry in change.appended if entry.own], change.closed)
            for entry in change.removed:
                if entry < 0:
                    self._done(entry)
                else:
                    self._delivered(entry)
        if self._journal is not None:
            removed = [entry for entry in change.removed if entry > 0]
            delivered = [entry for entry in change.delivered if entry > 0]
            if change.appended or removed or delivered or change.closed or change.shown:
                self._journal.submit(replace(change, removed=removed, delivered=delivered))

    # -- the receiver's side ------------------------------------------------------------------------------------------

    def begin(self, topic: str, partition: int, offset: int) -> None:
        """Read a partition from this offset on."""
        with self._lock:
            self._parts[topic, partition] = PartOffsets(offset)

    def add(self, topic: str, offset: int, assignment: Assignment, now_ns: int) -> int:
        """Take note of a message that was read and is needed; return the id of its entry."""
        entry = next(self._message_ids)
        with self._lock:
            self._parts[topic, assignment.partition].add(offset, now_ns)
            self._messages[entry] = _Message(topic, offset, assignment)
            self._ids[topic, assignment.partition, offset] = entry
        return entry

    def skip(self, topic: str, offset: int, assignment: Assignment) -> None:
        """Take note of a message that was read and is not needed."""
        with self._lock:
            self._parts[topic, assignment.partition].skip(offset)

    def done(self, entry: int) -> None:
        """Take note that a message is needed no more."""
        with self._lock:
            self._done(entry)

    def withdraw(self, entry: int) -> None:
        """Take note that the message that was read last of its partition was not taken: it is read again."""
        with self._lock:
            message = self._messages.get(entry)
            part = None if message is None else self._parts.get((message.topic, message.assignment.partition))
            self._done(entry)
            if message is not None and part is not None:
                part.next_offset = message.offset

    def drop(self, assignment: Assignment) -> list[int]:
        """Forget a partition that is lost; return the entries of its messages that are needed."""
        with self._lock:
            lost = [entry for entry, message in self._messages.items() if message.assignment is assignment]
            for entry in lost:
                message = self._messages.pop(entry)
                del self._ids[message.topic, assignment.partition, message.offset]
            for part in [part for part in self._parts if part[1] == assignment.partition]:
                del self._parts[part]
        return lost

    def position(self, topic: str, partition: int) -> int | None:
        """Return the offset of the next message to read; `None` where the partition is not read."""
        with self._lock:
            part = self._parts.get((topic, partition))
            return None if part is None else part.next_offset

    def committable(self, now_ns: int) -> list[Committable]:
        """Return what may be committed of each partition."""
        with self._lock:
            return [
                Committable(topic, partition, part.committable, part.next_offset, part.since_ns(now_ns))
                for (topic, partition), part in self._parts.items()
            ]

    def older(self, than_ns: int) -> list[int]:
        """Return the entries of needed messages that were read before this time."""
        with self._lock:
            return [
                self._ids[topic, partition, offset]
                for (topic, partition), part in self._parts.items()
                for offset in part.older(than_ns)
            ]

    @property
    def needed(self) -> int:
        """How many messages are needed."""
        return len(self._messages)

    def take_closed(self, *, undelivered: bool = False) -> Sequence[ClosedId]:
        """Return the traces that have closed since this was asked last; also those with `undelivered` scores, if wanted."""
        with self._lock:
            closed, self._closed = self._closed, []
            if undelivered:
                batches = {id(batch): batch for batch in self._undelivered.values()}
                self._undelivered.clear()
                for batch in batches.values():
                    closed.extend(batch.closed)
        return closed

    def _wait_for(self, own: Sequence[int], closed: Sequence[ClosedId]) -> None:
        of_partitions = [one for one in closed if one.partition is not None]
        if not of_partitions:
            return
        if not own:
            self._closed.extend(of_partitions)
            return
        batch = _Batch(set(own), of_partitions)
        self._undelivered.update(dict.fromkeys(own, batch))

    def _delivered(self, own: int) -> None:
        batch = self._undelivered.pop(own, None)
        if batch is None:
            return
        batch.undelivered.discard(own)
        if not batch.undelivered:
            self._closed.extend(batch.closed)

    def _done(self, entry: int) -> None:
        message = self._messages.pop(entry, None)
        if message is None:
            return
        partition = message.assignment.partition
        del self._ids[message.topic, partition, message.offset]
        part = self._parts.get((message.topic, partition))
        if part is not None:
            part.done(message.offset)
