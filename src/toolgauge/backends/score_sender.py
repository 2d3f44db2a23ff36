"""One attempt to write scores into a backend over HTTP, or to read people's verdicts from it.

A vendor is a function that yields its requests one by one and is sent the answers, so that it does no I/O. Refusals that it
does not read itself are judged here by their status, for all vendors alike.
"""

import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

import msgspec

from toolgauge.backends.settings import BackendSettings
from toolgauge.export.score_lines import Score, decoded, encoded
from toolgauge.export.sender import Delivered, HttpAnswer, HttpClient, Permanent, Transient, Verdict
from toolgauge.model.delivery import Signal


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """`path` is behind the endpoint; the vendor reads the answers with one of the statuses `reads` itself."""

    path: str
    body: object = None
    method: str = "POST"
    reads: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """The scores that the backend did not take: `late` ones whose span it does not have, and those it has no form for."""

    late: Sequence[Score] = field(default=())
    left_out: int = 0
    rejected: int = 0


_Ended = TypeVar("_Ended")
Exchange: TypeAlias = Generator[Request, HttpAnswer, _Ended]
Write: TypeAlias = Callable[[Sequence[Score]], Exchange[Rest]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoresTaken(Delivered):
    """The backend took the scores, except those that are `late`, as lines, and those it has no form for."""

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


class PersonVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict of a person on a run. Without a trace it is about a conversation."""

    name: str
    label: str | bool | None = None
    value: float | None = None
    trace_id: str | None = None
    conversation_id: str | None = None


_TRACE = re.compile(r"\btrace ([0-9a-f]{32})\b")


def trace_of_mark(explanation: str) -> str | None:
    """Return the trace that the mark of a queued run names."""
    found = _TRACE.search(explanation)
    return None if found is None else found[1]


Reading: TypeAlias = Exchange[list[PersonVerdict]]
_Given: TypeAlias = str | float | bool | None


def verdict(
    name: str, given: _Given, trace_id: str | None, conversation_id: str | None = None, label: str | None = None
) -> Iterator[PersonVerdict]:
    """Yield the verdict of a value that is a number or a word; none where it is about neither trace nor conversation."""
    if not trace_id and not conversation_id:
        return
    value = float(given) if isinstance(given, int | float) and not isinstance(given, bool) else None
    word = given if isinstance(given, str | bool) else None
    yield PersonVerdict(
        name=name,
        label=label or word,
        value=value,
        trace_id=trace_id or None,
        conversation_id=None if trace_id else conversation_id,
    )
