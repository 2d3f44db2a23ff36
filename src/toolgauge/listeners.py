"""Listening sockets of one endpoint on the event loop, with TLS whose files may change while we run.

A certificate that was renewed is used for the connections that come next; the sockets stay bound meanwhile, so that
nobody is refused.
"""

import asyncio
import logging
import socket
import ssl
from asyncio import BaseProtocol
from collections.abc import Callable

from toolgauge.listen import close_all, listen
from toolgauge.model.errors import StartError
from toolgauge.tls import ServerTls, Watched, server_context

_log = logging.getLogger("toolgauge.listeners")
_HANDSHAKE_TIMEOUT_S = 10.0


class Listeners:
    """Accepts connections at `endpoint` (`host:port`; port 0 takes any free one) and makes a protocol for each."""

    def __init__(self, make_protocol: Callable[[], BaseProtocol], endpoint: str, tls: ServerTls | None = None) -> None:
        self._make_protocol = make_protocol
        self._endpoint = endpoint
        self._tls = tls
        self._sockets: list[socket.socket] = []
        self._servers: list[asyncio.Server] = []
        self._renewing: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        """The port in use; 0 before `start`."""
        return int(self._sockets[0].getsockname()[1]) if self._sockets else 0

    async def start(self) -> None:
        """Bind and accept; raise `StartError` when the endpoint cannot be had or a TLS file cannot be used."""
        watched = None if self._tls is None else Watched(self._tls.files)
        context = None if self._tls is None else server_context(self._tls)
        self._sockets = listen(self._endpoint)
        self._servers = await self._accepting(context)
        if self._tls is not None and watched is not None:
            self._renewing = asyncio.create_task(self._renew(self._tls, watched))

    async def stop(self) -> None:
        """Accept no more; connections that are open stay. Works twice and without a start."""
        renewing, self._renewing = self._renewing, None
        if renewing is not None:
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)
        servers, self._servers = self._servers, []
        for server in servers:
            server.close()
        sockets, self._sockets = self._sockets, []
        close_all(sockets)

    async def _accepting(self, context: ssl.SSLContext | None) -> list[asyncio.Server]:
        loop = asyncio.get_running_loop()
        timeout_s = None if context is None else _HANDSHAKE_TIMEOUT_S
        # A server closes its socket with itself: each has a duplicate, the bound ones stay ours.
        return [
            await loop.create_server(self._make_protocol, sock=sock.dup(), ssl=context, ssl_handshake_timeout=timeout_s)
            for sock in self._sockets
        ]

    async def _renew(self, tls: ServerTls, watched: Watched) -> None:
        while True:
            await asyncio.sleep(tls.reload_interval_s)
            if not watched.changed():
                continue
            try:
                context = server_context(tls)
            except StartError as error:
                _log.error("%s; the certificate in use stays", error.message)
                continue
            old, self._servers = self._servers, await self._accepting(context)
            for server in old:
                server.close()
            _log.info("TLS files of `%s` have changed and are in use", self._endpoint)
