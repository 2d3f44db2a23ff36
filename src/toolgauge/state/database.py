"""Opens the SQLite file: its schema up to date, its tables whole, and locked by its owner.

A damaged file is told from one that cannot be used just now, and is never written to. Further tables are further entries of `_SCHEMA`. A file of a newer toolgauge, or of another program, is refused.
"""

import functools
import os
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from toolgauge.model.errors import StartError
from toolgauge.state import journal_rows
from toolgauge.state.settings import Sync

# What leads to each version, which is kept in `user_version`, from the one before. Earlier ones were in no release.
_SCHEMA = {
    5: ("CREATE TABLE watch (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID", *journal_rows.SCHEMA),
    6: journal_rows.EFFECTS_SCHEMA,
    7: journal_rows.CRASHES_SCHEMA,
    # Of people on runs; a scorecard is NULL where it is not kept.
    8: (
        "CREATE TABLE verdicts (id TEXT PRIMARY KEY, verdict BLOB NOT NULL, scorecard BLOB, checksum INTEGER NOT NULL)",
    ),
}
VERSION = max(_SCHEMA)
# "tlga": what `file` and others know the file by.
_APPLICATION_ID = 0x746C6761
# Bodies are found damaged when they are read, each with its checksum.
_CHECKED = frozenset({"watch", "process", "entries", "closed", "shown", "verdicts"})
# A number beyond these is damaged.
_FUTURE_VERSIONS = range(VERSION + 1, VERSION + 101)
# The machine's fault, not the file's. Bytes that were changed end in any other error: an unknown format, a missing column.
_OUTER = "BUSY CANTOPEN FULL IOERR LOCKED NOMEM PERM PROTOCOL READONLY"
_OUTER_CODES = frozenset(getattr(sqlite3, f"SQLITE_{name}") for name in _OUTER.split())
_OWNER_READS_AND_WRITES = 0o600
_MIB = 1024 * 1024
MAX_LOG_FILE_BYTES = 4 * _MIB
# A file that is mostly empty is made small when it is opened, where that takes little time and room.
_MIN_FREE_BYTES = 16 * _MIB
_MAX_MOVED_BYTES = 8 * _MIB
_MAX_CHECKED_BYTES = 256 * _MIB
_BUSY_TIMEOUT_S = 2.0


def connected(path: Path, sync: Sync) -> sqlite3.Connection:
    """Open the file with a current schema; raise `StartError` for a foreign file, `sqlite3.Error` for a damaged one."""
    create(path)
    connection = sqlite3.connect(path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    try:
        # Damaged text is found by the checksum of its row.
        connection.text_factory = functools.partial(str, encoding="utf-8", errors="replace")
        # Alone with the file: no shared memory beside it, which not every file system has.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        version = _version(connection, path)
        # Before anything is written: it would go to wrong pages.
        for table in _tables(connection).keys() & _CHECKED:
            if not _is_whole(connection, table):
                raise malformed(f"its table `{table}` is damaged")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {sync}")
        # Some builds write zeros over deleted pages: the journal would write everything twice.
        connection.execute("PRAGMA secure_delete = OFF")
        connection.execute(f"PRAGMA journal_size_limit = {MAX_LOG_FILE_BYTES}")
        with transaction(connection):
            for statement in (one for later, made in _SCHEMA.items() if later > version for one in made):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            # Written each time, also where it is the same: a full disk is to be seen here.
            connection.execute(f"PRAGMA user_version = {VERSION}")
        free = free_bytes(connection)
        used = _integer(connection, "PRAGMA page_count") * _integer(connection, "PRAGMA page_size") - free
        if free >= _MIN_FREE_BYTES and used <= _MAX_MOVED_BYTES:
            connection.execute("PRAGMA temp_store = MEMORY")
            # It needs room for the used pages, which a full disk does not have.
            with suppress(sqlite3.OperationalError):
                connection.execute("VACUUM")
    except BaseException:
        connection.close()
        raise
    return connection


def _version(connection: sqlite3.Connection, path: Path) -> int:
    """Return the version of the schema, 0 for a new file; raise `DatabaseError` for a damaged one, `StartError` for a foreign one."""
    found = _tables(connection)
    application, written = _integer(connection, "PRAGMA application_id"), _integer(connection, "PRAGMA user_version")
    with closing(sqlite3.connect(":memory:")) as model:
        known = {0: _tables(model)}
        for version, statements in _SCHEMA.items():
            for statement in statements:
                model.execute(statement)
            known[version] = _tables(model)
    if application != _APPLICATION_ID and found not in known.values():
        raise StartError(
            f"`{path}` is a database of something else than toolgauge",
            hint="give toolgauge another `state.directory`",
        )
    if written in _FUTURE_VERSIONS:
        raise StartError(
            f"`{path}` was written by a newer toolgauge (schema {written}, this one knows {VERSION})",
            hint="run that version, or give this one another `state.directory`",
        )
    if found != known.get(written):
        raise malformed("its list of tables, or its version, is damaged")
    if not found and _integer(connection, "PRAGMA page_count") > 1:
        raise malformed("its list of tables is damaged")
    return written


def _tables(connection: sqlite3.Connection) -> dict[str, str]:
    return dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall())


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether the file is broken inside, or no database at all."""
    is_file_s = isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.ProgrammingError)
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    # Without more in the code, it is the file that says that it is read-only, in its first page.
    return is_file_s and (code & 0xFF not in _OUTER_CODES or code == sqlite3.SQLITE_READONLY)


def malformed(reason: str) -> sqlite3.DatabaseError:
    """Return the error for a damaged file."""
    error = sqlite3.DatabaseError(reason)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error


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


def is_whole(connection: sqlite3.Connection, *, of_any_size: bool) -> bool:
    """Return whether no page is found damaged, lists of free pages included. Of a large file nothing is read, unless `of_any_size`."""
    size = _integer(connection, "PRAGMA page_count") * _integer(connection, "PRAGMA page_size")
    try:
        return (size > _MAX_CHECKED_BYTES and not of_any_size) or _is_whole(connection, "1")
    except sqlite3.DatabaseError as error:
        return not is_damage(error)


def _is_whole(connection: sqlite3.Connection, part: str) -> bool:
    found: tuple[str] = connection.execute(f"PRAGMA quick_check({part})").fetchone()
    return found[0] == "ok"


def free_bytes(connection: sqlite3.Connection) -> int:
    """Return how much of the file is not in use."""
    return _integer(connection, "PRAGMA freelist_count") * _integer(connection, "PRAGMA page_size")


def create(path: Path) -> None:
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
