"""A journal that cannot be written goes on in memory, and comes back with what it missed."""

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.state.support import Opened, left, opened
from tests.wire.support import until
from toolgauge.model.errors import StateError
from toolgauge.model.journal import ClosedId, JournalChange, JournalEntry
from toolgauge.state.journal_rows import Group, closed_rows
from toolgauge.state.ledger import Ledger
from toolgauge.state.settings import StateSettings
from toolgauge.state.store import FILE_NAME, RESERVE_NAME

_MIB = 2**20


@pytest.fixture
def small_disk(tmp_path: Path) -> Generator[Path]:
    """A file system of 64 MiB of its own."""
    mounted = tmp_path / "disk"
    mounted.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(mounted)]
    if not sys.platform.startswith("linux") or os.geteuid() != 0 or subprocess.run(command, check=False).returncode:
        pytest.skip("needs the right to mount a file system")
    try:
        yield mounted
    finally:
        subprocess.run(["umount", "-l", str(mounted)], check=True)


def _closed(identifier: str) -> ClosedId:
    return ClosedId(id=identifier, scope="trace", closed_ns=1)


def _failing(journal: Opened) -> Callable[[], bool]:
    return lambda: journal.journal.failure is not None


def _well(journal: Opened) -> Callable[[], bool]:
    return lambda: journal.journal.failure is None


def _fill(disk: Path) -> Path:
    """Take all room of the disk."""
    path = disk / "other"
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return path


def test_disk_that_the_journal_itself_has_filled_is_emptied_by_removals(small_disk: Path):
    directory = small_disk / "state"
    with opened(directory, StateSettings(max_bytes=64 * _MIB)) as first:
        ids: list[int] = []
        while first.journal.failure is None:
            ids.append(first.append(os.urandom(500_000)))
        assert len(ids) > 50
        first.journal.submit(JournalChange(removed=ids))
        until(_well(first), "a journal that is written again")
        assert first.metrics.entries.cells[()] == 0
        assert (directory / RESERVE_NAME).stat().st_size == 16 * _MIB
        again = [first.append(os.urandom(500_000)) for _ in range(60)]
        assert first.journal.failure is None
    assert [entry.id for entry in left(directory)] == again


def test_start_on_a_full_disk_uses_the_room_that_was_kept(small_disk: Path):
    directory = small_disk / "state"
    with opened(directory) as first:
        kept, removed = first.append(b"kept"), first.append(b"removed")
    assert (directory / RESERVE_NAME).exists()
    other = _fill(small_disk)
    with opened(directory) as second:
        assert [entry.id for entry in second.journal.entries()] == [kept, removed]
        second.commit(JournalChange(removed=(removed,)))
        other.unlink()
    assert [entry.id for entry in left(directory)] == [kept]


def test_file_that_is_damaged_meanwhile_is_kept_and_its_requests_go_on_in_memory(tmp_path: Path):
    with opened(tmp_path) as first:
        # More than SQLite keeps in memory, so that it reads what it wrote first from the file.
        ids = [first.append(b"%05d" % number * 40_000) for number in range(80)]
        path = tmp_path / FILE_NAME
        with path.open("r+b") as file:
            file.seek(path.read_bytes().index(b"00001" * 800) // 4096 * 4096)
            file.write(b"\xff" * 4096)
        first.commit(JournalChange(removed=ids[:2]))
        assert first.journal.failure is not None
        until(_well(first), "a journal that is written again")
        assert first.store.moved_aside is not None
        assert len(first.journal.unwritten) == 78
        after = first.append(b"after")
        first.commit(JournalChange(removed=ids[2:]))
        until(lambda: not first.journal.unwritten, "requests that are needed no more")
    assert [entry.id for entry in left(tmp_path)] == [after]


def test_file_that_cannot_be_written_is_gone_on_from_in_memory_and_come_back_from(tmp_path: Path):
    program = (
        "import pathlib, resource, sys\n"
        "from tests.state.support import opened\n"
        "from tests.wire.support import until\n"
        "with opened(pathlib.Path(sys.argv[1])) as journal:\n"
        "    journal.append(b'before')\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))\n"
        "    journal.append(bytes(1_000_000))\n"
        "    print(journal.journal.failure)\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))\n"
        "    until(lambda: journal.journal.failure is None, 'a journal that is written again')\n"
        "    journal.append(b'after')\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("the journal cannot be written: ")
    assert [entry.body for entry in left(tmp_path)] == [b"before", bytes(1_000_000), b"after"]


_FAILING = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/types.h>
int fdatasync(int fd) { (void)fd; errno = EIO; return getenv("SYNC_FAILS") ? -1 : 0; }
int fsync(int fd) { return fdatasync(fd); }
ssize_t pread64(int fd, void *to, size_t size, off64_t at) {
    if (getenv("READ_FAILS")) { errno = EIO; return -1; }
    return ((ssize_t (*)(int, void *, size_t, off64_t))dlsym(RTLD_NEXT, "pread64"))(fd, to, size, at);
}
"""
_ON_A_FAILING_DISK = """
import os, pathlib, sys
from tests.state.support import opened
from tests.wire.support import until
from toolgauge.model.journal import JournalChange
from toolgauge.state import journal as module
module._FORGET_EVERY_S = 0.1
with opened(pathlib.Path(sys.argv[1])) as journal:
    # More than SQLite keeps in memory.
    ids = [journal.append(b"%05d" % number * 40_000) for number in range(20)]
    os.environ[sys.argv[2]] = "1"
    journal.commit(JournalChange(removed=ids[:2]))
    until(lambda: journal.journal.failure, "the failure", 10)
    print(journal.journal.failure)
    during = journal.append(b"during")
    del os.environ[sys.argv[2]]
    until(lambda: journal.journal.failure is None, "a journal that is written again", 10)
    print(journal.store.moved_aside)
"""


@pytest.mark.parametrize("fails", ["SYNC_FAILS", "READ_FAILS"])
def test_disk_that_fails_without_refusing_writes_is_noticed_and_not_taken_for_a_damaged_file(
    tmp_path: Path, fails: str
):
    compiler, library = shutil.which("cc"), tmp_path / "failing.so"
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("needs a C compiler and LD_PRELOAD")
    (tmp_path / "failing.c").write_text(_FAILING)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, tmp_path / "failing.c", "-ldl"], check=True)
    command = [sys.executable, "-c", _ON_A_FAILING_DISK, str(tmp_path / "state"), fails]
    environment = {**os.environ, "LD_PRELOAD": str(library)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    said, moved_aside = done.stdout.splitlines()
    assert said.startswith("the journal cannot be written")
    assert moved_aside == "None"
    bodies = [entry.body for entry in left(tmp_path / "state")]
    assert bodies == [*(b"%05d" % number * 40_000 for number in range(2, 20)), b"during"]


def test_removals_and_marks_are_kept_in_mind_only_for_what_is_in_the_file():
    missed, later, latest = Group(), Group(), Group()
    later.add(JournalChange(removed=(3, 11), delivered=(4, 5, 12), closed=(_closed("a"), _closed("b"))))
    latest.add(JournalChange(removed=(5, 12), closed=(_closed("c"),)))
    missed.add_missed(later, newest=10, max_closed=2)
    missed.add_missed(latest, newest=10, max_closed=2)
    assert (missed.removed, missed.delivered) == ({3, 5}, {4})
    assert [closed.id for closed in missed.closed] == ["b", "c"]


def test_nothing_waits_for_a_thread_that_has_ended_by_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    faults: list[object] = []
    monkeypatch.setattr(threading, "excepthook", faults.append)
    with opened(tmp_path) as first:
        broken = JournalEntry(id=2**70, signal="traces", body=b"", received_ns=1, own=False)
        first.commit(JournalChange(appended=(broken,)))
        until(_failing(first), "a failure")
        first.append(b"in memory")
        assert first.metrics.failed.cells[()] == 1
    assert len(faults) == 1


@contextmanager
def failing(journal: Opened) -> Generator[None]:
    """Have the disk fail; then wait until it is written to again."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(journal.store, "transaction", _cannot_write)
        patched.setattr(journal.store, "reopen", _cannot_write)
        yield
    until(_well(journal), "the journal to be written again")


def test_what_came_while_it_failed_is_written_in_order_once_it_can_be(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    caplog.set_level("INFO")
    with opened(tmp_path / "state") as now:
        before = now.append(b"before")
        with failing(now):
            first, gone, delivered, own = (now.append(name, own=name == b"own") for name in (b"1", b"2", b"3", b"own"))
            now.commit(JournalChange(removed=(before, gone), delivered=(delivered,), closed=(_closed("a"),)))
            until(lambda: now.journal.unwritten.holds(own) and not now.journal.unwritten.holds(gone), "the changes")
            assert not now.journal.keeps((first,))
        until(lambda: not now.journal.unwritten, "the requests to be written")
        assert now.journal.keeps((first, delivered, own))
        assert "the requests that were in memory only are in the journal" in caplog.text
        # As a kill leaves it.
        shutil.copytree(tmp_path / "state", tmp_path / "killed")
    with opened(tmp_path / "killed", start=False) as later:
        found = [(entry.id, entry.body, entry.own, entry.delivered) for entry in later.journal.entries()]
        assert found == [
            (first, b"1", False, False),
            (delivered, b"3", False, True),
            (own, b"own", True, False),
        ]
        assert [closed.id for closed in later.journal.rows(closed_rows)] == ["a"]
        assert later.metrics.unreadable.value() == 0


def test_more_than_may_wait_stays_in_memory_until_it_is_needed_no_more(tmp_path: Path):
    with opened(tmp_path, StateSettings(max_bytes=64 * _MIB)) as now:
        ledger = Ledger(now.journal)
        large, small = (ledger.new_entry("traces", bytes(size), 7, own=False) for size in (_MIB + 1, 10))
        with failing(now):
            now.commit(JournalChange(appended=(large, small)))
        until(lambda: ledger.keeps((small.id,)), "the request to be written")
        assert not ledger.keeps((large.id,))
        ledger.end_reading(large.id)
        until(lambda: not now.journal.unwritten, "the removal")
    assert left(tmp_path) == (small,)


def test_request_whose_write_only_seemed_to_fail_is_written_once(tmp_path: Path):
    with opened(tmp_path) as now:
        written = now.append(b"written")
        now.journal.unwritten.add(
            [now.entry(b"missed"), JournalEntry(id=written, signal="traces", body=b"written", received_ns=7, own=False)]
        )
        until(lambda: not now.journal.unwritten, "the requests to be written")
    with opened(tmp_path, start=False) as later:
        assert [entry.body for entry in later.journal.entries()] == [b"written", b"missed"]
        assert later.metrics.unreadable.value() == 0


def _cannot_write() -> None:
    raise StateError("broken")


def test_full_disk_is_gone_on_from_in_memory_and_come_back_from(small_disk: Path, caplog: pytest.LogCaptureFixture):
    directory = small_disk / "state"
    with opened(directory) as first:
        kept, removed = first.append(b"kept"), first.append(b"removed meanwhile")
        other = _fill(small_disk)
        unwritten = first.append(bytes(_MIB))
        assert first.journal.failure is not None
        assert "database or disk is full" in first.journal.failure
        assert first.metrics.failed.cells[()] == 1
        assert first.metrics.unwritten.value(("failed",)) == 1
        assert "acknowledged spans are in memory only" in caplog.text
        first.journal.submit(
            JournalChange(
                removed=(removed, unwritten), delivered=(kept,), closed=(ClosedId(id="a", scope="trace", closed_ns=1),)
            )
        )
        other.unlink()
        until(_well(first), "a journal that is written again")
        assert first.metrics.failed.cells[()] == 0
        assert "can be written again" in caplog.text
        later = first.append(b"later")
    with opened(directory, start=False) as second:
        assert [(entry.id, entry.delivered) for entry in second.journal.entries()] == [(kept, True), (later, False)]
        assert [closed.id for closed in second.journal.rows(closed_rows)] == ["a"]


def test_end_while_it_fails_writes_what_can_be_written(small_disk: Path):
    directory = small_disk / "state"
    with opened(directory) as first:
        removed = first.append(b"removed")
        other = _fill(small_disk)
        unwritten = first.append(bytes(_MIB))
        assert first.journal.failure is not None
        other.unlink()
        first.journal.submit(JournalChange(removed=(removed,)))
    assert [entry.id for entry in left(directory)] == [unwritten]
