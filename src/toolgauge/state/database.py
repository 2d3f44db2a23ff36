"""Opens the SQLite file: its schema up to date, its tables whole, and locked by its owner.

Further tables are further entries of `_SCHEMA`. A file of a newer toolgauge, or of another program, is refused.
"""

import functools
import itertools
import logging
import os
import sqlite3
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from toolgauge.model.errors import StartError
from toolgauge.state import damage, journal_rows
from toolgauge.state.journal_rows import EntryRow
from toolgauge.state.settings import Sync

# Entry n leads from version n to n + 1 of the schema, which is kept in `user_version`.
_SCHEMA = (
    ("CREATE TABLE watch (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",),
    journal_rows.SCHEMA,
    journal_rows.SHOWN_SCHEMA,
    journal_rows.COUNTED_SCHEMA,
    journal_rows.SAMPLED_SCHEMA,
    journal_rows.EFFECTS_SCHEMA,
)
VERSION = len(_SCHEMA)
# "tlga": what `file` and others know the file by. Files of version 1 have none.
_APPLICATION_ID = 0x746C6761
# Bodies are found damaged when they are read, each with its checksum.
_CHECKED = frozenset({"watch", "process", "entries", "closed", "shown"})
# A version beyond these is a damaged number.
_FUTURE_VERSIONS = range(VERSION + 1, VERSION + 101)
# The machine's fault, not the file's. Bytes that were changed end in any other error: an unknown format, a missing column.
_OUTER = "BUSY CANTOPEN FULL IOERR LOCKED NOMEM PERM PROTOCOL READONLY"
_OUTER_CODES = frozenset(getattr(sqlite3, f"SQLITE_{name}") for name in _OUTER.split())
_OWNER_READS_AND_WRITES = 0o600
_LOG = logging.getLogger("toolgauge.state")
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
    connection = _connection(path)
    try:
        version = _version(connection, path)
        # Before anything is written: it would go to wrong pages.
        for table in _tables(connection).keys() & _CHECKED:
            check(connection, table)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {sync}")
        # Some builds write zeros over what is deleted: the journal would write everything twice.
        connection.execute("PRAGMA secure_delete = OFF")
        connection.execute(f"PRAGMA journal_size_limit = {MAX_LOG_FILE_BYTES}")
        with transaction(connection):
            for statement in itertools.chain.from_iterable(_SCHEMA[version:]):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            # Written each time, also where it is the same: a full disk is to be seen here.
            connection.execute(f"PRAGMA user_version = {VERSION}")
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


def _connection(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    # Damaged text is found by the checksum of its row.
    connection.text_factory = functools.partial(str, encoding="utf-8", errors="replace")
    # Alone with the file: no shared memory beside it, which not every file system has.
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    return connection


def _version(connection: sqlite3.Connection, path: Path) -> int:
    """Return the version of the schema, 0 for a new file; raise `DatabaseError` for a damaged one, `StartError` for a foreign one."""
    found = _tables(connection)
    application, written = _integer(connection, "PRAGMA application_id"), _integer(connection, "PRAGMA user_version")
    with closing(sqlite3.connect(":memory:")) as model:
        known = [_tables(model)]
        for statements in _SCHEMA:
            for statement in statements:
                model.execute(statement)
            known.append(_tables(model))
    is_ours = application == _APPLICATION_ID or (application == 0 and not found) or bool(found and found in known)
    if not is_ours and not found.keys() >= known[-1].keys():
        raise StartError(
            f"`{path}` is a database of something else than toolgauge",
            hint="give toolgauge another `state.directory`",
        )
    if written in _FUTURE_VERSIONS:
        raise StartError(
            f"`{path}` was written by a newer toolgauge (schema {written}, this one knows {VERSION})",
            hint="run that version, or give this one another `state.directory`; if there was none, that number is damaged:"
            f" set it with `sqlite3 {path} 'PRAGMA user_version = {VERSION}'`",
        )
    if found not in known or (not found and _integer(connection, "PRAGMA page_count") > 1):
        raise _malformed("its list of tables is damaged")
    version = known.index(found)
    if written != version or (found and application not in (0, _APPLICATION_ID)):
        _LOG.warning(
            "`%s` names version %d of the schema and application %#x, which is damage: its tables are toolgauge's of version %d",
            path,
            written,
            application,
            version,
        )
    return version


def _tables(connection: sqlite3.Connection) -> dict[str, str]:
    return dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall())


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether the file is broken inside, or no database at all."""
    is_file_s = isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.ProgrammingError)
    return is_file_s and getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF not in _OUTER_CODES


def _malformed(reason: str) -> sqlite3.DatabaseError:
    error = sqlite3.DatabaseError(reason)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error


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
    if not _is_whole(connection, table):
        raise _malformed("database disk image is malformed")


def has_faults(connection: sqlite3.Connection) -> bool:
    """Return whether anything in the file is broken, such as its list of free pages. Of a large file nothing is read."""
    size = _integer(connection, "PRAGMA page_count") * _integer(connection, "PRAGMA page_size")
    try:
        return size <= _MAX_CHECKED_BYTES and not _is_whole(connection, "1")
    except sqlite3.DatabaseError:
        return True


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


# Copied in one transaction: few, so that memory and the log file beside the database stay small.
_ENTRIES_AT_ONCE = 8
# Copied only where they are whole; not since when nothing is missing, because something is.
_SMALL_TABLES = {
    "watch": ("key", "value"),
    "process": ("id", "starts", "alive_ns", "written", "entries"),
    "shown": ("number", "conversation", "hashes", "has_user", "gap", "effects"),
    "closed": ("number", "id", "scope", "closed_ns", "sampled"),
}


class Salvage(NamedTuple):
    """What the damaged file is now called, how many of its entries have no body, and which tables could not be read."""

    moved_to: Path
    lost: int
    unreadable: Sequence[str]


def salvage(path: Path, sync: Sync) -> Salvage:
    """Write what can be read of a damaged file into a new one in its place; keep the damaged one.
    It stays until the new one is complete. Raises `sqlite3.Error` and `OSError` where there is no room for the new one.
    """
    begun = path.with_name(f"{path.name}.begun")
    _remove(begun)
    try:
        unreadable: list[str] = []
        with closing(connected(begun, sync)) as new:
            new.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            if not damage.has_format(path, begun) or not _has_tables(path):
                damage.replace_first_page(path, begun)
            with closing(_tolerant(path)) as old:
                for table, columns in _SMALL_TABLES.items():
                    names, values = ", ".join(columns), ", ".join("?" * len(columns))
                    try:
                        check(old, table)
                        rows: list[Sequence[object]] = old.execute(f"SELECT {names} FROM {table}").fetchall()  # noqa: S608 - ours
                    except sqlite3.DatabaseError:
                        unreadable.append(table)
                        continue
                    with transaction(new):
                        new.execute(f"DELETE FROM {table}")  # noqa: S608 - ours
                        new.executemany(f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({values})", rows)  # noqa: S608 - ours
                lost = _copy_entries(old, new)
            new.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        # Rename the file, and what belongs to it, so that it can be looked at later.
        aside = damage.aside(path)
        for suffix in ("-wal", "-shm", ""):
            with suppress(FileNotFoundError):
                Path(f"{path}{suffix}").rename(f"{aside}{suffix}")
        begun.rename(path)
    finally:
        _remove(begun)
    return Salvage(aside, lost, unreadable)


def _tolerant(path: Path) -> sqlite3.Connection:
    """Open a damaged file: also one that was cut, or with a damaged definition of a table."""
    connection = _connection(path)
    connection.execute("PRAGMA writable_schema = ON")
    return connection


def _has_tables(path: Path) -> bool:
    with closing(_tolerant(path)) as old:
        try:
            return _version(old, path) > 0
        except (sqlite3.DatabaseError, StartError):
            return False


def _remove(begun: Path) -> None:
    for suffix in ("-wal", ""):
        Path(f"{begun}{suffix}").unlink(missing_ok=True)


def _copy_entries(old: sqlite3.Connection, new: sqlite3.Connection) -> int:
    """Copy the entries that have a body; return how many have none that can be read."""
    lost = 0
    entries = _entries(old)
    while some := tuple(itertools.islice(entries, _ENTRIES_AT_ONCE)):
        with transaction(new):
            for row, body in some:
                if body is None:
                    lost += 1
                    continue
                new.execute(journal_rows.INSERT_ENTRY, row._replace(delivered=int(bool(row.delivered))))
                new.execute(journal_rows.INSERT_BODY, (row.id, body))
    return lost


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
