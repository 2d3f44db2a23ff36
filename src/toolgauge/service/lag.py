"""How long the event loop keeps what is ready waiting: everything that receives, scores and sends shares one loop."""

import asyncio

from toolgauge.model.metrics import Histogram

_EVERY_S = 0.1


class LoopLag:
    """Sleeps again and again, and records by how much it overslept."""

    def __init__(self, histogram: Histogram) -> None:
        self._histogram = histogram
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to measure on the running loop."""
        self._task = asyncio.create_task(self._measure())

    async def stop(self) -> None:
        """End. Works twice and without a start."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _measure(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            began_s = clock()
            await asyncio.sleep(_EVERY_S)
            self._histogram.record(max(0.0, clock() - began_s - _EVERY_S))
