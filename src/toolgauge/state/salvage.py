"""A damaged file is written anew with what can be read of it, and kept beside the new one."""

import itertools
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from toolgauge.state import journal_rows
from toolgauge.state.database import Transaction, check, connected
from toolgauge.state.journal_rows import EntryRow
from toolgauge.state.settings import Sync

# Copied in one transaction: few, so that memory and the log file beside the database stay small.
_ENTRIES_AT_ONCE = 8
# Copied where they are whole: half of them, or something that looks like them, would mislead. Since when nothing is missing is
# not copied, because something is.
_SMALL_TABLES = (
    ("watch", "SELECT key, value FROM watch", "INSERT INTO watch VALUES (?, ?)"),
    ("process", "SELECT starts, alive_ns FROM process", "UPDATE process SET starts = ?, alive_ns = ?"),
    (
        "shown",
        "SELECT number, conversation, hashes, has_user, gap FROM shown",
        "INSERT INTO shown VALUES (?, ?, ?, ?, ?)",
    ),
    ("closed", "SELECT number, id, scope, closed_ns FROM closed", "INSERT INTO closed VALUES (?, ?, ?, ?)"),
)


class Salvage(NamedTuple):
    """What the damaged file is now called, and how many of its entries could be read, and could not."""

    moved_to: Path
    kept: int
    lost: int


def salvage(path: Path, sync: Sync) -> Salvage:
    """Write what can be read of a damaged file into a new one in its place; keep the damaged one.

    Until the new one is complete the damaged one stays: a process that is killed meanwhile begins again. Raises
    `sqlite3.Error` and `OSError` where there is no room for the new one.
    """
    begun = path.with_name(f"{path.name}.begun")
    _remove(begun)
    try:
        with closing(connected(begun, sync)) as new, closing(sqlite3.connect(path, isolation_level=None)) as old:
            _copy_small_tables(old, new)
            kept, lost = _copy_entries(old, new)
            new.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        moved_to = _moved_aside(path)
        begun.rename(path)
    finally:
        _remove(begun)
    return Salvage(moved_to, kept, lost)


def _remove(begun: Path) -> None:
    for suffix in ("-wal", ""):
        Path(f"{begun}{suffix}").unlink(missing_ok=True)


def _copy_small_tables(old: sqlite3.Connection, new: sqlite3.Connection) -> None:
    for table, query, statement in _SMALL_TABLES:
        try:
            old.execute("PRAGMA locking_mode = EXCLUSIVE")
            check(old, table)
            rows: list[Sequence[object]] = old.execute(query).fetchall()
        except sqlite3.DatabaseError:
            continue
        with Transaction(new):
            new.executemany(statement, rows)


def _copy_entries(old: sqlite3.Connection, new: sqlite3.Connection) -> tuple[int, int]:
    """Copy the entries that have a body; return how many, and how many have none that can be read."""
    kept = lost = 0
    entries = _entries(old)
    while some := tuple(itertools.islice(entries, _ENTRIES_AT_ONCE)):
        with Transaction(new):
            for row, body in some:
                if body is None:
                    lost += 1
                    continue
                new.execute(journal_rows.INSERT_ENTRY, row)
                new.execute(journal_rows.INSERT_BODY, (row.id, body))
                kept += 1
    return kept, lost


def _entries(old: sqlite3.Connection) -> Iterator[tuple[EntryRow, bytes | None]]:
    seen: set[int] = set()
    for row in _readable_rows(old):
        if row.id in seen:
            continue
        seen.add(row.id)
        try:
            yield row, journal_rows.body(old, row)
        except sqlite3.DatabaseError:
            yield row, None


def _readable_rows(old: sqlite3.Connection) -> Iterator[EntryRow]:
    """Read the rows of entries from both ends up to damaged ones: some may come twice."""
    for order in ("ASC", "DESC"):
        try:
            yield from map(EntryRow._make, old.execute(f"{journal_rows.SELECT_ENTRIES} ORDER BY id {order}"))
        except sqlite3.DatabaseError:
            continue
        return


def _moved_aside(path: Path) -> Path:
    """Rename the file, and what belongs to it, so that it can be looked at later."""
    aside = path.with_name(f"{path.name}.corrupt-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}")
    for suffix in ("-wal", "-shm", ""):
        with suppress(FileNotFoundError):
            Path(f"{path}{suffix}").rename(f"{aside}{suffix}")
    return aside
