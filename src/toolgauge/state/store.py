"""The embedded store: one SQLite file in `state.directory`, opened by one process at a time.

A save is one transaction: a process that is killed in the middle leaves what was saved before. A file that cannot be read
is moved aside and a new one begun, because what is in it is worth less than a service that runs; a file of a newer
toolgauge is left alone. Further tables come as further entries of `_SCHEMA`. The detectors' rows are read and written here,
those of the journal in `journal_rows`.
"""

import fcntl
import itertools
import logging
import os
import platform
import sqlite3
import threading
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from toolgauge.model.errors import StartError, StateError
from toolgauge.settings import file_path
from toolgauge.state import journal_rows
from toolgauge.state.settings import StateSettings, Sync

_LOG = logging.getLogger("toolgauge.state")

FILE_NAME = "toolgauge.sqlite3"
LOCK_NAME = "toolgauge.lock"
# Entry n leads from version n to n + 1 of the schema, which is kept in `user_version`.
_SCHEMA = (
    ("CREATE TABLE watch (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",),
    journal_rows.SCHEMA,
)
VERSION = len(_SCHEMA)
# Not the bodies of the journal: to read gigabytes would hold up the start.
_CHECKED = ("watch", "entries", "closed", "process")
_UNREADABLE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_OWNER_READS_AND_WRITES = 0o600
_OWNER_ENTERS = 0o700
_MAX_LOG_FILE_BYTES = 4 * 1024 * 1024
_BUSY_TIMEOUT_S = 2.0


class StateStore:
    """The state file of one process. Its methods may be called in any thread, and block while the disk writes.

    `moved_aside` is the file that could not be read, `None` where there was none.
    """

    def __init__(self, directory: Path, *, sync: Sync = "normal") -> None:
        """Create the directory and the file where they are not there; raise `StartError` when they cannot be used."""
        self._path = directory / FILE_NAME
        self._sync: Sync = sync
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self.moved_aside: Path | None = None
        with _as_start_errors(directory):
            directory.mkdir(mode=_OWNER_ENTERS, parents=True, exist_ok=True)
            self._holder = _locked(directory)
            try:
                self._connection = self._opened()
            finally:
                if self._connection is None:
                    os.close(self._holder)

    @classmethod
    def of(cls, settings: StateSettings) -> "StateStore | None":
        """Open the store of the section `state`; `None` without a directory."""
        return None if settings.directory is None else cls(file_path(settings.directory), sync=settings.sync)

    def load_watch(self) -> dict[bytes, bytes]:
        """Read what the detectors have saved. Raise `StateError` when it cannot be read."""
        with self._in_use("read") as connection:
            rows: list[tuple[bytes, bytes]] = connection.execute("SELECT key, value FROM watch").fetchall()
            return dict(rows)

    def save_watch(self, changed: Mapping[bytes, bytes], removed: Collection[bytes] = ()) -> None:
        """Remove and change entries, all of them or none. Raise `StateError` when they cannot be written."""
        with self.transaction() as connection:
            connection.executemany("DELETE FROM watch WHERE key = ?", ((key,) for key in removed))
            connection.executemany("REPLACE INTO watch (key, value) VALUES (?, ?)", changed.items())

    def close(self) -> None:
        """Close the file and let another process have it. Works twice."""
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is None:
                return
            # What could not be written at the end is in the log beside the file, and is read from there.
            with suppress(sqlite3.Error):
                connection.close()
            os.close(self._holder)

    @contextmanager
    def transaction(self) -> Generator[sqlite3.Connection]:
        """Write everything that is written within, or nothing. Raise `StateError` when it cannot be written."""
        with self._in_use("written") as connection, _transaction(connection):
            yield connection

    @contextmanager
    def reading(self) -> Generator[sqlite3.Connection]:
        """Read through this connection; other threads wait. Raise `StateError` when it cannot be read."""
        with self._in_use("read") as connection:
            yield connection

    @contextmanager
    def _in_use(self, what: str) -> Generator[sqlite3.Connection]:
        with self._lock:
            if self._connection is None:
                raise StateError(f"`{self._path}` cannot be {what}: it is closed")
            try:
                yield self._connection
            except sqlite3.Error as error:
                raise StateError(f"`{self._path}` cannot be {what}: {error}") from error

    def _opened(self) -> sqlite3.Connection:
        try:
            return _connected(self._path, self._sync)
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode & 0xFF not in _UNREADABLE:
                raise
            self.moved_aside = _moved_aside(self._path)
            _LOG.warning("`%s` cannot be read (%s): it is kept as `%s`", self._path, error, self.moved_aside.name)
        return _connected(self._path, self._sync)


def _connected(path: Path, sync: Sync) -> sqlite3.Connection:
    """Open the file, bring its schema up to date, and see that it can be written."""
    _create(path)
    connection = sqlite3.connect(path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    try:
        # Alone with the file: no shared memory beside it, which not every file system has.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        version = _integer(connection, "PRAGMA user_version")
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
        with _transaction(connection):
            for statement in itertools.chain.from_iterable(_SCHEMA[version:]):
                connection.execute(statement)
            # Written each time, also where it is the same: a full disk is to be seen here.
            connection.execute(f"PRAGMA user_version = {VERSION}")
        _check(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _create(path: Path) -> None:
    """Create the file for its owner alone; SQLite gives the files beside it the same mode."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, _OWNER_READS_AND_WRITES)
    try:
        # On volumes that are mounted for a group the file may be another user's.
        with suppress(PermissionError):
            os.fchmod(descriptor, _OWNER_READS_AND_WRITES)
    finally:
        os.close(descriptor)


def _check(connection: sqlite3.Connection) -> None:
    """Raise `DatabaseError` when a table is broken inside."""
    for table in _CHECKED:
        found: tuple[str] = connection.execute(f"PRAGMA quick_check({table})").fetchone()
        if found[0] != "ok":
            error = sqlite3.DatabaseError("database disk image is malformed")
            error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise error


def _integer(connection: sqlite3.Connection, query: str) -> int:
    row: tuple[int] = connection.execute(query).fetchone()
    return row[0]


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Generator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # On a full disk SQLite has rolled back already.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _moved_aside(path: Path) -> Path:
    """Rename the file, and what belongs to it, so that it can be looked at later."""
    aside = path.with_name(f"{path.name}.corrupt-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}")
    for suffix in ("-wal", "-shm", ""):
        with suppress(FileNotFoundError):
            Path(f"{path}{suffix}").rename(f"{aside}{suffix}")
    return aside


def _locked(directory: Path) -> int:
    """Lock the directory for as long as the returned descriptor is open; raise `StartError` when another process has it."""
    descriptor = os.open(
        directory / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, _OWNER_READS_AND_WRITES
    )
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {platform.node()}".encode(), 0)
    except BlockingIOError as error:
        holder = os.pread(descriptor, 256, 0).decode("utf-8", "replace") or "another process"
        os.close(descriptor)
        raise StartError(
            f"the state directory `{directory}` is in use by {holder}",
            hint="stop the other one, or give each a `state.directory` of its own",
        ) from error
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextmanager
def _as_start_errors(directory: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise StartError(f"cannot use the state directory `{directory}`: {reason}") from error
    except sqlite3.Error as error:
        raise StartError(f"cannot use the state directory `{directory}`: {error}") from error
