"""The admin endpoint: health over HTTP, for orchestrators and people."""

from aiohttp import web

from toolgauge.config.model import Admin
from toolgauge.net.auth import TokenGuard
from toolgauge.net.listen import Listeners
from toolgauge.service.health import Health

_STOP_TIMEOUT_S = 1.0
# Probes come more often; whoever says nothing for longer does not keep a descriptor.
_IDLE_TIMEOUT_S = 120.0


class AdminEndpoint:
    """Serves `GET /` and `GET /status[?verbose]`; with `auth`, only to requests with a token."""

    def __init__(
        self,
        health: Health,
        settings: Admin,
        *,
        idle_timeout_s: float = _IDLE_TIMEOUT_S,
    ) -> None:
        self._health = health
        self._settings = settings
        self._guard = TokenGuard.of(settings.auth)
        self._idle_timeout_s = idle_timeout_s
        self._listeners: Listeners | None = None
        self._server: web.Server | None = None

    @property
    def port(self) -> int:
        """The port in use; 0 before `start`."""
        return 0 if self._listeners is None else self._listeners.port

    async def start(self) -> None:
        """Listen. Raises `StartError` when the address cannot be had."""
        server = web.Server(self._answer, access_log=None, keepalive_timeout=self._idle_timeout_s)
        listeners = Listeners(server, self._settings.endpoint, self._settings.tls)
        await listeners.start()
        self._server, self._listeners = server, listeners

    async def stop(self) -> None:
        """Stop listening. Works twice and without a start."""
        if self._listeners is not None:
            await self._listeners.stop()
        server, self._server = self._server, None
        if server is not None:
            await server.shutdown(_STOP_TIMEOUT_S)

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        if self._guard is not None and not self._guard.admits(request.headers.get(self._guard.header)):
            return web.Response(status=401, headers={"WWW-Authenticate": self._guard.challenge})
        if request.method not in ("GET", "HEAD"):
            return web.Response(status=405, headers={"Allow": "GET, HEAD"})
        match request.path:
            case "/":
                status, body = self._health.simple()
            case "/status":
                status, body = self._health.detailed(verbose=_is_set(request.query.get("verbose")))
            case _:
                return web.json_response({"error": "no such path; there is `/` and `/status`"}, status=404)
        return web.json_response(body, status=status)


def _is_set(value: str | None) -> bool:
    return value is not None and value.lower() not in ("false", "0", "no")
