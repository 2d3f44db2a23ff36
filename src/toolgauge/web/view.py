"""The web view of a running service: it sees scorecards in passing, and answers with pages about them."""

import asyncio
from collections.abc import Iterable, Sequence

from toolgauge.config.model import Web
from toolgauge.export.redact import Redactor
from toolgauge.model.delivery import Outgoing
from toolgauge.model.outcomes import Scorecard
from toolgauge.pipeline.pipeline import ScorecardSink
from toolgauge.service.service import Service
from toolgauge.settings import split_address
from toolgauge.web.endpoint import WebEndpoint
from toolgauge.web.kept import TrajectoryStore
from toolgauge.web.pages import Page, PageGroup, Pages
from toolgauge.web.running import Running, Shown, WatchedStreams, Writing
from toolgauge.web.trajectory_pages import TrajectoryPages


class WebView:
    """Shows what passes through a sink. `observe` before the service is made, `open`, `start` and `stop` around it."""

    def __init__(self, settings: Web, redactor: Redactor, trace_url: str | None) -> None:
        self._settings = settings
        store = TrajectoryStore(settings.max_trajectories, settings.max_bytes)
        self._shown = Shown(store, Writing(redactor=redactor, trace_url=trace_url))
        self._endpoint = WebEndpoint(settings, _routes(_page_groups(Pages(), self._shown)))

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
        return _ObservedSink(sink, self._shown.store)

    def open(self, service: Service) -> None:
        """Show this service, too. Belongs to the event loop that it runs on."""
        watching = service.watching
        self._shown.running = Running(
            health=service.health,
            registry=service.metrics.registry,
            streams=None if watching is None else WatchedStreams(watching, service.health, asyncio.get_running_loop()),
            clock=service.clock,
        )

    def adopt(self, redactor: Redactor, trace_url: str | None) -> None:
        """Write explanations and links by these settings from here on."""
        self._shown.writing = Writing(redactor=redactor, trace_url=trace_url)

    async def start(self) -> None:
        """Listen. Raise `StartError` when the address cannot be had."""
        await self._endpoint.start()

    async def stop(self) -> None:
        """Stop listening. Works twice and without a start."""
        await self._endpoint.stop()


def _page_groups(pages: Pages, shown: Shown) -> tuple[PageGroup, ...]:
    return (TrajectoryPages(pages, shown),)


def _routes(groups: Iterable[PageGroup]) -> dict[str, Page]:
    return {path: page for group in groups for path, page in group.routes().items()}


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
