"""Opens the SQLite file: its schema up to date, its tables whole, and locked by its owner.

Further tables are further entries of `_SCHEMA`. A file of a newer toolgauge, or of another program, is refused.
"""

import itertools
import os
import sqlite3
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from toolgauge.model.errors import StartError
from toolgauge.state import journal_rows
from toolgauge.state.journal_rows import EntryRow
from toolgauge.state.settings import Sync

# Entry n leads from version n to n + 1 of the schema, which is kept in `user_version`.
_SCHEMA = (
    ("CREATE TABLE watch (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",),
    journal_rows.SCHEMA,
    journal_rows.SHOWN_SCHEMA,
)
VERSION = len(_SCHEMA)
# "tlga": what `file` and others know the file by. Files of version 1 have none.
_APPLICATION_ID = 0x746C6761
# Not the bodies of the journal: to read gigabytes would hold up the start.
_CHECKED = ("watch", "process", "entries", "closed", "shown")
_UNREADABLE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_OWNER_READS_AND_WRITES = 0o600
_MIB = 1024 * 1024
_MAX_LOG_FILE_BYTES = 4 * _MIB
# A file that is mostly empty is made small when it is opened, where that takes little time and room.
_MIN_FREE_BYTES = 16 * _MIB
_MAX_MOVED_BYTES = 8 * _MIB
_BUSY_TIMEOUT_S = 2.0


def connected(path: Path, sync: Sync) -> sqlite3.Connection:
    """Open the file with a current schema; raise `StartError` for a foreign file, `sqlite3.Error` for a damaged one."""
    _create(path)
    connection = sqlite3.connect(path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    try:
        # Alone with the file: no shared memory beside it, which not every file system has.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        application = _integer(connection, "PRAGMA application_id")
        # 0 for a new file.
        version = _integer(connection, "PRAGMA user_version")
        if application not in (0, _APPLICATION_ID) or (tables and "watch" not in tables):
            raise StartError(
                f"`{path}` is a database of something else than toolgauge",
                hint="give toolgauge another `state.directory`",
            )
        if version > VERSION:
            raise StartError(
                f"`{path}` was written by a newer toolgauge (schema {version}, this one knows {VERSION})",
                hint="run that version, or give this one another `state.directory`",
            )
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {sync}")
        # Some builds write zeros over what is deleted: the journal would write everything twice.
        connection.execute("PRAGMA secure_delete = OFF")
        connection.execute(f"PRAGMA journal_size_limit = {_MAX_LOG_FILE_BYTES}")
        with transaction(connection):
            for statement in itertools.chain.from_iterable(_SCHEMA[version:]):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            # Written each time, also where it is the same: a full disk is to be seen here.
            connection.execute(f"PRAGMA user_version = {VERSION}")
        for table in _CHECKED:
            check(connection, table)
        free = free_bytes(connection)
        used = _integer(connection, "PRAGMA page_count") * _integer(connection, "PRAGMA page_size") - free
        if free >= _MIN_FREE_BYTES and used <= _MAX_MOVED_BYTES:
            connection.execute("PRAGMA temp_store = MEMORY")
            # It needs room for what is in use, which a full disk has not.
            with suppress(sqlite3.OperationalError):
                connection.execute("VACUUM")
    except BaseException:
        connection.close()
        raise
    return connection


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether the file is broken inside, or no database at all."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _UNREADABLE


def is_full(error: sqlite3.Error) -> bool:
    """Return whether the disk has no room."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL


@contextmanager
def transaction(connection: sqlite3.Connection) -> Generator[None]:
    """Write everything within, or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        # On a full disk SQLite has rolled back already.
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def check(connection: sqlite3.Connection, table: str) -> None:
    """Raise `DatabaseError` when the table is broken inside."""
    found: tuple[str] = connection.execute(f"PRAGMA quick_check({table})").fetchone()
    if found[0] != "ok":
        error = sqlite3.DatabaseError("database disk image is malformed")
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error


def free_bytes(connection: sqlite3.Connection) -> int:
    """Return how much of the file is not in use."""
    return _integer(connection, "PRAGMA freelist_count") * _integer(connection, "PRAGMA page_size")


def _create(path: Path) -> None:
    """Create the file for its owner alone; SQLite gives the files beside it the same mode."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, _OWNER_READS_AND_WRITES)
    try:
        # On volumes that are mounted for a group the file may be another user's.
        with suppress(PermissionError):
            os.fchmod(descriptor, _OWNER_READS_AND_WRITES)
    finally:
        os.close(descriptor)


def _integer(connection: sqlite3.Connection, query: str) -> int:
    row: tuple[int] = connection.execute(query).fetchone()
    return row[0]


# Copied in one transaction: few, so that memory and the log file beside the database stay small.
_ENTRIES_AT_ONCE = 8
# Copied only where they are whole; not since when nothing is missing, because something is.
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
    It stays until the new one is complete. Raises `sqlite3.Error` and `OSError` where there is no room for the new one.
    """
    begun = path.with_name(f"{path.name}.begun")
    _remove(begun)
    try:
        with closing(connected(begun, sync)) as new, closing(sqlite3.connect(path, isolation_level=None)) as old:
            for table, query, statement in _SMALL_TABLES:
                try:
                    old.execute("PRAGMA locking_mode = EXCLUSIVE")
                    check(old, table)
                    rows: list[Sequence[object]] = old.execute(query).fetchall()
                except sqlite3.DatabaseError:
                    continue
                with transaction(new):
                    new.executemany(statement, rows)
            kept, lost = _copy_entries(old, new)
            new.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        # Rename the file, and what belongs to it, so that it can be looked at later.
        aside = path.with_name(f"{path.name}.corrupt-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}")
        for suffix in ("-wal", "-shm", ""):
            with suppress(FileNotFoundError):
                Path(f"{path}{suffix}").rename(f"{aside}{suffix}")
        moved_to = aside
        begun.rename(path)
    finally:
        _remove(begun)
    return Salvage(moved_to, kept, lost)


def _remove(begun: Path) -> None:
    for suffix in ("-wal", ""):
        Path(f"{begun}{suffix}").unlink(missing_ok=True)


def _copy_entries(old: sqlite3.Connection, new: sqlite3.Connection) -> tuple[int, int]:
    """Copy the entries that have a body; return how many, and how many have none that can be read."""
    kept = lost = 0
    entries = _entries(old)
    while some := tuple(itertools.islice(entries, _ENTRIES_AT_ONCE)):
        with transaction(new):
            for row, body in some:
                if body is None:
                    lost += 1
                    continue
                new.execute(journal_rows.INSERT_ENTRY, row)
                new.execute(journal_rows.INSERT_BODY, (row.id, body))
                kept += 1
    return kept, lost


def _entries(old: sqlite3.Connection) -> Iterator[tuple[EntryRow, bytes | None]]:
    """Read entries from both ends up to damaged rows, each once."""
    seen: set[int] = set()
    for direction in ("ASC", "DESC"):
        try:
            for row in map(EntryRow._make, old.execute(f"{journal_rows.SELECT_ENTRIES} ORDER BY id {direction}")):
                if row.id in seen:
                    continue
                seen.add(row.id)
                try:
                    body = journal_rows.body(old, row)
                except sqlite3.DatabaseError:
                    body = None
                yield row, body
        except sqlite3.DatabaseError:
            continue
        return
