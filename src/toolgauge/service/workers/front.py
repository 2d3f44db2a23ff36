"""The front of several workers: it listens, divides requests and passes the parts on; one address, one set of counts.

Health, metrics, the web view, the watch over scores and its webhooks are here; workers read, score and send on.
"""

import asyncio
import contextlib
import os
import sys
import uuid
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from hashlib import blake2b
from typing import TypeAlias

from toolgauge.config.model import Config
from toolgauge.model.delivery import Accepted, Answer, Invalid, Outgoing, Refused, Signal
from toolgauge.model.errors import DecodeError
from toolgauge.model.metrics import Counter
from toolgauge.otlp.request import Divider, Part
from toolgauge.pipeline.stages import ignore
from toolgauge.recognize.conventions import CONVERSATION, SESSION
from toolgauge.score.criterion import Criterion
from toolgauge.service.destinations import make_recording
from toolgauge.service.health import parts_of_process
from toolgauge.service.pipeline_factory import make_watcher
from toolgauge.service.process import MemoryGuard, Relief, SteadyClock, cancelled
from toolgauge.service.runtime import Losses, Runtime
from toolgauge.service.workers.channel import Kind, packed
from toolgauge.service.workers.merged_metrics import MergedRegistry
from toolgauge.service.workers.redistribution import redistribute
from toolgauge.service.workers.worker_observations import Observations, Viewers
from toolgauge.service.workers.worker_process import Unsettled, WorkerProcess, Workers
from toolgauge.settings import file_path
from toolgauge.state.store import StateStore

_SNAPSHOT_EVERY_S = 1.0
_SNAPSHOT_WITHIN_S = 1.0  # A scrape waits so long for workers that are busy; then it has their last snapshots
# A worker may take so long until it has scored and judged all open trajectories.
_LAST_METRICS_WITHIN_S = 17.0
_ENDED_WITHIN_S = 27.0
_IN_FLIGHT_PART = 2  # Of the inbox of a worker, this part may wait to be put there
# The envelope of a body of this size may take tens of milliseconds to divide, for which other senders should not wait.
_LARGE_BYTES = 1024 * 1024
_COPIES_ELSEWHERE = 2  # While a worker reads a request, beside the copies of a process that reads it alone
_MAX_TRIED = 1000  # Requests of which parts were taken. Beyond them the oldest are forgotten, and taken twice.
_Try: TypeAlias = asyncio.Future[Answer]


class DividedIntake:
    """Divides a request between the workers, and acknowledges it when every part is accepted.
    When its sender repeats a refused request, the parts that were accepted are not taken twice.
    """

    def __init__(
        self,
        divider: Divider,
        workers: Sequence[WorkerProcess],
        *,
        has_memory: Callable[[int], bool],
        refused: Callable[[int, str], None],
        on_accepted: Callable[[Signal, bytes], None],
    ) -> None:
        self.divider = divider
        self._workers = workers
        self._has_memory = has_memory
        self._refused = refused
        self._on_accepted = on_accepted
        self._is_closed = False
        # The last try of each worker's part of a request that was refused as a whole, the oldest request first.
        self._tried: dict[bytes, dict[int, _Try]] = {}

    def close(self) -> None:
        """Refuse everything from here on."""
        self._is_closed = True

    async def consume(self, signal: Signal, body: bytes, sender: str | None) -> Answer:
        """Take a request when every worker has taken its part."""
        try:
            if len(body) < _LARGE_BYTES or self.divider.remembers:
                parts = self.divider.divide(signal, body)
            else:
                parts = await asyncio.to_thread(self.divider.divide, signal, body)
        except DecodeError as error:
            return Invalid(f"cannot decode the request: {error}", error.reason)
        if self._is_closed or not self._has_memory(len(body)):
            message, reason = ("shutting down", "shutdown") if self._is_closed else ("memory is short", "memory")
            self._refused(sum(part.items for part in parts) if signal == "traces" else 0, reason)
            return Refused(message)
        answer = await self._hand_over_all(signal, body, parts, sender)
        if isinstance(answer, Accepted):
            self._on_accepted(signal, body)
        return answer

    async def _hand_over_all(self, signal: Signal, body: bytes, parts: Sequence[Part], sender: str | None) -> Answer:
        key = blake2b(body, digest_size=16).digest() if self._tried else b""
        tried = self._tried.pop(key, {})
        is_taken = False
        try:
            works = [self._hand_over(signal, part, sender, tried) for part in parts]
            # Most requests have one part, and gathering costs as much as handing over.
            answers = [await works[0]] if len(works) == 1 else await asyncio.gather(*works)
            left = [answer for answer in answers if not isinstance(answer, Accepted)]
            is_taken = not left
            return Accepted() if is_taken else left[0]
        finally:
            # Also when the sender has given up.
            if not is_taken and any(map(_may_be_taken, tried.values())):
                self._tried[key or blake2b(body, digest_size=16).digest()] = tried
                if len(self._tried) > _MAX_TRIED:
                    del self._tried[next(iter(self._tried))]

    async def _hand_over(self, signal: Signal, part: Part, sender: str | None, tried: dict[int, _Try]) -> Answer:
        last = tried.get(part.worker)
        if last is None or not _may_be_taken(last):
            spans = part.items if signal == "traces" else 0
            work = self._workers[part.worker].consume(signal, part.body, sender, spans)
            last = tried[part.worker] = asyncio.ensure_future(work)
        answer = await asyncio.shield(last)
        return answer.later.result() if isinstance(answer, Unsettled) and answer.later.done() else answer


def _may_be_taken(last: _Try) -> bool:
    """Return whether a worker has taken its part, or still may."""
    if not last.done():
        return True
    answer = None if last.cancelled() or last.exception() is not None else last.result()
    if isinstance(answer, Unsettled):
        return _may_be_taken(answer.later)
    return isinstance(answer, Accepted)


class Front(Runtime):
    """The runtime of a front; its workers read the configuration from `config_options`, `viewers` see their scorecards."""

    def __init__(
        self, config: Config, criteria: Sequence[Criterion], config_options: Sequence[str], *, viewers: Viewers
    ) -> None:
        clock = SteadyClock()
        registry = MergedRegistry(clock)
        super().__init__(config, registry, clock, uuid.uuid4().hex)
        count = number_of_workers(config)
        self._state = config.state
        self.workers = workers = Workers(registry, self.metrics, has_journal=config.state.directory is not None)
        own = (f"--workers={count}", f"--hop-id={self.hop_id}")
        command = [sys.executable, "-m", "toolgauge", "worker", *own, *config_options]
        max_bytes = max(1, config.inbox.max_bytes // count // _IN_FLIGHT_PART)
        workers.processes = tuple(
            WorkerProcess(number, command, max_bytes=max_bytes, on_workers=workers, clock=clock)
            for number in range(count)
        )
        limit = config.memory.limit_of(count)
        self.memory = MemoryGuard(limit, self.metrics, resident=workers.resident, elsewhere=_COPIES_ELSEWHERE)
        self.store = StateStore.of(config.state)
        watcher = make_watcher(config, self.metrics)
        self.watching = self._watch(watcher, criteria, self.put)
        self.recording = make_recording(config, self.metrics)
        self.divided = DividedIntake(
            Divider(count, conversation_keys(criteria)),
            workers.processes,
            has_memory=self.memory.admits,
            refused=workers.refused,
            on_accepted=(lambda _signal, _body: None) if self.recording is None else self.recording.put,
        )
        self.observing = workers.observing = Observations(
            watcher=watcher,
            on_regressions=ignore if self.watching is None else self.watching.regressed,
            on_notices=self.notifier.add,
            on_feedback=self.hear,
            viewers=viewers,
            metrics=self.metrics,
            clock=clock,
        )
        self.run = self.observing.run
        self._listen(config, self.divided, lambda: workers.components() | parts_of_process(self.memory, self.start_ns))
        self._refreshing: asyncio.Task[None] | None = None
        if self.endpoint is not None:
            self.endpoint.refresh = self.refresh

    @property
    def is_empty(self) -> bool:
        """Whether nothing is in any worker that could leave."""
        return self.workers.is_empty

    def hurry(self) -> None:
        """Kill workers that hang sooner: a reload would wait for them, and the stop for the reload."""
        for process in self.workers.processes:
            process.hurry()

    def kill(self) -> None:
        """End all workers at once."""
        for process in self.workers.processes:
            process.kill()

    async def refresh(self) -> None:
        """Bring the metrics of all workers up to date."""
        asked = [process.ask(Kind.ASK) for process in self.workers.processes if process.takes]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SNAPSHOT_WITHIN_S):
                await asyncio.gather(*asked)

    async def _start_scoring(self, undo: AsyncExitStack) -> None:
        undo.push_async_callback(self.observing.stop)
        self.observing.start()
        processes = self.workers.processes
        if self._state.directory is not None and self.store is not None:
            directory, divider = file_path(self._state.directory), self.divided.divider
            await asyncio.to_thread(redistribute, directory, self.store, divider, len(processes), self._state.sync)
        undo.push_async_callback(self._end_workers, 0)

        async def refresh_regularly() -> None:
            while True:
                with self.faults.survived():
                    await self.refresh()
                await asyncio.sleep(_SNAPSHOT_EVERY_S)

        self._refreshing = asyncio.create_task(refresh_regularly())
        undo.push_async_callback(cancelled, self._refreshing)
        await asyncio.gather(*(process.start() for process in processes))
        self.memory.check()

    async def _stop_scoring(self, began_ns: int) -> Losses:
        self.divided.close()
        await cancelled(self._refreshing)
        processes = self.workers.processes
        for process in processes:
            process.hurry()
            process.send(Kind.STOP, began_ns.to_bytes(8))
        # When all workers have scored, the watch ends, and one worker sends the last metrics of all.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_METRICS_WITHIN_S - (self.clock() - began_ns) / 1e9):
                await asyncio.gather(*(process.has_last_metrics() for process in processes))
        with self.faults.survived():
            await self.observing.stop()
        await self._stop_watching()
        last = packed(self.emitter.metrics(self.clock()))
        for process in processes:
            if process.send(Kind.FINISH, last):
                last = b""
        await self._end_workers(max(1.0, _ENDED_WITHIN_S - (self.clock() - began_ns) / 1e9))
        losses = Losses.total([each.losses for each in processes if each.losses is not None])
        spans = (metric for metric in self.workers.registry if metric.name == self.metrics.spans.name)
        died = sum(
            value
            for metric in spans
            if isinstance(metric, Counter)
            for labels, value in metric.cells.items()
            if labels[1] == "worker_died"
        )
        return replace(losses, died=int(died))

    async def _end_workers(self, timeout_s: float) -> None:
        await asyncio.gather(*(process.end(timeout_s) for process in self.workers.processes))

    def relieve(self, relief: Relief) -> None:
        """Give back memory soon."""
        self.observing.shed()
        for process in self.workers.processes:
            process.send(Kind.RELIEVE, bytes((relief,)))

    def put(self, outgoing: Outgoing) -> bool:
        """Have any worker send a request of our own; False when none runs."""
        return any(one.takes and one.send(Kind.OUTGOING, packed(outgoing)) for one in self.workers.processes)


def number_of_workers(config: Config) -> int:
    """Return how many workers are wanted: with `auto` one for each processor that this process may use."""
    if config.workers != "auto":
        return config.workers
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def conversation_keys(criteria: Sequence[Criterion]) -> tuple[str, ...]:
    """Return the attributes by which traces are divided: none unless a criterion looks at conversations."""
    return (CONVERSATION, SESSION) if any(each.scope == "conversation" for each in criteria) else ()
