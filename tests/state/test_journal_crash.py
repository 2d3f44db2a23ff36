"""What is left of the journal of a process that was killed, and of a file that was damaged."""

import random
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.state.support import left, opened
from tests.wire.support import until
from toolgauge.model.journal import JournalChange
from toolgauge.state.journal_rows import closed_rows
from toolgauge.state.settings import Sync
from toolgauge.state.store import FILE_NAME

# Writes `a NUMBER` when an entry is on disk and `r NUMBER` when it was closed and removed, for entries of 200 bytes to 70 KB.
# Entries come in pairs: both, or none, and what closes removes both and remembers the id.
_WRITER = """
import asyncio, itertools, pathlib, sys
from toolgauge.model.journal import ClosedId, JournalChange
from toolgauge.state.settings import StateSettings
from tests.state.support import opened

async def send(journal, numbers):
    for number in numbers:
        body = b"%d " % number * (20 if number % 3 else 10_000)
        pair = journal.entry(body), journal.entry(body, own=True)
        await journal.journal.commit(JournalChange(appended=pair))
        print(f"a {number}", flush=True)
        if number % 2:
            ids = tuple(entry.id for entry in pair)
            await journal.journal.commit(
                JournalChange(removed=ids, closed=(ClosedId(id=str(number), scope="trace", closed_ns=2**62),))
            )
            print(f"r {number}", flush=True)

async def main(journal):
    numbers = itertools.count(int(sys.argv[3]))
    await asyncio.gather(*(send(journal, numbers) for _ in range(8)))

with opened(pathlib.Path(sys.argv[1]), StateSettings(sync=sys.argv[2])) as journal:
    asyncio.run(main(journal))
"""


def _written_until_killed(directory: Path, sync: Sync, first: int, lines: int) -> Sequence[str]:
    command = [sys.executable, "-c", _WRITER, str(directory), sync, str(first)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        seen = [writer.stdout.readline() for _ in range(lines)]
        writer.send_signal(signal.SIGKILL)
        # Also what it wrote before it was gone; the last line may be cut.
        return [line for line in (*seen, *writer.stdout) if line.endswith("\n")]


@pytest.mark.parametrize("sync", ["normal", "full"])
def test_everything_that_was_committed_is_there_after_a_kill_and_nothing_by_half(tmp_path: Path, sync: Sync):
    chance = random.Random(sync)  # noqa: S311 - the instants of the kills
    appended: set[int] = set()
    removed: set[int] = set()
    for attempt in range(2):
        for line in _written_until_killed(tmp_path, sync, attempt * 1_000_000, chance.randrange(1, 400)):
            (appended if line.startswith("a") else removed).add(int(line[2:]))
        with opened(tmp_path, start=False) as later:
            entries = tuple(later.journal.entries())
            closed = [int(known.id) for known in later.journal.rows(closed_rows)]
            assert later.store.moved_aside is None
            assert later.metrics.unreadable.value() == 0
        numbers = [int(entry.body.split()[0]) for entry in entries]
        assert [entry.id for entry in entries] == sorted({entry.id for entry in entries})
        # Pairs are whole, and an entry is there or its trajectory is known as closed.
        assert all(numbers.count(number) == 2 for number in set(numbers))
        assert len(closed) == len(set(closed))
        assert set(numbers).isdisjoint(closed)
        assert removed <= set(closed)
        assert appended <= set(numbers) | set(closed)


def _damage(directory: Path, needle: bytes) -> None:
    """Overwrite the page of the file that holds these bytes."""
    path = directory / FILE_NAME
    content = bytearray(path.read_bytes())
    page = content.index(needle) // 4096 * 4096
    content[page : page + 4096] = b"\xff" * 4096
    path.write_bytes(content)


def test_entries_that_can_be_read_of_a_damaged_file_go_on_in_memory_and_an_empty_one_is_begun(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    with opened(tmp_path) as first:
        ids = [first.append(b"%05d" % number * 4_000) for number in range(20)]
        first.store.save_watch({b"a": b"1"})
    _damage(tmp_path, b"00007" * 800)
    with opened(tmp_path, start=False, now_ns=2_000) as second:
        assert second.journal.received_since_ns == 1_000
        found = [entry.id for entry in second.journal.entries()]
        assert found == ids[:7] + ids[8:]
        assert second.journal.received_since_ns == 2_000
        assert second.metrics.unreadable.value() == 1
        assert "lost 1 requests of an earlier process: they cannot be read from the journal" in caplog.text
        second.journal.start()
        kept = second.store.moved_aside
        assert kept is not None
        assert f"`sqlite3 {kept} .recover`" in caplog.text
        after = second.append(b"after")
        assert second.journal.keeps((after,))
        assert not second.journal.keeps((found[0],))
        second.commit(JournalChange(removed=found))
        until(lambda: not second.journal.unwritten, "entries that are needed no more")
    with opened(tmp_path, start=False, now_ns=3_000) as third:
        assert third.journal.received_since_ns == 2_000
        assert third.store.load_watch() == {}
        assert third.store.moved_aside is None
        assert [entry.id for entry in third.journal.entries()] == [after]
        assert third.metrics.unreadable.value() == 0


def test_room_of_removed_entries_is_used_again_and_given_back_at_the_next_start(tmp_path: Path):
    path = tmp_path / FILE_NAME
    with opened(tmp_path) as first:
        for _ in range(4):
            ids = [first.append(bytes(1_000_000)) for _ in range(25)]
            first.commit(JournalChange(removed=ids))
        stays = first.append(b"stays")
    assert 20_000_000 < path.stat().st_size < 40_000_000
    with opened(tmp_path):
        pass
    assert path.stat().st_size < 1_000_000
    assert [entry.id for entry in left(tmp_path)] == [stays]
