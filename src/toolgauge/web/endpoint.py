"""The endpoint of the web view: pages, the files they refer to, and a stream of events about changes.

Pages are rendered in a thread: one of ten thousand calls takes longer than receivers may stand still. Senders' names and
arguments are not for every page in a browser: on loopback the Host header must name this machine.
"""

import asyncio
from collections.abc import Mapping

from aiohttp import web

from toolgauge.config.model import Web
from toolgauge.net.listen import IDLE_TIMEOUT_S, HttpEndpoint
from toolgauge.web.pages import Page, PageRequest, static_file
from toolgauge.web.running import BusyError

_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_STATIC: Mapping[str, str] = {
    "/static/toolgauge.css": "text/css",
    "/static/toolgauge.js": "text/javascript",
    "/static/icon.svg": "image/svg+xml",
}
_PAGES_AT_ONCE = 2


class WebEndpoint(HttpEndpoint):
    """Serves the pages of `routes` by the first part of their path; a page that is `None` does not exist."""

    def __init__(self, settings: Web, routes: Mapping[str, Page]) -> None:
        super().__init__(settings, idle_timeout_s=IDLE_TIMEOUT_S)
        self._routes = routes
        self._rendering = asyncio.Semaphore(_PAGES_AT_ONCE)

    async def answer(self, request: web.BaseRequest) -> web.Response:
        """Answer with a page, or a file that pages refer to."""
        content_type = _STATIC.get(request.path)
        if content_type is not None:
            body = await asyncio.to_thread(static_file, request.path.removeprefix("/static/"))
            return web.Response(body=body, content_type=content_type, headers=_HEADERS)
        path = tuple(part for part in request.path.split("/") if part)
        page = self._routes.get("/" + "".join(path[:1]))
        if page is None:
            return _not_found()
        asked = PageRequest(path=path, query={name: tuple(request.query.getall(name)) for name in request.query})
        try:
            async with self._rendering:
                text = await asyncio.to_thread(page, asked)
        except BusyError as error:
            return web.Response(status=503, text=error.message, headers=_HEADERS)
        if text is None:
            return _not_found()
        return web.Response(text=text, content_type="text/html", headers=_HEADERS)


def _not_found() -> web.Response:
    return web.Response(status=404, text="no such page; there is `/`", headers=_HEADERS)
