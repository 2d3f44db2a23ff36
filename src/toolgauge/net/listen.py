"""Listening sockets of an endpoint such as `localhost:4317` (two addresses), and connections on the event loop.

A renewed certificate serves the next connections. Without a free descriptor it waits; asyncio's servers fill log and core.
"""

import asyncio
import contextlib
import errno
import logging
import socket
import ssl
from abc import ABC, abstractmethod
from asyncio import BaseProtocol
from collections.abc import Callable, Collection, Iterator, Mapping

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from toolgauge.model.errors import StartError
from toolgauge.net.auth import TokenGuard
from toolgauge.net.settings import ListenerSettings, ServerTls
from toolgauge.net.throttle import Throttle, repetitions
from toolgauge.net.tls import WatchedFiles, server_context
from toolgauge.settings import SECOND, split_address

_LOOPBACK = ("127.0.0.1", "::1")
_NO_SUCH_ADDRESS = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT})
_BACKLOG = 1024


def listen(endpoint: str) -> list[socket.socket]:
    """Bind and listen on all addresses of the endpoint, on one port; raise `StartError` when that cannot be."""
    host, port = split_address(endpoint)
    ephemeral = port == 0
    bound: list[socket.socket] = []
    try:
        for family, address in _addresses(endpoint, host):
            try:
                bound.append(_bind(family, address, port))
            except OSError as error:
                tolerable = error.errno in _NO_SUCH_ADDRESS or (ephemeral and bool(bound))
                if not (host == "localhost" and tolerable):
                    raise
                continue
            port = bound[0].getsockname()[1]
    except OSError as error:
        close_all(bound)
        is_taken = error.errno == errno.EADDRINUSE
        hint = "stop the other process, or choose another port" if is_taken else None
        reason = "the port is in use" if is_taken else (error.strerror or str(error)).lower()
        raise StartError(f"cannot listen on `{endpoint}`: {reason}", hint=hint) from error
    if not bound:
        raise StartError(f"cannot listen on `{endpoint}`: no such address on this machine")
    return bound


def check_endpoints(endpoints: Mapping[str, str]) -> None:
    """Raise one `StartError` of all endpoints, by configuration key, that cannot be used; leave no port open."""
    bound: list[socket.socket] = []
    problems: list[str] = []
    instead: list[str] = []
    try:
        for key, endpoint in endpoints.items():
            try:
                bound += listen(endpoint)
            except StartError as error:
                problems.append(f"{error.message} (`{key}`)")
                if error.hint is not None:
                    host, _, port = endpoint.rpartition(":")
                    free = f"{host}:0"
                    # One that reminds of the taken port.
                    for other in range(int(port) + 10_000, 65_536, 10_000):
                        with contextlib.suppress(StartError):
                            close_all(listen(f"{host}:{other}"))
                            free = f"{host}:{other}"
                            break
                    instead.append(f"--set {key}={free}")
    finally:
        close_all(bound)
    if problems:
        several = "" if len(problems) == 1 else f"{len(problems)} endpoints cannot be had\n  "
        hint = f"stop the other process, or choose another port: `{' '.join(instead)}`" if instead else None
        raise StartError(several + "\n  ".join(problems), hint=hint)


def close_all(sockets: list[socket.socket]) -> None:
    """Close every socket."""
    for sock in sockets:
        sock.close()


def _addresses(endpoint: str, host: str) -> Iterator[tuple[int, str]]:
    if host == "localhost":
        yield socket.AF_INET, _LOOPBACK[0]
        yield socket.AF_INET6, _LOOPBACK[1]
        return
    if not host:
        # One dual-stack socket takes both families.
        yield (socket.AF_INET6, "::") if socket.has_dualstack_ipv6() else (socket.AF_INET, "0.0.0.0")  # noqa: S104 - `:port` asks for all interfaces
        return
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise StartError(f"cannot resolve the host of endpoint `{endpoint}`: {reason}") from error
    yield from dict.fromkeys((int(family), str(address[0])) for family, _, _, _, address in found)


def _bind(family: int, address: str, port: int) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(address != "::"))
        sock.bind((address, port))
        sock.listen(_BACKLOG)
        sock.setblocking(False)  # noqa: FBT003 - the standard library's signature
    except OSError:
        sock.close()
        raise
    return sock


_log = logging.getLogger("toolgauge.listeners")
_HANDSHAKE_TIMEOUT_S = 10.0
_AT_ONCE = 100  # So many connections are accepted before other tasks of the loop run
_PAUSE_S = 0.5  # Without a free descriptor nothing can be accepted; connections wait in the system's queue meanwhile


def peer_address(name: tuple[str, int] | tuple[str, int, int, int] | None) -> str | None:
    """Write the name of a peer's socket as `host:port`; `None` when the socket is closed."""
    if name is None:
        return None
    host, port = name[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Listeners:
    """Accepts connections at `endpoint` and makes a protocol for each; failed TLS handshakes go to `on_failure`."""

    def __init__(
        self,
        make_protocol: Callable[[], BaseProtocol],
        endpoint: str,
        tls: ServerTls | None = None,
        on_failure: Callable[[ssl.SSLError, str | None], None] = lambda _error, _peer: None,
    ) -> None:
        self._on_failure = on_failure
        self._make_protocol = make_protocol
        self._endpoint = endpoint
        self._tls = tls
        self._context: ssl.SSLContext | None = None
        self._sockets: list[socket.socket] = []
        self._paused: dict[socket.socket, asyncio.TimerHandle] = {}
        self._handshakes: set[asyncio.Task[None]] = set()
        self._renewing: asyncio.Task[None] | None = None
        self._throttle = Throttle()

    @property
    def port(self) -> int:
        """The port in use; 0 before `start`."""
        return int(self._sockets[0].getsockname()[1]) if self._sockets else 0

    async def start(self) -> None:
        """Bind and accept; raise `StartError` when the endpoint cannot be used or a TLS file cannot be used."""
        watched = None if self._tls is None else WatchedFiles(self._tls.files)
        self._context = None if self._tls is None else server_context(self._tls)
        self._sockets = listen(self._endpoint)
        for sock in self._sockets:
            self._watch(sock)
        if self._tls is not None and watched is not None:
            self._renewing = asyncio.create_task(self._renew(self._tls, watched))

    async def stop(self) -> None:
        """Accept no more; connections that are open stay. Works twice and without a start."""
        renewing, self._renewing = self._renewing, None
        for handle in self._paused.values():
            handle.cancel()
        self._paused.clear()
        sockets, self._sockets = self._sockets, []
        for sock in sockets:
            asyncio.get_running_loop().remove_reader(sock)
        close_all(sockets)
        ending = [*self._handshakes, *(() if renewing is None else (renewing,))]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)

    def _watch(self, sock: socket.socket) -> None:
        self._paused.pop(sock, None)
        asyncio.get_running_loop().add_reader(sock, self._accept, sock)

    def _accept(self, sock: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection, name = sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                loop = asyncio.get_running_loop()
                loop.remove_reader(sock)
                self._paused[sock] = loop.call_later(_PAUSE_S, self._watch, sock)
                reason = (error.strerror or str(error)).lower()
                suppressed = self._throttle.suppressed(reason)
                if suppressed is not None:
                    _log.error(
                        "`%s` cannot accept connections for now: %s%s", self._endpoint, reason, repetitions(suppressed)
                    )
                return
            connection.setblocking(False)  # noqa: FBT003 - the standard library's signature
            task = asyncio.create_task(self._handshake(connection, peer_address(name)))
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)

    async def _handshake(self, connection: socket.socket, peer: str | None) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._make_protocol,
                connection,
                ssl=self._context,
                ssl_handshake_timeout=None if self._context is None else _HANDSHAKE_TIMEOUT_S,
            )
        except ssl.SSLError as error:
            self._on_failure(error, peer)
        except OSError:
            # A client that goes away is not our fault.
            return

    async def _renew(self, tls: ServerTls, watched: WatchedFiles) -> None:
        while True:
            await asyncio.sleep(tls.reload_interval / SECOND)
            if not watched.changed():
                continue
            try:
                self._context = server_context(tls)
            except StartError as error:
                _log.error("%s; the certificate in use stays", error.message)
                continue
            _log.info("reloaded the changed TLS files of `%s`", self._endpoint)


STOP_TIMEOUT_S = 1.5  # The service stops two of these, one after the other
IDLE_TIMEOUT_S = 120.0  # Scrapes and probes come more often; a client that is silent for longer keeps no descriptor


class HttpEndpoint(ABC):
    """An HTTP server of ours, read-only but for `post_paths`. With `auth`, only requests with a token are answered."""

    guard_type: type[TokenGuard] = TokenGuard

    def __init__(
        self,
        settings: ListenerSettings,
        *,
        idle_timeout_s: float,
        stop_timeout_s: float = STOP_TIMEOUT_S,
        post_paths: Collection[str] = (),
        headers: Mapping[str, str] = {},
    ) -> None:
        self._settings = settings
        self._post_paths = frozenset(post_paths)
        self._headers = headers
        self._guard = self.guard_type.of(settings.auth)
        self._idle_timeout_s = idle_timeout_s
        self._stop_timeout_s = stop_timeout_s
        self._listeners: Listeners | None = None
        self._server: web.Server | None = None

    @abstractmethod
    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request that is admitted."""

    @property
    def port(self) -> int:
        """The port in use; 0 before `start`."""
        return 0 if self._listeners is None else self._listeners.port

    async def start(self) -> None:
        """Listen. Raises `StartError` when the address cannot be used."""
        logger = logging.getLogger("toolgauge.endpoints")
        logger.addFilter(_is_ours)
        server = web.Server(self._answer, access_log=None, keepalive_timeout=self._idle_timeout_s, logger=logger)
        listeners = Listeners(server, self._settings.endpoint, self._settings.tls)
        await listeners.start()
        self._server, self._listeners = server, listeners

    async def stop(self) -> None:
        """Stop listening; requests under way get a moment to finish. Works twice and without a start."""
        if self._listeners is not None:
            await self._listeners.stop()
        server, self._server = self._server, None
        if server is not None:
            await server.shutdown(self._stop_timeout_s)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        response: web.StreamResponse
        methods = ("POST",) if request.path in self._post_paths else ("GET", "HEAD")
        if self._guard is not None and not self._guard.admits(request.headers.get(self._guard.header)):
            error, headers = "a valid token is needed", {"WWW-Authenticate": self._guard.challenge}
            response = web.json_response({"error": error}, status=401, headers=headers)
        elif request.method not in methods:
            allowed = ", ".join(methods)
            response = web.json_response({"error": f"only {allowed}"}, status=405, headers={"Allow": allowed})
        else:
            response = await self.answer(request)
        for name, value in self._headers.items():
            response.headers.setdefault(name, value)
        return response


def _is_ours(record: logging.LogRecord) -> bool:
    """Pass over requests that aiohttp cannot read as HTTP: it would log a stack trace with the client's bytes each time."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


def preferences(header: str) -> dict[str, float]:
    """Return the quality of each name in such a header, 1 where none is written."""
    found: dict[str, float] = {}
    for entry in header.split(","):
        name, *parameters = (part.strip().lower() for part in entry.split(";"))
        quality = 1.0
        for parameter in parameters:
            key, _, value = parameter.partition("=")
            if key.strip() == "q":
                try:
                    quality = float(value)
                except ValueError:
                    quality = 0.0
                break
        found[name] = max(found.get(name, 0.0), quality)
    return found


def accepts_gzip(accept_encoding: str) -> bool:
    """Return whether an answer may be compressed."""
    return preferences(accept_encoding).get("gzip", 0.0) > 0
