"""A backend on loopback whose answers a test writes, and a destination that sends it scores."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
from aiohttp import web

from tests.export.fakes import FAST, until
from tests.export.scorecards import (
    OTHER_TOOL_SPAN,
    call,
    call_result,
    emitter,
    failed,
    passed,
    scorecard,
    trajectory_result,
)
from toolgauge.backends.score_sender import ScoreDestination
from toolgauge.backends.settings import BackendSettings
from toolgauge.backends.vendors import backend_destination
from toolgauge.export.redact import Redactor
from toolgauge.export.results import EmitSettings
from toolgauge.model.delivery import Outgoing
from toolgauge.model.metrics import MetricRegistry
from toolgauge.model.outcomes import Errored, NotEvaluated, Scorecard
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.state.ledger import NO_LEDGER, Ledger

Json = Any
KEY = "sk-very-private-key-1234567890"


@dataclass(frozen=True)
class Asked:
    """One request as the backend saw it."""

    method: str
    path: str
    query: dict[str, str]
    json: Json
    headers: dict[str, str]
    at_s: float


@dataclass(frozen=True)
class Reply:
    """One answer; `hang_s` waits before it."""

    status: int = 200
    json: Json = None
    text: str = ""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    hang_s: float = 0.0


Answers = Callable[[Asked], Reply]


@dataclass
class Backend:
    """What was asked of a backend, and its URL."""

    answers: Answers
    url: str = ""
    asked: list[Asked] = field(default_factory=list[Asked])


def in_turn(*replies: Reply) -> Answers:
    """Give these answers one after the other, the last one for ever."""
    left = list(replies)
    return lambda _asked: left.pop(0) if len(left) > 1 else left[0]


@asynccontextmanager
async def serving(answers: Answers) -> AsyncGenerator[Backend]:
    """Answer on a free port."""
    backend = Backend(answers)

    async def answer(request: web.Request) -> web.Response:
        body = await request.read()
        asked = Asked(
            request.method,
            request.path,
            dict(request.query),
            msgspec.json.decode(body) if body else None,
            {key.lower(): value for key, value in request.headers.items()},
            asyncio.get_running_loop().time(),
        )
        backend.asked.append(asked)
        reply = backend.answers(asked)
        await asyncio.sleep(reply.hang_s)
        body = reply.text.encode() if reply.json is None else msgspec.json.encode(reply.json)
        return web.Response(status=reply.status, body=body, headers=reply.headers)

    app = web.Application(client_max_size=64 << 20)
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    backend.url = f"http://{host}:{port}"
    try:
        yield backend
    finally:
        await runner.cleanup()


@dataclass
class Sending:
    """A running destination with its books."""

    destination: ScoreDestination
    metrics: SelfMetrics

    def written(self, *cards: Scorecard, show_values: bool = False) -> list[Outgoing]:
        """Write scorecards as the worker does."""
        settings = EmitSettings(annotate="off", events="failed", scores=(self.destination.backend.scores,))
        made = emitter(settings, redactor=Redactor(show_values=show_values)).requests(cards)
        return [outgoing for outgoing in made if outgoing.signal == "scores"]

    def put(self, *cards: Scorecard, show_values: bool = False) -> None:
        """Write scorecards and queue them."""
        for outgoing in self.written(*cards, show_values=show_values):
            if not self.destination.put(outgoing):
                self.destination.miss(outgoing)

    @property
    def books(self) -> dict[str, float]:
        """The scores by outcome, and by reason where they were dropped."""
        return {
            f"{outcome}:{reason}" if reason else outcome: count
            for (_, outcome, reason), count in self.metrics.scores.cells.items()
            if count
        }

    async def settled(self) -> dict[str, float]:
        """Wait until no score waits; return the books, which balance."""
        await until(lambda: not self.destination.waiting, within_s=20)
        assert self.destination.queue.size_bytes == 0
        return self.books


@asynccontextmanager
async def sending(
    settings: BackendSettings, backend: Backend, ledger: Ledger = NO_LEDGER, **changes: object
) -> AsyncGenerator[Sending]:
    """Run the destination of these settings, with quick retries."""
    metrics = SelfMetrics(MetricRegistry())
    changed = settings.model_copy(update={"endpoint": backend.url, "retry": FAST, **changes})
    destination = backend_destination(settings.vendor, changed, metrics, "toolgauge/1", ledger)
    await destination.start()
    try:
        yield Sending(destination, metrics)
    finally:
        await destination.close()


def card() -> Scorecard:
    """Make a run with a failed call, a passed one, a score, an error and something that was not evaluated."""
    return scorecard(
        call_result(failed()),
        call_result(passed(), call("lookup_order", OTHER_TOOL_SPAN)),
        trajectory_result(passed(0.5, "2 of 4 calls")),
        trajectory_result(Errored(error_type="Timeout", message="took too long"), "judge"),
        trajectory_result(NotEvaluated(reason="no_reference"), "refund-match"),
    )
