"""The web view of a running service: it sees scorecards in passing, and answers with pages about them."""

import asyncio
from collections.abc import Iterable, Sequence

from aiohttp import web

from toolgauge.config.model import Web
from toolgauge.export.redact import Redactor
from toolgauge.model.delivery import Outgoing
from toolgauge.model.outcomes import Scorecard
from toolgauge.pipeline.pipeline import ScorecardSink
from toolgauge.settings import split_address
from toolgauge.web.endpoint import WebEndpoint
from toolgauge.web.kept import TrajectoryStore
from toolgauge.web.pages import Pages


class WebView:
    """Shows what passes through a sink. `observe` before the service is made, `start` and `stop` around it."""

    def __init__(self, settings: Web, redactor: Redactor, trace_url: str | None) -> None:
        self._settings = settings
        self._redactor = redactor
        self._trace_url = trace_url
        self.store = TrajectoryStore(settings.max_trajectories, settings.max_bytes)
        self._pages = Pages()
        self._endpoint = WebEndpoint(settings, {"/": self._trajectories, "/trajectories": self._trajectories})

    @property
    def port(self) -> int:
        """The port in use; 0 before `start`."""
        return self._endpoint.port

    @property
    def address(self) -> str:
        """Where a browser on this machine finds it, as `host:port`."""
        host, _ = split_address(self._settings.endpoint)
        return f"{host or 'localhost'}:{self.port}"

    def observe(self, sink: ScorecardSink) -> ScorecardSink:
        """Wrap a sink: what passes through it is shown."""
        return _ObservedSink(sink, self.store)

    def adopt(self, redactor: Redactor, trace_url: str | None) -> None:
        """Write explanations and links by these settings from here on."""
        self._redactor = redactor
        self._trace_url = trace_url

    async def start(self) -> None:
        """Listen. Raise `StartError` when the address cannot be had."""
        await self._endpoint.start()

    async def stop(self) -> None:
        """Stop listening. Works twice and without a start."""
        await self._endpoint.stop()

    async def _trajectories(self, request: web.BaseRequest) -> str | None:
        del request
        return await asyncio.to_thread(
            self._pages.page,
            "trajectories.html",
            section="trajectories",
            title="Trajectories",
            kept=self.store.newest()[:50],
        )


class _ObservedSink:
    """A sink of scorecards that keeps them, too."""

    def __init__(self, sink: ScorecardSink, store: TrajectoryStore) -> None:
        self._sink = sink
        self._store = store

    def record(self, scorecard: Scorecard) -> None:
        """Pass the scorecard on, and keep it."""
        self._sink.record(scorecard)
        self._store.add(scorecard)

    def requests(self, scorecards: Sequence[Scorecard]) -> Iterable[Outgoing]:
        """Pass the requests on."""
        return self._sink.requests(scorecards)
