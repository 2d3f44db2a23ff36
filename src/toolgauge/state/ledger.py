"""Counts who still needs a source: deliveries that are owed, and trajectories that are open.

A source leaves the journal, or may be committed, when nothing needs it. A row that every destination has is marked
`delivered` while trajectories still need it: after a restart it is read again, and not sent again.
"""

import threading
from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from toolgauge.model.delivery import BrokerMessage, JournalRow, Outgoing, Signal, Source
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


class _Claims(Struct, kw_only=True):
    """Claims on one source. Each count begins with the one that holds the source until it has been read."""

    # Whether the journal knows that it is delivered.
    is_marked: bool
    deliveries: int = 1
    trajectories: int = 1


class Ledger:
    """Counts claims on sources. May be used in any thread; unknown sources are not needed by anyone."""

    def __init__(self, journal: JournalWriter) -> None:
        self._journal = journal
        self._claims: dict[Source, _Claims] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._claims)

    def keeps(self, entries: Sequence[Source]) -> bool:
        """Return whether a process that ends now leaves these sources to the next one."""
        return bool(entries) and self._journal.keeps(entries)

    def new_entry(self, signal: Signal, body: bytes, received_ns: int, *, own: bool) -> JournalEntry:
        """Return an entry that is needed until it has been `read`. The caller has it written."""
        entry = JournalEntry(id=self._journal.next_id(), signal=signal, body=body, received_ns=received_ns, own=own)
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
        self._submit(JournalChange(), *self._release(entries, deliveries=1, trajectories=0))

    def read(self, source: Source) -> None:
        """End the claims of the reader: only claims made meanwhile keep the source."""
        self._submit(JournalChange(), *self._release((source,), deliveries=1, trajectories=1))

    def close(
        self,
        entries: Iterable[Source],
        closed: Sequence[ClosedId],
        own: Sequence[JournalEntry],
        shown: Sequence[ShownValues] = (),
    ) -> None:
        """Write closed trajectories with our requests about them and the values they showed, all or nothing; end their claims."""
        released = self._release(entries, deliveries=0, trajectories=1)
        self._submit(JournalChange(appended=own, closed=closed, shown=shown), *released)

    def _release(
        self, entries: Iterable[Source], *, deliveries: int, trajectories: int
    ) -> tuple[list[JournalRow], list[Source]]:
        """Return the rows that are delivered, and the sources that are not needed any more."""
        delivered: list[JournalRow] = []
        removed: list[Source] = []
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
                    removed.append(source)
                elif not claims.is_marked and isinstance(source, int):
                    claims.is_marked = True
                    delivered.append(source)
        return delivered, removed

    def _submit(self, change: JournalChange, delivered: Sequence[JournalRow], removed: Sequence[Source]) -> None:
        if removed or delivered or change.closed or change.appended or change.shown:
            rows = [source for source in removed if isinstance(source, int)]
            messages = [source for source in removed if not isinstance(source, int)]
            self._journal.submit(replace(change, delivered=delivered, removed=rows, messages=messages))
