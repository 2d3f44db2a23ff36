"""The state file: what survives, who may have it, and what happens when it cannot be read or written."""

import os
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from toolgauge.model.errors import StartError, StateError
from toolgauge.state.database import VERSION
from toolgauge.state.settings import StateSettings
from toolgauge.state.store import FILE_NAME, LOCK_NAME, StateStore


@contextmanager
def opened(directory: Path) -> Generator[StateStore]:
    store = StateStore(directory)
    try:
        yield store
    finally:
        store.close()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_is_saved_is_there_after_a_restart(tmp_path: Path):
    with opened(tmp_path / "state") as store:
        assert store.load_watch() == {}
        store.save_watch({b"a": b"1", b"b": b"2", b"c": b""})
        store.save_watch({b"a": b"3"}, [b"b", b"not there"])
    with opened(tmp_path / "state") as store:
        assert store.load_watch() == {b"a": b"3", b"c": b""}
        assert store.moved_aside is None


def test_key_that_is_removed_and_changed_at_once_stays(tmp_path: Path):
    with opened(tmp_path) as store:
        store.save_watch({b"a": b"1"})
        store.save_watch({b"a": b"2"}, [b"a"])
        assert store.load_watch() == {b"a": b"2"}


def test_directory_of_the_settings_is_used(tmp_path: Path):
    assert StateStore.of(StateSettings()) is None
    store = StateStore.of(StateSettings(directory=str(tmp_path / "x" / "y")))
    assert store is not None
    store.close()
    assert (tmp_path / "x" / "y" / FILE_NAME).exists()


def test_directory_and_files_are_the_owner_s_alone(tmp_path: Path):
    directory = tmp_path / "state"
    old = os.umask(0)
    try:
        with opened(directory) as store:
            store.save_watch({b"a": b"1"})
            modes = {path.name: mode(path) for path in directory.iterdir()}
    finally:
        os.umask(old)
    assert mode(directory) == 0o700
    assert modes == {FILE_NAME: 0o600, f"{FILE_NAME}-wal": 0o600, LOCK_NAME: 0o600}


def test_file_that_others_could_read_is_closed_to_them(tmp_path: Path):
    with opened(tmp_path):
        pass
    (tmp_path / FILE_NAME).chmod(0o664)
    with opened(tmp_path):
        assert mode(tmp_path / FILE_NAME) == 0o600


def test_second_opener_is_plainly_claimed_who_has_the_directory(tmp_path: Path):
    with opened(tmp_path) as store:
        store.save_watch({b"a": b"1"})
        with pytest.raises(StartError) as caught:
            StateStore(tmp_path)
        assert store.load_watch() == {b"a": b"1"}
    assert caught.value.message.startswith(f"the state directory `{tmp_path}` is in use by process {os.getpid()} on ")


def test_directory_is_free_after_a_failed_start(tmp_path: Path):
    (tmp_path / FILE_NAME).mkdir()
    with pytest.raises(StartError, match=r"cannot use the state directory .*: is a directory"):
        StateStore(tmp_path)
    (tmp_path / FILE_NAME).rmdir()
    with opened(tmp_path) as store:
        assert store.load_watch() == {}


def test_closed_store_says_so(tmp_path: Path):
    store = StateStore(tmp_path)
    store.close()
    with pytest.raises(StateError, match="cannot be read: it is closed"):
        store.load_watch()
    with pytest.raises(StateError, match="cannot be written: it is closed"):
        store.save_watch({b"a": b"1"})


@pytest.mark.parametrize(
    "content",
    [b"this is no database at all, but long enough to be taken for one" * 50, b"SQLite format 3\0" + bytes(500)],
)
def test_file_that_is_no_database_is_moved_aside(tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture):
    (tmp_path / FILE_NAME).write_bytes(content)
    with opened(tmp_path) as store:
        assert store.load_watch() == {}
        store.save_watch({b"a": b"1"})
        assert store.moved_aside is not None
        assert store.moved_aside.name.startswith(f"{FILE_NAME}.corrupt-20")
        assert store.moved_aside.read_bytes() == content
    assert f"it is kept as `{store.moved_aside.name}`" in caplog.text
    with opened(tmp_path) as store:
        assert store.load_watch() == {b"a": b"1"}


def test_file_of_a_newer_toolgauge_is_left_alone(tmp_path: Path):
    with opened(tmp_path) as store:
        store.save_watch({b"a": b"1"})
    path = tmp_path / FILE_NAME
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StartError) as caught:
        StateStore(tmp_path)
    assert f"`{path}` was written by a newer toolgauge (schema {VERSION + 1}" in caught.value.message
    assert path.read_bytes() == before


@contextmanager
def without_room(store: StateStore) -> Generator[None]:
    """Let the file not grow, which SQLite reports as it does a full disk."""
    connection = store._connection  # pyright: ignore[reportPrivateUsage]
    assert connection is not None
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    yield
    connection.execute("PRAGMA max_page_count = 1000000")


def test_full_disk_keeps_the_last_save_and_later_ones_work(tmp_path: Path):
    with opened(tmp_path) as store:
        store.save_watch({b"a": b"1"})
        with without_room(store), pytest.raises(StateError, match=r"cannot be written: database or disk is full"):
            store.save_watch({b"a": b"2", b"b": bytes(100_000)})
        assert store.load_watch() == {b"a": b"1"}
        store.save_watch({b"a": b"3"})
    with opened(tmp_path) as store:
        assert store.load_watch() == {b"a": b"3"}


def test_file_in_the_place_of_the_directory_is_an_error_at_the_start(tmp_path: Path):
    path = tmp_path / "file"
    path.touch()
    with pytest.raises(StartError) as caught:
        StateStore(path)
    assert caught.value.message == f"cannot use the state directory `{path}`: file exists"
    with pytest.raises(StartError, match="not a directory"):
        StateStore(path / "below")


def test_link_in_the_place_of_the_file_is_not_followed(tmp_path: Path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("mine")
    directory = tmp_path / "state"
    directory.mkdir()
    (directory / FILE_NAME).symlink_to(elsewhere)
    with pytest.raises(StartError, match="cannot use the state directory"):
        StateStore(directory)
    assert elsewhere.read_text() == "mine"


@pytest.mark.parametrize(
    "statements",
    [
        ("CREATE TABLE accounts (id INTEGER)", "PRAGMA user_version = 1"),
        ("CREATE TABLE watch (time INTEGER)", "PRAGMA application_id = 77"),
    ],
)
def test_database_of_something_else_is_left_alone(tmp_path: Path, statements: tuple[str, ...]):
    path = tmp_path / FILE_NAME
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StartError) as caught:
        StateStore(tmp_path)
    assert caught.value.message == f"`{path}` is a database of something else than toolgauge"
    assert caught.value.hint == "give toolgauge another `state.directory`"
    assert path.read_bytes() == before


def _writer(directory: Path) -> "subprocess.Popen[bytes]":
    """Start a process that saves 200 entries of one generation at a time, and writes a line for each generation."""
    program = (
        "import pathlib, sys\n"
        "from toolgauge.state.store import StateStore\n"
        "store = StateStore(pathlib.Path(sys.argv[1]))\n"
        "generation = 0\n"
        "while True:\n"
        "    generation += 1\n"
        "    store.save_watch({b'%d' % key: b'%d' % generation for key in range(200)})\n"
        "    print(generation, flush=True)\n"
    )
    return subprocess.Popen([sys.executable, "-c", program, str(directory)], stdout=subprocess.PIPE)


def test_process_killed_in_the_middle_leaves_a_whole_save(tmp_path: Path):
    for _ in range(2):
        writer = _writer(tmp_path)
        with writer:
            assert writer.stdout is not None
            lines = [writer.stdout.readline() for _ in range(20)]
            writer.send_signal(signal.SIGKILL)
            saved = int([*lines, *writer.stdout][-1])
        with opened(tmp_path) as store:
            assert store.moved_aside is None
            kept = store.load_watch()
        assert len(kept) == 200
        (generation,) = {int(value) for value in kept.values()}
        assert generation in (saved, saved + 1)
