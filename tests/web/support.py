"""An endpoint of the web view on a real socket, with pages of the tests."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

from toolgauge.config.model import Web
from toolgauge.model.metrics import MetricRegistry
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.service.process import Faults
from toolgauge.web.endpoint import HEADERS, WebEndpoint
from toolgauge.web.live_updates import LiveUpdates
from toolgauge.web.pages import Page

LOOPBACK = Web(endpoint="127.0.0.1:0")


@asynccontextmanager
async def serving(
    routes: Mapping[str, Page],
    settings: Web = LOOPBACK,
    *,
    live: LiveUpdates | None = None,
    metrics: SelfMetrics | None = None,
) -> AsyncGenerator[str, None]:
    """Serve these pages; the URL."""
    live = LiveUpdates((), HEADERS) if live is None else live
    faults = Faults(SelfMetrics(MetricRegistry()) if metrics is None else metrics)
    endpoint = WebEndpoint(settings, routes, live, faults)
    await endpoint.start()
    live.start()
    try:
        yield f"http://127.0.0.1:{endpoint.port}"
    finally:
        await live.stop()
        await endpoint.stop()
