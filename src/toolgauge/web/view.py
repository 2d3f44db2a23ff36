"""The web view of a running service: it sees scorecards in passing, and answers with pages about them."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol
from urllib.parse import quote

from toolgauge.config.model import Web
from toolgauge.export.redact import Redactor
from toolgauge.model.delivery import Outgoing
from toolgauge.model.metrics import MetricRegistry
from toolgauge.model.outcomes import Scorecard
from toolgauge.model.trajectory import Trajectory
from toolgauge.pipeline.stages import ScorecardSink
from toolgauge.score.scorer import ReadingScope
from toolgauge.selfmetrics import SelfMetrics, WatchMetrics
from toolgauge.service.health import Health
from toolgauge.service.process import Faults
from toolgauge.settings import split_address
from toolgauge.web.endpoint import HEADERS, WebEndpoint
from toolgauge.web.gap_pages import GapPages
from toolgauge.web.health_pages import HealthPages
from toolgauge.web.kept import TrajectoryStore, trajectory_id
from toolgauge.web.live_updates import LiveUpdates, Source
from toolgauge.web.pages import Page, PageGroup, Pages
from toolgauge.web.running import Listening, Running, Shown, WatchedStreams, Watching, Writing
from toolgauge.web.stream_pages import StreamPages
from toolgauge.web.trajectory_pages import TrajectoryPages

_FIGURES_EVERY_S = 5.0
_MAX_ID = 64
_ALL_ADDRESSES = ("", "0.0.0.0", "::")  # noqa: S104 (nothing is bound here)


class Viewed(Protocol):
    """A running service, as far as pages show it."""

    @property
    def watching(self) -> Watching | None:
        """What watches scores; `None` where nothing does."""
        ...

    @property
    def metrics(self) -> SelfMetrics:
        """Its counters."""
        ...

    @property
    def health(self) -> Health:
        """How it fares."""
        ...

    @property
    def clock(self) -> Callable[[], int]:
        """Wall-clock time in nanoseconds."""
        ...

    @property
    def receivers(self) -> Sequence[Listening]:
        """The receivers of OTLP over gRPC and HTTP."""
        ...

    @property
    def reading_scope(self) -> ReadingScope:
        """What it reads, by now."""
        ...


class WebView:
    """Shows what passes through a sink. `observe` before the service is made, `start` and `stop` around it."""

    def __init__(
        self, settings: Web, redactor: Redactor, trace_url: str | None, pass_at: Mapping[str, float] | None = None
    ) -> None:
        """`pass_at` has the least score that passes, by the criterion's revision."""
        self._settings = settings
        store = TrajectoryStore(settings.max_trajectories, settings.max_bytes)
        self._shown = Shown(store, Writing(redactor=redactor, trace_url=trace_url, pass_at=pass_at or {}))
        self._live: LiveUpdates | None = None
        self._endpoint: WebEndpoint | None = None

    @property
    def port(self) -> int:
        """The port in use; 0 before `start`."""
        return 0 if self._endpoint is None else self._endpoint.port

    @property
    def url(self) -> str:
        """Where a browser on this machine finds it."""
        host, _ = split_address(self._settings.endpoint)
        scheme = "http" if self._settings.tls is None else "https"
        return f"{scheme}://{_reachable(host)}:{self.port}"

    def page_url(self, trajectory: Trajectory) -> str:
        """Return the address of a trajectory's page, which is there as long as the trajectory is kept."""
        return f"{self.url}/trajectories/{quote(trajectory_id(trajectory), safe='', errors='replace')[:_MAX_ID]}"

    def observe(self, sink: ScorecardSink) -> ScorecardSink:
        """Wrap a sink: what passes through it is shown."""
        return _ObservedSink(sink, self._shown.store)

    def show(self, scorecard: Scorecard) -> None:
        """Show a scorecard. Any thread may call."""
        self._shown.store.add(scorecard)

    def adopt(self, redactor: Redactor, trace_url: str | None, pass_at: Mapping[str, float]) -> None:
        """Write explanations and links by these settings from here on. Results of earlier criteria stay."""
        known = {**self._shown.writing.pass_at, **pass_at}
        self._shown.writing = Writing(redactor=redactor, trace_url=trace_url, pass_at=known)

    async def start(self, service: Viewed) -> None:
        """Listen, and show this service, which may start later. Raise `StartError` when the address cannot be had."""
        watching, metrics = service.watching, service.metrics
        loop = asyncio.get_running_loop()
        self._shown.running = Running(
            health=service.health,
            registry=metrics.registry,
            streams=None if watching is None else WatchedStreams(watching, service.health, loop),
            clock=service.clock,
            loop=loop,
            receivers=service.receivers,
            wants_content=lambda: service.reading_scope.content,
        )
        self._live = LiveUpdates(_sources(self._shown.store, metrics.watch, service.clock), HEADERS)
        _measure(metrics.registry, self._shown.store, self._live)
        routes = _routes(_page_groups(Pages(), self._shown))
        self._endpoint = WebEndpoint(self._settings, routes, self._live, Faults(metrics))
        await self._endpoint.start()
        self._live.start()

    async def stop(self) -> None:
        """Stop listening. Works twice and without a start."""
        if self._live is not None:
            await self._live.stop()
        if self._endpoint is not None:
            await self._endpoint.stop()


def _page_groups(pages: Pages, shown: Shown) -> tuple[PageGroup, ...]:
    return (
        TrajectoryPages(pages, shown),
        StreamPages(pages, shown),
        GapPages(pages, shown),
        HealthPages(pages, shown),
    )


def _routes(groups: Iterable[PageGroup]) -> dict[str, Page]:
    return {path: page for group in groups for path, page in group.routes().items()}


def _sources(store: TrajectoryStore, watch: WatchMetrics, clock: Callable[[], int]) -> Iterator[Source]:
    """Yield what pages follow: an alarm is shown at once, figures that move with every trajectory now and then."""
    yield Source(name="trajectories", stamp=lambda: store.changes)
    # A copy, made at one go: the worker adds streams meanwhile.
    yield Source(name="streams", stamp=lambda: (list(watch.alarms.cells.values()), list(watch.active.cells.values())))
    yield Source(name="streams", stamp=lambda: store.changes, every_s=_FIGURES_EVERY_S)
    yield Source(name="health", stamp=clock, every_s=_FIGURES_EVERY_S)


def _measure(registry: MetricRegistry, store: TrajectoryStore, live: LiveUpdates) -> None:
    """Register what the view keeps, and how many look at it."""
    registry.gauge("toolgauge.web.trajectories", "{trajectory}", "Trajectories that the web view shows.").observe = (
        lambda: {(): len(store)}
    )
    registry.gauge(
        "toolgauge.web.trajectories.bytes", "By", "About how much memory the trajectories of the web view take."
    ).observe = lambda: {(): store.size_bytes}
    registry.counter(
        "toolgauge.web.trajectories.evicted",
        "{trajectory}",
        "Trajectories that the web view no longer shows because later ones took their room: raise "
        "`web.max_trajectories` and `web.max_bytes` to look further back.",
    ).observe = lambda: {(): store.evicted}
    registry.gauge(
        "toolgauge.web.clients", "{client}", "Open pages of the web view that follow what happens."
    ).observe = lambda: {(): live.clients}


def _reachable(host: str) -> str:
    """Return a host to ask for what listens on `host`, which may be all addresses."""
    if host in _ALL_ADDRESSES:
        return "localhost"
    return f"[{host}]" if ":" in host else host


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
