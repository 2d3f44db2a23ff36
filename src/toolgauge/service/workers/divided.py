"""The front's way in: a request is divided between the workers, and acknowledged when every part is accepted.

When one part is refused the sender is to come back with all of it. What was taken is remembered for a while, so that it is not
handed over a second time.
"""

import asyncio
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Protocol

from toolgauge.model.delivery import Accepted, Answer, Invalid, Refused, Signal
from toolgauge.model.errors import DecodeError
from toolgauge.otlp.parts import Divider, Part

# The envelope of a body of this size may take tens of milliseconds to divide, for which other senders should not wait.
_LARGE_BYTES = 1024 * 1024
# Requests of which parts were taken. Beyond them the oldest are forgotten, and taken twice.
_MAX_TAKEN = 1000


class Taking(Protocol):
    """A worker that takes requests."""

    async def consume(self, signal: Signal, body: bytes, sender: str | None, spans: int) -> Answer:
        """Answer whether it has taken the request of so many spans."""
        ...


class DividedIntake:
    """Implements `model.delivery.Consumer`. `refused` counts spans that are refused here, for a reason."""

    def __init__(
        self,
        divider: Divider,
        workers: Sequence[Taking],
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
        # The workers that have taken their part of a request which was refused as a whole, the oldest request first.
        self._taken: dict[bytes, frozenset[int]] = {}

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
        refusal = self._refusal(signal, body, parts)
        if refusal is not None:
            return refusal
        if len(parts) == 1 and not self._taken:
            answer = await self._hand_over(signal, parts[0], sender)
        else:
            answer = await self._hand_over_all(signal, body, parts, sender)
        if isinstance(answer, Accepted):
            self._on_accepted(signal, body)
        return answer

    def _refusal(self, signal: Signal, body: bytes, parts: Sequence[Part]) -> Refused | None:
        if self._is_closed:
            message, reason = "shutting down", "shutdown"
        elif not self._has_memory(len(body)):
            message, reason = "memory is short", "memory"
        else:
            return None
        self._refused(sum(part.items for part in parts) if signal == "traces" else 0, reason)
        return Refused(message)

    async def _hand_over(self, signal: Signal, part: Part, sender: str | None) -> Answer:
        spans = part.items if signal == "traces" else 0
        return await self._workers[part.worker].consume(signal, part.body, sender, spans)

    async def _hand_over_all(self, signal: Signal, body: bytes, parts: Sequence[Part], sender: str | None) -> Answer:
        key = blake2b(body, digest_size=16).digest() if self._taken else b""
        taken = self._taken.pop(key, frozenset[int]())
        waiting = [part for part in parts if part.worker not in taken]
        answers = await asyncio.gather(*(self._hand_over(signal, part, sender) for part in waiting))
        left = [answer for answer in answers if not isinstance(answer, Accepted)]
        if not left:
            return Accepted()
        taken |= {part.worker for part, answer in zip(waiting, answers, strict=True) if isinstance(answer, Accepted)}
        if taken:
            self._taken[key or blake2b(body, digest_size=16).digest()] = taken
            if len(self._taken) > _MAX_TAKEN:
                del self._taken[next(iter(self._taken))]
        return left[0]
