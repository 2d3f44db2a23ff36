"""Config -> the receivers: OTLP over gRPC and HTTP, Kafka, and plug-ins of other packages.

A new port is bound before the old one is given up; on the same port the old receiver stops first, and restarts on failure.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeAlias

from toolgauge import plugins
from toolgauge.config.model import Config, extensions
from toolgauge.model.delivery import Consumer, MessageConsumer
from toolgauge.model.errors import ConfigError, StartError
from toolgauge.model.ports import MessageReceiver, Receiver
from toolgauge.net.byte_budget import ByteBudget
from toolgauge.otlp.otlp_json import request_from_json
from toolgauge.receive.grpc import GrpcReceiver
from toolgauge.receive.http import HttpReceiver
from toolgauge.receive.otlp_handler import BrokerParts
from toolgauge.receive.refusal import RefusalLog
from toolgauge.score.criterion import Criterion
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.service.pulled_verdicts import VerdictPuller
from toolgauge.service.worker import Worker
from toolgauge.settings import split_address
from toolgauge.state.ledger import Ledger, OffsetJournal

OtlpReceiver: TypeAlias = GrpcReceiver | HttpReceiver
_GRACE_S = 2.0  # For requests that a receiver is handling when it stops
# The system frees a port a moment after it was closed.
_ATTEMPTS = 10
_WAIT_S = 0.1


def make_receivers(
    config: Config, consumer: Consumer, *, metrics: SelfMetrics, hop_id: str, budget: ByteBudget
) -> tuple[OtlpReceiver, ...]:
    """Make the OTLP receivers; raise `StartError` when a file that they need cannot be used."""
    protocols = config.receivers.otlp.protocols
    log = RefusalLog()
    return (
        GrpcReceiver(consumer, protocols.grpc, metrics=metrics, hop_id=hop_id, budget=budget, refusal_log=log),
        HttpReceiver(
            consumer,
            protocols.http,
            from_json=request_from_json,
            metrics=metrics,
            hop_id=hop_id,
            budget=budget,
            refusal_log=log,
        ),
    )


def make_additional_receivers(config: Config, consumer: Consumer, clock: Callable[[], int]) -> tuple[Receiver, ...]:
    """Make the receivers of other packages, and the puller of verdicts."""
    others = (plugins.receiver(name)(settings, consumer) for name, settings in extensions(config.receivers))
    return (*others, *((VerdictPuller(config, consumer, clock),) if config.feedback.pull else ()))


async def exchanged(
    old: Sequence[OtlpReceiver], new: Sequence[OtlpReceiver], *, endpoints: Sequence[str], same: Sequence[bool]
) -> tuple[OtlpReceiver, ...]:
    """Exchange the receivers that are not the `same`. Raises `StartError` when one cannot start; the old ones run then."""
    going = [receiver for receiver, is_same in zip(old, same, strict=True) if not is_same]
    coming = [receiver for receiver, is_same in zip(new, same, strict=True) if not is_same]
    wanted = {split_address(endpoint)[1] for endpoint, is_same in zip(endpoints, same, strict=True) if not is_same}
    is_elsewhere = wanted.isdisjoint(receiver.port for receiver in going)
    if not is_elsewhere:
        await _stop(going, _GRACE_S)
    try:
        await _start(coming, attempts=1 if is_elsewhere else _ATTEMPTS)
    except StartError:
        if not is_elsewhere:
            await _start(going, attempts=_ATTEMPTS)
        raise
    if is_elsewhere:
        await _stop(going, _GRACE_S)
    return tuple(before if is_same else after for before, after, is_same in zip(old, new, same, strict=True))


async def _start(receivers: Sequence[OtlpReceiver], *, attempts: int) -> None:
    for left in reversed(range(attempts)):
        try:
            for receiver in receivers:
                await receiver.start()
        except BaseException as error:
            await _stop(receivers, 0)
            if not left or not isinstance(error, StartError):
                raise
            await asyncio.sleep(_WAIT_S)
        else:
            return


async def _stop(receivers: Sequence[OtlpReceiver], grace_s: float) -> None:
    await asyncio.gather(*(receiver.stop(grace_s) for receiver in receivers))


def check_messages(config: Config, criteria: Sequence[Criterion]) -> None:
    """Raise `ConfigError` when a criterion judges conversations while messages, keyed by trace, are read from Kafka."""
    if config.receivers.kafka is None:
        return
    for criterion in criteria:
        if criterion.scope == "conversation":
            raise ConfigError(
                f"criterion `{criterion.name}` has `scope: conversation`, which `receivers.kafka` cannot serve: the traces of a "
                "conversation lie in several partitions",
                hint="judge traces (`scope: trace`), or send conversations over `receivers.otlp`",
            )


def make_message_receiver(
    config: Config,
    consumer: MessageConsumer,
    *,
    offsets: OffsetJournal | None,
    ledger: Ledger,
    worker: Worker,
    metrics: SelfMetrics,
    hop_id: str,
    clock: Callable[[], int],
) -> MessageReceiver | None:
    """Make the receiver of Kafka, where the configuration has one."""
    settings = config.receivers.kafka
    if settings is None or offsets is None:
        return None
    # Loaded by name: the client of the extra `kafka` takes 15 MB.
    receiver: MessageReceiver = plugins.load(plugins.RECEIVERS, "kafka")(
        settings,
        BrokerParts(
            consumer=consumer,
            offsets=offsets,
            ledger=ledger,
            traces=worker,
            metrics=metrics,
            hop_id=hop_id,
            clock=clock,
            late_ns=config.assemble.late_memory.for_,
        ),
    )
    return receiver
