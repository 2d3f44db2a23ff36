"""A journal that is opened, with its store and its metrics, and what a later process finds."""

import asyncio
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from toolgauge.model.journal import JournalChange, JournalEntry
from toolgauge.model.metrics import MetricRegistry
from toolgauge.selfmetrics import StateMetrics
from toolgauge.state.journal import Journal
from toolgauge.state.settings import StateSettings
from toolgauge.state.store import StateStore

_DEFAULTS = StateSettings()


class Opened:
    """A journal with its metrics; `now_ns` is the clock's."""

    def __init__(self, directory: Path, settings: StateSettings, *, start: bool, now_ns: int) -> None:
        self.now_ns = now_ns
        self.metrics = StateMetrics(MetricRegistry())
        self.store = StateStore(directory, sync=settings.sync)
        self.journal = Journal(self.store, settings, self.metrics, clock=lambda: self.now_ns, try_again_s=0.05)
        if start:
            self.journal.start()

    def append(self, body: bytes, *, own: bool = False) -> int:
        entry = self.entry(body, own=own)
        asyncio.run(self.journal.commit(JournalChange(appended=(entry,))))
        return entry.id

    def entry(self, body: bytes, *, own: bool = False) -> JournalEntry:
        return JournalEntry(id=self.journal.next_id(), signal="traces", body=body, received_ns=7, own=own)

    def commit(self, change: JournalChange) -> None:
        asyncio.run(self.journal.commit(change))

    def close(self) -> None:
        self.journal.close()
        self.store.close()


@contextmanager
def opened(
    directory: Path, settings: StateSettings = _DEFAULTS, *, start: bool = True, now_ns: int = 1_000
) -> Generator[Opened]:
    made = Opened(directory, settings, start=start, now_ns=now_ns)
    try:
        yield made
    finally:
        made.close()


def left(directory: Path) -> Sequence[JournalEntry]:
    with opened(directory, start=False) as later:
        return tuple(later.journal.entries())
