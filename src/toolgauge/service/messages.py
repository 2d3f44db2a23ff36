"""`receivers.kafka` in a service: the check of its criteria, and its way to the open traces of the pipeline."""

import functools
from collections.abc import Callable, Sequence

from toolgauge import plugins
from toolgauge.config.model import Config
from toolgauge.model.delivery import Assignment, BrokerMessage, MessageConsumer
from toolgauge.model.errors import ConfigError
from toolgauge.model.journal import ClosedId
from toolgauge.model.ports import MessageReceiver
from toolgauge.pipeline.pipeline import Pipeline
from toolgauge.score.criterion import Criterion
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.service.worker import Worker
from toolgauge.state.ledger import Ledger
from toolgauge.state.offsets import OffsetJournal


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


class OpenTracesOfPipeline:
    """Asks the pipeline on its worker; may be called in any thread that the methods are for."""

    def __init__(self, pipeline: Pipeline, worker: Worker, clock: Callable[[], int]) -> None:
        self._pipeline = pipeline
        self._worker = worker
        self._clock = clock

    async def forget(self) -> int:
        """Drop open trajectories of lost partitions; return how many."""
        return await self._worker.run(self._pipeline.forget)

    async def remember(self, closed: Sequence[ClosedId], begun: Sequence[str]) -> None:
        """Remember what other processes closed, or had begun."""
        await self._worker.run(
            functools.partial(self._pipeline.assembler.recovery.remember, closed, begun, self._clock())
        )

    async def open_traces_of(self, messages: Sequence[BrokerMessage]) -> Sequence[tuple[str, Assignment]]:
        """Return the open traces that need one of these messages, with their partitions."""
        return await self._worker.run(functools.partial(self._pipeline.assembler.recovery.open_traces_of, messages))

    def stall(self) -> None:
        """Close nothing for want of messages, until `resume`."""
        self._worker.post(functools.partial(self._pipeline.assembler.recovery.stall, self._clock()))

    async def stalled(self) -> None:
        """Do so now; return when the scores of what has closed are on their way."""

        def stall() -> None:
            self._pipeline.assembler.recovery.stall(self._clock())
            self._pipeline.flush()

        await self._worker.run(stall)

    def resume(self) -> None:
        """Go on to close."""
        self._worker.post(functools.partial(self._pipeline.assembler.recovery.resume, self._clock()))


def make_message_receiver(
    config: Config,
    consumer: MessageConsumer,
    *,
    offsets: OffsetJournal | None,
    ledger: Ledger | None,
    pipeline: Pipeline,
    worker: Worker,
    metrics: SelfMetrics,
    hop_id: str,
    clock: Callable[[], int],
) -> MessageReceiver | None:
    """Make the receiver of Kafka, where the configuration has one."""
    settings = config.receivers.kafka
    if settings is None or offsets is None or ledger is None:
        return None
    # Loaded by name: the client of the extra `kafka` takes 15 MB.
    receiver: MessageReceiver = plugins.load(plugins.RECEIVERS, "kafka")(
        settings,
        consumer,
        offsets=offsets,
        ledger=ledger,
        traces=OpenTracesOfPipeline(pipeline, worker, clock),
        metrics=metrics,
        hop_id=hop_id,
        clock=clock,
        late_ns=config.assemble.late_memory.for_,
    )
    return receiver
