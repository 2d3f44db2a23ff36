"""Sends the scores of recorded traffic to backends, on the thread that scores."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from toolgauge.backends.settings import BackendSettings
from toolgauge.backends.vendors import backend_destination
from toolgauge.config.model import Config
from toolgauge.export.fan_out import FanOut
from toolgauge.export.score_lines import ScoreLines
from toolgauge.model.metrics import MetricRegistry
from toolgauge.model.outcomes import Scorecard
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.service.destinations import USER_AGENT
from toolgauge.service.pipeline_factory import redactor
from toolgauge.settings import SECOND

# Spans of a backlog are there already; a person waits.
_LATE_NS = 30 * SECOND
_TOGETHER = 100
_LOOK_AGAIN_S = 0.1
_CLOSING_S = 5.0


class ScoreBacklog:
    """Sends while `add` is called, and the rest at the end. `on_wait` gets the number of waiting scores. Raises `StartError`."""

    def __init__(
        self, config: Config, to: Mapping[str, BackendSettings], on_wait: Callable[[int], None] = lambda _waiting: None
    ) -> None:
        metrics = SelfMetrics(MetricRegistry())
        self._scores = metrics.scores
        self._destinations = [
            backend_destination(name, _patient(settings), metrics, USER_AGENT) for name, settings in to.items()
        ]
        self._half_bytes = min(settings.queue.max_bytes for settings in to.values()) // 2
        self._outbox = FanOut(self._destinations, metrics)
        self._lines = ScoreLines(redactor(config), [settings.scores for settings in to.values()])
        self._scorecards: list[Scorecard] = []
        self._on_wait = on_wait
        self._loop = asyncio.new_event_loop()

    def __enter__(self) -> Self:
        self._loop.run_until_complete(self._outbox.start())
        return self

    def __exit__(
        self, error: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self._put()
                self._loop.run_until_complete(self._sent(at_most=0))
                self._loop.run_until_complete(self._outbox.drain(_CLOSING_S))
        finally:
            self._loop.run_until_complete(self._outbox.close())
            self._loop.close()

    def add(self, scorecard: Scorecard) -> None:
        """Send the scores of a scorecard; wait while the backends are behind."""
        self._scorecards.append(scorecard)
        if len(self._scorecards) >= _TOGETHER:
            self._put()
            self._loop.run_until_complete(self._sent(at_most=self._half_bytes))

    def counts(self) -> dict[str, Counter[str]]:
        """Count the scores of each backend by outcome, dropped ones by reason."""
        counted = {each.name: Counter[str]() for each in self._destinations}
        for (name, outcome, reason), count in self._scores.cells.items():
            counted[name][reason or outcome] += int(count)
        return counted

    def _put(self) -> None:
        scorecards, self._scorecards = self._scorecards, []
        for outgoing in self._lines.requests(scorecards):
            self._outbox.put(outgoing)

    async def _sent(self, *, at_most: int) -> None:
        await asyncio.sleep(0)
        while any(each.queue.size_bytes > at_most for each in self._destinations):
            self._on_wait(int(max(each.waiting for each in self._destinations)))
            await asyncio.sleep(_LOOK_AGAIN_S)


def _patient(settings: BackendSettings) -> BackendSettings:
    if "late" in settings.model_fields_set:
        return settings
    return settings.model_copy(update={"late": min(settings.late, _LATE_NS)})
