"""The queue of a backend that takes scores: what a destination does, for requests that are lines of scores.

Small requests are joined, requests that are too large are halved. A score whose span the backend does not have waits
beside the queue, so that others pass. The books: accepted = delivered + left_out + dropped(reason) + waiting, in scores.
"""

import asyncio
import random
import time
from collections.abc import Sequence

from msgspec.structs import replace

from toolgauge.backends.score_sender import ScoreSender, ScoresTaken
from toolgauge.backends.settings import BackendSettings
from toolgauge.export.destination import Backoff, Destination, wait
from toolgauge.export.score_lines import decoded, encoded
from toolgauge.export.send_queue import SendQueue
from toolgauge.export.sender import Delivered
from toolgauge.model.delivery import Outgoing
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.state.ledger import Ledger

_JOINED_BYTES = 256 * 1024
# At the end of the process: so many attempts for late scores, and the wait before each.
_LAST_ATTEMPTS = 8
_LAST_WAIT_S = 0.25


class ScoreDestination(Destination):
    """Sends scores to one backend."""

    def __init__(
        self, name: str, settings: BackendSettings, metrics: SelfMetrics, sender: ScoreSender, ledger: Ledger
    ) -> None:
        super().__init__(settings.as_destination(name), metrics, sender, ledger)
        self.backend = settings
        self.queue = SendQueue(max_bytes=settings.queue.max_bytes, own_reserve_bytes=0)
        self._filter = settings.scores
        self._late_retry = settings.retry.model_copy(update={"max_elapsed_time": settings.late})
        self._newly_late: list[Outgoing] = []
        self._late = set[asyncio.Task[None]]()
        self._slots = asyncio.Semaphore(settings.queue.num_consumers)

    @property
    def waiting(self) -> float:
        """Scores that were accepted and have not ended."""
        cells = self._metrics.scores.cells
        return sum(
            count if outcome == "accepted" else -count
            for (name, outcome, _), count in tuple(cells.items())
            if name == self.name
        )

    def put(self, outgoing: Outgoing) -> bool:
        """Queue the lines; False when there is no room."""
        self._count("accepted", _scores(outgoing))
        return super().put(outgoing)

    async def _take(self) -> Outgoing | None:
        while (first := await self.queue.take()) is not None:
            joined = _join([first, *self.queue.take_more(_JOINED_BYTES - len(first.body))])
            scores = decoded(joined.body)
            takes = self._filter.takes
            wanted = [
                one
                for one in scores
                if not self.is_dropped(one.trace_id)
                and (one.to == self.name if one.to else takes(one.name, one.level, one.word))
            ]
            left_out = _scores(joined) - len(wanted)
            self._count("left_out", left_out)
            if left_out:
                joined = self.queue.shrink(joined, encoded(wanted))
            if wanted:
                return joined
            self._settle(joined)
        return None

    async def _deliver(self, outgoing: Outgoing) -> tuple[Outgoing, ...]:
        late, halves = await self._send_once(outgoing)
        if late is not None:
            self._newly_late.append(late)
            if len(self._newly_late) == 1:
                task = asyncio.create_task(self._send_late())
                self._late.add(task)
                task.add_done_callback(self._late.discard)
        return halves

    async def _work(self) -> None:
        await super()._work()
        if self._late:
            await asyncio.wait(self._late)

    async def _stop_tasks(self) -> None:
        await super()._stop_tasks()
        tasks = tuple(self._late)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _send_once(self, outgoing: Outgoing) -> tuple[Outgoing | None, tuple[Outgoing, ...]]:
        """Send until the backend answers; return the late part, or the halves to send instead."""
        count = _scores(outgoing)
        if count > self.backend.most_together:
            return None, self._halves(outgoing)
        async with self._slots:
            verdict = await self._sent(outgoing)
        if isinstance(verdict, Delivered):
            taken = verdict if isinstance(verdict, ScoresTaken) else ScoresTaken()
            self._count("delivered", count - taken.rejected - taken.left_out - taken.late.count(b"\n"))
            self._count("left_out", taken.left_out)
            self._count("dropped", taken.rejected, "rejected")
            self.health.succeeded()
            self.health.taken("scores")
            rest = self.queue.shrink(outgoing, taken.late)
            if rest.body:
                return rest, ()
            self._settle(rest)
        elif verdict.is_about_content and count > 1:
            return None, self._halves(outgoing)
        else:
            if verdict.is_lasting:
                self.health.refused("scores", verdict.reason)
            self._drop(outgoing, verdict.reason)
        return None, ()

    def _halves(self, outgoing: Outgoing) -> tuple[Outgoing, ...]:
        self._ledger.claim_deliveries(outgoing.entries)
        lines = outgoing.body.splitlines(keepends=True)
        middle = len(lines) // 2
        return tuple(replace(outgoing, body=b"".join(half)) for half in (lines[middle:], lines[:middle]))

    async def _send_late(self) -> None:
        """Send late scores again until the backend has their spans; what becomes late before the first attempt goes along."""
        began_s, backoff, attempts = time.monotonic(), Backoff(self._late_retry, random.random), 0
        waiting, sending = self._newly_late, list[Outgoing]()
        try:
            while waiting and attempts <= _LAST_ATTEMPTS:
                wait_s = backoff.next_wait_s(elapsed_s=time.monotonic() - began_s, retry_after_s=None)
                if wait_s is None:
                    break
                if self._stopping.is_set():
                    attempts += 1
                    await asyncio.sleep(_LAST_WAIT_S)
                else:
                    await wait(self._stopping, wait_s)
                self._newly_late = [] if waiting is self._newly_late else self._newly_late
                groups: list[list[Outgoing]] = []
                size_bytes = _JOINED_BYTES
                for one in waiting:
                    if size_bytes + len(one.body) > _JOINED_BYTES:
                        groups.append([])
                        size_bytes = 0
                    groups[-1].append(one)
                    size_bytes += len(one.body)
                sending = [_join(group) for group in groups]
                waiting = list[Outgoing]()
                while sending:
                    rest, sending[-1:] = await self._send_once(sending[-1])
                    waiting += () if rest is None else (rest,)
        except asyncio.CancelledError:
            for part in (*waiting, *sending):
                self._give_up(part)
            raise
        self._newly_late = [] if waiting is self._newly_late else self._newly_late
        for part in waiting:
            if attempts > _LAST_ATTEMPTS:
                self._give_up(part)
            else:
                self._drop(part, "no_span")

    def _count(self, outcome: str, scores: int, reason: str = "") -> None:
        if scores:
            self._metrics.scores.add(scores, (self.name, outcome, reason))

    def _count_lost(self, outgoing: Outgoing, spans: int, reason: str) -> None:
        self._count("dropped", _scores(outgoing), reason)
        self.health.dropped(outgoing.signal, reason, spans, self._metrics.scores.name)


def _join(requests: Sequence[Outgoing]) -> Outgoing:
    entries = tuple(entry for one in requests for entry in one.entries)
    return replace(requests[0], body=b"".join([one.body for one in requests]), entries=entries)


def _scores(outgoing: Outgoing) -> int:
    return outgoing.body.count(b"\n")
