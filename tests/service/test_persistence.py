"""What a service takes up of the process before it."""

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.rows import each_row
from tests.state.support import opened
from tests.walk.support import Walk
from toolgauge.model.journal import JournalEntry
from toolgauge.model.metrics import MetricRegistry
from toolgauge.selfmetrics import StateMetrics
from toolgauge.service.process import Faults
from toolgauge.service.service import take_up
from toolgauge.state.journal import Journal
from toolgauge.state.settings import StateSettings
from toolgauge.state.store import StateStore


def recover(directory: Path, take_up_entry: Callable[[JournalEntry, bool], None]) -> None:
    """Take up the journal; the pipeline does this with an entry, which is to be read or not."""
    walk = Walk()

    def recovered(entry: JournalEntry, _now_ns: int, *, is_read: bool) -> None:
        take_up_entry(entry, is_read)

    settings = StateSettings.model_validate({"directory": str(directory)})
    with pytest.MonkeyPatch.context() as patched, closing(StateStore(directory)) as store:
        patched.setattr(walk.pipeline, "recover", recovered)
        journal = Journal(store, settings, StateMetrics(MetricRegistry()), clock=lambda: 1_000)
        take_up(journal, walk.pipeline, Faults(walk.metrics), lambda: 1_000, lambda: False)
        journal.close()


@each_row(("crashes", "is_read"), [(2, True), (3, False)])
def test_a_request_that_ended_three_processes_goes_on_unread(
    tmp_path_factory: pytest.TempPathFactory, crashes: int, *, is_read: bool
):
    directory = tmp_path_factory.mktemp("state")
    with opened(directory) as first:
        first.append(b"deadly")
    for _ in range(crashes):
        process = os.fork()
        if not process:
            recover(directory, lambda _entry, _is_read: os._exit(0))
        os.waitpid(process, 0)
    seen: list[tuple[bytes, bool]] = []
    recover(directory, lambda entry, is_read: seen.append((entry.body, is_read)))
    assert seen == [(b"deadly", is_read)]
