"""What a start finds of a journal whose files were damaged or lost, and what a running one says about it."""

import logging
import os
import random
import shutil
import sqlite3
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.state.support import Opened, opened
from tests.wire.support import until
from toolgauge.model.journal import ClosedId, JournalChange, JournalEntry
from toolgauge.otlp.request import Divider
from toolgauge.service.workers.redistribution import directory_of, redistribute
from toolgauge.state.journal_rows import closed_rows, shown_rows
from toolgauge.state.store import FILE_NAME, LOCK_NAME, StateStore

_LOG_NAME = f"{FILE_NAME}-wal"
_FRAME = 24 + 4096


def killed(directory: Path, sizes: tuple[int, ...] = (20, 60, 300), count: int = 120) -> dict[int, JournalEntry]:
    """Leave the files of a process that was killed; return what it had acknowledged."""
    live = directory.with_name(f"{directory.name}-live")
    chance = random.Random(len(sizes))  # noqa: S311 - the bodies
    with opened(live) as journal:
        found: dict[int, JournalEntry] = {}
        for number in range(0, count, 6):
            some = [journal.entry(chance.randbytes(sizes[each % len(sizes)])) for each in range(6)]
            closed = (ClosedId(id=f"{number:032x}", scope="trace", closed_ns=2**62),)
            journal.commit(JournalChange(appended=some, closed=closed))
            found.update((entry.id, entry) for entry in some)
        journal.journal.close()
        shutil.copytree(live, directory)
    shutil.rmtree(live)
    return found


class Start:
    """What a start found; it went on, wrote an entry and ended."""

    def __init__(self, directory: Path, now_ns: int = 2_000) -> None:
        with opened(directory, start=False, now_ns=now_ns) as journal:
            self.closed = len(list(journal.journal.rows(closed_rows)))
            list(journal.journal.rows(shown_rows))
            self.entries = {entry.id: entry for entry in journal.journal.entries()}
            journal.journal.start()
            self.after = journal.append(b"after")
            assert journal.journal.failure is None
            self.since_ns = journal.journal.received_since_ns
            self.known = journal.metrics.unreadable.value()
            self.unknown = journal.metrics.unreadable.value(("unknown",))


def change(path: Path, at: int, new: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(new)


def flip(path: Path, at: int) -> None:
    change(path, at, bytes([path.read_bytes()[at] ^ 0x40]))


def kept(state: Path) -> list[Path]:
    return sorted(state.glob(f"{FILE_NAME}.corrupt-*"))


def cut_to(size: int) -> Callable[[Path], None]:
    return lambda log: os.truncate(log, size)


def flipped_at(at: int) -> Callable[[Path], None]:
    return lambda log: flip(log, at)


@pytest.mark.parametrize(
    "spoil",
    [*map(flipped_at, (3, 28, 32 + 5 * _FRAME + 24 + 4090)), *map(cut_to, (0, 32 + 40 * _FRAME)), Path.unlink],
)
def test_log_that_is_damaged_cut_or_gone_is_noticed(
    tmp_path: Path, spoil: Callable[[Path], None], caplog: pytest.LogCaptureFixture
):
    entries = killed(tmp_path / "state")
    spoil(tmp_path / "state" / _LOG_NAME)
    start = Start(tmp_path / "state")
    assert start.entries.items() < entries.items()
    assert (start.known, start.unknown) == (len(entries) - len(start.entries), 1)
    assert start.since_ns == 2_000
    assert "it lacks what was written last" in caplog.text
    again = Start(tmp_path / "state")
    assert again.entries.keys() == start.entries.keys() | {start.after}
    assert (again.known, again.unknown) == (0, 0)


def test_tail_of_a_transaction_that_was_not_committed_is_no_damage(tmp_path: Path):
    entries = killed(tmp_path / "state")
    log = tmp_path / "state" / _LOG_NAME
    with log.open("ab") as file:
        # Of the same salts, with another page half written.
        file.write(struct.pack(">2I", 3, 0) + log.read_bytes()[16:24] + bytes(8) + b"x" * 4096 + b"y" * 200)
    start = Start(tmp_path / "state")
    assert start.entries == entries
    assert (start.known, start.unknown, start.since_ns) == (0, 0, 1_000)


@pytest.mark.parametrize("content", [None, b""])
def test_log_of_a_database_that_is_empty_or_missing_is_kept(
    tmp_path: Path, content: bytes | None, caplog: pytest.LogCaptureFixture
):
    entries = killed(tmp_path / "state")
    path, log = tmp_path / "state" / FILE_NAME, (tmp_path / "state" / _LOG_NAME).read_bytes()
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    start = Start(tmp_path / "state")
    assert (start.entries, start.known, start.unknown, start.since_ns) == ({}, len(entries), 0, 2_000)
    (found,) = kept(tmp_path / "state")
    assert (found.name[-4:], found.read_bytes()) == ("-log", log)
    assert "it is empty or missing beside its log" in caplog.text


def test_database_without_a_log_is_missed(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    entries = killed(tmp_path / "state")
    for name in (FILE_NAME, _LOG_NAME):
        (tmp_path / "state" / name).unlink()
    start = Start(tmp_path / "state")
    assert (start.entries, start.known, start.unknown) == ({}, len(entries), 1)
    assert f"0 requests of the journal were found, {len(entries)} were lost" in caplog.text


def ended(directory: Path) -> dict[int, JournalEntry]:
    """Leave the files of a process that ended in order: the database alone."""
    entries = killed(directory)
    with opened(directory, start=False):
        pass
    assert not (directory / _LOG_NAME).exists()
    return entries


# At 60, the version of the schema.
@pytest.mark.parametrize(
    ("at", "new"),
    [
        (0, b"x"),
        (18, b"\7\7"),
        (20, b"\x50"),
        (60, b"\0\0\0\1"),
        (60, b"\3\0\0\0"),
        (100, bytes(3000)),
    ],
)
def test_file_with_a_damaged_first_page_is_kept_and_an_empty_one_begun(
    tmp_path: Path, at: int, new: bytes, caplog: pytest.LogCaptureFixture
):
    entries = ended(tmp_path / "state")
    path = tmp_path / "state" / FILE_NAME
    change(path, at, new)
    damaged = path.read_bytes()
    start = Start(tmp_path / "state")
    assert (start.entries, start.known, start.unknown, start.since_ns) == ({}, len(entries), 0, 2_000)
    (found,) = kept(tmp_path / "state")
    assert found.read_bytes() == damaged
    assert f"`sqlite3 {found} .recover`" in caplog.text
    again = Start(tmp_path / "state")
    assert (list(again.entries), again.known, again.unknown) == ([start.after], 0, 0)


def test_file_with_a_damaged_list_of_free_pages_is_kept_before_anything_is_overwritten(tmp_path: Path):
    entries = ended(tmp_path / "state")
    # A page in use as the first free one.
    change(tmp_path / "state" / FILE_NAME, 32, struct.pack(">2I", 4, 1))
    start = Start(tmp_path / "state")
    assert start.entries == entries
    assert kept(tmp_path / "state")
    again = Start(tmp_path / "state")
    assert list(again.entries) == [start.after]
    # They were in memory only when that process ended.
    assert again.known == len(entries)


def damaged(directory: Path, statement: str) -> dict[int, JournalEntry]:
    """Change the database of a process that ended in order; return what it had acknowledged."""
    entries = ended(directory)
    connection = sqlite3.connect(directory / FILE_NAME)
    connection.execute(statement)
    connection.commit()
    connection.close()
    return entries


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET own = 'x', size = 'y' WHERE id = (SELECT min(id) FROM entries)",
        "UPDATE entries SET delivered = 1 WHERE id = (SELECT min(id) FROM entries)",
        "UPDATE entries SET size = 9223372036854775807 WHERE id <= (SELECT min(id) + 3 FROM entries)",
        "UPDATE bodies SET body = 'x' WHERE id = (SELECT min(id) FROM entries)",
        "DELETE FROM bodies WHERE id = (SELECT min(id) FROM entries)",
        "DELETE FROM entries WHERE id = (SELECT min(id) FROM entries)",
    ],
)
def test_rows_that_are_damaged_are_counted(tmp_path: Path, statement: str):
    entries = damaged(tmp_path / "state", statement)
    start = Start(tmp_path / "state")
    missing = len(entries) - len(start.entries)
    assert start.entries.items() <= entries.items()
    assert missing > 0
    assert (start.known, start.unknown, start.since_ns) == (missing, 0, 2_000)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE closed SET id = 5, closed_ns = 'x'",
        "UPDATE closed SET id = x'ff'",
        "UPDATE process SET starts = 1.5, alive_ns = 'x', since_ns = 'x'",
        "DELETE FROM process",
        "INSERT INTO shown VALUES (1, 'x', 5, 'y', x'ff', 5)",
    ],
)
def test_other_rows_that_are_damaged_end_no_start(tmp_path: Path, statement: str):
    entries = damaged(tmp_path / "state", statement)
    assert Start(tmp_path / "state").entries == entries


def _failing(journal: Opened) -> Callable[[], bool]:
    return lambda: journal.journal.failure is not None and journal.metrics.failed.cells[()] == 1


def _well(journal: Opened) -> Callable[[], bool]:
    return lambda: journal.journal.failure is None


def delete(name: str | None) -> Callable[[Path], None]:
    """Return what deletes this file of a state directory, or all of it."""
    return lambda state: shutil.rmtree(state) if name is None else (state / name).unlink()


@pytest.mark.parametrize("fault", [delete(name) for name in (None, FILE_NAME, _LOG_NAME, LOCK_NAME)])
def test_file_that_is_gone_is_noticed_at_once_and_written_again(
    tmp_path: Path, fault: Callable[[Path], None], caplog: pytest.LogCaptureFixture
):
    state = tmp_path / "state"
    with opened(state) as journal:
        ids = [journal.append(b"%d" % number) for number in range(20)]
        fault(state)
        until(_failing(journal), "a journal that says so")
        during = journal.append(b"during")
        assert "was deleted, moved, replaced or cut by another program" in caplog.text
        assert "acknowledged spans are in memory only, and are lost if the process ends" in caplog.text
        assert not journal.journal.keeps((during,))
        until(_well(journal), "a journal that is written again")
        after = journal.append(b"after")
        journal.commit(JournalChange(removed=ids[:5]))
        shutil.copytree(state, tmp_path / "left")
    start = Start(tmp_path / "left")
    assert list(start.entries) == [*ids[5:], during, after]
    assert (start.known, start.unknown) == (0, 0)


def test_requests_that_were_in_memory_only_are_counted_as_lost_after_a_kill(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    with opened(tmp_path / "state") as journal:
        saved = journal.append(b"kept")
        delete(_LOG_NAME)(tmp_path / "state")
        until(_failing(journal), "a journal that says so")
        journal.journal._try_again_s = 1e12  # pyright: ignore[reportPrivateUsage]
        delivered, lost = journal.append(b"delivered"), journal.append(b"lost")
        until(lambda: len(journal.journal.unwritten) == 2, "requests in memory")
        journal.commit(JournalChange(removed=(delivered,)))
        until(lambda: not journal.journal.unwritten.holds(delivered), "a request that is delivered")
        shutil.copytree(tmp_path / "state", tmp_path / "left")
    (tmp_path / "left" / _LOG_NAME).unlink(missing_ok=True)
    start = Start(tmp_path / "left")
    assert lost not in start.entries
    assert start.known == 1 + (saved not in start.entries)
    assert "lost 1 requests that an earlier process acknowledged and had in memory only when it ended" in caplog.text


def test_other_file_in_the_place_is_left_alone(tmp_path: Path):
    state = tmp_path / "state"
    killed(tmp_path / "other")
    with opened(state) as journal:
        journal.append(b"before")
        shutil.rmtree(state)
        shutil.copytree(tmp_path / "other", state)
        content = (state / FILE_NAME).read_bytes()
        until(_failing(journal), "a journal that says so")
        journal.append(b"during")
        until(lambda: journal.journal._try_again_s > 0, "another try")  # pyright: ignore[reportPrivateUsage]
        assert journal.journal.failure is not None
        assert (state / FILE_NAME).read_bytes() == content


def test_database_that_is_cut_meanwhile_is_noticed(tmp_path: Path):
    state = tmp_path / "state"
    with opened(state) as journal:
        ids = [journal.append(bytes(40_000)) for _ in range(150)]
        os.truncate(state / FILE_NAME, 4096)
        until(_failing(journal), "a journal that says so")
        until(_well(journal), "a journal that is written again")
        lost = journal.metrics.unreadable.value()
    start = Start(state)
    assert set(start.entries) <= set(ids)
    assert lost + start.known == len(ids) - len(start.entries)


@pytest.mark.parametrize("workers", [1, 2])
def test_losses_of_workers_are_counted_by_a_worker(tmp_path: Path, workers: int):
    ended(directory_of(tmp_path, 1))
    flip(directory_of(tmp_path, 1) / FILE_NAME, 0)
    connection = sqlite3.connect(directory_of(tmp_path, 1) / FILE_NAME)
    connection.close()
    killed(directory_of(tmp_path, 0))
    (directory_of(tmp_path, 0) / _LOG_NAME).unlink()
    top = StateStore(tmp_path)
    redistribute(tmp_path, top, Divider(workers), workers, "normal")
    top.close()
    start = Start(tmp_path if workers == 1 else directory_of(tmp_path, 0))
    assert start.known > 0
    assert start.unknown == 1
    assert start.since_ns == 2_000


def _damage(state: Path, other: Path, chance: random.Random) -> str:
    """Damage one file in one of many ways; return which."""
    name = chance.choice((FILE_NAME, _LOG_NAME))
    path = state / name
    content = bytearray(path.read_bytes())
    at = chance.randrange(chance.choice((len(content), 4200)))
    block = slice(at // 512 * 512, at // 512 * 512 + chance.choice((16, 512, 4096, 40_960)))
    size = len(content[block])
    match chance.choice(("flip", "flip", "zeros", "noise", "cut", "duplicate", "delete", "swap")):
        case "flip" as kind:
            content[at] ^= 1 << chance.randrange(8)
        case "zeros" as kind:
            content[block] = bytes(size)
        case "noise" as kind:
            content[block] = chance.randbytes(size)
        case "cut" as kind:
            del content[at:]
        case "duplicate" as kind:
            to = chance.randrange(len(content) - size)
            content[to : to + size] = content[block]
        case "delete" as kind:
            path.unlink()
            return f"{kind} {name}"
        case kind:
            content[:] = (other / name).read_bytes()
    path.write_bytes(content)
    return f"{kind} {name} {at} {block}"


@pytest.mark.parametrize("sizes", [(20, 60, 300), (200, 3_000, 20_000)])
def test_any_damage_is_survived_and_whatever_is_missing_is_counted(
    tmp_path: Path, sizes: tuple[int, ...], caplog: pytest.LogCaptureFixture
):
    whole, other = tmp_path / "whole", tmp_path / "other"
    entries, others = killed(whole, sizes, 240), killed(other, (500,), 120)
    chance = random.Random(5)  # noqa: S311 - the damages
    for number in range(12):
        state = tmp_path / str(number)
        shutil.copytree(whole, state)
        kind = _damage(state, other, chance)
        caplog.clear()
        start = Start(state)
        assert all(entry in (entries.get(entry.id), others.get(entry.id)) for entry in start.entries.values()), kind
        missing = entries.keys() - start.entries.keys()
        if missing:
            assert start.known + start.unknown > 0, kind
            assert start.unknown or start.known == len(missing), kind
            assert start.since_ns == 2_000, kind
            assert any(record.levelno == logging.ERROR for record in caplog.records), kind
        again = Start(state)
        assert again.entries.keys() in ({start.after}, start.entries.keys() | {start.after}), kind
        # Those of a file that is kept were in memory only, and Start does nothing for them.
        assert again.known == len(start.entries.keys() - again.entries.keys()), kind
        shutil.rmtree(state)
