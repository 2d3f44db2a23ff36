"""The journal: what is there after a restart, in which order, and what happens when it cannot be written."""

import asyncio
import os
import threading
from pathlib import Path

import pytest

from tests.rows import each_row
from tests.state.support import Opened, left, opened
from toolgauge.model.journal import ClosedId, JournalChange, JournalEntry, ShownValues
from toolgauge.model.left_out import EarlierValues
from toolgauge.model.metrics import MetricRegistry
from toolgauge.selfmetrics import StateMetrics
from toolgauge.state.journal import Journal
from toolgauge.state.journal_rows import closed_rows, forget_shown, shown_rows
from toolgauge.state.settings import StateSettings
from toolgauge.state.store import StateStore

_MIB = 2**20


def test_what_is_committed_is_there_after_a_restart_in_order(tmp_path: Path):
    with opened(tmp_path) as first:
        assert list(first.journal.entries()) == []
        one = first.entry(b"one")
        two = JournalEntry(id=first.journal.next_id(), signal="logs", body=b"", received_ns=8, own=True)
        three = first.entry(bytes(500_000))
        first.commit(JournalChange(appended=(one, three)))
        first.commit(JournalChange(appended=(two,)))
    assert left(tmp_path) == (one, two, three)


def test_entry_that_is_delivered_and_removed_before_it_is_written_is_not_written(tmp_path: Path):
    with opened(tmp_path, start=False) as first:
        gone, stays = first.entry(b"gone"), first.entry(b"stays")
        first.journal.submit(JournalChange(appended=(gone, stays)))
        first.journal.submit(JournalChange(delivered=(gone.id, stays.id)))
        first.journal.submit(JournalChange(removed=(gone.id,)))
        first.journal.start()
    assert [(entry.body, entry.delivered) for entry in left(tmp_path)] == [(b"stays", True)]


def test_ids_that_have_closed_are_there_after_a_restart(tmp_path: Path):
    closed = (
        ClosedId(id="00ff", scope="trace", closed_ns=2**64),
        ClosedId(id="caf\u00e9 \ud800", scope="conversation", closed_ns=6),
    )
    with opened(tmp_path) as first:
        first.commit(JournalChange(closed=closed))
    with opened(tmp_path, start=False) as later:
        assert tuple(later.journal.rows(closed_rows)) == (
            ClosedId(id="00ff", scope="trace", closed_ns=2**63 - 1),
            closed[1],
        )


def test_what_conversations_have_shown_is_there_after_a_restart(tmp_path: Path):
    def shown(number: int, size: int = 8, gap: str | None = None) -> ShownValues:
        values = EarlierValues(bytes(size), has_traces=True, has_user=number % 2 == 0, gap=gap)
        return ShownValues(conversation=b"%016d" % number, values=values)

    with opened(tmp_path) as first:
        first.commit(JournalChange(shown=[shown(number) for number in range(5)]))
        first.commit(JournalChange(shown=(shown(1, 16, "incomplete"),)))
    with opened(tmp_path, start=False) as later:
        assert [*later.journal.rows(shown_rows)] == [*map(shown, (0, 2, 3, 4)), shown(1, 16, "incomplete")]
        with later.store.transaction() as connection:
            forget_shown(connection, capacity=4, max_bytes=30)
        assert [*later.journal.rows(shown_rows)] == [shown(4), shown(1, 16, "incomplete")]


def test_commit_about_what_was_submitted_comes_behind_it(tmp_path: Path):
    with opened(tmp_path) as first:
        gone, stays = first.entry(b"gone"), first.entry(b"stays")
        first.journal.submit(JournalChange(appended=(gone, stays)))
        first.commit(JournalChange(removed=(gone.id,), delivered=(stays.id,)))
        assert (first.metrics.entries.cells[()], first.metrics.bytes.cells[()]) == (1, 5)
    assert [(entry.body, entry.delivered) for entry in left(tmp_path)] == [(b"stays", True)]


def test_ids_that_have_closed_are_forgotten_after_a_while_and_when_they_are_many(tmp_path: Path):
    with opened(tmp_path) as first:
        closed = tuple(ClosedId(id=f"{number}", scope="trace", closed_ns=number) for number in range(100))
        first.commit(JournalChange(closed=closed))
    store = StateStore(tmp_path)
    metrics = StateMetrics(MetricRegistry())
    journal = Journal(store, StateSettings(), metrics, clock=lambda: 1_050, closed_for_ns=1_000, max_closed=30)
    journal.start()
    journal.close()
    assert [known.id for known in journal.rows(closed_rows)] == [f"{number}" for number in range(70, 100)]
    store.close()
    store = StateStore(tmp_path)
    journal = Journal(store, StateSettings(), metrics, clock=lambda: 1_090, closed_for_ns=1_000, max_closed=30)
    journal.start()
    journal.close()
    assert [known.id for known in journal.rows(closed_rows)] == [f"{number}" for number in range(90, 100)]
    store.close()


def test_changes_of_many_threads_keep_the_order_of_each(tmp_path: Path):
    with opened(tmp_path) as first:

        def work() -> None:
            for number in range(50):
                entry = first.entry(b"%d" % number)
                first.journal.submit(JournalChange(appended=(entry,)))
                if number % 2:
                    first.journal.submit(JournalChange(removed=(entry.id,)))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(int(entry.body) for entry in left(tmp_path)) == sorted([*range(0, 50, 2)] * 4)


def test_what_comes_together_is_written_together(tmp_path: Path):
    with opened(tmp_path, start=False) as first:

        async def commit_all() -> None:
            entries = [first.entry(b"x") for _ in range(200)]
            commits = [
                asyncio.ensure_future(first.journal.commit(JournalChange(appended=(entry,)))) for entry in entries
            ]
            await asyncio.sleep(0)
            first.journal.start()
            await asyncio.gather(*commits)

        asyncio.run(commit_all())
        assert first.metrics.commit_duration.cells[()].count <= 3
    assert len(left(tmp_path)) == 200


def test_what_was_sent_is_received_since_the_first_start_unless_nothing_ran_for_a_minute(tmp_path: Path):
    with opened(tmp_path) as first:
        begun_ns = first.journal.received_since_ns
    with opened(tmp_path, now_ns=begun_ns + 59_000_000_000) as second:
        assert second.journal.received_since_ns == begun_ns
        second.append(b"x")
    with opened(tmp_path, now_ns=begun_ns + 118_000_000_000) as third:
        assert third.journal.received_since_ns == begun_ns
    with opened(tmp_path, now_ns=begun_ns + 200_000_000_000) as late:
        assert late.journal.received_since_ns == begun_ns + 200_000_000_000


def end_at(directory: Path, work: str) -> None:
    """Open the journal in a process that ends at its first work."""
    process = os.fork()
    if not process:
        Opened(directory, StateSettings(), start=False, now_ns=1_000).journal.begin_work(work)
        os._exit(0)
    os.waitpid(process, 0)


@each_row(
    ("works", "is_known"),
    [(["a", "a", "a"], True), (["a", "a"], False), (["a", "b", "a"], False), (["a", "a", "", "a"], False)],
    ids=["three times the same", "twice", "another one between", "an end in order between"],
)
def test_entries_of_three_processes_that_ended_at_the_same_run_are_known(
    tmp_path_factory: pytest.TempPathFactory, works: list[str], *, is_known: bool
):
    directory = tmp_path_factory.mktemp("state")
    with opened(directory) as first:
        early = first.append(b"early")
    for work in works:
        if work:
            end_at(directory, work)
        else:
            opened_once = Opened(directory, StateSettings(), start=False, now_ns=1_000)
            opened_once.journal.begin_work("a")
            opened_once.close()
    with opened(directory, start=False) as last:
        assert last.journal.begun.crashed_with(early) is is_known
        assert not last.journal.begun.crashed_with(last.entry(b"late").id)


def test_full_journal_asks_to_refuse(tmp_path: Path):
    settings = StateSettings(max_bytes=64 * _MIB)
    with opened(tmp_path, settings) as first:
        ids = [first.append(bytes(32 * _MIB))]
        assert first.journal.refusal is None
        ids.append(first.append(bytes(32 * _MIB)))
        assert first.journal.refusal == ("the journal is full", "journal_full")
        first.append(b"taken before it was full")
        assert first.metrics.unwritten.value(("full",)) == 0
        assert first.journal.failure is None
        first.commit(JournalChange(removed=ids[:1]))
        assert first.journal.refusal is None


def test_full_journal_goes_on_in_memory_where_that_is_wanted_and_is_written_when_there_is_room(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    settings = StateSettings(max_bytes=64 * _MIB, when_full="memory")
    with opened(tmp_path, settings) as first:
        big = first.append(bytes(64 * _MIB))
        unwritten, needed = first.append(b"too much"), first.append(b"still needed")
        assert first.journal.refusal is None
        assert first.metrics.unwritten.value(("full",)) == 2
        assert first.metrics.failed.cells[()] == 1
        assert first.journal.failure is not None
        assert "in memory only" in caplog.text
        first.commit(JournalChange(removed=(big, unwritten)))
        written = first.append(b"room again")
        assert first.journal.failure is None
        assert first.metrics.failed.cells[()] == 0
    assert [entry.id for entry in left(tmp_path)] == [needed, written]


def test_scorecards_are_written_to_a_full_journal_too(tmp_path: Path):
    settings = StateSettings(max_bytes=64 * _MIB, when_full="memory")
    with opened(tmp_path, settings) as first:
        big = first.append(bytes(64 * _MIB))
        own = first.append(b"a scorecard", own=True)
        assert first.metrics.unwritten.value(("full",)) == 0
    assert [entry.id for entry in left(tmp_path)] == [big, own]


def test_ids_that_have_closed_are_remembered_as_long_as_there_are_requests_from_before(tmp_path: Path):
    with opened(tmp_path) as first:
        entry = first.entry(b"undelivered")
        closed = tuple(ClosedId(id=f"{number}", scope="trace", closed_ns=number) for number in range(10))
        first.commit(JournalChange(appended=(entry,), closed=closed))
    hour_ns = 3600 * 10**9
    with opened(tmp_path, now_ns=hour_ns):
        pass
    with opened(tmp_path, start=False) as third:
        assert [known.id for known in third.journal.rows(closed_rows)] == ["7", "8", "9"]
    with opened(tmp_path, now_ns=hour_ns) as fourth:
        fourth.commit(JournalChange(removed=(entry.id,)))
    with opened(tmp_path, now_ns=hour_ns):
        pass
    with opened(tmp_path, start=False) as last:
        assert list(last.journal.rows(closed_rows)) == []
