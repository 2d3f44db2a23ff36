"""The SQLite file: opened with its schema up to date, seen to be whole, and alone with its owner.

Further tables come as further entries of `_SCHEMA`. A file of a newer toolgauge, and one that is not ours, are left alone.
"""

import itertools
import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from toolgauge.model.errors import StartError
from toolgauge.state import journal_rows
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
    """Open the file, bring its schema up to date, and see that it can be written.

    Raise `StartError` where the file is not for us, and `sqlite3.Error`: see `is_damage`.
    """
    _create(path)
    connection = sqlite3.connect(path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    try:
        # Alone with the file: no shared memory beside it, which not every file system has.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        version = _known_version(connection, path)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {sync}")
        # Some builds write zeros over what is deleted: the journal would write everything twice.
        connection.execute("PRAGMA secure_delete = OFF")
        connection.execute(f"PRAGMA journal_size_limit = {_MAX_LOG_FILE_BYTES}")
        with Transaction(connection):
            for statement in itertools.chain.from_iterable(_SCHEMA[version:]):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            # Written each time, also where it is the same: a full disk is to be seen here.
            connection.execute(f"PRAGMA user_version = {VERSION}")
        for table in _CHECKED:
            check(connection, table)
        _make_small(connection)
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


class Transaction:
    """Writes everything within, or nothing. A class, because the journal has thousands a second and this takes a third of the time."""

    __slots__ = ("_connection",)

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._connection.execute("COMMIT")
        finally:
            # On a full disk SQLite has rolled back already.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")


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


def _known_version(connection: sqlite3.Connection, path: Path) -> int:
    """Return the version of the schema, 0 for a new file; raise `StartError` when the file is not for us."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    application = _integer(connection, "PRAGMA application_id")
    version = _integer(connection, "PRAGMA user_version")
    if application not in (0, _APPLICATION_ID) or (tables and "watch" not in tables):
        raise StartError(
            f"`{path}` is a database of something else than toolgauge", hint="give toolgauge another `state.directory`"
        )
    if version > VERSION:
        raise StartError(
            f"`{path}` was written by a newer toolgauge (schema {version}, this one knows {VERSION})",
            hint="run that version, or give this one another `state.directory`",
        )
    return version


def _create(path: Path) -> None:
    """Create the file for its owner alone; SQLite gives the files beside it the same mode."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, _OWNER_READS_AND_WRITES)
    try:
        # On volumes that are mounted for a group the file may be another user's.
        with suppress(PermissionError):
            os.fchmod(descriptor, _OWNER_READS_AND_WRITES)
    finally:
        os.close(descriptor)


def _make_small(connection: sqlite3.Connection) -> None:
    free = free_bytes(connection)
    used = _integer(connection, "PRAGMA page_count") * _integer(connection, "PRAGMA page_size") - free
    if free < _MIN_FREE_BYTES or used > _MAX_MOVED_BYTES:
        return
    connection.execute("PRAGMA temp_store = MEMORY")
    # It needs room for what is in use, which a full disk has not.
    with suppress(sqlite3.OperationalError):
        connection.execute("VACUUM")


def _integer(connection: sqlite3.Connection, query: str) -> int:
    row: tuple[int] = connection.execute(query).fetchone()
    return row[0]
