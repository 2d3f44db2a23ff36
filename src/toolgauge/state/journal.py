"""Writes the journal: acknowledged requests that are still needed.

A thread writes changes in transactions: changes that arrived while the disk wrote are written together (group commit), and
changes without a waiting caller are gathered for some milliseconds. While the file cannot be written the service continues in
memory and retries; then it first removes the entries that were removed meanwhile, and writes the new ones.
"""

import asyncio
import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from typing import TypeAlias

from toolgauge.model.delivery import Source
from toolgauge.model.errors import StartError, StateError
from toolgauge.model.journal import JournalChange, JournalEntry
from toolgauge.selfmetrics import StateMetrics
from toolgauge.state import journal_rows
from toolgauge.state.journal_rows import Group, Sizes, Unwritten
from toolgauge.state.settings import StateSettings
from toolgauge.state.store import Losses, StateStore

_LOG = logging.getLogger("toolgauge.state")

# The log file beside the database, and its index in memory, grow with a transaction.
_MAX_GROUP_BYTES = 4 * 1024 * 1024
_GATHER_S = 0.05
# Of `max_bytes`, this part of requests that could not be written may be kept in memory until they can be.
_UNWRITTEN_PART = 64
# What conversations have shown, as much as is kept in memory.
_MAX_SHOWN_BYTES = 32 * 1024 * 1024
_ALIVE_EVERY_S = 1.0
# While a transaction takes longer, requests are refused: senders would give up waiting.
_STALLED_AFTER_S = 3.0
_COMMIT_WITHIN_S = 10.0
_FORGET_EVERY_S = 60.0
_CLOSE_WITHIN_S = 10.0
_SECOND = 1_000_000_000
_STALL = "the disk of the journal does not answer"
# Sentence and reason of the refusal.
STALLED = (_STALL, "journal_stalled")
_Waiting: TypeAlias = asyncio.Future[None]
_Pending: TypeAlias = tuple[JournalChange, _Waiting | None]


class Journal:
    """The journal of one process. Remembers at most `max_closed` closed ids; closes an unreadable store and raises `StartError`."""

    def __init__(
        self,
        store: StateStore,
        settings: StateSettings,
        metrics: StateMetrics,
        *,
        clock: Callable[[], int],
        closed_for_ns: int = 600 * _SECOND,
        max_closed: int = 100_000,
        try_again_s: float = 5.0,
    ) -> None:
        self._store = store
        self.begin_work = store.note_work
        self.rows = store.rows
        self._settings = settings
        self._metrics = metrics
        self._clock = clock
        self._closed_for_ns = closed_for_ns
        self._max_closed = max_closed
        try:
            losses = store.take_losses()
            with store.transaction() as connection:
                self.begun = journal_rows.count_start(connection, clock(), store.last_work)
                self._stored = journal_rows.sizes(connection)
        except StateError as error:
            store.close()
            raise StartError(str(error)) from error
        self._count(losses)
        # Since when requests have been received, by this process or those before it, without a pause of a minute.
        self.received_since_ns = self.begun.since_ns
        self._ids = itertools.count(self.begun.number * journal_rows.IDS_A_START)
        self._thread: threading.Thread | None = None
        # Guards the next six fields.
        self._changed = threading.Condition()
        self._awaited: deque[_Pending] = deque()
        self._submitted: deque[JournalChange] = deque()
        self._submitted_due_s = 0.0
        self._pending_bytes = 0
        self._is_closing = False
        # The thread's from here on. Why acknowledged requests are in memory only; `None` while they are written.
        self.failure: str | None = None
        self._failing_since_ns: int | None = None
        self._is_failing = False
        # Since when the current transaction is being written, by the monotonic clock.
        self._writing_since_s: float | None = None
        self._is_stall_logged = self._is_damaged = False
        # Entries of an earlier process: how many were read, and the ids of unreadable ones.
        self._read = 0
        self._unreadable: list[int] = []
        self._missed = Group()
        self.unwritten = Unwritten(settings.max_bytes // _UNWRITTEN_PART)
        self._alive_due_s = self._forget_due_s = 0.0
        self._try_again_after_s = try_again_s
        self._try_again_s = 0.0
        self._show()

    def next_id(self) -> int:
        """Return the id of the next entry: ids rise, over restarts too."""
        return next(self._ids)

    @property
    def refusal(self) -> tuple[str, str] | None:
        """Why requests are to be refused, as a sentence and as a reason of the metric; `None` while they are taken."""
        if self._stalled_s:
            if not self._is_stall_logged:
                self._is_stall_logged = True
                _LOG.error("%s: requests are refused with a retryable status until it does", _STALL)
            return STALLED
        self._is_stall_logged = False
        if self._settings.when_full == "memory" or self._is_failing:
            return None
        is_full = self._stored.bytes + self._pending_bytes >= self._settings.max_bytes
        return ("the journal is full", "journal_full") if is_full else None

    @property
    def trouble(self) -> tuple[str, int] | None:
        """Why requests are refused or in memory only, and since when; `None` where all is well."""
        if self.failure is not None:
            return self.failure, self._failing_since_ns or self._clock()
        stalled_s = self._stalled_s
        return (_STALL, self._clock() - int(stalled_s * _SECOND)) if stalled_s else None

    @property
    def _stalled_s(self) -> float:
        """For how long the disk has not answered; 0 for a moment that it may take."""
        since_s = self._writing_since_s
        lasted_s = 0.0 if since_s is None else time.monotonic() - since_s
        return lasted_s if lasted_s >= _STALLED_AFTER_S else 0.0

    def keeps(self, entries: Collection[Source]) -> bool:
        """Return whether the next process finds these entries when this one ends now."""
        return self.failure is None and not any(
            self.unwritten.holds(entry) for entry in entries if isinstance(entry, int)
        )

    def submit(self, change: JournalChange) -> None:
        """Write this soon, behind earlier changes. Never waits for the disk."""
        size = _size(change)
        with self._changed:
            if self._is_closing:
                return
            self._submitted.append(change)
            self._pending_bytes += size
            if len(self._submitted) == 1:
                self._submitted_due_s = time.monotonic() + _GATHER_S
                self._changed.notify()

    async def commit(self, change: JournalChange) -> None:
        """Write this; return when it is on disk, or known to be in memory only. Raise `TimeoutError` when the disk hangs."""
        if self._is_failing:
            self.submit(change)
            return
        written = asyncio.get_running_loop().create_future()
        size = _size(change)
        with self._changed:
            if self._is_closing:
                return
            if change.delivered or change.removed or change.closed:
                # It may be about entries that were submitted.
                self._awaited.extend((earlier, None) for earlier in self._submitted)
                self._submitted.clear()
            self._awaited.append((change, written))
            self._pending_bytes += size
            self._changed.notify()
        async with asyncio.timeout(_COMMIT_WITHIN_S):
            await written

    def entries(self) -> Iterator[JournalEntry]:
        """Read an earlier process's entries in order of ids, counting corrupt ones; raise `StateError` for a corrupt list."""
        for row in self._store.rows(journal_rows.entry_rows):
            try:
                with self._store.reading() as connection:
                    body = journal_rows.body(connection, row)
            except StateError:
                body = None
            if body is None:
                self._unreadable.append(row.id)
            else:
                self._read += 1
                yield row.entry(body)
        if self._unreadable:
            self.received_since_ns = self._clock()
            self._metrics.unreadable.add(len(self._unreadable))
            _LOG.error(
                "lost %d requests of an earlier process: they cannot be read from the journal", len(self._unreadable)
            )

    def start(self) -> None:
        """Begin to write."""
        if not self._store.is_whole():
            lost = self._stored.entries - self._read - len(self._unreadable)
            if lost:
                self._metrics.unreadable.add(lost)
                _LOG.error("lost %d requests of an earlier process: the journal's list of them cannot be read", lost)
            self._stored = self._stored._replace(entries=self._read)
            self.received_since_ns = self._clock()
            self._begin_to_fail(StateError("its file is damaged", is_damaged=True))
            self._try_again()
        elif self._unreadable:
            self.submit(JournalChange(removed=self._unreadable))
            with suppress(StateError), self._store.transaction() as connection:
                journal_rows.write_since(connection, self.received_since_ns)
        self._store.has_room()
        self._thread = threading.Thread(target=self._work, name="toolgauge-journal", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Write all submitted changes and stop. Works twice and without a start, and gives up on a disk that hangs."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        within_s = 1.0 if self._stalled_s else _CLOSE_WITHIN_S
        if self._thread is not None:
            self._thread.join(within_s)
            if self._thread.is_alive():
                _LOG.error("the journal could not be closed within %d s: the disk does not answer", within_s)

    def _work(self) -> None:
        try:
            while (taken := self._taken()) is not None:
                self._write_changes(taken)
            if self._is_failing:
                self._try_again()
            self._alive_due_s = 0.0
            self._write(Group())
            while self._can_catch_up:
                self._catch_up()
        finally:
            # Nothing may wait for a thread that has ended, also where it ends by a fault of ours.
            with self._changed:
                if not self._is_closing:
                    self.failure = "the journal cannot be written: its thread has ended by a fault, please report it"
                    self._show()
                self._is_closing = True
                left = [waiting for _, waiting in self._awaited if waiting is not None]
            _release(left)

    def _taken(self) -> list[_Pending] | None:
        """Wait for changes and take the changes of one transaction: none when it is time for a sign of life, `None` at the end."""
        until_s = time.monotonic() + (0.0 if self._can_catch_up else _ALIVE_EVERY_S)
        with self._changed:
            while not self._awaited and not self._is_closing:
                left_s = (self._submitted_due_s if self._submitted else until_s) - time.monotonic()
                if left_s <= 0:
                    break
                self._changed.wait(left_s)
            if self._is_closing and not self._awaited and not self._submitted:
                return None
            taken: list[_Pending] = []
            size = 0
            while self._awaited and size < _MAX_GROUP_BYTES:
                taken.append(self._awaited.popleft())
                size += _size(taken[-1][0])
            if self._is_closing or time.monotonic() >= self._submitted_due_s:
                while self._submitted and size < _MAX_GROUP_BYTES:
                    taken.append((self._submitted.popleft(), None))
                    size += _size(taken[-1][0])
            return taken

    def _write_changes(self, taken: Sequence[_Pending]) -> None:
        self._writing_since_s = time.monotonic()
        group = Group()
        for change, _ in taken:
            group.add(change)
        try:
            if self._is_failing and time.monotonic() >= self._try_again_s:
                self._try_again()
            self._write(group)
            if self._can_catch_up:
                self._catch_up()
        finally:
            self._store.note_in_memory(len(self.unwritten))
            self._writing_since_s = None
            with self._changed:
                self._pending_bytes -= sum(_size(change) for change, _ in taken)
            _release([waiting for _, waiting in taken if waiting is not None])

    def _write(self, group: Group) -> None:
        self.unwritten.apply(group)
        if not self._is_failing:
            self._drop_appended_when_full(group)
            if (not group and time.monotonic() < self._alive_due_s) or self._is_written(group):
                return
        self._metrics.unwritten.add(len(group.appended), ("failed",))
        self.unwritten.add(group.appended.values(), group.delivered)
        self._missed.add_missed(group, newest=self._stored.newest, max_closed=self._max_closed)

    def _is_written(self, group: Group) -> bool:
        """Write the group; return False, and continue in memory, when that fails."""
        now_s = time.monotonic()
        try:
            removed = self._write_rows(group, now_s)
        except StateError as error:
            self._begin_to_fail(error)
            return False
        self._metrics.commit_duration.record(time.monotonic() - now_s)
        appended = group.sizes
        self._stored = Sizes(
            self._stored.entries + appended.entries - removed.entries,
            self._stored.bytes + appended.bytes - removed.bytes,
            max(self._stored.newest, appended.newest),
        )
        self._show()
        return True

    def _begin_to_fail(self, error: StateError) -> None:
        self._is_failing = True
        # The checkpoint may be what failed.
        self._forget_due_s = 0.0
        self._is_damaged = error.is_damaged
        self.failure = f"the journal cannot be written: {error}"
        self._try_again_s = time.monotonic() + self._try_again_after_s
        _LOG.error(
            "%s; acknowledged spans are in memory only, and are lost if the process ends before it can be written again",
            self.failure,
        )
        self._show()

    @property
    def _is_full(self) -> bool:
        return self._settings.when_full == "memory" and self._stored.bytes >= self._settings.max_bytes

    @property
    def _can_catch_up(self) -> bool:
        """Whether requests that are in memory only can be written."""
        return bool(self.unwritten.size_bytes) and not self._is_failing and not self._is_full

    def _catch_up(self) -> None:
        """Write the oldest requests that are in memory only."""
        group = Group()
        group.appended.update(self.unwritten.next(_MAX_GROUP_BYTES))
        if self._is_written(group):
            self.unwritten.forget(group.appended)
            # One whose write seemed to fail was perhaps in the file.
            with suppress(StateError):
                self._measure()
            if not self.unwritten.size_bytes:
                text = "the requests that were in memory only are in the journal, except %d that were too many or are of a damaged file"
                _LOG.info(text, len(self.unwritten))

    def _write_rows(self, group: Group, now_s: float) -> Sizes:
        if now_s >= self._alive_due_s:
            self._store.check_place()
        if now_s >= self._forget_due_s:
            self._store.checkpoint()
        with self._store.transaction() as connection:
            removed = journal_rows.write(connection, group)
            if now_s >= self._alive_due_s:
                connection.execute("UPDATE process SET alive_ns = ?", (self._clock(),))
            if now_s >= self._forget_due_s:
                journal_rows.forget_closed(connection, self._clock() - self._closed_for_ns, self._max_closed)
                journal_rows.forget_shown(connection, self._max_closed, _MAX_SHOWN_BYTES)
        if now_s >= self._alive_due_s:
            self._alive_due_s = now_s + _ALIVE_EVERY_S
        if now_s >= self._forget_due_s:
            self._forget_due_s = now_s + _FORGET_EVERY_S
        return removed

    def _show(self) -> None:
        self._metrics.entries.set(self._stored.entries)
        self._metrics.bytes.set(self._stored.bytes)
        self._metrics.failed.set(float(self.failure is not None))
        if self.failure is None:
            self._failing_since_ns = None
        elif self._failing_since_ns is None:
            self._failing_since_ns = self._clock()

    def _drop_appended_when_full(self, group: Group) -> None:
        """Write no more requests into a full journal that is to continue in memory."""
        is_full = self._is_full
        # Our own replace the requests that they remove.
        senders = [entry for entry in group.appended.values() if not entry.own] if is_full else []
        if senders:
            self._metrics.unwritten.add(len(senders), ("full",))
            self.unwritten.add(senders, group.delivered)
            for entry in senders:
                del group.appended[entry.id]
        if is_full == (self.failure is not None):
            return
        if is_full:
            self.failure = (
                f"the journal is full (`state.max_bytes`, {self._stored.entries} requests): requests are in memory only"
            )
            _LOG.error("%s, and are lost if the process ends, until there is room again", self.failure)
        else:
            self.failure = None
            _LOG.info("the journal has room again: acknowledged requests are written to it")
        self._show()

    def _try_again(self) -> None:
        self._try_again_s = time.monotonic() + self._try_again_after_s
        # Together with the closed ids that they are about.
        self._missed.appended = {**self.unwritten.next(self._settings.max_bytes, own=True)}
        try:
            self._store.use_reserve()
            # A disk that cannot be read looks like a damaged file at first.
            try:
                self._store.reopen()
                self._count(self._store.take_losses())
                is_damaged = self._is_damaged and not self._store.is_whole(of_any_size=True)
            except StateError as error:
                if not error.is_damaged:
                    raise
                is_damaged = True
            if is_damaged:
                self._begin_again()
            self._write_rows(self._missed, time.monotonic())
            self._measure()
        except StateError:
            return
        self.unwritten.forget(self._missed.appended)
        self._missed = Group()
        if not self._store.has_room():
            self.failure = "the journal cannot be written: there is too little room on the disk"
            return
        self._is_failing = False
        self.failure = None
        self._show()
        text = "the journal can be written again: acknowledged spans are on disk again, those of %d requests from meanwhile soon"
        _LOG.warning(text, len(self.unwritten))

    def _begin_again(self) -> None:
        """Begin an empty file in the place of a damaged one, whose requests are in memory only from here on."""
        needed = self._stored.entries - len(self._missed.removed)
        self._store.begin_again("its pages are damaged", len(self.unwritten) + needed)
        self._is_damaged = False
        self.unwritten.set_aside(needed, self._stored.newest + 1)
        self._missed.removed.clear()
        with self._store.transaction() as connection:
            # A later process does not know the traces that have closed before.
            journal_rows.write_since(connection, self._clock())
        self._measure()

    def _count(self, losses: Losses) -> None:
        self._metrics.unreadable.add(losses.known)
        self._metrics.unreadable.add(losses.unknown, ("unknown",))

    def _measure(self) -> None:
        with self._store.reading() as connection:
            self._stored = journal_rows.sizes(connection)
        self._show()


def _size(change: JournalChange) -> int:
    return sum(len(entry.body) for entry in change.appended)


def _release(waiting: Sequence[_Waiting]) -> None:
    """Resolve these futures, each on its event loop."""

    def resolve(future: _Waiting) -> None:
        if not future.done():
            future.set_result(None)

    for future in waiting:
        # Nobody waits on a loop that has ended.
        with suppress(RuntimeError):
            future.get_loop().call_soon_threadsafe(resolve, future)
