"""Reads people's verdicts from backends: once for a file of labels, or regularly as events like the ones of other senders."""

# pyright: reportUnknownMemberType=false

import asyncio
import logging
from collections.abc import Callable, Collection

from toolgauge.backends.settings import BackendSettings
from toolgauge.backends.vendors import pull_verdicts
from toolgauge.config.model import Config, backends
from toolgauge.model.delivery import Accepted, Consumer
from toolgauge.model.errors import RecordingError, ToolgaugeError
from toolgauge.model.feedback import Feedback
from toolgauge.otlp.encode import verdict_events
from toolgauge.service.destinations import USER_AGENT
from toolgauge.service.process import cancelled
from toolgauge.settings import SECOND

_LOG = logging.getLogger("toolgauge")


async def pull(name: str, settings: BackendSettings, since_ns: int) -> list[Feedback]:
    """Read the verdicts of people since a time; raise `RecordingError` when the backend refuses."""
    ended = await pull_verdicts(name, settings, since_ns, USER_AGENT)
    if not isinstance(ended, list):
        raise RecordingError(f"cannot read verdicts from `{name}` ({settings.endpoint}): {ended.reason}")
    return ended


class VerdictPuller:
    """Implements `model.ports.Receiver`: hands each new verdict to its consumer as the event `gen_ai.evaluation.result`.

    Verdicts from before the start are known and not handed on: an earlier process scored their runs.
    """

    def __init__(self, config: Config, consumer: Consumer, clock: Callable[[], int]) -> None:
        assemble, self._every_ns = config.assemble, config.feedback.pull or 0
        self._backends = {name: each for name, each in backends(config.exporters).items() if each.vendor != "datadog"}
        # Some backends find verdicts by the time of the run, and outcomes are not remembered for longer.
        self._back_ns = assemble.max_duration + assemble.late_memory.for_ + self._every_ns
        self._consumer, self._clock = consumer, clock
        self._known: dict[str, Collection[Feedback]] = {}
        self._failing: set[str] = set()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to pull."""
        self._task = asyncio.create_task(self._pull_regularly())

    async def stop(self, grace_s: float) -> None:
        """Pull no more. Works twice and without a start."""
        del grace_s
        if self._task is not None:
            await cancelled(self._task)

    async def _pull_regularly(self) -> None:
        while True:
            for name, settings in self._backends.items():
                await self._pull(name, settings)
            await asyncio.sleep(self._every_ns / SECOND)

    async def _pull(self, name: str, settings: BackendSettings) -> None:
        try:
            verdicts = await pull(name, settings, self._clock() - self._back_ns)
        except ToolgaugeError as error:
            if name not in self._failing:
                _LOG.warning("%s; tried again every %d s", error.message, self._every_ns // SECOND)
            self._failing.add(name)
            return
        self._failing.discard(name)
        known = self._known.get(name)
        new = [one for one in verdicts if known is not None and one not in known]
        if new and not isinstance(
            await self._consumer.consume("logs", verdict_events(new, self._clock()), None), Accepted
        ):
            # Full: the next time they are new again.
            return
        self._known[name] = frozenset(verdicts)
