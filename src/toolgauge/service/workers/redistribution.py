"""Divides the journals of an earlier start between the workers of this one.

With another number of workers traces belong to other workers. A crash in between repeats requests, and loses none.
"""

import logging
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from msgspec.structs import replace

from toolgauge.model.errors import DecodeError, InUseError
from toolgauge.model.journal import JournalChange, JournalEntry
from toolgauge.otlp.request import Divider
from toolgauge.settings import file_path
from toolgauge.state import journal_rows
from toolgauge.state.journal_rows import Group
from toolgauge.state.settings import StateSettings, Sync
from toolgauge.state.store import FILE_NAME, Losses, StateStore

_LOG = logging.getLogger("toolgauge.state")
_MARK = "workers"  # How many workers the journals are for
# Workers of a front that was killed end in order, and have their journals until then.
_FREE_WITHIN_S = 30.0
_LOOK_S = 0.1


def directory_of(state: Path, number: int) -> Path:
    """Return where a worker keeps its journal."""
    return state / f"worker-{number}"


def redistribute(state: Path, top: StateStore, divider: Divider, workers: int, sync: Sync) -> None:
    """Move each request to the journal of its worker. Raise `StartError` when a directory cannot be used."""
    found = sorted(state.glob("worker-*"))
    if workers == 1 and not found:
        return
    mark = state / _MARK
    is_done = mark.exists() and mark.read_text() == str(workers) and not _sizes(top).entries
    with ExitStack() as opened:
        stores = {path: _opened(path, sync, opened) for path in found if (path / FILE_NAME).exists()}
        wanted = [] if workers == 1 else [directory_of(state, number) for number in range(workers)]
        targets = [stores.get(path) or _opened(path, sync, opened) for path in wanted] or [top]
        sources = (top, *stores.values())
        for source in sources:
            # A worker counts them in its metrics.
            if source not in targets and any(losses := source.take_losses()):
                targets[0].add_losses(losses)
        if is_done:
            return
        for source in sources:
            if not source.is_whole():
                targets[0].add_losses(Losses(known=_sizes(source).entries))
                source.begin_again("pages of it are damaged", 0)
        moved = sum(_move(source, targets, divider) for source in sources)
        for source in sources:
            _move_closed(source, targets, divider)
        # Have new journals know since when nothing is missing.
        times: list[tuple[int | None, int | None]] = []
        for source in sources:
            with source.reading() as connection:
                times.append(connection.execute("SELECT since_ns, alive_ns FROM process").fetchone())
        since = [since_ns for since_ns, alive_ns in times if since_ns is not None and alive_ns is not None]
        alive = [alive_ns for _, alive_ns in times if alive_ns is not None]
        for target in targets:
            with target.transaction() as connection:
                if len(since) < len(alive):
                    # Entries of a damaged journal may be missing in any target.
                    journal_rows.write_loss(connection)
                elif since:
                    connection.execute(
                        "UPDATE process SET since_ns = ?, alive_ns = ? WHERE since_ns IS NULL", (max(since), max(alive))
                    )
        if moved:
            _LOG.info("divided the requests in the journals between %d workers: %d", workers, moved)
    for path in set(found).difference(wanted):
        for file in path.iterdir():
            file.unlink()
        path.rmdir()
    mark.write_text(str(workers))


def take_over_journals(settings: StateSettings) -> None:
    """Have a single process find in its journal what workers have left. Raise `StartError` when a directory cannot be used."""
    if settings.directory is None:
        return
    state = file_path(settings.directory)
    if any(state.glob("worker-*")):
        with closing(StateStore(state, sync=settings.sync)) as top:
            redistribute(state, top, Divider(1), 1, settings.sync)


def _opened(path: Path, sync: Sync, opened: ExitStack) -> StateStore:
    """Open a worker's journal, as soon as the process has ended that has it."""
    until_s = time.monotonic() + _FREE_WITHIN_S
    while True:
        try:
            store = StateStore(path, sync=sync)
        except InUseError:
            if time.monotonic() > until_s:
                raise
            time.sleep(_LOOK_S)
        else:
            opened.callback(store.close)
            return store


def _sizes(store: StateStore) -> journal_rows.Sizes:
    with store.reading() as connection:
        return journal_rows.sizes(connection)


def _move(source: StateStore, targets: Sequence[StateStore], divider: Divider) -> int:
    """Move the entries that the source has now; return how many."""
    moved, newest = 0, _sizes(source).newest
    for row in source.rows(journal_rows.entry_rows):
        if row.id > newest:
            break
        with source.reading() as connection:
            body = journal_rows.body(connection, row)
        if body is not None:
            moved += _move_entry(source, targets, divider, row.entry(body))
        elif source not in targets:
            targets[0].add_losses(Losses(known=1))
            _remove(source, row.id)
    return moved


def _move_entry(source: StateStore, targets: Sequence[StateStore], divider: Divider, entry: JournalEntry) -> bool:
    try:
        parts = divider.divide(entry.signal, entry.body)
    except DecodeError:
        return False
    if len(parts) == 1 and targets[parts[0].worker] is source:
        return False
    for part in parts:
        target = targets[part.worker]
        with target.transaction() as connection:
            id_ = journal_rows.sizes(connection).newest + 1
            group = Group()
            group.appended[id_] = replace(entry, id=id_, body=part.body)
            journal_rows.write(connection, group)
    _remove(source, entry.id)
    return True


def _remove(source: StateStore, id_: int) -> None:
    group = Group()
    group.removed.add(id_)
    with source.transaction() as connection:
        journal_rows.write(connection, group)


def _move_closed(source: StateStore, targets: Sequence[StateStore], divider: Divider) -> None:
    """Write the closed traces of each worker to its journal; closed conversations and their shown values go to all workers."""
    closed = list(source.rows(journal_rows.closed_rows))
    shown = [
        replace(row, values=replace(row.values, gap=row.values.gap or "incomplete"))
        for row in source.rows(journal_rows.shown_rows)
    ]
    for place, target in enumerate(targets):
        if target is source:
            continue
        group = Group()
        group.closed = [
            row
            for row in closed
            if divider.remembers or row.scope == "conversation" or divider.worker_of(row.id) == place
        ]
        group.add(JournalChange(shown=shown))
        if group:
            with target.transaction() as connection:
                journal_rows.write(connection, group)
    if source not in targets:
        with source.transaction() as connection:
            connection.execute("DELETE FROM closed")
            connection.execute("DELETE FROM shown")
