"""Announces regressions, and saves the state of the detectors.

Regressions are saved before they are announced, so that a restart knows them; other state is saved every few seconds.
"""

import asyncio
import functools
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias, TypeVar

from toolgauge.export.emitter import Emitter
from toolgauge.export.regression_events import IncidentLines
from toolgauge.export.webhooks import Webhooks, notice_title
from toolgauge.model.delivery import Outgoing
from toolgauge.model.errors import StartError, StateError
from toolgauge.model.notices import Notice
from toolgauge.model.regressions import Regression, ToolDefinitionChange
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.service.process import Faults, beside, cancelled
from toolgauge.settings import HOUR, MINUTE
from toolgauge.state.store import StateStore
from toolgauge.watch.watcher import Watcher

_LOG = logging.getLogger("toolgauge")
_SAVE_EVERY_S = 5.0
# A disk that hangs silences no alarm, and does not keep the process from ending.
_SAVE_WITHIN_S = 2.0
_T = TypeVar("_T")


class OnWorker(Protocol):
    """Has the worker do something between two pieces of its own work."""

    async def __call__(self, work: Callable[[], _T]) -> _T:
        """Return the result."""
        ...


# Rows to save, and to remove, and the announcement that follows.
_Batch: TypeAlias = tuple[dict[bytes, bytes], set[bytes], Callable[[], None] | None]


def send_own(outgoings: Iterable[Outgoing], put: Callable[[Outgoing], bool], metrics: SelfMetrics) -> None:
    """Send requests of our own to the destinations; count those without room."""
    for outgoing in outgoings:
        if not put(outgoing):
            metrics.own_dropped.add(1, ("", outgoing.signal, "queue_full"))


def log_incidents(regressions: Sequence[Regression], lines: IncidentLines) -> None:
    """Announce regressions in the log: a warning for each incident that begins."""
    for first, is_new, line in lines.add(regressions):
        _LOG.log(logging.WARNING if is_new else logging.INFO, "%s", line, extra={"incident": first.incident})


PER_MINUTE = 10
_MAX_KNOWN = 10_000


class Notifier:
    """Announces failed runs in the log and by webhooks, one of each incident. Belongs to the thread that scores.

    An incident is a criterion that fails for one service, agent and tool, until an hour passes without it.
    """

    def __init__(self, webhooks: Webhooks, clock: Callable[[], int]) -> None:
        self._webhooks = webhooks
        self._clock = clock
        # Incidents beyond the limit of a minute since the last one that was announced; each is announced when it fails again.
        self.left_out = 0
        self._minute_ns = self._announced = 0
        # When each incident was last heard of, the least recently first; announced runs are beside them.
        self.heard_ns: dict[tuple[str | None, ...], int] = {}

    def add(self, notices: Sequence[Notice]) -> None:
        """Announce the runs that begin an incident."""
        for notice in notices:
            if not self.is_new(notice, self._clock()):
                continue
            others, self.left_out = self.left_out, 0
            more = f" ({others} others within a minute were not announced)" if others else ""
            # Without the explanation, which holds values where `redact` shows them.
            extra = {"trace_id": notice.trace_id, "criterion": notice.criterion}
            _LOG.warning("%s (trace %s)%s", notice_title(notice), notice.trace_id, more, extra=extra)
            self._webhooks.notify((notice,))

    def is_new(self, notice: Notice, now_ns: int) -> bool:
        """Return whether it begins an incident, and is to be announced."""
        incident = notice.service, notice.agent, notice.tool, notice.criterion
        # The agent of an open run may not be known.
        run = notice.trace_id, notice.tool, notice.criterion
        last_ns = self.heard_ns.pop(incident, None)
        is_new = run not in self.heard_ns and (last_ns is None or now_ns - last_ns >= HOUR)
        if is_new:
            if now_ns - self._minute_ns >= MINUTE:
                self._minute_ns, self._announced = now_ns, 0
            if self._announced >= PER_MINUTE:
                self.left_out += 1
                return False
            self._announced += 1
            self.heard_ns[run] = now_ns
        self.heard_ns[incident] = now_ns
        while len(self.heard_ns) > _MAX_KNOWN:
            del self.heard_ns[next(iter(self.heard_ns))]
        return is_new


class Watching:
    """The watcher of a running service. `regressed` belongs to the worker; `streams` are measures of criteria by name and revision."""

    def __init__(
        self,
        watcher: Watcher,
        metrics: SelfMetrics,
        *,
        store: StateStore | None,
        streams: Mapping[tuple[str, str], str],
        emitter: Emitter,
        webhooks: Webhooks,
        put: Callable[[Outgoing], bool],
        faults: Faults,
    ) -> None:
        self._faults = faults
        self._watcher = watcher
        self._metrics = metrics
        self._streams = streams
        self._store = store
        self._emitter, self._webhooks, self._put = emitter, webhooks, put
        self._lines = IncidentLines()
        watcher.on_tool_changes = self._tools_changed
        # To be set before the start; belongs to the worker.
        self.on_tool_changes: Callable[[Sequence[ToolDefinitionChange]], None] = lambda _changes: None
        self._batches: asyncio.Queue[_Batch | None] = asyncio.Queue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: tuple[asyncio.Task[None], ...] = ()
        self._on_worker: OnWorker | None = None
        # Rows that could not be written yet.
        self._unsaved: dict[bytes, bytes] = {}
        self._unremoved: set[bytes] = set()
        self._saving: asyncio.Future[None] | None = None
        self._stored: set[bytes] = set()  # Keys of the rows that the store holds: only these need to be removed

    def restore(self) -> Sequence[Regression]:
        """Read the saved state before the worker starts; return active regressions. Raise `StartError` when it cannot be read."""
        self._metrics.watch.state_saved.set(float(self._store is not None))
        if self._store is None:
            return ()
        try:
            rows = self._store.load_watch()
        except StateError as error:
            raise StartError(str(error)) from error
        self._stored = set(rows)
        damaged = self._watcher.restore(rows)
        # Criteria that went, or mean something else, while nothing ran: their alarms end with the first tick.
        changed = self._watcher.keep(self._streams)
        if changed:
            streams = sum(changed.values())
            what = "1 criterion" if len(changed) == 1 else f"{len(changed)} criteria"
            learn = "1 stream learns" if streams == 1 else f"{streams} streams learn"
            _LOG.warning("%s changed: %s anew: %s", what, learn, ", ".join(sorted(changed)))
        if damaged:
            _LOG.error("%d saved detector states are damaged: their streams learn a new baseline", damaged)
        active = self._watcher.active()
        self._lines = IncidentLines(active)
        return active

    def start(self, on_worker: OnWorker) -> None:
        """Begin to save and to announce."""
        if self._store is None:
            _LOG.warning(
                "`state.directory` is not set: what the detectors of regressions learn is lost with this process"
            )
        self._on_worker = on_worker
        self._loop = asyncio.get_running_loop()
        self._tasks = (asyncio.create_task(self._work()), asyncio.create_task(self._save_regularly()))

    async def stop(self) -> None:
        """Save and announce the rest. Works twice and without a start."""
        if self._tasks:
            work, saving = self._tasks
            self._tasks = ()
            # A worker that was given up answers no question: nothing waits for this one.
            await cancelled(saving)
            await self._put_changes()
            self._batches.put_nowait(None)
            await work

    def regressed(self, regressions: Sequence[Regression]) -> None:
        """Have these saved and announced soon. Belongs to the worker."""
        kept = tuple(regressions)

        def announce() -> None:
            log_incidents(kept, self._lines)
            send_own(self._emitter.regressions(kept), self._put, self._metrics)
            self._webhooks.put(kept)

        self._save_and(announce)

    def _tools_changed(self, changes: Sequence[ToolDefinitionChange], capped: int) -> None:
        self._emitter.count_tool_changes(changes, capped)
        if changes:
            self.on_tool_changes(changes)
            self._save_and(lambda: send_own(self._emitter.tool_changes(changes), self._put, self._metrics))

    def _save_and(self, announce: Callable[[], None]) -> None:
        batch = (*self._changes(), announce)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._batches.put_nowait, batch)

    def _changes(self) -> tuple[dict[bytes, bytes], set[bytes]]:
        # Writing them takes as much CPU as watching does.
        if self._store is not None:
            return self._watcher.changes()
        self._watcher.forget_changes()
        return {}, set()

    async def ask(self, question: Callable[[Watcher], _T]) -> _T:
        """Return the watcher's answer, which it gives between two pieces of the worker's work."""
        asked = functools.partial(question, self._watcher)
        return asked() if self._on_worker is None else await self._on_worker(asked)

    async def _put_changes(self) -> None:
        # Behind the batches of the worker: an older row must not be written over a newer one.
        with self._faults.survived():
            changed, removed = await self.ask(lambda _watcher: self._changes())
            self._batches.put_nowait((changed, removed, None))

    async def _save_regularly(self) -> None:
        while True:
            await asyncio.sleep(_SAVE_EVERY_S)
            await self._put_changes()

    async def _work(self) -> None:
        while (batch := await self._batches.get()) is not None:
            changed, removed, announce = batch
            with self._faults.survived():
                await self._save(changed, removed)
            if announce is not None:
                with self._faults.survived():
                    announce()

    async def _save(self, changed: Mapping[bytes, bytes], removed: set[bytes]) -> None:
        """Write the changed rows, and rows that could not be written before."""
        if self._store is None:
            return
        self._unsaved = {row: value for row, value in self._unsaved.items() if row not in removed} | dict(changed)
        self._unremoved = (self._unremoved.difference(changed) | removed) & self._stored
        if not self._unsaved and not self._unremoved:
            return
        try:
            if self._saving is not None and not self._saving.done():
                raise TimeoutError
            save = functools.partial(self._store.save_watch, self._unsaved, self._unremoved)
            self._saving = asyncio.ensure_future(beside(save, "watch"))
            async with asyncio.timeout(_SAVE_WITHIN_S):
                await asyncio.shield(self._saving)
        except (StateError, TimeoutError) as error:
            self._metrics.watch.state_saved.set(0.0)
            if isinstance(error, TimeoutError):
                # They may be saved yet.
                self._stored |= self._unsaved.keys()
            reason = str(error) or "the disk does not answer"
            _LOG.error("the state of the detectors cannot be saved, which is tried again: %s", reason)
            return
        self._metrics.watch.state_saved.set(1.0)
        self._stored = self._stored - self._unremoved | self._unsaved.keys()
        self._unsaved, self._unremoved = {}, set()
