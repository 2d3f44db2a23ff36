"""Checks a receiver against its contract."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from toolgauge.model.delivery import Accepted, Answer, Consumer, Refused, Signal
from toolgauge.model.ports import Receiver
from toolgauge.testing.exporters import check_settings

_R = TypeVar("_R", bound=Receiver)
_PATIENCE_S, _GRACE_S = 5.0, 0.5


class RecordingConsumer:
    """A consumer that keeps requests; raises, or gives another answer, once when asked to."""

    def __init__(self) -> None:
        self.taken: list[tuple[Signal, bytes]] = []
        self.next: list[Answer | Exception] = []
        self._came = asyncio.Event()

    async def consume(self, signal: Signal, body: bytes, sender: str | None) -> Answer:
        """Keep the request."""
        del sender
        self.taken.append((signal, body))
        self._came.set()
        answer = self.next.pop(0) if self.next else Accepted()
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def another(self) -> tuple[Signal, bytes]:
        """Wait for the next request; raise `TimeoutError` when none comes."""
        async with asyncio.timeout(_PATIENCE_S):
            await self._came.wait()
        self._came.clear()
        return self.taken[-1]


async def check_receiver(make: Callable[[Consumer], _R], send: Callable[[_R], Awaitable[object]]) -> None:
    """Raise `AssertionError` unless new receivers of `make` keep the contract; `send` has one receive one or more spans."""
    consumer = RecordingConsumer()
    check_settings(type(make(consumer)))
    await make(consumer).stop(0)
    receiver = make(consumer)
    await receiver.start()
    try:
        signal, body = await _received(receiver, send, consumer, "a first request")
        assert signal in ("traces", "metrics", "logs"), f"the receiver hands in a signal called {signal!r}"
        assert isinstance(body, bytes), f"the receiver hands in {type(body).__name__}, not serialised protobuf"  # pyright: ignore[reportUnnecessaryIsInstance] (others write without a type checker)
        assert body, "the receiver hands in an empty request"
        consumer.next = [Refused("the queue is full")]
        await _received(receiver, send, consumer, "a request that is refused")
        consumer.next = [RuntimeError("a fault behind the receiver")]
        await _received(receiver, send, consumer, "a request that fails inside")
        await _received(receiver, send, consumer, "a request after one that failed")
    finally:
        await receiver.stop(_GRACE_S)
    await receiver.stop(_GRACE_S)


async def _received(
    receiver: _R, send: Callable[[_R], Awaitable[object]], consumer: RecordingConsumer, what: str
) -> tuple[Signal, bytes]:
    try:
        # Whether the sender takes a refusal for an error is not the receiver's matter.
        sending = asyncio.gather(send(receiver), return_exceptions=True)
        received = await consumer.another()
        await asyncio.wait((sending,), timeout=_PATIENCE_S)
    except TimeoutError:
        raise AssertionError(f"the receiver does not hand on {what}") from None
    return received
