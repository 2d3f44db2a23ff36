"""Other receivers in place of those that run: no port is given up before another one is bound, where that can be.

Where the address stays the same it cannot be: those that listen there stop first, and come back when the others cannot
start. Senders find the door shut for that moment and come again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from toolgauge.model.errors import StartError
from toolgauge.net.listen import split_endpoint
from toolgauge.receive.grpc import GrpcReceiver
from toolgauge.receive.http import HttpReceiver

Receiver: TypeAlias = GrpcReceiver | HttpReceiver
# What is being handled may end.
_GRACE_S = 2.0
# The system lets go of a port a moment after it was closed.
_ATTEMPTS = 10
_WAIT_S = 0.1


async def exchanged(
    old: Sequence[Receiver], new: Sequence[Receiver], *, endpoints: Sequence[str], same: Sequence[bool]
) -> tuple[Receiver, ...]:
    """Start the new receivers but for those that are the `same`, and stop the old ones; return those that run now.

    Raises `StartError` when one cannot start; the old ones run then.
    """
    going = [receiver for receiver, is_same in zip(old, same, strict=True) if not is_same]
    coming = [receiver for receiver, is_same in zip(new, same, strict=True) if not is_same]
    wanted = {split_endpoint(endpoint)[1] for endpoint, is_same in zip(endpoints, same, strict=True) if not is_same}
    if wanted.isdisjoint(receiver.port for receiver in going):
        await _start(coming)
        await _stop(going, _GRACE_S)
    else:
        await _stop(going, _GRACE_S)
        try:
            await _again(lambda: _start(coming))
        except StartError:
            await _again(lambda: _start(going))
            raise
    return tuple(before if is_same else after for before, after, is_same in zip(old, new, same, strict=True))


async def _start(receivers: Sequence[Receiver]) -> None:
    try:
        for receiver in receivers:
            await receiver.start()
    except BaseException:
        await _stop(receivers, 0)
        raise


async def _stop(receivers: Sequence[Receiver], grace_s: float) -> None:
    await asyncio.gather(*(receiver.stop(grace_s) for receiver in receivers))


async def _again(start: Callable[[], Awaitable[None]]) -> None:
    for _ in range(_ATTEMPTS - 1):
        try:
            await start()
        except StartError:
            await asyncio.sleep(_WAIT_S)
        else:
            return
    await start()
