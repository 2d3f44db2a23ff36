"""The journal's tables: reads and writes their rows, sums up a group of changes, and keeps requests that cannot be written.

An entry is a narrow row and a body of its own: marking or listing entries touches no body, which may be gigabytes in all.
"""

import json
import sqlite3
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
from msgspec.structs import replace as with_fields

from toolgauge.model.delivery import Signal
from toolgauge.model.journal import ClosedId, JournalChange, JournalEntry, SamplingDecision, ShownValues
from toolgauge.model.left_out import WORD_HASH_BYTES, EarlierValues
from toolgauge.model.trajectory import TrajectoryScope

SCHEMA = (
    "CREATE TABLE entries (id INTEGER PRIMARY KEY, signal TEXT NOT NULL, own INTEGER NOT NULL,"
    " received_ns INTEGER NOT NULL, size INTEGER NOT NULL, checksum INTEGER NOT NULL, delivered INTEGER NOT NULL)",
    "CREATE TABLE bodies (id INTEGER PRIMARY KEY, body BLOB NOT NULL)",
    "CREATE TABLE closed (number INTEGER PRIMARY KEY, id BLOB NOT NULL, scope TEXT NOT NULL, closed_ns INTEGER NOT NULL,"
    " sampled BLOB)",
    # One row: how often a journal was opened, since when nothing that was sent is missing, and when a process last wrote that it runs.
    # Then what the next start expects: counts of the changes to the journal, from a number that no other file has, and of its entries.
    "CREATE TABLE process (id INTEGER PRIMARY KEY CHECK (id = 1), starts INTEGER NOT NULL, since_ns INTEGER, alive_ns INTEGER,"
    " written INTEGER NOT NULL DEFAULT 0, entries INTEGER NOT NULL DEFAULT 0)",
    "INSERT INTO process (id, starts, written) VALUES (1, 0, abs(random() / 4))",
    "CREATE TABLE shown (number INTEGER PRIMARY KEY, conversation BLOB UNIQUE NOT NULL, hashes BLOB NOT NULL,"
    " has_user INTEGER NOT NULL, gap TEXT)",
)
# The last work of the process before, and how many in a row ended at that.
CRASHES_SCHEMA = (
    "ALTER TABLE process ADD COLUMN crashes INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE process ADD COLUMN work BLOB NOT NULL DEFAULT x''",
)
EFFECTS_SCHEMA = ("ALTER TABLE shown ADD COLUMN effects BLOB NOT NULL DEFAULT x''",)
# SDKs and Collectors repeat a request for a minute at least.
SENDERS_WAIT_NS = 60_000_000_000
# Each start has ids of its own, higher than the ids of all starts before it.
IDS_A_START = 2**40
# So many processes in a row may end at the same work before their entries leave unscored.
MAX_CRASHES = 3
_ROWS_A_QUERY = 1000
# More were never counted: a damaged number, or id, must not leave the range of ids.
_MAX_STARTS = 2**22
# Times of spans may be anything.
_LATEST_NS = 2**63 - 1
_SELECT_ENTRIES = "SELECT id, signal, own, received_ns, size, checksum, delivered FROM entries"
_INSERT_ENTRY = "INSERT OR IGNORE INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)"
_INSERT_BODY = "INSERT OR IGNORE INTO bodies VALUES (?, ?)"
# Ids conversations come with need not be Unicode that can be written.
_ID_CODING = ("utf-8", "surrogatepass")


class EntryRow(NamedTuple):
    """The row of an entry, without its body."""

    id: int
    signal: Signal
    own: int
    received_ns: int
    size: int
    # SQLite does not notice a page that was overwritten with something else.
    checksum: int
    delivered: int

    def entry(self, body: bytes) -> JournalEntry:
        """Put the body to it."""
        return JournalEntry(
            id=self.id,
            signal=self.signal,
            body=body,
            received_ns=self.received_ns,
            own=bool(self.own),
            delivered=bool(self.delivered),
        )


class Sizes(NamedTuple):
    """How many entries there are, the bytes of their bodies, and the id of the newest."""

    entries: int
    bytes: int
    newest: int


@dataclass(slots=True)
class Group:
    """The sum of several changes: an entry that is appended and removed in it is in neither `appended` nor `removed`."""

    appended: dict[int, JournalEntry] = field(default_factory=dict[int, JournalEntry])
    delivered: set[int] = field(default_factory=set[int])
    removed: set[int] = field(default_factory=set[int])
    closed: list[ClosedId] = field(default_factory=list[ClosedId])
    # By conversation, the newest of each.
    shown: dict[bytes, ShownValues] = field(default_factory=dict[bytes, ShownValues])

    def add(self, change: JournalChange) -> None:
        """Add the next change."""
        for entry in change.appended:
            self.appended[entry.id] = entry
        self.delivered.update(change.delivered)
        for removed in change.removed:
            self.delivered.discard(removed)
            if self.appended.pop(removed, None) is None:
                self.removed.add(removed)
        self.closed.extend(change.closed)
        self._add_shown(change.shown)

    def _add_shown(self, shown: Iterable[ShownValues]) -> None:
        for one in shown:
            self.shown.pop(one.conversation, None)
            self.shown[one.conversation] = one

    def add_missed(self, later: "Group", *, newest: int, max_closed: int) -> None:
        """Add a later group that could not be written; the file has entries up to `newest`. Keep the newest closed ids."""
        self.removed.update(entry for entry in later.removed if entry <= newest)
        self.delivered.update(entry for entry in later.delivered if entry <= newest)
        self.delivered -= self.removed
        self.closed = (self.closed + later.closed)[-max_closed:]
        self._add_shown(later.shown.values())

    @property
    def sizes(self) -> Sizes:
        """Measure the entries to append."""
        size = sum(len(entry.body) for entry in self.appended.values())
        return Sizes(len(self.appended), size, max(self.appended, default=0))

    def __bool__(self) -> bool:
        return bool(self.appended or self.delivered or self.removed or self.closed or self.shown)


class Unwritten:
    """Needed requests that are in memory only: they came while the journal could not be written, or its file was damaged.

    Keeps them until they can be written, up to `max_bytes`; beyond it only the ids of requests, which cannot be written. The next
    start counts them as lost if the process is killed before they are written or needed no more.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self.size_bytes = 0  # Of the requests that can be written
        self._entries: dict[int, JournalEntry | None] = {}
        # How many requests of damaged files are still needed, and an id that is higher than theirs.
        self._set_aside, self._set_aside_below = 0, 0

    def __len__(self) -> int:
        return len(self._entries) + self._set_aside

    def holds(self, entry_id: int) -> bool:
        """Return whether this request, which is needed, is in memory only. Any thread may ask."""
        return entry_id in self._entries or entry_id < self._set_aside_below

    def add(self, entries: Iterable[JournalEntry], delivered: Iterable[int] = ()) -> None:
        """Add requests that could not be written, and mark the `delivered` ones."""
        for entry in entries:
            is_kept = self.size_bytes + len(entry.body) <= self._max_bytes
            self.size_bytes += len(entry.body) if is_kept else 0
            self._entries[entry.id] = entry if is_kept else None
        for entry_id in delivered:
            if (known := self._entries.get(entry_id)) is not None:
                self._entries[entry_id] = with_fields(known, delivered=True)

    def set_aside(self, needed: int, below: int) -> None:
        """Note that the file with so many needed requests was damaged, and all ids below one with it."""
        self._set_aside, self._set_aside_below = self._set_aside + needed, below

    def apply(self, group: Group) -> None:
        """Take the changes of a group that are about these requests."""
        if self._set_aside_below:
            # Of those below the id, some were on their way when the file was damaged.
            self._set_aside += sum(entry_id < self._set_aside_below for entry_id in group.appended)
            gone = [one for one in group.removed if one < self._set_aside_below and one not in self._entries]
            self._set_aside = max(0, self._set_aside - len(gone))
        self.forget(group.removed)
        self.add((), group.delivered)

    def forget(self, ids: Iterable[int]) -> None:
        """Drop requests that are written, or needed no more."""
        for entry_id in ids:
            if (entry := self._entries.pop(entry_id, None)) is not None:
                self.size_bytes -= len(entry.body)

    def next(self, max_bytes: int, *, own: bool = False) -> Mapping[int, JournalEntry]:
        """Return the oldest that can be written, of so many bytes or little more; only our own where wanted."""
        found: dict[int, JournalEntry] = {}
        for entry_id, entry in self._entries.items():
            if entry is not None and (entry.own or not own):
                found[entry_id] = entry
                max_bytes -= len(entry.body)
                if max_bytes <= 0:
                    break
        return found


def write(connection: sqlite3.Connection, group: Group) -> Sizes:
    """Write the group within a transaction; return the sizes of the removed entries. A write that seemed to fail may have written an entry before."""
    removed = _remove(connection, group.removed)
    grown = 0
    if group.appended:
        entries = group.appended.values()
        rows: list[EntryRow] = []
        for one in entries:
            row = EntryRow(one.id, one.signal, int(one.own), one.received_ns, len(one.body), 0, int(one.delivered))
            rows.append(row._replace(checksum=_checksum(row, one.body)))
        grown = connection.executemany(_INSERT_ENTRY, rows).rowcount
        connection.executemany(_INSERT_BODY, ((entry.id, entry.body) for entry in entries))
    if group.delivered:
        connection.execute(
            "UPDATE entries SET delivered = 1, checksum = ~checksum"
            " WHERE NOT delivered AND id IN (SELECT value FROM json_each(?))",
            (json.dumps(sorted(group.delivered)),),
        )
    if group.closed:
        closed = [
            (
                one.id.encode(*_ID_CODING),
                one.scope,
                min(one.closed_ns, _LATEST_NS),
                msgspec.json.encode(one.sampled) if one.sampled else None,
            )
            for one in group.closed
        ]
        connection.executemany("INSERT INTO closed (id, scope, closed_ns, sampled) VALUES (?, ?, ?, ?)", closed)
    if group.shown:
        values = [(one.conversation, one.values) for one in group.shown.values()]
        shown = [(conversation, one.hashes, one.has_user, one.gap, one.effects) for conversation, one in values]
        columns = "conversation, hashes, has_user, gap, effects"
        connection.executemany(f"REPLACE INTO shown ({columns}) VALUES (?, ?, ?, ?, ?)", shown)  # noqa: S608 - ours
    grown -= removed.entries
    connection.execute("UPDATE process SET written = written + 1, entries = entries + ?", (grown,))
    return removed


def counts(connection: sqlite3.Connection) -> tuple[int, int]:
    """Return how many changes were written and how many entries there should be, zeros in a damaged file."""
    row: tuple[object, object] = connection.execute("SELECT written, entries FROM process").fetchone() or (0, 0)
    written, entries = row
    return (written, entries) if isinstance(written, int) and isinstance(entries, int) else (0, 0)


def _checksum(row: EntryRow, body: bytes) -> int:
    """Sum up a row and its body; the mark of delivery, which changes, inverts the sum."""
    checksum = zlib.crc32(f"{row.id} {row.signal} {row.own} {row.received_ns}".encode(), zlib.crc32(body))
    return ~checksum if row.delivered else checksum


def _remove(connection: sqlite3.Connection, ids: Collection[int]) -> Sizes:
    if not ids:
        return Sizes(0, 0, 0)
    given = (json.dumps(sorted(ids)),)
    removed: tuple[int, int, int] = connection.execute(
        "SELECT count(*), CAST(total(size) AS INTEGER), 0 FROM entries WHERE id IN (SELECT value FROM json_each(?))",
        given,
    ).fetchone()
    connection.execute("DELETE FROM entries WHERE id IN (SELECT value FROM json_each(?))", given)
    connection.execute("DELETE FROM bodies WHERE id IN (SELECT value FROM json_each(?))", given)
    return Sizes(*removed)


def sizes(connection: sqlite3.Connection) -> Sizes:
    """Return what the journal holds."""
    row: tuple[int, int, int] = connection.execute(
        "SELECT count(*), CAST(total(size) AS INTEGER), ifnull(max(id), 0) FROM entries"
    ).fetchone()
    return Sizes(*row)


class Start(NamedTuple):
    """The number of a start, since when senders have lost nothing, and how many processes before it ended at the same work."""

    number: int
    since_ns: int
    crashes: int

    def crashed_with(self, entry_id: int) -> bool:
        """Return whether the last three processes had this entry, and ended at the same work."""
        return min(self.number - entry_id // IDS_A_START, self.crashes) >= MAX_CRASHES


def count_start(connection: sqlite3.Connection, now_ns: int, last_work: bytes) -> Start:
    """Count a start within a transaction, after a process that ended at `last_work`."""
    connection.execute("INSERT OR IGNORE INTO process (id, starts) VALUES (1, 0)")
    row: tuple[object, ...] = connection.execute(
        "SELECT starts, since_ns, alive_ns, crashes, work FROM process"
    ).fetchone()
    # Damaged rows hold anything.
    starts, since_ns, alive_ns, crashes = (value if isinstance(value, int) else None for value in row[:4])
    crashes = 1 + (crashes or 0) * (row[4] == last_work) if last_work else 0
    newest: tuple[int, object] = connection.execute(
        "SELECT id, received_ns FROM entries WHERE id < ? ORDER BY id DESC LIMIT 1", (_MAX_STARTS * IDS_A_START,)
    ).fetchone() or (0, 0)
    start = max(starts if starts is not None and 0 <= starts < _MAX_STARTS else 0, newest[0] // IDS_A_START) + 1
    last_ns = max(alive_ns or 0, newest[1] if isinstance(newest[1], int) else 0)
    if since_ns is None or not 0 <= now_ns - last_ns <= SENDERS_WAIT_NS:
        since_ns = now_ns
    values = (start, since_ns, crashes, last_work)
    connection.execute("UPDATE process SET starts = ?, since_ns = ?, crashes = ?, work = ?", values)
    return Start(start, since_ns, crashes)


def write_since(connection: sqlite3.Connection, since_ns: int) -> None:
    """Write since when nothing is missing, within a transaction."""
    connection.execute("UPDATE process SET since_ns = ?", (since_ns,))


def write_loss(connection: sqlite3.Connection) -> None:
    """Write, within a transaction, that nothing before the next start is complete, and that these are all entries there are."""
    connection.execute(
        "UPDATE process SET since_ns = NULL, alive_ns = ifnull(alive_ns, 0), entries = (SELECT count(*) FROM entries)"
    )


def forget_closed(connection: sqlite3.Connection, before_ns: int, capacity: int) -> None:
    """Delete the oldest closed ids within a transaction, except those whose spans may be in an entry that is read again."""
    connection.execute(
        "DELETE FROM closed WHERE number <= (SELECT max(number) FROM closed) - ? OR closed_ns <"
        " min(?, (SELECT ifnull(min(received_ns), ?) FROM entries WHERE NOT own))",
        (capacity, before_ns, before_ns),
    )


def forget_shown(connection: sqlite3.Connection, capacity: int, max_bytes: int) -> None:
    """Delete the oldest conversations beyond a number and a size in bytes, within a transaction."""
    connection.execute("DELETE FROM shown WHERE number <= (SELECT max(number) FROM shown) - ?", (capacity,))
    connection.execute(
        "DELETE FROM shown WHERE number <= (SELECT max(number) FROM (SELECT number, sum(length(hashes) + length(effects))"
        " OVER (ORDER BY number DESC) AS size FROM shown) WHERE size > ?)",
        (max_bytes,),
    )


def shown_rows(connection: sqlite3.Connection, after: int) -> Iterator[tuple[int, ShownValues]]:
    """Read what the next conversations behind a number have shown, with their numbers."""
    rows: list[tuple[int, object, object, int, str | None, object]] = connection.execute(
        "SELECT number, conversation, hashes, has_user, gap, effects FROM shown WHERE number > ? ORDER BY number LIMIT ?",
        (after, _ROWS_A_QUERY),
    ).fetchall()
    for number, conversation, hashes, has_user, gap, effects in rows:
        # Of a damaged page.
        if not isinstance(conversation, bytes) or not isinstance(hashes, bytes) or len(hashes) % WORD_HASH_BYTES:
            continue
        found = effects if isinstance(effects, bytes) else b""
        values = EarlierValues(hashes, has_traces=True, has_user=bool(has_user), gap=gap, effects=found)
        yield number, ShownValues(conversation=conversation, values=values)


def entry_rows(connection: sqlite3.Connection, after: int) -> Iterator[tuple[int, EntryRow]]:
    """Read the next entries behind an id, with their ids."""
    rows = connection.execute(f"{_SELECT_ENTRIES} WHERE id > ? ORDER BY id LIMIT ?", (after, _ROWS_A_QUERY))
    return ((row[0], EntryRow(*row)) for row in rows)


def body(connection: sqlite3.Connection, row: EntryRow) -> bytes | None:
    """Read the body of an entry; `None` when it differs from the written one."""
    found: tuple[object] | None = connection.execute("SELECT body FROM bodies WHERE id = ?", (row.id,)).fetchone()
    content = found[0] if found is not None else None
    if isinstance(content, bytes) and len(content) == row.size and _checksum(row, content) == row.checksum:
        return content
    return None


def closed_rows(connection: sqlite3.Connection, after: int) -> Iterator[tuple[int, ClosedId]]:
    """Read the next closed ids behind a number, with their numbers."""
    rows: list[tuple[int, object, TrajectoryScope, object, object]] = connection.execute(
        "SELECT number, id, scope, closed_ns, sampled FROM closed WHERE number > ? ORDER BY number LIMIT ?",
        (after, _ROWS_A_QUERY),
    ).fetchall()
    for number, key, scope, closed_ns, written in rows:
        # Rows of a damaged page hold anything.
        with suppress(UnicodeDecodeError):
            if isinstance(key, bytes) and isinstance(closed_ns, int):
                name, sampled = key.decode(*_ID_CODING), dict[str, SamplingDecision]()
                with suppress(msgspec.DecodeError, UnicodeDecodeError):
                    if isinstance(written, bytes):
                        sampled = msgspec.json.decode(written, type=dict[str, SamplingDecision])
                yield number, ClosedId(id=name, scope=scope, closed_ns=closed_ns, sampled=sampled)
