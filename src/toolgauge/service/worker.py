"""The one thread that reads, recognizes, assembles, scores and encodes: it owns the pipeline and all of its state.

Acknowledged requests wait for it in the inbox, which is bounded in bytes; each side writes a number of its own, so that neither waits
for a lock.
"""

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from toolgauge.model.delivery import Accepted, Answer, Assignment, BrokerMessage, Invalid, Refused, Signal
from toolgauge.model.errors import DecodeError
from toolgauge.model.journal import ClosedId, JournalChange
from toolgauge.net.byte_budget import ByteBudget
from toolgauge.otlp.request import Request, read_request
from toolgauge.pipeline.pipeline import Pipeline
from toolgauge.pipeline.trajectory_scoring import GivenUp
from toolgauge.service.process import Faults, settle
from toolgauge.state.journal import STALLED, Journal
from toolgauge.state.ledger import Ledger

_REQUEST_BYTES = 512  # What a request takes in memory beside its body


class Inbox:
    """First in, first out. `put` and `put_in_time` belong to the event loop, `take` and `done` to the worker."""

    def __init__(self, max_bytes: int) -> None:
        self._requests: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        # For the requests that were put and are not done.
        self.budget = ByteBudget(max_bytes)

    def put(self, request: Request) -> bool:
        """Add a request; False without room. A request that is alone always fits."""
        is_put = self.budget.take(len(request.body) + _REQUEST_BYTES)
        if is_put:
            self._requests.put(request)
        return is_put

    async def put_in_time(self, request: Request, timeout_s: float) -> bool:
        """Add a request as soon as there is room, in its turn; False when that takes too long."""
        is_put = await self.budget.take_in_time(len(request.body) + _REQUEST_BYTES, timeout_s)
        if is_put:
            self._requests.put(request)
        return is_put

    def wake(self) -> None:
        """Have `take` return at once, once."""
        self._requests.put(None)

    def take(self, timeout_s: float) -> Request | None:
        """Take the oldest request, waiting for it; `None` when none came, or `wake` was called."""
        try:
            return self._requests.get(timeout=timeout_s) if timeout_s > 0 else self._requests.get_nowait()
        except queue.Empty:
            return None

    def drain(self) -> Iterator[Request]:
        """Take all requests; each request counts as done when the next one is taken."""
        while not self._requests.empty():
            request = self.take(0)
            if request is not None:
                yield request
                self.done(request)

    def done(self, request: Request) -> None:
        """Give back the room of a request that was taken."""
        self.budget.give_back(len(request.body) + _REQUEST_BYTES)

    @property
    def is_empty(self) -> bool:
        """Return whether no request waits."""
        return self._requests.empty()


# The envelope of a body of this size may take tens of milliseconds to parse, for which other senders should not wait.
_LARGE_BYTES = 1024 * 1024
_PATIENCE_S = 0.5


class Intake:
    """Implements `model.delivery.Consumer` and `MessageConsumer`; belongs to the event loop. `on_accepted` gets accepted requests."""

    def __init__(
        self,
        pipeline: Pipeline,
        inbox: Inbox,
        clock: Callable[[], int],
        ledger: Ledger,
        journal: Journal | None,
        on_accepted: Callable[[Request], None],
    ) -> None:
        self._on_accepted = on_accepted
        self._pipeline = pipeline
        self._inbox = inbox
        self._clock = clock
        self._journal = journal
        self._ledger = ledger

    async def consume(self, signal: Signal, body: bytes, sender: str | None) -> Answer:
        """Take a request into the journal and the inbox; an accepted request leaves even when it is never read."""
        try:
            request = await self._read(signal, body, sender)
        except DecodeError as error:
            return Invalid(f"cannot decode the request: {error}", error.reason)
        if self._journal is not None and (refusal := self._journal.refusal) is not None:
            return self._pipeline.admission.refuse(request, *refusal)
        answer = self._pipeline.admission.admit(request)
        if not isinstance(answer, Accepted):
            return answer
        try:
            if self._journal is not None and request.count:
                entry = self._ledger.new_entry(request.signal, request.body, request.received_ns, own=False)
                request = replace(request, entry=entry.id)
                try:
                    await self._journal.commit(JournalChange(appended=(entry,)))
                except TimeoutError:
                    return self._refuse_taken(request, *STALLED)
            is_put = self._inbox.put(request) or await self._inbox.put_in_time(request, _PATIENCE_S)
        except BaseException:
            # The sender has gone, and is counted as answered already.
            if not self._inbox.put(request):
                self._pass_unread(request)
            raise
        taken = answer if is_put else self._pass_unread(request)
        if isinstance(taken, Accepted):
            self._on_accepted(request)
        return taken

    async def consume_message(self, signal: Signal, body: bytes, sender: str, message: BrokerMessage) -> Answer:
        """Take a message of a broker, which keeps refused ones: none passes unread."""
        try:
            request = replace(await self._read(signal, body, sender), entry=message)
        except DecodeError as error:
            return Invalid(f"cannot decode the request: {error}", error.reason)
        answer = self._pipeline.admission.admit(request)
        if not isinstance(answer, Accepted):
            return answer
        self._ledger.add_message(message)
        is_put = False
        try:
            is_put = self._inbox.put(request) or await self._inbox.put_in_time(request, _PATIENCE_S)
        finally:
            if not is_put:
                self._pipeline.admission.withdraw(request)
                self._ledger.forget((request.entry,))
        if not is_put:
            return Refused("the inbox is full")
        self._on_accepted(request)
        return answer

    def _pass_unread(self, request: Request) -> Answer:
        if self._pipeline.pass_unread(request, self._clock()):
            return Accepted()
        return self._refuse_taken(request, "the queue to the destination is full", "queue_full")

    def _refuse_taken(self, request: Request, message: str, reason: str) -> Refused:
        self._pipeline.admission.withdraw(request, reason)
        self._ledger.end_reading(request.entry)
        return Refused(message)

    async def _read(self, signal: Signal, body: bytes, sender: str | None) -> Request:
        now_ns = self._clock()
        if len(body) < _LARGE_BYTES:
            return read_request(signal, body, now_ns, sender)
        return await asyncio.to_thread(read_request, signal, body, now_ns, sender)


_T = TypeVar("_T")
_TICK_NS = 100_000_000
_LOOK_S = 0.01
_STUCK_AFTER_NS = 15_000_000_000  # A trace of a hundred thousand spans takes a few seconds
_FLUSH_EVERY_NS = 500_000_000  # Each request to a destination costs as much as a few spans
_FORWARD_EVERY_NS = 10_000_000  # So are senders' requests joined that are small and many


class Worker:
    """Runs the pipeline on a thread of its own from `start` to `end`. Implements `model.ports.OpenTraces` for a broker's receiver."""

    def __init__(
        self,
        pipeline: Pipeline,
        inbox: Inbox,
        *,
        clock: Callable[[], int],
        faults: Faults,
    ) -> None:
        self._pipeline = pipeline
        self._inbox = inbox
        self._clock = clock
        self._faults = faults
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._is_ending = False
        self._is_given_up = False
        self._finishing: asyncio.Future[None] | None = None
        # Since when the worker has been at its present work; `None` while it waits.
        self.busy_since_ns: int | None = None
        self.stuck_after_ns = _STUCK_AFTER_NS

    @property
    def is_idle(self) -> bool:
        """Return whether nothing waits to be read."""
        return self._inbox.is_empty and self.busy_since_ns is None and not self._pipeline.egress.is_passing

    @property
    def stuck_since_ns(self) -> int | None:
        """Since when the worker has been at one piece of work, when that is too long; else `None`."""
        since_ns = self.busy_since_ns
        return since_ns if since_ns is not None and self._clock() - since_ns > self.stuck_after_ns else None

    def start(self) -> None:
        """Begin to work."""
        self._thread = threading.Thread(target=self._run, name="toolgauge-worker", daemon=True)
        self._thread.start()

    async def run(self, work: Callable[[], _T]) -> _T:
        """Have the worker do this between two pieces of work, or do it here when no worker runs."""
        if self._thread is None or self._is_given_up:
            return work()
        outcome: Future[_T] = Future()
        self.post(partial(settle, outcome, work))
        return await asyncio.wrap_future(outcome)

    def post(self, work: Callable[[], None]) -> None:
        """Have the worker do this between two pieces of its own work, without waiting for it."""
        self._work.put(work)
        self._inbox.wake()

    async def forget(self) -> int:
        """Drop open trajectories of lost partitions; return how many."""
        return await self.run(self._pipeline.forget)

    async def remember(self, closed: Sequence[ClosedId], begun: Sequence[str]) -> None:
        """Remember the traces that other processes closed, or had begun."""
        await self.run(partial(self._pipeline.assembler.recovery.remember, closed, begun, self._clock()))

    async def open_traces_of(self, messages: Sequence[BrokerMessage]) -> Sequence[tuple[str, Assignment]]:
        """Return the open traces that need one of these messages, with their partitions."""
        return await self.run(partial(self._pipeline.assembler.recovery.open_traces_of, messages))

    def stall(self) -> None:
        """Close nothing for want of messages, until `resume`."""
        self.post(partial(self._pipeline.assembler.recovery.stall, self._clock()))

    async def stalled(self) -> None:
        """Do so now; return when the scores of closed traces are on their way."""
        await self.run(partial(self._pipeline.assembler.recovery.stall, self._clock()))
        await self.run(self._pipeline.flush)

    def resume(self) -> None:
        """Close traces again."""
        self.post(partial(self._pipeline.assembler.recovery.resume, self._clock()))

    async def begin_to_finish(self, work: Callable[[], None], timeout_s: float) -> None:
        """Have this done when everything in the inbox has been read, or after so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not self._inbox.is_empty and self._thread is not None:
                    await asyncio.sleep(_LOOK_S)
        self._finishing = asyncio.ensure_future(self.run(work))

    async def finished(self, timeout_s: float) -> None:
        """Wait for the work of `begin_to_finish`; raise `TimeoutError` when it takes too long."""
        if self._finishing is not None:
            async with asyncio.timeout(timeout_s):
                await asyncio.shield(self._finishing)

    def give_up(self) -> None:
        """Leave the pipeline to the caller: the worker does nothing more with it when it comes back."""
        self._is_given_up = True
        self._pipeline.scoring.give_up()
        if self._finishing is not None:
            self._finishing.cancel()

    def end(self, timeout_s: float) -> None:
        """End the thread; one that is stuck is left alone. Works twice and without a start."""
        self._is_ending = True
        self._inbox.wake()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(timeout_s)

    def _run(self) -> None:
        next_tick = next_flush = next_forward = self.busy_since_ns = self._clock()
        is_due = False
        while not self._is_ending:
            self.busy_since_ns = None
            until = min(next_tick, next_forward) if self._pipeline.egress.is_passing else next_tick
            request = self._inbox.take(0 if is_due else max(0.0, (until - self._clock()) / 1e9))
            now = self.busy_since_ns = self._clock()
            # In the order of arrival: work that closes everything would leave the spans of this request open.
            if request is not None:
                with self._faults.survived(BaseException):
                    self._pipeline.process(request)
                self._inbox.done(request)
            while not self._is_given_up and not self._work.empty():
                with self._faults.survived(BaseException):
                    self._work.get_nowait()()
            if self._is_given_up:
                return
            is_time = (self._inbox.is_empty and now >= next_forward) or now >= next_tick
            if is_time and self._pipeline.egress.is_passing:
                next_forward = now + _FORWARD_EVERY_NS
                with self._faults.survived(BaseException):
                    self._pipeline.egress.forward()
            if now >= next_tick or (is_due and request is None):
                # A tick that fails has closed the failed trajectory; the next one shows whether more is due.
                is_due = False
                with self._faults.survived(BaseException):
                    try:
                        # Requests in the inbox came in time: nothing closes as if they had not.
                        is_due = self._pipeline.tick(now if request is None else request.received_ns)
                    except GivenUp:
                        return
                ended = self._clock()
                # Requests have as much time as trajectories while there is more to close.
                next_tick = ended + min(ended - now, _TICK_NS) if is_due else now + _TICK_NS
            if now >= next_flush or self._pipeline.egress.is_pressing:
                next_flush = now + _FLUSH_EVERY_NS
                with self._faults.survived(BaseException):
                    self._pipeline.flush()
