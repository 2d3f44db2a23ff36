"""What the journal costs: CPU seconds a million spans, beyond a loop that does the same without it, and how long a commit takes.

Each request is committed, marked as delivered, and removed when `--open` later ones have come, as one whose trajectories
are open for a while. Run it on the disk that is to be measured: `python -m tools.bench.journal --directory DIRECTORY`.
"""

import argparse
import asyncio
import itertools
import os
import shutil
import sys
import tempfile
import time
from collections import deque
from pathlib import Path

from msgspec import Struct

from toolgauge.model.journal import JournalChange, JournalEntry
from toolgauge.model.metrics import MetricRegistry
from toolgauge.selfmetrics import StateMetrics
from toolgauge.state.journal import Journal
from toolgauge.state.settings import StateSettings, Sync
from toolgauge.state.store import FILE_NAME, StateStore

_SPAN_BYTES = 780
_SYNCS: tuple[Sync, ...] = ("normal", "full")


class Load(Struct, frozen=True):
    """Requests of so many spans, sent by so many senders of which each waits for its acknowledgement."""

    spans: int
    senders: int


class _NoJournal:
    def __init__(self) -> None:
        self._ids = itertools.count(1)

    def next_id(self) -> int:
        return next(self._ids)

    def submit(self, change: JournalChange) -> None:
        """Do nothing."""

    async def commit(self, change: JournalChange) -> None:  # noqa: ARG002 - as the journal has it
        await asyncio.sleep(0)


async def _send(journal: "Journal | _NoJournal", load: Load, spans: int, still_open: int) -> list[float]:
    body = os.urandom(load.spans * _SPAN_BYTES)
    requests = iter(range(spans // load.spans))
    open_entries: deque[int] = deque()
    taken: list[float] = []

    async def sender() -> None:
        for number in requests:
            # A copy, as each request is an object of its own.
            entry = JournalEntry(
                id=journal.next_id(),
                signal="traces",
                body=body[:-8] + number.to_bytes(8),
                received_ns=number,
                own=False,
            )
            began = time.perf_counter()
            await journal.commit(JournalChange(appended=(entry,)))
            taken.append(time.perf_counter() - began)
            journal.submit(JournalChange(delivered=(entry.id,)))
            open_entries.append(entry.id)
            if len(open_entries) > still_open:
                journal.submit(JournalChange(removed=(open_entries.popleft(),)))

    await asyncio.gather(*(sender() for _ in range(load.senders)))
    return taken


def _cpu_s(
    journal: "Journal | _NoJournal", load: Load, spans: int, still_open: int
) -> tuple[float, float, list[float]]:
    cpu, wall = time.process_time(), time.perf_counter()
    taken = asyncio.run(_send(journal, load, spans, still_open))
    if isinstance(journal, Journal):
        journal.close()
    return time.process_time() - cpu, time.perf_counter() - wall, sorted(taken)


def measure(directory: Path, load: Load, sync: Sync, spans: int, open_bytes: int) -> None:
    """Print one row."""
    still_open = open_bytes // (load.spans * _SPAN_BYTES)
    without, _, _ = _cpu_s(_NoJournal(), load, spans, still_open)
    settings = StateSettings(directory=str(directory), sync=sync)
    store = StateStore(directory, sync=sync)
    metrics = StateMetrics(MetricRegistry())
    journal = Journal(store, settings, metrics, clock=time.time_ns)
    journal.start()
    cpu, wall, taken = _cpu_s(journal, load, spans, still_open)
    transactions = metrics.commit_duration.cells[()].count
    store.close()
    file_mb = (directory / FILE_NAME).stat().st_size / 1e6
    shutil.rmtree(directory)
    print(
        f"| {load.spans} | {load.senders} | {sync} | {(cpu - without) * 1e6 / spans:.1f} | {spans / wall:,.0f} | {len(taken) / transactions:.1f} "
        f"| {taken[len(taken) // 2] * 1e3:.2f} | {taken[len(taken) * 99 // 100] * 1e3:.2f} | {file_mb:.0f} |",
        flush=True,
    )


def main() -> None:
    """Measure both sizes of requests, with one sender and with many, both ways to write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directory", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--spans", type=int, default=200_000)
    parser.add_argument("--open-mb", type=int, default=20, help="requests that are open at a time")
    given = parser.parse_args()
    parent: Path = given.directory
    # As `toolgauge serve` has it.
    sys.setswitchinterval(0.0005)
    print("| spans a request | senders | sync | CPU s a million spans | spans/s | requests a transaction", end="")
    print(" | commit p50 ms | p99 ms | file MB |")
    print("|---|---|---|---|---|---|---|---|---|")
    loads = [Load(spans, senders) for spans in (512, 8) for senders in (1, 16)]
    for sync in _SYNCS:
        for load in loads:
            directory = Path(tempfile.mkdtemp(dir=parent))
            measure(directory, load, sync, given.spans, given.open_mb * 10**6)


if __name__ == "__main__":
    main()
