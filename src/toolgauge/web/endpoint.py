"""The endpoint of the web view: pages, the files they refer to, and a stream of events about changes.

Pages are rendered in a thread: one of ten thousand calls takes longer than receivers may stand still. Senders' names and
arguments are not for every page in a browser: without a token the Host header must be ours, and pages of other origins
get nothing.
"""

import asyncio
import gzip
from collections.abc import Mapping
from hashlib import blake2b

from aiohttp import web
from msgspec import Struct

from toolgauge.config.model import Web
from toolgauge.net.auth import BrowserGuard, is_of_another_site, is_own_host
from toolgauge.net.listen import IDLE_TIMEOUT_S, HttpEndpoint, accepts_gzip
from toolgauge.service.process import Faults, beside
from toolgauge.settings import split_address
from toolgauge.web.live_updates import LiveUpdates
from toolgauge.web.pages import Page, PageRequest, static_file
from toolgauge.web.running import BusyError

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_STATIC: Mapping[str, str] = {
    "icon.svg": "image/svg+xml",
    "toolgauge.css": "text/css",
    "toolgauge.js": "text/javascript",
}
_PAGES_AT_ONCE = 2
# The service ends first, and has nearly all of the time there is.
_STOP_TIMEOUT_S = 0.5
_MIN_ZIPPED_BYTES = 1024
_GZIP_LEVEL = 4


class _File(Struct, frozen=True):
    body: bytes
    content_type: str
    etag: str


class WebEndpoint(HttpEndpoint):
    """Serves the pages of `routes` by the first part of their path; a page that is `None` does not exist."""

    guard_type = BrowserGuard

    def __init__(self, settings: Web, routes: Mapping[str, Page], live: LiveUpdates, faults: Faults) -> None:
        super().__init__(settings, idle_timeout_s=IDLE_TIMEOUT_S, stop_timeout_s=_STOP_TIMEOUT_S, headers=HEADERS)
        self._routes = routes
        self._live = live
        self._faults = faults
        self._host, _ = split_address(settings.endpoint)
        self._has_token = settings.auth is not None
        self._files = {f"/static/{name}": _file(name, content_type) for name, content_type in _STATIC.items()}
        self._rendering = asyncio.Semaphore(_PAGES_AT_ONCE)

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer with a page, a file that pages refer to, or events."""
        # No page elsewhere has a token, whatever name it points here.
        if not self._has_token and not is_own_host(request.headers.get("Host", ""), self._host):
            return _text(403, "the Host header does not name this machine: ask `localhost`, or configure `web.auth`")
        if is_of_another_site(request.headers):
            return _text(403, "another site may link here, and read nothing")
        if request.path == "/events":
            return await self._live.answer(request)
        file = self._files.get(request.path)
        response = _of_file(file, request) if file is not None else await self._page(request)
        return await _zipped(response, request)

    async def _page(self, request: web.BaseRequest) -> web.Response:
        path = tuple(part for part in request.path.split("/") if part)
        page = self._routes.get("/" + "".join(path[:1]))
        if page is None:
            return _text(404, "no such page; there is `/`")
        asked = PageRequest(path=path, query={name: tuple(request.query.getall(name)) for name in request.query})
        with self._faults.survived():
            try:
                async with self._rendering:
                    text = await beside(lambda: page(asked), "page")
            except BusyError as error:
                return _text(503, error.message)
            if text is None:
                return _text(404, "no such page, or its trajectory is no longer kept; there is `/trajectories`")
            return web.Response(body=text.encode(errors="replace"), content_type="text/html", charset="utf-8")
        return _text(500, "this page cannot be written; the log of toolgauge names the place")


def _text(status: int, text: str) -> web.Response:
    return web.Response(status=status, text=text)


def _file(name: str, content_type: str) -> _File:
    body = static_file(name)
    return _File(body, content_type, blake2b(body, digest_size=8).hexdigest())


def _of_file(file: _File, request: web.BaseRequest) -> web.Response:
    # Browsers ask each time whether it is still the same, and get it once.
    headers = {"Cache-Control": "no-cache", "ETag": f'"{file.etag}"'}
    if any(etag.value in (file.etag, "*") for etag in request.if_none_match or ()):
        return web.Response(status=304, headers=headers)
    return web.Response(body=file.body, content_type=file.content_type, charset="utf-8", headers=headers)


async def _zipped(response: web.Response, request: web.BaseRequest) -> web.Response:
    response.headers["Vary"] = "Accept-Encoding"
    body = response.body
    if not isinstance(body, bytes) or len(body) < _MIN_ZIPPED_BYTES:
        return response
    if accepts_gzip(",".join(request.headers.getall("Accept-Encoding", []))):
        response.body = await asyncio.to_thread(gzip.compress, body, _GZIP_LEVEL, mtime=0)
        response.headers["Content-Encoding"] = "gzip"
    return response
