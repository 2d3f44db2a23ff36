"""The endpoint that Prometheus scrapes.

Cells are copied on the event loop, where they move, and written as text in a thread: tens of thousands of
lines take longer than receivers may stand still.
"""

import asyncio
import logging
from collections.abc import Mapping

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from toolgauge.export.metric_data import snapshot
from toolgauge.export.openmetrics import render
from toolgauge.model.errors import StartError
from toolgauge.model.metrics import MetricRegistry
from toolgauge.net.auth import TokenGuard
from toolgauge.net.listen import Listeners
from toolgauge.net.tls import ServerTls

_STOP_TIMEOUT_S = 2.0
# Scrapes come more often; whoever says nothing for longer does not keep a descriptor.
_IDLE_TIMEOUT_S = 120.0


class MetricsEndpoint:
    """Serves metrics to Prometheus.

    `GET /metrics` at `endpoint` (`host:port`; port 0 takes any free one).
    """

    def __init__(
        self,
        endpoint: str,
        registry: MetricRegistry,
        resource: Mapping[str, str],
        *,
        start_ns: int,
        tls: ServerTls | None = None,
        guard: TokenGuard | None = None,
        idle_timeout_s: float = _IDLE_TIMEOUT_S,
    ) -> None:
        self._endpoint = endpoint
        self._tls = tls
        self._guard = guard
        self._idle_timeout_s = idle_timeout_s
        self._listeners: Listeners | None = None
        self._registry = registry
        self._resource = resource
        self._start_ns = start_ns
        self._runner: web.AppRunner | None = None
        # One scrape is written at a time: clients that ask all at once share no core but wait.
        self._writing = asyncio.Lock()

    @property
    def port(self) -> int:
        """The port in use; 0 before `start`."""
        return 0 if self._listeners is None else self._listeners.port

    async def start(self) -> None:
        """Listen. Raises `StartError` when the address cannot be had."""
        app = web.Application()
        app.router.add_get("/metrics", self._metrics)
        runner = web.AppRunner(
            app,
            access_log=None,
            handle_signals=False,
            shutdown_timeout=_STOP_TIMEOUT_S,
            keepalive_timeout=self._idle_timeout_s,
            logger=_logger(),
        )
        await runner.setup()
        server = runner.server
        if server is None:
            raise StartError("the metrics endpoint has no server")
        listeners = Listeners(server, self._endpoint, self._tls)
        try:
            await listeners.start()
        except BaseException:
            await runner.cleanup()
            raise
        self._runner, self._listeners = runner, listeners

    async def stop(self) -> None:
        """Stop listening; a scrape under way gets a moment to finish. Works twice and without a start."""
        if self._listeners is not None:
            await self._listeners.stop()
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _metrics(self, request: web.Request) -> web.Response:
        if self._guard is not None and not self._guard.admits(request.headers.get(self._guard.header)):
            return web.Response(status=401, headers={"WWW-Authenticate": self._guard.challenge})
        accept = ",".join(request.headers.getall("Accept", []))
        async with self._writing:
            metrics = snapshot(self._registry)
            body, content_type = await asyncio.to_thread(
                render, metrics, self._resource, accept=accept, start_ns=self._start_ns
            )
        return web.Response(body=body, headers={"Content-Type": content_type})


def _logger() -> logging.Logger:
    logger = logging.getLogger("toolgauge.emit.scrape")
    logger.addFilter(_is_ours)
    return logger


def _is_ours(record: logging.LogRecord) -> bool:
    """Pass over what aiohttp cannot read as HTTP: it would log a stack trace with the client's bytes each time."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))
