"""The judges while they change: those that go answer what they were asked, others are asked from then on."""

import asyncio
import logging
from collections.abc import Iterator

from toolgauge.judge.disabled import DisabledJudges
from toolgauge.judge.judges import Judges
from toolgauge.model.judging import Answers, Inquiry
from toolgauge.model.trajectory import Trajectory
from toolgauge.selfmetrics import JudgeMetrics

_LOG = logging.getLogger("toolgauge")
# How long judges that go may take for what they were asked.
_HANDOVER_S = 300.0


class Bench:
    """Implements `model.judging.Judging` with the judges that sit; `None` while no criterion asks for any."""

    def __init__(self, judges: Judges | None, metrics: JudgeMetrics) -> None:
        self._judges = judges
        self._nobody = DisabledJudges("no judge is configured")
        self._metrics = metrics
        self._leaving: dict[Judges, asyncio.Task[None]] = {}
        self._left: list[Answers] = []
        self._observe()

    @property
    def sits(self) -> bool:
        """Tell whether there are judges."""
        return self._judges is not None

    def put(self, trajectory: Trajectory, inquiries: tuple[Inquiry, ...]) -> None:
        """Take the inquiries about one trajectory."""
        (self._judges or self._nobody).put(trajectory, inquiries)

    def take(self) -> list[Answers]:
        """Hand over what has been answered since the last time, by whomever."""
        answers, self._left = [*self._left, *self._nobody.take()], []
        for judges in self._all():
            answers.extend(judges.take())
        return answers

    async def start(self) -> None:
        """Begin to ask."""
        if self._judges is not None:
            await self._judges.start()

    async def replace(self, judges: Judges | None) -> None:
        """Ask others from here on."""
        if judges is not None:
            await judges.start()
        gone, self._judges = self._judges, judges
        self._observe()
        if gone is not None:
            self._leaving[gone] = asyncio.create_task(self._let_go(gone))

    async def drain(self, timeout_s: float) -> None:
        """Wait until all that was put has been answered, for as long at most."""
        await asyncio.gather(*(judges.drain(timeout_s) for judges in self._all()))

    async def close(self) -> None:
        """Stop asking; what is open ends as `incomplete`. May be called twice and without a start."""
        tasks = tuple(self._leaving.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(judges.close() for judges in self._all()))

    async def _let_go(self, judges: Judges) -> None:
        await judges.drain(_HANDOVER_S)
        await judges.close()
        self._left.extend(judges.take())
        del self._leaving[judges]

    def _all(self) -> Iterator[Judges]:
        if self._judges is not None:
            yield self._judges
        yield from self._leaving

    def _observe(self) -> None:
        self._metrics.queue.observe = lambda: {(): sum(judges.open_count for judges in self._all())}
        self._metrics.in_flight.observe = lambda: {(): sum(judges.in_flight for judges in self._all())}
