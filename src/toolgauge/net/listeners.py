"""Listening sockets of one endpoint on the event loop, with TLS whose files may change while we run.

A certificate that was renewed is used for the connections that come next; the sockets stay bound meanwhile, so that
nobody is refused. asyncio's own servers try again a hundred times over, with a stack trace each, when the process has no
descriptor left for a connection: what should be a wait would fill the log and the core.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from asyncio import BaseProtocol
from collections.abc import Callable

from toolgauge.model.errors import StartError
from toolgauge.net.listen import close_all, listen
from toolgauge.net.throttle import Throttle, times
from toolgauge.net.tls import ServerTls, Watched, server_context

_log = logging.getLogger("toolgauge.listeners")
_HANDSHAKE_TIMEOUT_S = 10.0
# So many connections are accepted before others on the loop have their turn.
_AT_ONCE = 100
# Until somebody hangs up, nobody can be let in; those who come meanwhile wait in the system's queue.
_REST_S = 0.5


class Listeners:
    """Accepts connections at `endpoint` (`host:port`; port 0 takes any free one) and makes a protocol for each."""

    def __init__(self, make_protocol: Callable[[], BaseProtocol], endpoint: str, tls: ServerTls | None = None) -> None:
        self._make_protocol = make_protocol
        self._endpoint = endpoint
        self._tls = tls
        self._context: ssl.SSLContext | None = None
        self._sockets: list[socket.socket] = []
        self._resting: dict[socket.socket, asyncio.TimerHandle] = {}
        self._greeting: set[asyncio.Task[None]] = set()
        self._renewing: asyncio.Task[None] | None = None
        self._throttle = Throttle()

    @property
    def port(self) -> int:
        """The port in use; 0 before `start`."""
        return int(self._sockets[0].getsockname()[1]) if self._sockets else 0

    async def start(self) -> None:
        """Bind and accept; raise `StartError` when the endpoint cannot be had or a TLS file cannot be used."""
        watched = None if self._tls is None else Watched(self._tls.files)
        self._context = None if self._tls is None else server_context(self._tls)
        self._sockets = listen(self._endpoint)
        for sock in self._sockets:
            self._watch(sock)
        if self._tls is not None and watched is not None:
            self._renewing = asyncio.create_task(self._renew(self._tls, watched))

    async def stop(self) -> None:
        """Accept no more; connections that are open stay. Works twice and without a start."""
        renewing, self._renewing = self._renewing, None
        for handle in self._resting.values():
            handle.cancel()
        self._resting.clear()
        sockets, self._sockets = self._sockets, []
        for sock in sockets:
            asyncio.get_running_loop().remove_reader(sock)
        close_all(sockets)
        ending = [*self._greeting, *(() if renewing is None else (renewing,))]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)

    def _watch(self, sock: socket.socket) -> None:
        self._resting.pop(sock, None)
        asyncio.get_running_loop().add_reader(sock, self._accept, sock)

    def _accept(self, sock: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection, _ = sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._rest(sock, error)
                return
            connection.setblocking(False)  # noqa: FBT003 - the standard library's signature
            task = asyncio.create_task(self._greet(connection))
            self._greeting.add(task)
            task.add_done_callback(self._greeting.discard)

    def _rest(self, sock: socket.socket, error: OSError) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(sock)
        self._resting[sock] = loop.call_later(_REST_S, self._watch, sock)
        reason = (error.strerror or str(error)).lower()
        unsaid = self._throttle.unsaid(reason)
        if unsaid is not None:
            _log.error("`%s` can let nobody in for the moment: %s%s", self._endpoint, reason, times(unsaid))

    async def _greet(self, connection: socket.socket) -> None:
        # A client that goes away, or never gets through the handshake, is its own affair.
        with contextlib.suppress(OSError):
            await asyncio.get_running_loop().connect_accepted_socket(
                self._make_protocol,
                connection,
                ssl=self._context,
                ssl_handshake_timeout=None if self._context is None else _HANDSHAKE_TIMEOUT_S,
            )

    async def _renew(self, tls: ServerTls, watched: Watched) -> None:
        while True:
            await asyncio.sleep(tls.reload_interval_s)
            if not watched.changed():
                continue
            try:
                self._context = server_context(tls)
            except StartError as error:
                _log.error("%s; the certificate in use stays", error.message)
                continue
            _log.info("TLS files of `%s` have changed and are in use", self._endpoint)
