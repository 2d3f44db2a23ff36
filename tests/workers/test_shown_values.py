"""What conversations have shown is handed on when the number of workers changes, as a part of it."""

from pathlib import Path

import pytest

from toolgauge.model.journal import JournalChange, ShownValues
from toolgauge.model.left_out import EarlierValues
from toolgauge.otlp.request import Divider
from toolgauge.service.workers.redistribution import directory_of, redistribute
from toolgauge.state import journal_rows
from toolgauge.state.store import StateStore


def write(store: StateStore, *shown: ShownValues) -> None:
    group = journal_rows.Group()
    group.add(JournalChange(shown=shown))
    with store.transaction() as connection:
        journal_rows.write(connection, group)


def read(store: StateStore) -> list[ShownValues]:
    with store.reading() as connection:
        return [shown for _, shown in journal_rows.shown_rows(connection, -1)]


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2)])
def test_other_workers_have_a_part_of_what_conversations_have_shown(tmp_path: Path, before: int, after: int):
    whole = EarlierValues(bytes(8), has_traces=True, has_user=True)
    part = EarlierValues(bytes(8), has_traces=True, has_user=True, gap="incomplete")
    top = StateStore(tmp_path)
    if before == 1:
        write(top, ShownValues(conversation=b"c" * 16, values=whole))
    else:
        worker = StateStore(directory_of(tmp_path, 1))
        write(worker, ShownValues(conversation=b"c" * 16, values=whole))
        worker.close()
    redistribute(tmp_path, top, Divider(after), after, "normal")
    workers = [StateStore(directory_of(tmp_path, number)) for number in range(after)] if after > 1 else [top]
    assert [read(one) for one in workers] == [[ShownValues(conversation=b"c" * 16, values=part)]] * after
    for one in {top, *workers}:
        one.close()
