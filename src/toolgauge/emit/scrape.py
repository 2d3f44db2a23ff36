"""The endpoint that Prometheus scrapes.

Cells are copied on the event loop, where they move, and written as text in a thread: tens of thousands of
lines take longer than receivers may stand still.
"""

import asyncio
import logging
from collections.abc import Mapping

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from toolgauge.emit.metric_data import snapshot
from toolgauge.emit.openmetrics import render
from toolgauge.listen import listen
from toolgauge.model.metrics import MetricRegistry

_BACKLOG = 128
_STOP_TIMEOUT_S = 2.0


class MetricsEndpoint:
    """Serves `GET /metrics` at `endpoint` (`host:port`; port 0 takes any free one)."""

    def __init__(self, endpoint: str, registry: MetricRegistry, resource: Mapping[str, str], *, start_ns: int) -> None:
        self._endpoint = endpoint
        self._registry = registry
        self._resource = resource
        self._start_ns = start_ns
        self._runner: web.AppRunner | None = None
        self._port = 0
        # One scrape is written at a time: clients that ask all at once share no core but wait.
        self._writing = asyncio.Lock()

    @property
    def port(self) -> int:
        """The port in use; 0 before `start`."""
        return self._port

    async def start(self) -> None:
        """Listen. Raises `StartError` when the address cannot be had."""
        sockets = listen(self._endpoint)
        self._port = int(sockets[0].getsockname()[1])
        app = web.Application()
        app.router.add_get("/metrics", self._metrics)
        runner = web.AppRunner(
            app, access_log=None, handle_signals=False, shutdown_timeout=_STOP_TIMEOUT_S, logger=_logger()
        )
        await runner.setup()
        self._runner = runner
        for listening in sockets:
            await web.SockSite(runner, listening, backlog=_BACKLOG).start()

    async def stop(self) -> None:
        """Stop listening; a scrape under way gets a moment to finish. Works twice and without a start."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _metrics(self, request: web.Request) -> web.Response:
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
