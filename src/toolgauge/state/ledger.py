"""Which entries of the journal are still needed: for deliveries that are owed, and for trajectories that are open.

An entry leaves the journal when nothing needs it. One that every destination has is marked `delivered` while trajectories
still need it: after a restart it is read again, and not sent again.
"""

import threading
from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from msgspec.structs import replace

from toolgauge.model.delivery import Outgoing, Signal
from toolgauge.model.journal import ClosedId, JournalChange, JournalEntry, ShownValues


class JournalWriter(Protocol):
    """Writes changes, in the order in which they are submitted. Any thread may call."""

    def next_id(self) -> int:
        """Return an id that no entry has had."""
        ...

    def keeps(self, entries: Collection[int]) -> bool:
        """Return whether these entries reach the next process when this one ends now."""
        ...

    def submit(self, change: JournalChange) -> None:
        """Have the change written soon."""
        ...


class _Claims:
    __slots__ = ("deliveries", "is_marked", "trajectories")

    def __init__(self, *, is_marked: bool) -> None:
        # One each for who brings the entry, until it has been read.
        self.deliveries = 1
        self.trajectories = 1
        # Whether nothing more is to be written about its delivery.
        self.is_marked = is_marked


class Ledger:
    """Counts who needs an entry. May be used in any thread; entries that it does not know need nothing any more."""

    def __init__(self, journal: JournalWriter) -> None:
        self._journal = journal
        self._claims: dict[int, _Claims] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._claims)

    def keeps(self, entries: Sequence[int]) -> bool:
        """Return whether a process that ends now leaves these entries to the next one."""
        return bool(entries) and self._journal.keeps(entries)

    def new_entry(self, signal: Signal, body: bytes, received_ns: int, *, own: bool) -> JournalEntry:
        """Make an entry, which is needed until it has been `read`. It is for the caller to have it written."""
        entry = JournalEntry(id=self._journal.next_id(), signal=signal, body=body, received_ns=received_ns, own=own)
        self.restore(entry)
        return entry

    def journaled(self, outgoing: Outgoing, now_ns: int) -> Outgoing:
        """Have a request of our own written that belongs to no trajectory; return it with its entry."""
        entry = self.new_entry(outgoing.signal, outgoing.body, now_ns, own=True)
        self.close((entry.id,), (), (entry,))
        return replace(outgoing, entries=(entry.id,))

    def keep(self, signal: Signal, body: bytes, received_ns: int) -> int:
        """Have something written that one open trajectory needs and that is not to be sent; return the id of the entry."""
        entry = replace(self.new_entry(signal, body, received_ns, own=False), delivered=True)
        self._journal.submit(JournalChange(appended=(entry,)))
        with self._lock:
            claims = self._claims[entry.id]
            claims.deliveries, claims.is_marked = 0, True
        return entry.id

    def restore(self, entry: JournalEntry) -> None:
        """Take up an entry that an earlier process has left."""
        with self._lock:
            self._claims[entry.id] = _Claims(is_marked=entry.delivered or entry.own)

    def forget(self, entries: Iterable[int]) -> None:
        """Keep no books about these any more, and write nothing: they are another process's concern."""
        with self._lock:
            for entry in entries:
                self._claims.pop(entry, None)

    def is_delivered(self, entry: int) -> bool:
        """Return whether nothing but open trajectories needs the entry."""
        claims = self._claims.get(entry)
        return claims is not None and not claims.deliveries

    def claim_deliveries(self, entries: Iterable[int], count: int = 1) -> None:
        """Note that so many more deliveries of each are owed."""
        with self._lock:
            for entry in entries:
                claims = self._claims.get(entry)
                if claims is not None:
                    claims.deliveries += count

    def claim_trajectories(self, entry: int, count: int) -> None:
        """Note that so many more open trajectories need it."""
        with self._lock:
            claims = self._claims.get(entry)
            if claims is not None:
                claims.trajectories += count

    def settle(self, entries: Iterable[int]) -> None:
        """Note that one delivery of each has ended."""
        delivered: list[int] = []
        removed: list[int] = []
        with self._lock:
            for entry in entries:
                self._settle(entry, delivered, removed)
        self._submit(delivered, removed)

    def read(self, entry: int) -> None:
        """Note that the entry has been read: only what was claimed meanwhile keeps it."""
        delivered: list[int] = []
        removed: list[int] = []
        with self._lock:
            claims = self._claims.get(entry)
            if claims is not None:
                claims.trajectories -= 1
                self._settle(entry, delivered, removed)
        self._submit(delivered, removed)

    def close(
        self,
        entries: Iterable[int],
        closed: Sequence[ClosedId],
        own: Sequence[JournalEntry],
        shown: Sequence[ShownValues] = (),
    ) -> None:
        """Note that trajectories have closed: their ids, what we have to send of them, what they showed, and the entries they needed.

        All of it is written together, or not at all.
        """
        removed: list[int] = []
        with self._lock:
            for entry in entries:
                claims = self._claims.get(entry)
                if claims is None:
                    continue
                claims.trajectories -= 1
                if not claims.trajectories and not claims.deliveries:
                    del self._claims[entry]
                    removed.append(entry)
        if removed or closed or own or shown:
            self._journal.submit(JournalChange(appended=own, removed=removed, closed=closed, shown=shown))

    def _settle(self, entry: int, delivered: list[int], removed: list[int]) -> None:
        claims = self._claims.get(entry)
        if claims is None:
            return
        claims.deliveries -= 1
        if claims.deliveries:
            return
        if not claims.trajectories:
            del self._claims[entry]
            removed.append(entry)
        elif not claims.is_marked:
            claims.is_marked = True
            delivered.append(entry)

    def _submit(self, delivered: Sequence[int], removed: Sequence[int]) -> None:
        if delivered or removed:
            self._journal.submit(JournalChange(delivered=delivered, removed=removed))
