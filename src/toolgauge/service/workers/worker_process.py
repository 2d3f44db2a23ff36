"""One worker as the front sees it, over all of its lives: spawned, handed requests, and started again when it has died.

What it was handed and has not answered when it dies is refused with a retryable status: its senders come back.
"""

import asyncio
import contextlib
import logging
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

import msgspec

from toolgauge.model.delivery import Accepted, Answer, Refused, Signal
from toolgauge.model.errors import ConfigError, StartError
from toolgauge.service.health import ComponentHealth
from toolgauge.service.workers.channel import Channel, Frame, Kind
from toolgauge.service.workers.messages import Snapshot, StartFailure, read_answer, write_request

_LOG = logging.getLogger("toolgauge")
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# One that starts again and again is given more time each time.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 30.0
# One that has run so long had no trouble with its start.
_WELL_AFTER_S = 60.0
# As long as a request waits for room in the inbox of a single process, and for the worker to see that there is.
_PATIENCE_S = 1.0
_ENDS_WITHIN_S = 5.0


class OnWorkers(Protocol):
    """What the front does with what workers send. Called on the event loop."""

    def snapshot(self, worker: int, snapshot: Snapshot) -> None:
        """Take how a worker fares."""
        ...

    def observed(self, content: bytes) -> None:
        """Take what a worker has observed."""
        ...

    def ready(self, worker: int) -> None:
        """Take note that a worker runs."""
        ...

    def died(self, worker: int, accepted: int, refused: int, reason: str) -> None:
        """Take note that a worker has died; of all spans that it was handed, it had accepted and refused so many."""
        ...

    def refused(self, spans: int) -> None:
        """Count spans that a worker was not handed."""
        ...


@dataclass(slots=True)
class _Waiting:
    answer: asyncio.Future[Answer]
    spans: int
    size: int


@dataclass(slots=True)
class _Life:
    """One process."""

    process: asyncio.subprocess.Process
    channel: Channel
    ready: asyncio.Future[None]
    began_s: float
    waiting: dict[int, _Waiting] = field(default_factory=dict)
    questions: dict[int, asyncio.Future[bytes]] = field(default_factory=dict)
    bytes_waiting: int = 0
    accepted: int = 0
    refused: int = 0
    reading: asyncio.Task[None] | None = None


class WorkerProcess:
    """The worker with a number, from 0. `command` starts it, but for its socket."""

    def __init__(
        self, number: int, command: Sequence[str], *, max_bytes: int, on_workers: OnWorkers, clock: Callable[[], int]
    ) -> None:
        self.number = number
        self._command = tuple(command)
        self._max_bytes = max_bytes
        self._on = on_workers
        self._clock = clock
        self._numbers = count(1)
        self._life: _Life | None = None
        self._running: asyncio.Task[None] | None = None
        self._freed = asyncio.Event()
        self._is_ending = False
        self._last: asyncio.Event = asyncio.Event()
        self.is_ready = False
        self.losses: bytes | None = None
        # Since when it does not run, and why.
        self.down_since_ns: int | None = None
        self.down_because = ""

    @property
    def pid(self) -> int | None:
        """The id of its process; `None` while there is none."""
        return None if self._life is None else self._life.process.pid

    @property
    def health(self) -> ComponentHealth | None:
        """How it fares where it does not run; `None` while it does."""
        if self.down_since_ns is None:
            return None
        return ComponentHealth(status="StatusRecoverableError", since_ns=self.down_since_ns, error=self.down_because)

    async def start(self) -> None:
        """Start it for the first time. Raise `StartError` or `ConfigError` when it cannot."""
        await self._begin()
        self._running = asyncio.create_task(self._keep_running())

    async def consume(self, signal: Signal, body: bytes, sender: str | None, spans: int) -> Answer:
        """Hand it a request, and return its answer."""
        life = await self._with_room(len(body))
        if life is None:
            self._on.refused(spans)
            return Refused("a worker is being started again, or cannot keep up")
        number = self._number()
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        life.waiting[number] = _Waiting(answer, spans, len(body))
        life.bytes_waiting += len(body)
        life.channel.send(Kind.REQUEST, number, write_request(signal, sender), body)
        return await answer

    def send(self, kind: Kind, content: bytes = b"") -> bool:
        """Send it something that has no answer; False when it does not run."""
        if self._life is None or not self.is_ready:
            return False
        self._life.channel.send(kind, 0, content)
        return True

    async def ask(self, kind: Kind, content: bytes = b"") -> bytes | None:
        """Ask it something; `None` when it does not run, or dies meanwhile."""
        life = self._life
        if life is None or not self.is_ready:
            return None
        number = self._number()
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        life.questions[number] = answer
        life.channel.send(kind, number, content)
        try:
            return await answer
        except asyncio.CancelledError:
            if answer.cancelled() and life.questions.get(number) is None:
                return None
            raise
        finally:
            life.questions.pop(number, None)

    def begin_to_stop(self, began_ns: int) -> None:
        """Have it stop in order, within the time that is left of 28 s since then."""
        self._is_ending = True
        self.send(Kind.STOP, began_ns.to_bytes(8))

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
            if life.reading is not None:
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

    # -- its lives --------------------------------------------------------------------------------------------------

    def _number(self) -> int:
        return next(self._numbers) % (1 << 32)

    async def _begin(self) -> None:
        life = self._life = await self._spawned()
        life.reading = asyncio.create_task(self._read(life))
        try:
            await life.ready
        except BaseException:
            if life.process.returncode is None:
                life.process.kill()
            await life.reading
            raise
        self.is_ready = True
        self.down_since_ns = None
        self._on.ready(self.number)

    async def _spawned(self) -> _Life:
        ours, theirs = socket.socketpair()
        # Signals are for the front: those that a terminal or a supervisor sends to all processes are left to it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                f"--descriptor={theirs.fileno()}",
                f"--number={self.number}",
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()
        loop = asyncio.get_running_loop()
        return _Life(process, await Channel.of(ours), loop.create_future(), loop.time())

    async def _keep_running(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while not self._is_ending:
            life = self._life
            if life is not None and life.reading is not None:
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
                self.down_because = f"it cannot be started: {error}"
                _LOG.error("worker %d cannot be started, which is tried again: %s", self.number, error)
            else:
                _LOG.info("worker %d runs again", self.number)

    async def _read(self, life: _Life) -> None:
        async for frame in life.channel.frames():
            self._take(life, frame)
        await life.channel.close()
        try:
            async with asyncio.timeout(_ENDS_WITHIN_S):
                code = await life.process.wait()
        except TimeoutError:
            life.process.kill()
            code = await life.process.wait()
        self._bury(life, code)

    def _bury(self, life: _Life, code: int) -> None:
        reason = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
        if not life.ready.done():
            life.ready.set_exception(StartError(f"worker {self.number} {reason} before it was ready"))
        was_ready, self.is_ready, self._life = self.is_ready, False, None
        for waiting in life.waiting.values():
            self._on.refused(waiting.spans)
            if not waiting.answer.done():
                waiting.answer.set_result(Refused("the worker died, and is started again"))
        for question in tuple(life.questions.values()):
            question.cancel()
        life.questions.clear()
        self._freed.set()
        self._last.set()
        if was_ready and not (self._is_ending and self.losses is not None):
            self.down_since_ns = self._clock()
            self.down_because = f"worker {self.number} {reason}, and is started again"
            self._on.died(self.number, life.accepted, life.refused, reason)

    def _take(self, life: _Life, frame: Frame) -> None:
        match frame.kind:
            case Kind.ANSWER:
                self._take_answer(life, frame)
            case Kind.SNAPSHOT | Kind.LAST:
                self._on.snapshot(self.number, msgspec.msgpack.decode(frame.content, type=Snapshot))
                _resolve(life.questions, frame.number, b"")
                if frame.kind is Kind.LAST:
                    self._last.set()
            case Kind.OBSERVED:
                self._on.observed(frame.content)
            case Kind.READY:
                life.ready.set_result(None)
            case Kind.FAILED:
                failure = msgspec.msgpack.decode(frame.content, type=StartFailure)
                kind = ConfigError if failure.is_config else StartError
                life.ready.set_exception(kind(failure.message, hint=failure.hint))
            case Kind.STOPPED:
                self.losses = frame.content
            case _:
                _resolve(life.questions, frame.number, frame.content)

    def _take_answer(self, life: _Life, frame: Frame) -> None:
        waiting = life.waiting.pop(frame.number)
        life.bytes_waiting -= waiting.size
        self._freed.set()
        answer = read_answer(frame.content)
        if isinstance(answer, Accepted):
            life.accepted += waiting.spans
        elif isinstance(answer, Refused):
            life.refused += waiting.spans
        if not waiting.answer.done():
            waiting.answer.set_result(answer)

    async def _with_room(self, size: int) -> _Life | None:
        until_s = time.monotonic() + _PATIENCE_S
        while (life := self._life) is not None and self.is_ready:
            if not life.bytes_waiting or life.bytes_waiting + size <= self._max_bytes:
                return life
            self._freed.clear()
            try:
                async with asyncio.timeout(until_s - time.monotonic()):
                    await self._freed.wait()
            except TimeoutError:
                return None
        return None


def _resolve(questions: dict[int, asyncio.Future[bytes]], number: int, content: bytes) -> None:
    question = questions.get(number)
    if question is not None and not question.done():
        question.set_result(content)


def spawn_command(config_options: Sequence[str], workers: int, hop_id: str) -> list[str]:
    """Return the command that starts a worker, but for its number and socket."""
    own = (f"--workers={workers}", f"--hop-id={hop_id}")
    return [sys.executable, "-m", "toolgauge", "worker", *own, *config_options]
