"""Writes scores into a backend over HTTP, with a queue like other destinations, and reads people's verdicts from it.

A vendor is a function that yields its requests one by one and is sent the answers, so that it does no I/O. Refusals that it
does not read itself are judged here by their status, for all vendors alike.

Small requests are joined, requests that are too large are halved. A score whose span the backend does not have waits
beside the queue, so that others pass. The books: accepted = delivered + left_out + dropped(reason) + waiting, in scores.
"""

import asyncio
import random
import re
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from toolgauge.backends.settings import BackendSettings
from toolgauge.export.destination import Backoff, Destination, wait
from toolgauge.export.score_lines import Score, decoded, encoded
from toolgauge.export.send_queue import SendQueue
from toolgauge.export.sender import Delivered, HttpAnswer, HttpClient, Permanent, Transient, Verdict
from toolgauge.model.delivery import Outgoing, Signal
from toolgauge.model.feedback import Feedback
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.state.ledger import Ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """`path` is behind the endpoint; the vendor reads the answers with one of the statuses `reads` itself."""

    path: str
    body: object = None
    method: str = "POST"
    reads: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """The scores that the backend did not take: `late` ones whose span it lacks, and scores that it has no form for."""

    late: Sequence[Score] = field(default=())
    left_out: int = 0
    rejected: int = 0


_Ended = TypeVar("_Ended")
Exchange: TypeAlias = Generator[Request, HttpAnswer, _Ended]
Write: TypeAlias = Callable[[Sequence[Score]], Exchange[Rest]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoresTaken(Delivered):
    """The backend took the scores, except `late` ones, as lines, and scores that it has no form for."""

    late: bytes = b""
    left_out: int = 0


class ScoreSender:
    """Writes scores by the `write` of a vendor."""

    def __init__(self, settings: BackendSettings, write: Write, headers: Mapping[str, str]) -> None:
        self._endpoint, self._write = settings.endpoint, write
        tls = None if settings.tls is None or settings.tls.insecure else settings.tls
        self._client = HttpClient(
            tls,
            settings.timeout,
            connections=settings.queue.num_consumers,
            headers={**headers, "Content-Type": "application/json"},
            reads_errors=True,
        )
        self.renew, self.close = self._client.renew, self._client.close

    async def start(self) -> None:
        """Open the connection pool, as `HttpClient.start`."""
        await self._client.start([self._endpoint])

    async def send(self, signal: Signal, body: bytes) -> Verdict:  # noqa: ARG002 (scores alone come here)
        """Write the scores once."""
        scores = decoded(body)
        rest = await self.exchange(self._write(scores))
        if not isinstance(rest, Rest):
            return rest
        unreadable = body.count(b"\n") - len(scores)
        return ScoresTaken(rejected=rest.rejected + unreadable, late=encoded(rest.late), left_out=rest.left_out)

    async def exchange(self, exchange: Exchange[_Ended]) -> _Ended | Transient | Permanent:
        """Ask and answer until the vendor has ended, or the backend refused."""
        try:
            request = next(exchange)
            while True:
                content = None if request.body is None else msgspec.json.encode(request.body)
                answer = await self._client.exchange(request.method, self._endpoint + request.path, content)
                if not isinstance(answer, HttpAnswer):
                    return answer
                verdict = answer.verdict
                if isinstance(verdict, Permanent) and (answer.status >= 500 or answer.status == 408):
                    # Not as in OTLP, where a Collector answers 500 for a request that the next hop refuses for good.
                    refusal = Transient(verdict.reason, answer.retry_after_s)
                else:
                    refusal = None if isinstance(verdict, Delivered) else verdict
                if refusal is not None and answer.status not in request.reads:
                    return refusal
                request = exchange.send(answer)
        except StopIteration as end:
            ended: _Ended = end.value
            return ended
        except msgspec.MsgspecError:
            # A login page, or another service: `endpoint` may be wrong.
            return Transient("unreadable_answer")


_TRACE = re.compile(r"\btrace ([0-9a-f]{32})\b")


def trace_of_mark(explanation: str) -> str | None:
    """Return the trace that the mark of a queued run names."""
    found = _TRACE.search(explanation)
    return None if found is None else found[1]


Reading: TypeAlias = Exchange[list[Feedback]]
_Given: TypeAlias = str | float | bool | None


def verdict(
    name: str, given: _Given, trace_id: str | None, conversation_id: str | None = None, label: str | None = None
) -> Iterator[Feedback]:
    """Yield the verdict of a value that is a number or a word; none where it is about neither trace nor conversation."""
    if not trace_id and not conversation_id:
        return
    value = float(given) if isinstance(given, int | float) and not isinstance(given, bool) else None
    word = given if isinstance(given, str | bool) else None
    yield Feedback(
        name=name,
        label=label or word,
        value=value,
        trace_id=trace_id or None,
        conversation_id=None if trace_id else conversation_id,
    )


_JOINED_BYTES = 256 * 1024
# Attempts for late scores at the end of the process, and the wait before each.
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
        """Queue the lines; False without room."""
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
                and (one.to == self.name if one.to else one.by_person or takes(one.name, one.level, one.word))
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
            self.health.succeeded("scores")
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
