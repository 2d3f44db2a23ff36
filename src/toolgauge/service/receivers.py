"""Config -> the receivers, and other receivers in place of those that run: no port is given up before another one is bound, where that can be.

Where the address stays the same it cannot be: those that listen there stop first, and come back when the others cannot
start. Senders find the door shut for that moment and come again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from toolgauge import plugins
from toolgauge.config.extensions import extensions
from toolgauge.config.model import Config
from toolgauge.model.delivery import Consumer
from toolgauge.model.errors import StartError
from toolgauge.model.ports import Receiver
from toolgauge.otlp.otlp_json import request_from_json
from toolgauge.receive.grpc import GrpcReceiver
from toolgauge.receive.http import HttpReceiver
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.settings import split_address

OtlpReceiver: TypeAlias = GrpcReceiver | HttpReceiver
# What is being handled may end.
_GRACE_S = 2.0
# The system lets go of a port a moment after it was closed.
_ATTEMPTS = 10
_WAIT_S = 0.1


async def exchanged(
    old: Sequence[OtlpReceiver], new: Sequence[OtlpReceiver], *, endpoints: Sequence[str], same: Sequence[bool]
) -> tuple[OtlpReceiver, ...]:
    """Start the new receivers but for those that are the `same`, and stop the old ones; return those that run now.

    Raises `StartError` when one cannot start; the old ones run then.
    """
    going = [receiver for receiver, is_same in zip(old, same, strict=True) if not is_same]
    coming = [receiver for receiver, is_same in zip(new, same, strict=True) if not is_same]
    wanted = {split_address(endpoint)[1] for endpoint, is_same in zip(endpoints, same, strict=True) if not is_same}
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


async def _start(receivers: Sequence[OtlpReceiver]) -> None:
    try:
        for receiver in receivers:
            await receiver.start()
    except BaseException:
        await _stop(receivers, 0)
        raise


async def _stop(receivers: Sequence[OtlpReceiver], grace_s: float) -> None:
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


def make_receivers(
    config: Config,
    consumer: Consumer,
    *,
    metrics: SelfMetrics,
    hop_id: str,
    has_memory: Callable[[int], bool],
) -> tuple[GrpcReceiver | HttpReceiver, ...]:
    """Make the OTLP receivers; raise `StartError` when a file that they need cannot be used."""
    protocols = config.receivers.otlp.protocols
    return (
        GrpcReceiver(consumer, protocols.grpc, metrics=metrics, hop_id=hop_id, has_memory=has_memory),
        HttpReceiver(
            consumer,
            protocols.http,
            from_json=request_from_json,
            metrics=metrics,
            hop_id=hop_id,
            has_memory=has_memory,
        ),
    )


def make_additional_receivers(config: Config, consumer: Consumer) -> tuple[Receiver, ...]:
    """Make the receivers that other packages bring."""
    return tuple(plugins.receiver(name)(settings, consumer) for name, settings in extensions(config.receivers))
