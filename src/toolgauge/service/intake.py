"""From the receivers into the inbox: checks the envelope, decides whether there is room, and answers.

A request that finds the inbox full waits half a second, then goes on unread: spans are worth more than their scores.
"""

import asyncio
from collections.abc import Callable

from toolgauge.model.delivery import Accepted, Answer, Invalid, Refused, Signal
from toolgauge.model.errors import DecodeError
from toolgauge.otlp.request import Request, read_request
from toolgauge.pipeline.pipeline import Pipeline
from toolgauge.service.inbox import Inbox

# The envelope of a body of this size may take tens of milliseconds to parse, for which other senders should not wait.
_LARGE_BYTES = 1024 * 1024
_PATIENCE_S = 0.5


class Intake:
    """Implements `model.delivery.Consumer`; belongs to the event loop."""

    def __init__(self, pipeline: Pipeline, inbox: Inbox, clock: Callable[[], int]) -> None:
        self._pipeline = pipeline
        self._inbox = inbox
        self._clock = clock

    async def consume(self, signal: Signal, body: bytes, sender: str | None) -> Answer:
        """Take a request into the inbox; what is accepted here leaves even when it is never read."""
        try:
            request = await self._read(signal, body, sender)
        except DecodeError as error:
            return Invalid(f"cannot decode the request: {error}")
        answer = self._pipeline.admission.admit(request)
        if not isinstance(answer, Accepted) or self._inbox.put(request):
            return answer
        try:
            is_put = await self._inbox.put_in_time(request, _PATIENCE_S)
        except BaseException:
            # The sender has gone, and is counted as answered already.
            self._pass_unread(request)
            raise
        return answer if is_put else self._pass_unread(request)

    def _pass_unread(self, request: Request) -> Answer:
        if self._pipeline.pass_unread(request, self._clock()):
            return Accepted()
        self._pipeline.admission.withdraw(request)
        return Refused("the queue to the destination is full")

    async def _read(self, signal: Signal, body: bytes, sender: str | None) -> Request:
        now_ns = self._clock()
        if len(body) < _LARGE_BYTES:
            return read_request(signal, body, now_ns, sender)
        return await asyncio.to_thread(read_request, signal, body, now_ns, sender)
