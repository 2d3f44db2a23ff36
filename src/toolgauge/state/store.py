"""The embedded store: one SQLite file in `state.directory`, opened by one process at a time.

A save is one transaction: a process that is killed in the middle leaves the earlier state. A damaged file is kept under another
name, and an empty one begun, because a running service is worth more. The detectors' rows are read and written here, the journal's
rows in `journal_rows`.
"""

import fcntl
import itertools
import logging
import os
import platform
import shutil
import sqlite3
import stat
import threading
import zlib
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple, TypeVar

from toolgauge.model.errors import InUseError, StartError, StateError
from toolgauge.settings import file_path
from toolgauge.state import database, journal_rows
from toolgauge.state.database import is_damage, transaction
from toolgauge.state.settings import StateSettings, Sync

_LOG = logging.getLogger("toolgauge.state")
_Row = TypeVar("_Row")

FILE_NAME = "toolgauge.sqlite3"
LOCK_NAME = "toolgauge.lock"
RESERVE_NAME = "toolgauge.reserve"
_OWNER_READS_AND_WRITES = 0o600
_OWNER_ENTERS = 0o700
_CLOSE_WITHIN_S = 5.0
_MIB = 1024 * 1024
# The file of the lock holds the process, and then a `_Note`.
_HOLDER_BYTES = 256
_WORK_AT, _WORK_BYTES = 384, 16
# The counts of changes of two files are farther apart.
_SAME_FILE = range(2**32)
# Enough for the log file beside the database and for its pages in the database.
_RESERVE_BYTES = 16 * _MIB
# With less than this, one write fills the disk: for the log file, and for that and the database.
_LOG_FILE_ROOM = 8 * _MIB
_ROOM = 32 * _MIB


class Losses(NamedTuple):
    """Unreadable entries of earlier processes: how many are known to be missing, and how often an unknown number may be."""

    known: int = 0
    unknown: int = 0


class _Note(NamedTuple):
    """Figures of the file, noted beside it with each commit, so that an older or another file is noticed."""

    written: int
    entries: int
    # Losses that no journal has counted yet.
    known: int
    unknown: int
    # Needed entries that are in the memory of the process only, which writes the note.
    in_memory: int


class _Place(NamedTuple):
    """Identity of a file or directory, and the size that it never falls below."""

    device: int
    inode: int
    min_bytes: int


class StateStore:
    """The state file of one process, for any thread; blocks while the disk writes."""

    def __init__(self, directory: Path, *, sync: Sync = "normal") -> None:
        """Create missing files; raise `StartError` when they cannot be used."""
        self.directory = directory
        self._path = directory / FILE_NAME
        self._sync: Sync = sync
        self._lock = threading.Lock()
        self._is_closed = False
        self._connection: sqlite3.Connection | None = None
        # Of the directory, the lock, the database and its log.
        self._places: list[_Place | None] = []
        self._note: _Note | None = None
        self._losses = Losses()
        self._in_memory = 0
        # The damaged file, or its log, that was kept.
        self.moved_aside: Path | None = None
        try:
            directory.mkdir(mode=_OWNER_ENTERS, parents=True, exist_ok=True)
            self._holder = _locked(directory)
            # The work of the process before when it ended.
            self.last_work = os.pread(self._holder, _WORK_BYTES, _WORK_AT).strip(b"\0")
            self._write_work(bytes(_WORK_BYTES))
            try:
                *line, checksum = os.pread(self._holder, 128, _HOLDER_BYTES).split() or [b""]
                if len(line) == len(_Note._fields) and checksum == b"%d" % zlib.crc32(b" ".join(line)):
                    self._note = _Note(*map(int, line))
                    self._losses = Losses(self._note.known + self._note.in_memory, self._note.unknown)
                    if self._note.in_memory:
                        text = (
                            "lost %d requests that an earlier process acknowledged and had in memory only when it ended"
                        )
                        _LOG.error(text, self._note.in_memory)
                self._connection = self._opened_or_begun_again()
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
                    counts = journal_rows.counts(connection)
                self._write_note(*counts)
            except sqlite3.Error as error:
                raise self._state_error("written", error) from error

    @contextmanager
    def reading(self, what: str = "read") -> Generator[sqlite3.Connection]:
        """Read; other threads wait meanwhile. Raise `StateError` when it cannot be read."""
        with self._lock, self._as_state_errors(what):
            yield self._usable(what)

    def rows(self, read: Callable[[sqlite3.Connection, int], Iterable[tuple[int, _Row]]]) -> Iterator[_Row]:
        """Read all rows of a table in order of their numbers, page by page: other threads may read in between."""
        after = -1
        while True:
            with self.reading() as connection:
                page = list(read(connection, after))
            if not page:
                return
            yield from (row for _, row in page)
            after = page[-1][0]

    def take_losses(self) -> Losses:
        """Return losses since the last call, earlier openings included. Raise `StateError` when the file cannot be read."""
        with self.reading() as connection:
            losses, self._losses = self._losses, Losses()
            self._write_note(*journal_rows.counts(connection))
        return losses

    def add_losses(self, losses: Losses) -> None:
        """Have the journal of this store count these. Raise `StateError` when they cannot be written."""
        with self.transaction() as connection:
            journal_rows.write_loss(connection)
            self._losses = Losses(self._losses.known + losses.known, self._losses.unknown + losses.unknown)

    def note_in_memory(self, entries: int) -> None:
        """Have the next start count this many entries as lost, unless another number is noted before the end."""
        with self._lock:
            if entries != self._in_memory and self._note is not None and not self._is_closed:
                self._in_memory = entries
                self._write_note(self._note.written, self._note.entries)

    def note_work(self, subject: str) -> None:
        """Note the run or request that is taken up next, for a process after a crash."""
        if not self._is_closed:
            self._write_work(blake2b(subject.encode(errors="replace"), digest_size=_WORK_BYTES).digest())

    def _write_work(self, work: bytes) -> None:
        with suppress(OSError):
            os.pwrite(self._holder, work, _WORK_AT)

    def check_place(self) -> None:
        """Raise `StateError` when another program deleted, moved, replaced or cut the directory or a file in it."""
        with self._lock:
            found = self._found_places()
            if any(itertools.starmap(_differs, zip(self._places, found, strict=False))):
                raise StateError(
                    f"`{self._path}` cannot be written: the directory or a file in it was deleted, moved, replaced or cut by"
                    " another program (put it back, or restart toolgauge)"
                )
            self._places = found

    def reopen(self) -> None:
        """Open the file again, after it could not be written. Raise `StateError` when it cannot be opened, or is damaged."""
        try:
            self.check_place()
        except StateError:
            self._write_again()
        with self._lock, self._as_state_errors("opened"):
            self._disconnect()
            self._connection = self._opened()

    def _write_again(self) -> None:
        """Write the file, which was deleted or moved and is still open, at its path, unless another file has that path."""
        with self._lock, self._as_state_errors("written"):
            connection, before = self._usable("written"), self._places
            self.directory.mkdir(mode=_OWNER_ENTERS, exist_ok=True)
            directory, lock, file, _ = self._found_places()
            # On another device where a volume is gone.
            if not directory or not before[0] or directory.device != before[0].device:
                raise StateError(f"`{self.directory}` is on another device")
            if file is not None and before[2] is not None and file[:2] != before[2][:2]:
                raise StateError(f"another file is at `{self._path}`")
            if _differs(before[1], lock):
                holder = _locked(self.directory)
                os.close(self._holder)
                self._holder = holder
            begun = self._path.with_name(f"{FILE_NAME}.begun")
            begun.unlink(missing_ok=True)
            database.create(begun)
            with closing(sqlite3.connect(begun)) as new:
                connection.backup(new)
            with suppress(FileNotFoundError):
                Path(f"{self._path}-wal").rename(f"{self._aside_path()}-wal")
            begun.rename(self._path)
            self._places = self._found_places()
            self._write_note(*journal_rows.counts(connection))

    def is_whole(self, *, of_any_size: bool = False) -> bool:
        """Return whether no page of the file is damaged. Of a large file nothing is read, unless `of_any_size`."""
        with self.reading() as connection:
            return database.is_whole(connection, of_any_size=of_any_size)

    def begin_again(self, reason: str, in_memory: int) -> None:
        """Keep a damaged file under another name and begin an empty one; `in_memory` of its requests are still needed.
        Raise `StateError` when it cannot be written.
        """
        self.check_place()
        with self._lock, self._as_state_errors("written"):
            self._disconnect()
            self._in_memory = in_memory
            self._connection = self._begun_again(reason)

    def checkpoint(self) -> None:
        """Bring the log into the database. Raise `StateError` when the disk does not keep it: a commit alone does not show that."""
        with self.reading("written") as connection:
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def has_room(self) -> bool:
        """Return whether there is room to write, apart from some that is kept for the time when the disk is full."""
        with suppress(StateError), self.reading("written") as connection:
            _, in_log, done = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            if in_log != done:
                return False
            path = self.directory / RESERVE_NAME
            if not path.exists():
                try:
                    database.create(path)
                    path.write_bytes(bytes(_RESERVE_BYTES))
                except OSError:
                    path.unlink(missing_ok=True)
                    return False
            on_disk = shutil.disk_usage(self.directory).free
            return on_disk >= _LOG_FILE_ROOM and on_disk + database.free_bytes(connection) >= _ROOM
        return False

    def use_reserve(self) -> None:
        """Give the room that was kept to the file: to remove entries takes some, too."""
        # On a disk that is read-only it stays.
        with suppress(OSError):
            (self.directory / RESERVE_NAME).unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file and let another process have it. Works twice, and gives up on a disk that hangs."""
        if not self._lock.acquire(timeout=_CLOSE_WITHIN_S):
            _LOG.error("`%s` could not be closed: the disk does not answer", self._path)
            return
        try:
            if not self._is_closed:
                self._is_closed = True
                self._disconnect()
                self._write_work(bytes(_WORK_BYTES))
                os.close(self._holder)
        finally:
            self._lock.release()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        # Without the log, which SQLite removes.
        self._places = self._places[:3]
        # Pages that could not be written at the end are in the log beside the file, and are read from there.
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
        """Open the file and count its losses; raise `sqlite3.Error` when it is damaged or cannot be used."""
        if _size(Path(f"{self._path}-wal")) and not _size(self._path):
            # SQLite would delete the log.
            raise database.malformed("it is empty or missing beside its log")
        try:
            connection = database.connected(self._path, self._sync)
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_FULL:
                raise
            self.use_reserve()
            connection = database.connected(self._path, self._sync)
        try:
            self._count_losses(connection)
        except BaseException:
            connection.close()
            raise
        self._places = self._found_places()
        return connection

    def _opened_or_begun_again(self) -> sqlite3.Connection:
        try:
            return self._opened()
        except sqlite3.Error as error:
            if not is_damage(error):
                raise
            note, reason = self._note, str(error)
        lost = "all" if note is None else note.entries
        self._losses = Losses(self._losses.known + (note.entries if note else 0), self._losses.unknown + (note is None))
        connection = self._begun_again(reason)
        _LOG.error("lost %s requests of the journal of an earlier process with its file", lost)
        return connection

    def _begun_again(self, reason: str) -> sqlite3.Connection:
        """Begin an empty file in the place of a damaged one, which is kept. Raise `OSError` where it cannot be read: SQLite takes that for damage."""
        for path in (self._path, Path(f"{self._path}-wal")):
            with suppress(FileNotFoundError), path.open("rb") as file:
                at = 0
                while some := os.pread(file.fileno(), _MIB, at):
                    at += len(some)
        aside, has_pages = self._aside_path(), _size(self._path) > 0
        # Beside an empty database SQLite would delete the log.
        log_aside = Path(f"{aside}-wal" if has_pages else f"{aside}-log")
        with suppress(FileNotFoundError):
            Path(f"{self._path}-wal").rename(log_aside)
        if has_pages:
            self._path.rename(aside)
        self._places = []
        self.moved_aside = aside if has_pages else log_aside
        _LOG.error(
            "`%s` is damaged (%s): it is kept as `%s`, and an empty one is begun%s",
            self._path,
            reason,
            self.moved_aside.name,
            f"; `sqlite3 {aside} .recover` reads what is left of it" if has_pages else "",
        )
        connection = database.connected(self._path, self._sync)
        self._write_note(*journal_rows.counts(connection))
        self._places = self._found_places()
        return connection

    def _count_losses(self, connection: sqlite3.Connection) -> None:
        """Compare the file with its note; count and log missing entries."""
        written, expected = journal_rows.counts(connection)
        found, note = journal_rows.sizes(connection).entries, self._note
        is_other = note is not None and written - note.written not in _SAME_FILE
        lost = max(0, (note.entries if note is not None and is_other else expected) - found)
        if lost or is_other:
            _LOG.error(
                "`%s` is damaged (%s); %d requests of the journal were found, %d were lost%s",
                self._path,
                "it lacks what was written last, or is another file" if is_other else "it lacks entries",
                found,
                lost,
                ", and others may be missing" if is_other else "",
            )
            self._losses = Losses(self._losses.known + lost, self._losses.unknown + is_other)
        if any(self._losses):
            with transaction(connection):
                journal_rows.write_loss(connection)
        self._write_note(*journal_rows.counts(connection))

    def _aside_path(self) -> Path:
        return self._path.with_name(f"{FILE_NAME}.corrupt-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}")

    def _write_note(self, written: int, entries: int) -> None:
        self._note = _Note(written, entries, *self._losses, self._in_memory)
        line = " ".join(map(str, self._note))
        # On a disk without room the note is older than the file, which does not count as damage.
        with suppress(OSError):
            os.pwrite(self._holder, f"{line} {zlib.crc32(line.encode())}\n".encode().ljust(128), _HOLDER_BYTES)

    def _found_places(self) -> list[_Place | None]:
        places: list[_Place | None] = []
        for path in (self.directory, self.directory / LOCK_NAME, self._path, Path(f"{self._path}-wal")):
            try:
                found = path.stat()
            except OSError:
                places.append(None)
                continue
            # SQLite cuts its log to this size; a directory has any.
            is_directory = stat.S_ISDIR(found.st_mode)
            least = 0 if is_directory else min(found.st_size, database.MAX_LOG_FILE_BYTES)
            places.append(_Place(found.st_dev, found.st_ino, least))
        return places


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _differs(before: _Place | None, now: _Place | None) -> bool:
    return before is None or now is None or before[:2] != now[:2] or now.min_bytes < before.min_bytes


def _locked(directory: Path) -> int:
    """Lock the directory for as long as the returned descriptor is open; raise `StartError` when another process has it."""
    descriptor = os.open(
        directory / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, _OWNER_READS_AND_WRITES
    )
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # On a full disk it is locked without a name.
        with suppress(OSError):
            holder = f"process {os.getpid()} on {platform.node()}".encode()[: _HOLDER_BYTES - 1]
            os.pwrite(descriptor, holder.ljust(_HOLDER_BYTES - 1) + b"\n", 0)
    except BlockingIOError as error:
        holder = os.pread(descriptor, _HOLDER_BYTES, 0).decode("utf-8", "replace").strip() or "another process"
        os.close(descriptor)
        raise InUseError(
            f"the state directory `{directory}` is in use by {holder}",
            hint="stop the other one, or give each a `state.directory` of its own",
        ) from error
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
