"""The embedded store: one SQLite file in `state.directory`, opened by one process at a time.

A save is one transaction: a process that is killed in the middle leaves the earlier state. A damaged file is moved aside and a
new one begun with its readable rows, because a running service is worth more. The detectors' rows are read and written here,
those of the journal in `journal_rows`.
"""

import fcntl
import logging
import os
import platform
import shutil
import sqlite3
import threading
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from toolgauge.model.errors import InUseError, StartError, StateError
from toolgauge.settings import file_path
from toolgauge.state.database import connected, free_bytes, is_damage, is_full, salvage, transaction
from toolgauge.state.settings import StateSettings, Sync

_LOG = logging.getLogger("toolgauge.state")

FILE_NAME = "toolgauge.sqlite3"
LOCK_NAME = "toolgauge.lock"
RESERVE_NAME = "toolgauge.reserve"
_OWNER_READS_AND_WRITES = 0o600
_OWNER_ENTERS = 0o700
_CLOSE_WITHIN_S = 5.0
_MIB = 1024 * 1024
# Enough for the log file beside the database and for what it brings into the database.
_RESERVE_BYTES = 16 * _MIB
# Less than this, and what is written fills the disk at once: for the log file, and for that and the database.
_LOG_FILE_ROOM = 8 * _MIB
_ROOM = 32 * _MIB


class StateStore:
    """The state file of one process, for any thread; blocks while the disk writes. `lost` counts unreadable journal entries."""

    def __init__(self, directory: Path, *, sync: Sync = "normal") -> None:
        """Create missing files; raise `StartError` when they cannot be used."""
        self.directory = directory
        self._path = directory / FILE_NAME
        self._sync: Sync = sync
        self._lock = threading.Lock()
        self._is_closed = False
        self._connection: sqlite3.Connection | None = None
        self.moved_aside: Path | None = None
        self.lost = 0
        try:
            directory.mkdir(mode=_OWNER_ENTERS, parents=True, exist_ok=True)
            self._holder = _locked(directory)
            try:
                self._connection = self._opened()
            finally:
                if self._connection is None:
                    os.close(self._holder)
        except (OSError, sqlite3.Error) as error:
            reason = (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)
            raise StartError(f"cannot use the state directory `{directory}`: {reason}") from error

    @classmethod
    def of(cls, settings: StateSettings) -> "StateStore | None":
        """Open the store of the section `state`; `None` without a directory."""
        return None if settings.directory is None else cls(file_path(settings.directory), sync=settings.sync)

    def load_watch(self) -> dict[bytes, bytes]:
        """Read what the detectors have saved. Raise `StateError` when it cannot be read."""
        with self.reading() as connection:
            rows: list[tuple[bytes, bytes]] = connection.execute("SELECT key, value FROM watch").fetchall()
            return dict(rows)

    def save_watch(self, changed: Mapping[bytes, bytes], removed: Collection[bytes] = ()) -> None:
        """Remove and change entries, all of them or none. Raise `StateError` when they cannot be written."""
        with self.transaction() as connection:
            connection.executemany("DELETE FROM watch WHERE key = ?", ((key,) for key in removed))
            connection.executemany("REPLACE INTO watch (key, value) VALUES (?, ?)", changed.items())

    @contextmanager
    def transaction(self) -> Generator[sqlite3.Connection]:
        """Write everything within, or nothing. Raise `StateError` when it cannot be written."""
        with self._lock:
            try:
                connection = self._usable("written")
                with transaction(connection):
                    yield connection
            except sqlite3.Error as error:
                raise self._state_error("written", error) from error

    @contextmanager
    def reading(self, what: str = "read") -> Generator[sqlite3.Connection]:
        """Read; other threads wait meanwhile. Raise `StateError` when it cannot be read."""
        with self._lock, self._as_state_errors(what):
            yield self._usable(what)

    def reopen(self) -> None:
        """Open the file anew, after it could not be written. Raise `StateError` when it cannot be opened."""
        with self._lock, self._as_state_errors("opened"):
            self._disconnect()
            self._connection = self._opened()

    def rewrite(self) -> None:
        """Begin a new file with what can be read of this one. Raise `StateError` when it cannot be written."""
        with self._lock, self._as_state_errors("written"):
            self._disconnect()
            try:
                self._salvage("it holds entries that cannot be read")
            finally:
                self._connection = connected(self._path, self._sync)

    def has_room(self) -> bool:
        """Return whether there is room to write, apart from some that is kept for the time when the disk is full."""
        with suppress(StateError), self.reading("written") as connection:
            _, in_log, done = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            if in_log != done or not self._has_reserve():
                return False
            on_disk = shutil.disk_usage(self.directory).free
            return on_disk >= _LOG_FILE_ROOM and on_disk + free_bytes(connection) >= _ROOM
        return False

    def use_reserve(self) -> None:
        """Give the room that was kept to the file: to remove entries takes some, too."""
        # On a disk that is read-only it stays.
        with suppress(OSError):
            (self.directory / RESERVE_NAME).unlink(missing_ok=True)

    def _has_reserve(self) -> bool:
        path = self.directory / RESERVE_NAME
        if path.exists():
            return True
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _OWNER_READS_AND_WRITES)
            with os.fdopen(descriptor, "wb") as reserve:
                reserve.write(bytes(_RESERVE_BYTES))
        except OSError:
            path.unlink(missing_ok=True)
            return False
        return True

    def close(self) -> None:
        """Close the file and let another process have it. Works twice, and gives up on a disk that hangs."""
        if not self._lock.acquire(timeout=_CLOSE_WITHIN_S):
            _LOG.error("`%s` could not be closed: the disk does not answer", self._path)
            return
        try:
            if not self._is_closed:
                self._is_closed = True
                self._disconnect()
                os.close(self._holder)
        finally:
            self._lock.release()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        # What could not be written at the end is in the log beside the file, and is read from there.
        with suppress(sqlite3.Error):
            if connection is not None:
                connection.close()

    @contextmanager
    def _as_state_errors(self, what: str) -> Generator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, StartError) as error:
            raise self._state_error(what, error) from error

    def _usable(self, what: str) -> sqlite3.Connection:
        if self._connection is None:
            reason = "it is closed" if self._is_closed else "it could not be opened again"
            raise StateError(f"`{self._path}` cannot be {what}: {reason}")
        return self._connection

    def _state_error(self, what: str, error: Exception) -> StateError:
        is_damaged = isinstance(error, sqlite3.Error) and is_damage(error)
        return StateError(f"`{self._path}` cannot be {what}: {error}", is_damaged=is_damaged)

    def _opened(self) -> sqlite3.Connection:
        try:
            return connected(self._path, self._sync)
        except sqlite3.DatabaseError as error:
            if is_damage(error):
                self._salvage(str(error))
            elif is_full(error):
                self.use_reserve()
            else:
                raise
        return connected(self._path, self._sync)

    def _salvage(self, reason: str) -> None:
        self.moved_aside, kept, lost = salvage(self._path, self._sync)
        self.lost += lost
        _LOG.error(
            "`%s` is damaged (%s): it is kept as `%s`; %d requests of the journal were recovered, %d were lost",
            self._path,
            reason,
            self.moved_aside.name,
            kept,
            lost,
        )


def _locked(directory: Path) -> int:
    """Lock the directory for as long as the returned descriptor is open; raise `StartError` when another process has it."""
    descriptor = os.open(
        directory / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, _OWNER_READS_AND_WRITES
    )
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # On a full disk it is locked without a name.
        with suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"process {os.getpid()} on {platform.node()}".encode(), 0)
    except BlockingIOError as error:
        holder = os.pread(descriptor, 256, 0).decode("utf-8", "replace") or "another process"
        os.close(descriptor)
        raise InUseError(
            f"the state directory `{directory}` is in use by {holder}",
            hint="stop the other one, or give each a `state.directory` of its own",
        ) from error
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
