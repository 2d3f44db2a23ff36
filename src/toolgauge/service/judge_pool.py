"""The judges while they change: those that go answer what they were asked, others are asked from then on."""

import asyncio
import logging
from collections import deque
from collections.abc import Iterator

from toolgauge.judge.disabled import DisabledJudges
from toolgauge.judge.judges import Judges
from toolgauge.model.judging import Answers, Inquiry
from toolgauge.model.trajectory import Trajectory
from toolgauge.selfmetrics import JudgeMetrics

_LOG = logging.getLogger("toolgauge")
# How long judges that go may take for what they were asked.
_HANDOVER_S = 300.0


class JudgePool:
    """Implements `model.judging.Judging` with the judges that sit; `None` while no criterion asks for any."""

    def __init__(self, judges: Judges | None, metrics: JudgeMetrics) -> None:
        self._judges = judges
        self._nobody = DisabledJudges("no judge is configured")
        self._metrics = metrics
        self._leaving: dict[Judges, asyncio.Task[None]] = {}
        self._answered: deque[Answers] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._observe()

    @property
    def has_judges(self) -> bool:
        """Tell whether there are judges."""
        return self._judges is not None

    def put(self, trajectory: Trajectory, inquiries: tuple[Inquiry, ...]) -> None:
        """Take the inquiries about one trajectory; from any thread."""
        if self._loop is None:
            self._put(trajectory, inquiries)
        else:
            self._loop.call_soon_threadsafe(self._put, trajectory, inquiries)

    def take(self) -> list[Answers]:
        """Hand over what had been answered at the last `collect`; from any thread."""
        taken: list[Answers] = []
        while self._answered:
            taken.append(self._answered.popleft())
        return taken

    def collect(self) -> None:
        """Gather what has been answered since the last time, by whichever judges."""
        self._answered.extend(self._nobody.take())
        for judges in self._all():
            self._answered.extend(judges.take())

    def _put(self, trajectory: Trajectory, inquiries: tuple[Inquiry, ...]) -> None:
        (self._judges or self._nobody).put(trajectory, inquiries)

    async def start(self) -> None:
        """Begin to ask."""
        self._loop = asyncio.get_running_loop()
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
        # What the worker has just put is taken first.
        await asyncio.sleep(0)
        await asyncio.gather(*(judges.drain(timeout_s) for judges in self._all()))
        self.collect()

    async def close(self) -> None:
        """Stop asking; what is open ends as `incomplete`. May be called twice and without a start."""
        tasks = tuple(self._leaving.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(judges.close() for judges in self._all()))
        self.collect()

    async def _let_go(self, judges: Judges) -> None:
        await judges.drain(_HANDOVER_S)
        await judges.close()
        self._answered.extend(judges.take())
        del self._leaving[judges]

    def _all(self) -> Iterator[Judges]:
        if self._judges is not None:
            yield self._judges
        yield from self._leaving

    def _observe(self) -> None:
        self._metrics.queue.observe = lambda: {(): sum(judges.open_count for judges in self._all())}
        self._metrics.in_flight.observe = lambda: {(): sum(judges.in_flight for judges in self._all())}
