"""Workers as the front sees them: spawned, handed requests, and started again when they die.

Requests that a dead worker has not answered are refused with a retryable status. So are those for a worker that hangs, which is
killed after a while. Its silence is counted in ticks of this process: the time in which the front was stopped does not count.
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count

from toolgauge.model.delivery import Accepted, Answer, Invalid, Refused, Signal, Unsupported
from toolgauge.model.errors import ConfigError, StartError, ToolgaugeError
from toolgauge.selfmetrics import SelfMetrics, WorkersMetrics
from toolgauge.service.health import ComponentHealth
from toolgauge.service.process import own_bytes, resident_bytes
from toolgauge.service.runtime import Losses
from toolgauge.service.workers.channel import Channel, Frame, Kind, request_head
from toolgauge.service.workers.merged_metrics import MergedRegistry, Snapshot
from toolgauge.service.workers.worker_observations import Observations

_LOG = logging.getLogger("toolgauge")
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 30.0  # One that starts again and again is given more time each time
_WELL_AFTER_S = 60.0  # One that has run so long had no trouble with its start
# As long as a request waits for room in the inbox of a single process, and for the worker to see that there is.
_PATIENCE_S = 1.0
_ENDS_WITHIN_S = 5.0
_TICK_S = 0.5
_REFUSED_AFTER, _KILLED_AFTER, _KILLED_AT_THE_END_AFTER = 10, 60, 20  # Silent ticks


class Unsettled(Refused, frozen=True, kw_only=True):
    """The refusal of a request that a worker has not answered in time; `later` is its answer."""

    later: asyncio.Future[Answer]


@dataclass(slots=True)
class _Waiting:
    answer: asyncio.Future[Answer]
    spans: int
    size: int
    is_refused: bool = False


@dataclass(slots=True)
class _Life:
    process: asyncio.subprocess.Process
    channel: Channel
    ready: asyncio.Future[None]
    began_s: float
    reading: asyncio.Task[None] = field(init=False)
    watching: asyncio.Task[None] = field(init=False)
    # Ticks since the last beat of its thread, and since the last frame of its event loop.
    beat_ticks: int = 0
    frame_ticks: int = 0
    is_silent: bool = False
    is_hung: bool = False
    waiting: dict[int, _Waiting] = field(default_factory=dict)
    questions: dict[int, asyncio.Future[Frame | None]] = field(default_factory=dict)
    bytes_waiting: int = 0
    accepted: int = 0
    accepted_ns: int = 0
    refused: int = 0


class WorkerProcess:
    """The worker with a number, from 0. `command` starts it, but for its socket and its pipe."""

    def __init__(
        self,
        number: int,
        command: Sequence[str],
        *,
        max_bytes: int,
        on_workers: "Workers",
        clock: Callable[[], int],
        tick_s: float = _TICK_S,
    ) -> None:
        self.number = number
        self._command = tuple(command)
        self._max_bytes = max_bytes
        self._on = on_workers
        self._clock = clock
        self._tick_s = tick_s
        self._numbers = count(1)
        self._life: _Life | None = None
        self._running: asyncio.Task[None] | None = None
        self._freed = asyncio.Event()
        self._is_ending = False
        self._lost_ns = 0  # Until when spans were acknowledged that died with its earlier process
        self._last: asyncio.Event = asyncio.Event()
        self.is_ready = False
        self.losses: Losses | None = None
        self.down: ComponentHealth | None = None  # Its health where it does not run; `None` while it does

    @property
    def pid(self) -> int | None:
        """The id of its process; `None` without a process."""
        return None if self._life is None else self._life.process.pid

    @property
    def takes(self) -> bool:
        """Whether it takes requests."""
        return self._life is not None and self.is_ready and not self._life.is_silent

    async def start(self) -> None:
        """Start it for the first time. Raise `StartError` or `ConfigError` when it cannot."""
        await self._begin()
        self._running = asyncio.create_task(self._keep_running())

    async def consume(self, signal: Signal, body: bytes, sender: str | None, spans: int) -> Answer:
        """Hand it a request, and return its answer."""
        until_s = time.monotonic() + _PATIENCE_S
        while (life := self._life) is not None and self.takes:
            if not life.bytes_waiting or life.bytes_waiting + len(body) <= self._max_bytes:
                break
            self._freed.clear()
            try:
                async with asyncio.timeout(until_s - time.monotonic()):
                    await self._freed.wait()
            except TimeoutError:
                life = None
                break
        if life is None or not self.takes:
            self._on.refused(spans)
            return Refused("a worker is being started again, hangs, or cannot keep up")
        number = self._number()
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        life.waiting[number] = _Waiting(answer, spans, len(body))
        life.bytes_waiting += len(body)
        life.channel.send(Kind.REQUEST, number, request_head(signal, sender), body)
        return await answer

    def send(self, kind: Kind, content: bytes = b"") -> bool:
        """Send it something that has no answer; False when it does not run."""
        if self._life is None or not self.is_ready:
            return False
        self._life.channel.send(kind, 0, content)
        return True

    async def ask(self, kind: Kind, content: bytes = b"") -> Frame | None:
        """Ask it something; `None` when it does not run, or dies meanwhile."""
        life = self._life
        if life is None or not self.is_ready:
            return None
        number = self._number()
        answer: asyncio.Future[Frame | None] = asyncio.get_running_loop().create_future()
        life.questions[number] = answer
        life.channel.send(kind, number, content)
        try:
            return await answer
        finally:
            life.questions.pop(number, None)

    def hurry(self) -> None:
        """Kill it sooner if it hangs, and do not start it again."""
        self._is_ending = True

    async def has_last_metrics(self) -> None:
        """Wait until it has scored everything at its end, or is dead."""
        if self._life is not None and self.is_ready:
            await self._last.wait()

    async def end(self, timeout_s: float) -> None:
        """Wait for its end, and kill it when that takes too long. Works twice and without a start."""
        self._is_ending = True
        life = self._life
        if life is not None:
            if not self.is_ready:
                self.kill()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await life.process.wait()
            self.kill()
            await life.reading
        running, self._running = self._running, None
        if running is not None:
            if life is None:
                running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    def kill(self) -> None:
        """End it at once."""
        if self._life is not None and self._life.process.returncode is None:
            self._life.process.kill()

    def _number(self) -> int:
        return next(self._numbers) % (1 << 32)

    async def _begin(self) -> None:
        ours, theirs = socket.socketpair()
        heard, beats = os.pipe()
        os.set_blocking(beats, False)
        # Signals are for the front, which a terminal or a supervisor may send to all processes.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                f"--descriptor={theirs.fileno()}",
                f"--beats={beats}",
                f"--lost={self._lost_ns}",
                f"--number={self.number}",
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), beats),
            )
        except BaseException:
            os.close(heard)
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()
            os.close(beats)
        loop = asyncio.get_running_loop()
        life = self._life = _Life(process, await Channel.of(ours), loop.create_future(), loop.time())
        loop.add_reader(heard, self._hear, life, heard)
        life.watching = asyncio.create_task(self._watch(life))
        life.reading = asyncio.create_task(self._read(life))
        try:
            await life.ready
        except BaseException:
            if life.process.returncode is None:
                life.process.kill()
            await life.reading
            raise
        self.is_ready = True
        self.down = None
        self._on.ready(self.number)

    async def _keep_running(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while not self._is_ending:
            life = self._life
            if life is not None:
                await life.reading
                if time.monotonic() - life.began_s > _WELL_AFTER_S:
                    pause_s = _FIRST_PAUSE_S
            if self._is_ending:
                return
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            try:
                await self._begin()
            except (StartError, ConfigError, OSError) as error:
                self._is_down(f"it cannot be started: {error}")
                _LOG.error("cannot start worker %d, trying again: %s", self.number, error)
            else:
                _LOG.info("worker %d runs again", self.number)

    def _is_down(self, error: str) -> None:
        since_ns = self._clock() if self.down is None else self.down.since_ns
        self.down = ComponentHealth(status="StatusRecoverableError", since_ns=since_ns, error=error)

    def _hear(self, life: _Life, pipe: int) -> None:
        if os.read(pipe, 1 << 16):
            life.beat_ticks = 0
        else:
            asyncio.get_running_loop().remove_reader(pipe)
            os.close(pipe)

    async def _watch(self, life: _Life) -> None:
        """Refuse its requests while it is silent, and kill it in the end. The front asks for a frame each second until it stops."""
        while True:
            await asyncio.sleep(self._tick_s)
            life.beat_ticks += 1
            life.frame_ticks += self.is_ready and not self._is_ending
            silent = max(life.beat_ticks, life.frame_ticks)
            if self.is_ready and life.is_silent != (silent >= _REFUSED_AFTER):
                self._set_silent(life, is_silent=not life.is_silent)
            if silent >= (_KILLED_AT_THE_END_AFTER if self._is_ending else _KILLED_AFTER):
                life.is_hung = True
                self.kill()

    def _set_silent(self, life: _Life, *, is_silent: bool) -> None:
        life.is_silent = is_silent
        if not is_silent:
            self.down = None
            _LOG.warning("worker %d responds again", self.number, extra={"worker": self.number})
            return
        since_ns = self._clock() - int(_REFUSED_AFTER * self._tick_s * 1e9)
        since = datetime.fromtimestamp(since_ns // 10**9, UTC).isoformat()
        error = f"worker {self.number} has not responded since {since}: its requests are refused, and it is killed if that lasts"
        _LOG.error("%s", error, extra={"worker": self.number})
        self.down = ComponentHealth(status="StatusRecoverableError", since_ns=since_ns, error=error)
        for waiting in life.waiting.values():
            if not waiting.is_refused:
                waiting.is_refused = True
                self._on.refused(waiting.spans)
                answer, waiting.answer = waiting.answer, asyncio.get_running_loop().create_future()
                answer.set_result(Unsettled("a worker does not respond", later=waiting.answer))
        self._freed.set()

    async def _read(self, life: _Life) -> None:
        async for frame in life.channel.frames():
            self._take(life, frame)
            if frame.kind is Kind.STOPPED:
                break
        await life.channel.close()
        try:
            async with asyncio.timeout(_ENDS_WITHIN_S):
                code = await life.process.wait()
        except TimeoutError:
            life.process.kill()
            code = await life.process.wait()
        reason = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
        if life.is_hung:
            reason = f"did not respond for {round(self._tick_s * max(life.beat_ticks, life.frame_ticks))} s, was killed"
        life.watching.cancel()
        if not life.ready.done():
            life.ready.set_exception(StartError(f"worker {self.number} {reason} before it was ready"))
        was_ready, self.is_ready, self._life = self.is_ready, False, None
        for waiting in life.waiting.values():
            if not waiting.is_refused:
                self._on.refused(waiting.spans)
            if not waiting.answer.done():
                waiting.answer.set_result(Refused("the worker died, and is started again"))
        for question in life.questions.values():
            if not question.done():
                question.set_result(None)
        self._freed.set()
        self._last.set()
        if was_ready and not (self._is_ending and self.losses is not None):
            self._is_down(f"worker {self.number} {reason}, and is started again")
            if not self._on.died(self.number, life.accepted, life.refused, reason, is_hung=life.is_hung):
                self._lost_ns = max(self._lost_ns, life.accepted_ns)

    def _take(self, life: _Life, frame: Frame) -> None:
        life.frame_ticks = 0
        match frame.kind:
            case Kind.ANSWER:
                waiting = life.waiting.pop(frame.number)
                life.bytes_waiting -= waiting.size
                self._freed.set()
                answer = frame.read(Accepted, Refused, Invalid, Unsupported)
                if isinstance(answer, Accepted):
                    life.accepted += waiting.spans
                    life.accepted_ns = self._clock()
                elif isinstance(answer, Refused):
                    life.refused += waiting.spans
                if not waiting.answer.done():
                    waiting.answer.set_result(answer)
            case Kind.OBSERVED:
                self._on.observed(frame.content)
            case Kind.READY:
                life.ready.set_result(None)
            case Kind.FAILED:
                life.ready.set_exception(frame.read(ToolgaugeError))
            case Kind.STOPPED:
                self.losses = frame.read(Losses)
            case _:
                if frame.kind in (Kind.SNAPSHOT, Kind.LAST):
                    self._on.snapshot(self.number, frame.read(Snapshot))
                if frame.kind is Kind.LAST:
                    self._last.set()
                question = life.questions.get(frame.number)
                if question is not None and not question.done():
                    question.set_result(frame)


class Workers:
    """All workers of a front. Belongs to the event loop."""

    def __init__(self, registry: MergedRegistry, metrics: SelfMetrics, *, has_journal: bool) -> None:
        self.processes: tuple[WorkerProcess, ...] = ()
        self.observing: Observations | None = None
        self.registry = registry
        self._metrics = metrics
        self._has_journal = has_journal
        self._health: dict[int, Mapping[str, ComponentHealth]] = {}
        self._empty: dict[int, bool] = {}
        of_workers = WorkersMetrics(registry)
        self.restarts = of_workers.restarts
        of_workers.running.observe = lambda: {(): float(sum(process.takes for process in self.processes))}
        metrics.spans.begin(("refused", "worker", ""), ("dropped", "worker_died", ""))

    @property
    def is_empty(self) -> bool:
        """Return whether nothing is in any worker that could leave, by their last snapshots."""
        return all(self._empty.values())

    def resident(self) -> int | None:
        """Return how much memory the front and its workers have in use; `None` where that is not known."""
        own = resident_bytes()
        # Files that all have loaded count once.
        return None if own is None else own + sum([own_bytes(one.pid) for one in self.processes if one.pid is not None])

    def snapshot(self, worker: int, snapshot: Snapshot) -> None:
        """Take a worker's state."""
        self.registry.take(worker, snapshot.metrics)
        self._health[worker] = snapshot.health
        self._empty[worker] = snapshot.is_empty

    def observed(self, content: bytes) -> None:
        """Take a message about scorecards."""
        if self.observing is not None:
            self.observing.take(content)

    def ready(self, worker: int) -> None:
        """Have a worker that runs hand over the scorecards that are wanted."""
        if self.observing is not None:
            self.processes[worker].send(Kind.OBSERVING, self.observing.wishes)

    def died(self, worker: int, accepted: int, refused: int, reason: str, *, is_hung: bool) -> bool:
        """Count the spans that a worker had, and the lost ones among them; return whether its journal keeps them."""
        journal = self._health.pop(worker, {}).get("extension:journal")
        keeps = self._has_journal and (journal is None or journal.status == "StatusOK")
        self._empty.pop(worker, None)
        lost = self.registry.bury(worker, accepted=accepted, refused=refused, keeps=keeps)
        self.restarts.add(1, ("hung" if is_hung else "died",))
        extra = {"worker": worker, "spans": int(lost)}
        if keeps:
            _LOG.error("worker %d %s and is started again; its journal has what it held", worker, reason, extra=extra)
        else:
            _LOG.error("worker %d %s and is started again; lost: %d spans at most", worker, reason, lost, extra=extra)
        return keeps

    def refused(self, spans: int, reason: str = "worker") -> None:
        """Count spans that no worker was handed, or that one died with before it had answered."""
        with self._metrics.lock:
            self._metrics.spans.add(spans, ("received", "", ""))
            self._metrics.spans.add(spans, ("refused", reason, ""))

    def components(self) -> dict[str, ComponentHealth]:
        """Describe the parts of all workers by name, each in its worst state, and the workers."""
        worst: dict[str, ComponentHealth] = {}
        for parts in tuple(self._health.values()):
            for name, part in parts.items():
                if name not in worst or (worst[name].status == "StatusOK" and part.status != "StatusOK"):
                    worst[name] = part
        down = {f"processor:worker/{each.number}": each.down for each in self.processes if each.down is not None}
        return worst | down
