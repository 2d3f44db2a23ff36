"""Decides which offset of each partition may be committed: that of the first message that is still needed.

A message is needed until it has been sent on, and until the trajectories that hold it have closed and their scores are
delivered. The ledger counts that, as it does for the journal: here arrive its changes. A message that is not committed is
read again after a crash, by this process or another one, so it is written nowhere else.
"""

import itertools
import threading
from collections import OrderedDict
from collections.abc import Collection, Sequence
from typing import TypeAlias

from msgspec import Struct

from toolgauge.model.delivery import Assignment, BrokerMessage, JournalRow, Source
from toolgauge.model.journal import ClosedId, JournalChange
from toolgauge.state.ledger import JournalWriter

# A topic and the number of a partition of it.
TopicPart: TypeAlias = tuple[str, int]


class Committable(Struct, frozen=True):
    """The `offset` of a partition that may be committed, the next one to `read`, and when the first needed one was read."""

    topic: str
    partition: int
    offset: int
    read: int
    since_ns: int


class _Partition:
    """The needed messages of one partition, with the time when each was read."""

    def __init__(self, offset: int) -> None:
        self.next_offset = offset
        # In order of offsets. A dict would walk over all that was removed from its front.
        self.needed: OrderedDict[BrokerMessage, int] = OrderedDict()


class _Batch(Struct):
    """Ids of traces that closed together, and the requests of our own about them that are not delivered."""

    undelivered: set[JournalRow]
    closed: Sequence[ClosedId]


class OffsetJournal:
    """A thread-safe `JournalWriter` that keeps messages itself. `take_closed` returns closed traces once scores are delivered."""

    def __init__(self, journal: JournalWriter | None) -> None:
        self._journal = journal
        self._own_ids = itertools.count(1)
        self._lock = threading.Lock()
        self._parts: dict[TopicPart, _Partition] = {}
        self._undelivered: dict[JournalRow, _Batch] = {}
        self._closed: list[ClosedId] = []

    def next_id(self) -> JournalRow:
        """Return an id for a journal entry."""
        return next(self._own_ids) if self._journal is None else self._journal.next_id()

    def keeps(self, entries: Collection[Source]) -> bool:
        """Return whether the next process finds these entries in the journal, or reads and scores their messages again."""
        messages = [source for source in entries if isinstance(source, BrokerMessage)]
        if messages:
            parts = [self._parts.get((one.topic, one.assignment.partition)) for one in messages]
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
                self._done(message)
            for row in change.removed:
                if (batch := self._undelivered.pop(row, None)) is not None:
                    batch.undelivered.discard(row)
                    if not batch.undelivered:
                        self._closed.extend(batch.closed)
        if self._journal is not None and (
            change.appended or change.removed or change.delivered or change.closed or change.shown
        ):
            self._journal.submit(change)

    def begin(self, topic: str, partition: int, offset: int) -> None:
        """Read a partition from this offset on."""
        with self._lock:
            self._parts[topic, partition] = _Partition(offset)

    def add(self, topic: str, offset: int, assignment: Assignment, now_ns: int) -> BrokerMessage:
        """Return the message that was read, which is needed from here on. Offsets rise; there may be gaps between them."""
        message = BrokerMessage(topic, offset, assignment)
        with self._lock:
            part = self._parts[topic, assignment.partition]
            part.needed[message] = now_ns
            part.next_offset = offset + 1
        return message

    def skip(self, topic: str, offset: int, assignment: Assignment) -> None:
        """Pass a message that is not needed."""
        with self._lock:
            self._parts[topic, assignment.partition].next_offset = offset + 1

    def done(self, message: BrokerMessage) -> None:
        """Release a message."""
        with self._lock:
            self._done(message)

    def withdraw(self, message: BrokerMessage) -> None:
        """Read the newest message of its partition again: it was not taken."""
        with self._lock:
            if (part := self._done(message)) is not None:
                part.next_offset = message.offset

    def drop(self, assignment: Assignment) -> list[BrokerMessage]:
        """Forget a lost partition; return its messages that are needed."""
        with self._lock:
            lost = [key for key in self._parts if key[1] == assignment.partition]
            return [message for key in lost for message in self._parts.pop(key).needed]

    def position(self, topic: str, partition: int) -> int | None:
        """Return the offset of the next message to read; `None` where the partition is not read."""
        with self._lock:
            part = self._parts.get((topic, partition))
            return None if part is None else part.next_offset

    def committable(self, now_ns: int) -> list[Committable]:
        """Return the offsets that may be committed, one a partition."""
        with self._lock:
            found: list[Committable] = []
            for (topic, partition), part in self._parts.items():
                first, since_ns = next(iter(part.needed.items()), (None, now_ns))
                offset = part.next_offset if first is None else first.offset
                found.append(Committable(topic, partition, offset, part.next_offset, since_ns))
            return found

    def older(self, than_ns: int) -> list[BrokerMessage]:
        """Return needed messages that were read before this time."""
        with self._lock:
            old = (
                itertools.takewhile(lambda one: one[1] < than_ns, part.needed.items()) for part in self._parts.values()
            )
            return [message for of_part in old for message, _ in of_part]

    @property
    def needed(self) -> int:
        """How many messages are needed."""
        with self._lock:
            return sum(len(part.needed) for part in self._parts.values())

    def take_closed(self, *, undelivered: bool = False) -> Sequence[ClosedId]:
        """Return the traces that have closed since the last call; also those with `undelivered` scores, if wanted."""
        with self._lock:
            closed, self._closed = self._closed, []
            if undelivered:
                for batch in {id(batch): batch for batch in self._undelivered.values()}.values():
                    closed.extend(batch.closed)
                self._undelivered.clear()
            return closed

    def _done(self, message: BrokerMessage) -> _Partition | None:
        """Return the partition that needed the message; `None` where it was not needed."""
        part = self._parts.get((message.topic, message.assignment.partition))
        if part is None or part.needed.pop(message, None) is None:
            return None
        return part
