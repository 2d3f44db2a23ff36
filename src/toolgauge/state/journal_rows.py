"""The journal's tables: what a group of changes comes to, and its rows written and read.

An entry is a narrow row and a body of its own: marking or listing entries touches no body, so that a start need not read
gigabytes. Each statement lets other threads in between: a group takes few of them, however many rows it has.
"""

import json
import sqlite3
from collections.abc import Collection, Iterator
from typing import NamedTuple, TypeAlias

from toolgauge.model.delivery import Signal
from toolgauge.model.journal import ClosedId, JournalChange, JournalEntry
from toolgauge.model.trajectory import TrajectoryScope

SCHEMA = (
    "CREATE TABLE entries (id INTEGER PRIMARY KEY, signal TEXT NOT NULL, own INTEGER NOT NULL,"
    " received_ns INTEGER NOT NULL, size INTEGER NOT NULL, delivered INTEGER NOT NULL)",
    "CREATE TABLE bodies (id INTEGER PRIMARY KEY, body BLOB NOT NULL)",
    "CREATE TABLE closed (number INTEGER PRIMARY KEY, id BLOB NOT NULL, scope TEXT NOT NULL, closed_ns INTEGER NOT NULL)",
    # One row: how often a journal was opened, since when nothing that was sent is missing, and when a process last wrote that it runs.
    "CREATE TABLE process (id INTEGER PRIMARY KEY CHECK (id = 1), starts INTEGER NOT NULL, since_ns INTEGER, alive_ns INTEGER)",
    "INSERT INTO process (id, starts) VALUES (1, 0)",
)
# SDKs and Collectors repeat a request for a minute at least.
SENDERS_WAIT_NS = 60_000_000_000
_ROWS_A_QUERY = 1000
# Ids conversations come with need not be Unicode that can be written.
_ID_CODING = ("utf-8", "surrogatepass")
EntryRow: TypeAlias = tuple[int, Signal, int, int, int]


class Sizes(NamedTuple):
    """How many entries there are, and the bytes of their bodies."""

    entries: int
    bytes: int


class Group:
    """What several changes come to together, in their order.

    `delivered` and `removed` are entries that were written before: one that is appended and removed here is not written at all.
    """

    def __init__(self) -> None:
        self.appended: dict[int, JournalEntry] = {}
        self.delivered: set[int] = set()
        self.removed: set[int] = set()
        self.closed: list[ClosedId] = []

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

    def merge(self, later: "Group", max_closed: int) -> None:
        """Add what a later group removes and closes; of the closed ids, the newest are kept."""
        self.delivered = (self.delivered | later.delivered) - later.removed
        self.removed |= later.removed
        self.closed = (self.closed + later.closed)[-max_closed:]

    @property
    def sizes(self) -> Sizes:
        """Return number and bytes of the entries to append."""
        return Sizes(len(self.appended), sum(len(entry.body) for entry in self.appended.values()))

    def __bool__(self) -> bool:
        return bool(self.appended or self.delivered or self.removed or self.closed)


def write(connection: sqlite3.Connection, group: Group) -> Sizes:
    """Write the group within a transaction; return what it removed."""
    removed = _remove(connection, group.removed)
    if group.appended:
        entries = group.appended.values()
        connection.executemany("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?)", (_row(entry) for entry in entries))
        connection.executemany("INSERT INTO bodies VALUES (?, ?)", ((entry.id, entry.body) for entry in entries))
    if group.delivered:
        connection.execute(
            "UPDATE entries SET delivered = 1 WHERE id IN (SELECT value FROM json_each(?))", (_json(group.delivered),)
        )
    if group.closed:
        connection.executemany(
            "INSERT INTO closed (id, scope, closed_ns) VALUES (?, ?, ?)",
            ((closed.id.encode(*_ID_CODING), closed.scope, closed.closed_ns) for closed in group.closed),
        )
    return removed


def _row(entry: JournalEntry) -> tuple[int, Signal, bool, int, int, bool]:
    return entry.id, entry.signal, entry.own, entry.received_ns, len(entry.body), entry.delivered


def _remove(connection: sqlite3.Connection, ids: Collection[int]) -> Sizes:
    if not ids:
        return Sizes(0, 0)
    given = (_json(ids),)
    removed: tuple[int, int] = connection.execute(
        "SELECT count(*), ifnull(sum(size), 0) FROM entries WHERE id IN (SELECT value FROM json_each(?))", given
    ).fetchone()
    connection.execute("DELETE FROM entries WHERE id IN (SELECT value FROM json_each(?))", given)
    connection.execute("DELETE FROM bodies WHERE id IN (SELECT value FROM json_each(?))", given)
    return Sizes(*removed)


def sizes(connection: sqlite3.Connection) -> Sizes:
    """Return what the journal holds."""
    row: tuple[int, int] = connection.execute("SELECT count(*), ifnull(sum(size), 0) FROM entries").fetchone()
    return Sizes(*row)


def count_start(connection: sqlite3.Connection, now_ns: int) -> tuple[int, int]:
    """Count one more start within a transaction; return which one it is, and since when nothing that was sent is missing.

    That is this start, where the process before was last alive so long ago that senders have given up meanwhile.
    """
    row: tuple[int, int | None, int | None] = connection.execute(
        "SELECT starts + 1, since_ns, alive_ns FROM process"
    ).fetchone()
    start, since_ns, alive_ns = row
    newest: tuple[int] | None = connection.execute(
        "SELECT received_ns FROM entries ORDER BY id DESC LIMIT 1"
    ).fetchone()
    last_ns = max(alive_ns or 0, newest[0] if newest else 0)
    if since_ns is None or not 0 <= now_ns - last_ns <= SENDERS_WAIT_NS:
        since_ns = now_ns
    connection.execute("UPDATE process SET starts = ?, since_ns = ?", (start, since_ns))
    return start, since_ns


def write_alive(connection: sqlite3.Connection, alive_ns: int) -> None:
    """Write that the process runs, within a transaction."""
    connection.execute("UPDATE process SET alive_ns = ?", (alive_ns,))


def forget_closed(connection: sqlite3.Connection, before_ns: int, capacity: int) -> None:
    """Delete the oldest closed ids, within a transaction: those from before, and those that are more than may be."""
    connection.execute(
        "DELETE FROM closed WHERE number <= (SELECT max(number) FROM closed) - ? OR closed_ns < ?",
        (capacity, before_ns),
    )


def entry_rows(connection: sqlite3.Connection, after: int) -> list[EntryRow]:
    """Read the next entries behind an id, without their bodies: id, signal, own, time of receipt, delivered."""
    return connection.execute(
        "SELECT id, signal, own, received_ns, delivered FROM entries WHERE id > ? ORDER BY id LIMIT ?",
        (after, _ROWS_A_QUERY),
    ).fetchall()


def body(connection: sqlite3.Connection, entry: int) -> bytes | None:
    """Read the body of an entry."""
    row: tuple[bytes] | None = connection.execute("SELECT body FROM bodies WHERE id = ?", (entry,)).fetchone()
    return None if row is None else row[0]


def closed_rows(connection: sqlite3.Connection, after: int) -> Iterator[tuple[int, ClosedId]]:
    """Read the next closed ids behind a number, with their numbers."""
    rows: list[tuple[int, bytes, TrajectoryScope, int]] = connection.execute(
        "SELECT number, id, scope, closed_ns FROM closed WHERE number > ? ORDER BY number LIMIT ?",
        (after, _ROWS_A_QUERY),
    ).fetchall()
    for number, key, scope, closed_ns in rows:
        yield number, ClosedId(id=key.decode(*_ID_CODING), scope=scope, closed_ns=closed_ns)


def _json(ids: Collection[int]) -> str:
    return json.dumps(sorted(ids))
