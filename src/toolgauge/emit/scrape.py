"""The endpoint that Prometheus scrapes.

Cells are copied on the event loop, where they move, and written as text in a thread: tens of thousands of
lines take longer than receivers may stand still.
"""

import asyncio
import errno
import logging
import socket
from collections.abc import Iterator, Mapping

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from toolgauge.emit.metric_data import snapshot
from toolgauge.emit.openmetrics import render
from toolgauge.model.errors import StartError
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
        sockets = _listen(self._endpoint)
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


def _listen(endpoint: str) -> list[socket.socket]:
    host, port = _split(endpoint)
    sockets: list[socket.socket] = []
    failures: list[OSError] = []
    for family, address in _addresses(endpoint, host, port):
        # `localhost` is two addresses; with port 0 both must get the same one.
        wanted = sockets[0].getsockname()[1] if sockets else port
        try:
            sockets.append(_bind(family, (address, wanted)))
        except OSError as error:
            failures.append(error)
    in_use = [error for error in failures if error.errno == errno.EADDRINUSE]
    # A machine without IPv6 may still name `::1`; an address in use is never passed over.
    if in_use or not sockets:
        for bound in sockets:
            bound.close()
        reason = (in_use or failures)[0].strerror
        raise StartError(
            f"cannot listen on `{endpoint}` for metrics: {reason}",
            hint="change `exporters.prometheus.endpoint` or stop what listens there",
        )
    return sockets


def _split(endpoint: str) -> tuple[str, int]:
    host, separator, port = endpoint.rpartition(":")
    if not separator or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise StartError(
            f"`exporters.prometheus.endpoint` is `{endpoint}`, which is not `host:port`",
            hint="for example `localhost:9464`",
        )
    return host.removeprefix("[").removesuffix("]"), int(port)


def _addresses(endpoint: str, host: str, port: int) -> Iterator[tuple[socket.AddressFamily, str]]:
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise StartError(f"cannot listen on `{endpoint}` for metrics: {error.strerror}") from error
    for family, _kind, _protocol, _canonical, address in dict.fromkeys(found):
        yield family, str(address[0])


def _bind(family: socket.AddressFamily, address: tuple[str, int]) -> socket.socket:
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # Otherwise `::` takes IPv4 too and the next bind of the pair fails.
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind(address)
        # Linux notices only here that another process listens on the same address.
        bound.listen(_BACKLOG)
        bound.settimeout(0)
    except OSError:
        bound.close()
        raise
    return bound
