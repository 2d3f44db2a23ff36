"""Acknowledged requests between the event loop and the worker thread, bounded in bytes.

Each side writes a number of its own, so that neither waits for a lock.
"""

import asyncio
import queue
from collections.abc import Callable, Iterator

from msgspec.structs import replace

from toolgauge.model.delivery import Accepted, Answer, BrokerMessage, Invalid, Refused, Signal
from toolgauge.model.errors import DecodeError
from toolgauge.model.journal import JournalChange
from toolgauge.net.byte_budget import ByteBudget
from toolgauge.otlp.request import Request, read_request
from toolgauge.pipeline.pipeline import Pipeline
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
        try:
            is_put = self._inbox.put(request) or await self._inbox.put_in_time(request, _PATIENCE_S)
        except BaseException:
            self._withdraw(request)
            raise
        if not is_put:
            self._withdraw(request)
            return Refused("the inbox is full")
        self._on_accepted(request)
        return answer

    def _withdraw(self, request: Request) -> None:
        self._pipeline.admission.withdraw(request)
        self._ledger.forget((request.entry,))

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
