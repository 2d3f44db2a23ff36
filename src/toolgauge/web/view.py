"""The web view of a running service: keeps the latest scorecards, and serves pages about them.

Pages are rendered in a thread: a large one takes longer than receivers may pause. Without a token the Host header
must be ours, and pages of other origins get nothing and change nothing: arguments are not for every page in a browser.
"""

import asyncio
import gzip
import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from hashlib import blake2b
from urllib.parse import parse_qsl, quote

from aiohttp import web
from msgspec.structs import replace

from toolgauge.config.model import Web
from toolgauge.export.redact import Redactor
from toolgauge.export.run_usage import CostSettings
from toolgauge.export.score_lines import person_score
from toolgauge.model.delivery import Accepted
from toolgauge.model.errors import StateError
from toolgauge.model.feedback import IN_WEB_VIEW
from toolgauge.model.outcomes import Scorecard
from toolgauge.model.trajectory import Trajectory
from toolgauge.net.auth import BrowserGuard, is_of_another_site, is_own_host
from toolgauge.net.listen import IDLE_TIMEOUT_S, HttpEndpoint, accepts_gzip
from toolgauge.net.settings import is_loopback
from toolgauge.otlp.encode import verdict_events
from toolgauge.report.catalogue import Catalogue
from toolgauge.report.html import static_file
from toolgauge.selfmetrics import WebMetrics
from toolgauge.service.process import Faults, beside, cancelled
from toolgauge.service.runtime import Runtime
from toolgauge.settings import SECOND, split_address
from toolgauge.state.store import StateStore
from toolgauge.web.health_pages import health, not_evaluated
from toolgauge.web.pages import (
    Action,
    BusyError,
    Form,
    FormError,
    Page,
    PageContent,
    PageRequest,
    Running,
    Writing,
)
from toolgauge.web.stream_pages import streams
from toolgauge.web.trajectory_pages import agents, agents_json, overview, trajectories
from toolgauge.web.trajectory_store import TrajectoryStore, trajectory_id
from toolgauge.web.verdict_pages import separation, take, verdicts
from toolgauge.web.verdict_store import RunVerdict, plain_reason

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    # With `no-referrer`, browsers would post our own forms with the origin `null`.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_STATIC = {"icon.svg": "image/svg+xml", "toolgauge.css": "text/css", "toolgauge.js": "text/javascript"}
_PAGES_AT_ONCE = 2
# The service ends first, and takes nearly all of the time.
_STOP_TIMEOUT_S = 0.5
_MIN_ZIPPED_BYTES = 1024
_GZIP_LEVEL = 4
# Figures that move without a trajectory are written again after so long.
_FIGURES_NS, _HEALTH_NS = 15 * SECOND, 5 * SECOND
_MAX_ID = 64
_FORM_TYPE, _MAX_FORM_BYTES, _FORM_TIMEOUT_S = "application/x-www-form-urlencoded", 8 * 1024, 10.0
_SETTLE_EVERY_S = 1.0
# A path of ours: browsers take two slashes, and a backslash for a slash, for another host.
_OWN_PATH = re.compile(r"/(?![/\\])[!-\[\]-~]{0,2000}")
_CONTENT_TYPES = {".json": "application/json", ".csv": "text/csv"}
# By the first part of the path.
_PAGES: Mapping[str, Callable[[PageContent, PageRequest], str | None]] = {
    "/": overview,
    "/trajectories": trajectories,
    "/streams": streams,
    "/agents": agents,
    "/agents.json": agents_json,
    "/not-evaluated": not_evaluated,
    "/health": health,
    "/verdicts": verdicts,
    "/separation": separation,
    "/verdicts.csv": lambda shown, request: None if len(request.path) > 1 else shown.verdicts.as_csv(),
}
_ALL_ADDRESSES = ("", "0.0.0.0", "::")  # noqa: S104 (nothing is bound here)


class WebEndpoint(HttpEndpoint):
    """Serves the pages of `routes` by the first part of their path. `stamp` differs once a page may have changed.
    Forms that our own pages post, and programs, do the `actions`, by path.
    """

    guard_type = BrowserGuard

    def __init__(
        self,
        settings: Web,
        routes: Mapping[str, Page],
        stamp: Callable[[str], object],
        faults: Faults,
        actions: Mapping[str, Action] = {},
    ) -> None:
        super().__init__(
            settings,
            idle_timeout_s=IDLE_TIMEOUT_S,
            stop_timeout_s=_STOP_TIMEOUT_S,
            post_paths=actions.keys(),
            headers=HEADERS,
        )
        self._routes = routes
        self._actions, self._acting = actions, asyncio.Lock()
        self._scheme = "http" if settings.tls is None else "https"
        self._stamp = stamp
        self._faults = faults
        self._host, _ = split_address(settings.endpoint)
        self._has_token = settings.auth is not None
        self._files = {
            f"/static/{name}": (static_file(name), content_type, _tag(static_file(name)))
            for name, content_type in _STATIC.items()
        }
        self._rendering = asyncio.Semaphore(_PAGES_AT_ONCE)

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer with a page, or a file that pages refer to."""
        # No page of another site has a token, even if its host name leads here.
        if not self._has_token and not is_own_host(request.headers.get("Host", ""), self._host):
            return _text(403, "the Host header does not name this machine: ask `localhost`, or configure `web.auth`")
        if is_of_another_site(request.headers):
            return _text(403, "another site may link here, and read nothing")
        if (action := self._actions.get(request.path)) is not None:
            return await self._act(request, action)
        if request.path in self._files:
            body, content_type, tag = self._files[request.path]
            # Browsers ask each time whether it is still the same, and get it once.
            headers = {"Cache-Control": "no-cache", "ETag": f'"{tag}"'}
            response = _unchanged(request, tag, headers) or web.Response(
                body=body, content_type=content_type, charset="utf-8", headers=headers
            )
        else:
            response = await self._page(request)
        response.headers["Vary"] = "Accept-Encoding"
        body = response.body
        if (
            isinstance(body, bytes)
            and len(body) >= _MIN_ZIPPED_BYTES
            and accepts_gzip(",".join(request.headers.getall("Accept-Encoding", [])))
        ):
            response.body = await asyncio.to_thread(gzip.compress, body, _GZIP_LEVEL, mtime=0)
            response.headers["Content-Encoding"] = "gzip"
        return response

    async def _act(self, request: web.BaseRequest, action: Action) -> web.Response:
        """Do what a form asks for; browsers get a redirect to a page, programs an empty answer."""
        with self._faults.survived():
            try:
                self._check_origin(request.headers)
                form = await _form(request)
                back = form.get("back", "")
                if back and _OWN_PATH.fullmatch(back) is None:
                    raise FormError("`back` must be a path of this web view")
                # In turn: on a disk that hangs, one thread waits.
                async with self._acting:
                    path = await action(form)
            except FormError as error:
                return _text(error.status, error.message)
            if "text/html" in request.headers.get("Accept", ""):
                return web.Response(status=303, headers={"Location": back or path})
            return web.Response(status=204)
        return _text(500, "this cannot be done; the log of toolgauge names the place")

    def _check_origin(self, headers: Mapping[str, str]) -> None:
        """Raise `FormError` unless a page of ours posts the form, or a program, which sends neither header."""
        if not self._has_token and not is_loopback(self._host):
            raise FormError("the web view listens beyond loopback and has no `web.auth`: nothing can be changed", 403)
        # Proxies say so; a page of another origin cannot, without asking first.
        host = headers.get("X-Forwarded-Host", headers.get("Host", ""))
        own = f"{headers.get('X-Forwarded-Proto', self._scheme)}://{host}"
        if headers.get("Origin", own) != own or headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            raise FormError("only pages of this web view may change anything", 403)

    async def _page(self, request: web.BaseRequest) -> web.Response:
        path = tuple(part for part in request.path.split("/") if part)
        route = "/" + "".join(path[:1])
        page = self._routes.get(route)
        if page is None:
            return _text(404, "no such page; there is `/`")
        # Taken before the page is written: a change meanwhile is one that the page lacks.
        tag = _tag(repr((request.path_qs, self._stamp(route))).encode(errors="replace"))
        headers = {"ETag": f'"{tag}"'}
        if (unchanged := _unchanged(request, tag, headers)) is not None:
            return unchanged
        asked = PageRequest(path=path, query={name: tuple(request.query.getall(name)) for name in request.query})
        with self._faults.survived():
            try:
                async with self._rendering:
                    text = await beside(lambda: page(asked), "page")
            except BusyError as error:
                return _text(503, error.message)
            if text is None:
                return _text(404, "no such page, or its trajectory is no longer kept; there is `/trajectories`")
            body = text.encode(errors="replace")
            content_type = _CONTENT_TYPES.get(route[route.find(".") :], "text/html")
            return web.Response(body=body, content_type=content_type, charset="utf-8", headers=headers)
        return _text(500, "this page cannot be written; the log of toolgauge names the place")


async def _form(request: web.BaseRequest) -> Form:
    """Read the fields of a form; raise `FormError` for anything else, and for a large one."""
    if request.content_type != _FORM_TYPE:
        raise FormError(f"the body must be a form: `Content-Type: {_FORM_TYPE}`", 415)
    body = b""
    try:
        async with asyncio.timeout(_FORM_TIMEOUT_S):
            while chunk := await request.content.readany():
                body += chunk
                if len(body) > _MAX_FORM_BYTES:
                    raise FormError(f"the form must be at most {_MAX_FORM_BYTES} bytes", 413)
    except (TimeoutError, web.RequestPayloadError) as error:
        raise FormError("the form did not come in time, or is not encoded as its headers say") from error
    return dict(parse_qsl(body.decode(errors="replace"), keep_blank_values=True))


def _text(status: int, text: str) -> web.Response:
    return web.Response(status=status, text=text)


def _tag(content: bytes) -> str:
    return blake2b(content, digest_size=8).hexdigest()


def _unchanged(request: web.BaseRequest, tag: str, headers: Mapping[str, str]) -> web.Response | None:
    is_known = any(known.value in (tag, "*") for known in request.if_none_match or ())
    return web.Response(status=304, headers=headers) if is_known else None


class WebView:
    """Shows the scorecards that pass through a sink. `observe` before the service is made, `start` and `stop` around it."""

    def __init__(
        self,
        settings: Web,
        redactor: Redactor,
        trace_url: str | None,
        pass_at: Mapping[str, float] | None = None,
        catalogue: Catalogue | None = None,
    ) -> None:
        self._settings = settings
        store = TrajectoryStore(settings.max_trajectories, settings.max_bytes)
        self.shed = store.shed
        self._shown = PageContent(store, Writing(redactor=redactor, trace_url=trace_url, pass_at=pass_at or {}))
        if catalogue is not None:
            self._shown.catalogue = catalogue
        self._endpoint: WebEndpoint | None = None
        self._settling: asyncio.Task[None] | None = None
        # By outcome and source.
        self._given = Counter[tuple[str, str]]()

    @property
    def port(self) -> int:
        """The port in use; 0 before `start`."""
        return 0 if self._endpoint is None else self._endpoint.port

    @property
    def url(self) -> str:
        """The address for a browser on this machine."""
        host, _ = split_address(self._settings.endpoint)
        if host in _ALL_ADDRESSES:
            host = "localhost"
        scheme = "http" if self._settings.tls is None else "https"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.port}"

    def page_url(self, trajectory: Trajectory) -> str:
        """Return the address of a trajectory's page, which exists as long as the trajectory is kept."""
        return f"{self.url}/trajectories/{quote(trajectory_id(trajectory), safe='', errors='replace')[:_MAX_ID]}"

    def show(self, scorecard: Scorecard) -> None:
        """Show a scorecard. Any thread may call."""
        self._shown.store.add(scorecard)
        self._shown.catalogue.add(scorecard)

    def adopt(
        self, redactor: Redactor, trace_url: str | None, pass_at: Mapping[str, float], costs: CostSettings
    ) -> None:
        """Write explanations and links by these settings from here on. Results of earlier criteria stay."""
        self._shown.catalogue.adopt(costs)
        known = {**self._shown.writing.pass_at, **pass_at}
        self._shown.writing = Writing(redactor=redactor, trace_url=trace_url, pass_at=known)

    async def start(self, service: Runtime, reload: Callable[[], None] = lambda: None) -> None:
        """Listen, and show this service, which may start later; `reload` is for adopted criteria.

        Raise `StartError` when the address is taken.
        """
        shown, metrics, clock = self._shown, service.metrics, service.clock
        if service.watching is not None:
            service.watching.on_tool_changes = shown.catalogue.tools_changed
        shown.running = Running(
            health=service.health,
            registry=metrics.registry,
            watching=service.watching,
            clock=clock,
            loop=asyncio.get_running_loop(),
            ports=lambda: [receiver.port for receiver in service.receivers],
        )

        def stamp(route: str) -> object:
            # Copies, each made at one go: the worker adds streams meanwhile.
            alarms, active = list(metrics.watch.alarms.cells.values()), list(metrics.watch.active.cells.values())
            figures = clock() // (_HEALTH_NS if route == "/health" else _FIGURES_NS)
            phase = (service.health.started_ns, service.health.phase)
            changes = shown.store.changes, shown.verdicts.changes
            return phase, id(shown.writing), changes, alarms, active, figures

        service.on_feedback = shown.verdicts.hear
        await beside(lambda: self._restore(service.store), "verdicts")
        shown.state = None if service.store is None else service.store.directory
        routes: dict[str, Page] = {path: partial(page, shown) for path, page in _PAGES.items()}
        actions: dict[str, Action] = {"/verdict": partial(self._give, service), "/adopt": partial(self._adopt, reload)}
        self._endpoint = WebEndpoint(self._settings, routes, stamp, Faults(metrics), actions)
        store, of_web = shown.store, WebMetrics(metrics.registry)
        of_web.trajectories.observe = lambda: {(): len(store)}
        of_web.trajectories_bytes.observe = lambda: {(): store.size_bytes}
        of_web.trajectories_evicted.observe = lambda: {(): store.evicted}
        of_web.verdicts.observe = lambda: {**self._given, ("unmatched", "other"): shown.verdicts.unmatched}
        await self._endpoint.start()
        self._settling = asyncio.create_task(self._settle_regularly(service))

    def _restore(self, store: StateStore | None) -> None:
        """Read the verdicts of earlier processes, and show their runs."""
        self._shown.verdicts.restore(store)
        for _, scorecard in reversed(self._shown.verdicts.runs()):
            self._shown.store.add(scorecard)

    async def _give(self, service: Runtime, form: Form) -> str:
        """Keep a verdict on a run, or take it back; return the path of the run's page."""
        shown, key, word = self._shown, form.get("id", ""), form.get("verdict", "")
        verdicts, now_ns, run = shown.verdicts, service.clock(), shown.store.find(key)
        if word not in ("good", "bad", "none"):
            raise FormError("`verdict` must be `good`, `bad` or `none`")
        label = "good" if word == "good" else "bad"
        given = verdicts.find(key) if run is None else RunVerdict.on(run.trajectory, label)
        if given is None:
            raise FormError("no such run is kept: `id` is the last part of the address of its page", 404)
        reason = plain_reason(form.get("reason", ""))
        given = replace(given, label=label, reason=reason, source=IN_WEB_VIEW, given_ns=now_ns)
        give = partial(verdicts.take_back, key) if word == "none" else partial(verdicts.give, given, run)
        try:
            await beside(give, "verdict")
        except StateError as error:
            raise FormError(f"the verdict cannot be kept: {error}", 503) from error
        if word == "none":
            self._given["taken_back", IN_WEB_VIEW] += 1
        else:
            events = verdict_events([given], now_ns)
            if not isinstance(await service.intake.consume("logs", events, None), Accepted):
                service.metrics.own_dropped.add(1, ("", "logs", "queue_full"))
            self._send(service, given, run or verdicts.scorecard(key))
        return f"/trajectories/{quote(key, safe='')}"

    async def _adopt(self, reload: Callable[[], None], form: Form) -> str:
        """Take a step with a criterion, and reload."""
        path = await beside(lambda: take(self._shown, form), "adopt")
        reload()
        return path

    async def _settle_regularly(self, service: Runtime) -> None:
        """Give the verdicts that arrived from elsewhere; send people's to the backends."""
        verdicts, faults = self._shown.verdicts, Faults(service.metrics)
        while True:
            await asyncio.sleep(_SETTLE_EVERY_S)
            with faults.survived():
                if verdicts.heard:
                    settle = partial(verdicts.settle, self._shown.store.newest(), service.clock())
                    for verdict, run in await beside(settle, "verdicts"):
                        self._send(service, verdict, run if verdict.is_own else None)

    def _send(self, service: Runtime, verdict: RunVerdict, run: Scorecard | None) -> None:
        """Count a verdict, and send one on a known run to the backends as a score by a person."""
        self._given["good" if verdict.is_good else "bad", verdict.source if verdict.is_own else "other"] += 1
        if run is not None:
            score = person_score(run.trajectory, verdict.reason, verdict.given_ns, is_good=verdict.is_good)
            service.put_own(score)

    async def stop(self) -> None:
        """Stop listening. Works twice and without a start."""
        settling, self._settling = self._settling, None
        await cancelled(settling)
        if self._endpoint is not None:
            await self._endpoint.stop()
