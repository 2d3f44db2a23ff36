"""What the endpoint of the web view answers, and whom."""

import asyncio
import threading

import aiohttp
import pytest
from multidict import CIMultiDictProxy

from tests.web.support import serving
from toolgauge.config.model import Web
from toolgauge.model.metrics import MetricRegistry
from toolgauge.net.settings import Auth
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.web.pages import BusyError, Page, PageRequest

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
ROUTES: dict[str, Page] = {"/": lambda _: "<p>first page</p>", "/big": lambda _: "<p>" + "word " * 10_000}


async def asked(url: str, method: str = "GET", **headers: str) -> tuple[int, bytes, CIMultiDictProxy[str]]:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    async with (
        aiohttp.ClientSession(auto_decompress=False, skip_auto_headers=("Accept-Encoding",)) as session,
        session.request(method, url, headers=sent) as answer,
    ):
        return answer.status, await answer.read(), answer.headers


async def test_a_page_is_html_of_what_was_asked_for():
    requests: list[PageRequest] = []

    def page(request: PageRequest) -> str:
        requests.append(request)
        return "<p>\ud800 trajectory</p>"

    async with serving({"/trajectories/": page}) as url:
        status, body, headers = await asked(f"{url}/trajectories/ab%20c/?tool=a&tool=b&q=%3Cx%3E&bad=%ff")

    assert (status, body) == (200, b"<p>? trajectory</p>")
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    [request] = requests
    assert request.path == ("trajectories", "ab c")
    assert request.query["tool"] == ("a", "b")
    assert request.value("q") == "<x>"
    assert request.value("nothing") == ""


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/", {}, 200),
        ("GET", "/nothing", {}, 404),
        ("GET", "/none", {}, 404),
        ("GET", "/static/../kept.py", {}, 404),
        ("GET", "/static/unknown.css", {}, 404),
        ("GET", "/busy", {}, 503),
        ("GET", "/broken", {}, 500),
        ("POST", "/", {}, 405),
        ("OPTIONS", "/", {"Origin": "https://evil.example"}, 405),
        ("GET", "/", {"Host": "evil.example"}, 403),
        ("GET", "/static/toolgauge.js", {"Host": "evil.example:8317"}, 403),
        ("GET", "/", {"Host": ""}, 403),
        ("GET", "/", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403),
    ],
)
async def test_every_answer_has_the_headers_that_protect_a_browser(
    method: str, path: str, headers: dict[str, str], status: int
):
    def busy(_: PageRequest) -> str:
        raise BusyError("the worker is busy")

    def broken(_: PageRequest) -> str:
        raise ValueError("s3cret argument")

    routes: dict[str, Page] = {**ROUTES, "/none": lambda _: None, "/busy": busy, "/broken": broken}
    async with serving(routes) as url:
        answered, body, found = await asked(f"{url}{path}", method, **headers)

    assert answered == status
    assert b"s3cret" not in body
    assert {name: found.get(name) for name in HEADERS} == HEADERS
    assert "Access-Control-Allow-Origin" not in found


async def test_a_page_that_breaks_is_counted_and_its_values_are_not_logged(caplog: pytest.LogCaptureFixture):
    def broken(_: PageRequest) -> str:
        raise ValueError("s3cret argument")

    metrics = SelfMetrics(MetricRegistry())
    async with serving({"/": broken}, metrics=metrics) as url:
        await asked(url)

    assert metrics.faults.value(("ValueError",)) == 1
    assert "an internal error" in caplog.text
    assert "s3cret" not in caplog.text


async def test_answers_of_some_size_are_compressed_for_those_who_accept_it():
    async with serving(ROUTES) as url:
        _, plain, headers = await asked(f"{url}/big")
        assert (len(plain), headers["Vary"], "Content-Encoding" in headers) == (50_003, "Accept-Encoding", False)
        _, zipped, headers = await asked(f"{url}/big", Accept_Encoding="br, gzip")
        assert (headers["Content-Encoding"], len(zipped) < 1000) == ("gzip", True)
        _, _, headers = await asked(f"{url}/big", Accept_Encoding="gzip;q=0")
        assert "Content-Encoding" not in headers
        _, _, headers = await asked(url, Accept_Encoding="gzip")
        assert "Content-Encoding" not in headers


async def test_with_a_token_scripts_and_browsers_get_in_by_any_name():
    settings = Web(endpoint="0.0.0.0:0", auth=Auth(token="t0ken"))  # noqa: S106 (a test's)
    async with serving(ROUTES, settings) as url:
        status, _, headers = await asked(url)
        assert (status, headers["WWW-Authenticate"]) == (401, 'Basic realm="toolgauge", charset="UTF-8"')
        assert {name: headers.get(name) for name in HEADERS} == HEADERS
        assert (await asked(f"{url}/static/toolgauge.js"))[0] == 401
        for right in ("Bearer t0ken", aiohttp.encode_basic_auth("me", "t0ken")):
            assert (await asked(url, Authorization=right, Host="toolgauge.example"))[0] == 200


async def test_beyond_loopback_without_a_token_names_of_the_public_dns_are_refused():
    async with serving(ROUTES, Web(endpoint="0.0.0.0:0", insecure=True)) as url:
        for host in ("localhost:9000", "10.0.0.7:8317", "toolgauge:8317"):
            assert (await asked(url, Host=host))[0] == 200
        assert (await asked(url, Host="evil.example:8317"))[0] == 403


async def test_only_so_many_pages_are_written_at_once():
    may_end = threading.Event()
    started: list[threading.Thread] = []

    def slow(_: PageRequest) -> str:
        started.append(threading.current_thread())
        may_end.wait(60)
        return "done"

    async with serving({"/": slow}) as url:
        asking = [asyncio.create_task(asked(url)) for _ in range(5)]
        async with asyncio.timeout(60):
            while len(started) < 2:
                await asyncio.sleep(0.01)
        # The other three have been accepted when this one is answered.
        assert (await asked(f"{url}/static/icon.svg"))[0] == 200
        at_once = len(started)
        may_end.set()
        answers = await asyncio.gather(*asking)
    assert at_once == 2
    assert [body for _, body, _ in answers] == [b"done"] * 5


async def test_a_page_is_rendered_again_only_where_something_has_changed():
    rendered: list[PageRequest] = []
    stamp = 0

    def page(request: PageRequest) -> str:
        rendered.append(request)
        return "page"

    async with serving({"/": page}, stamp=lambda _route: stamp) as url:
        _, _, first = await asked(url)
        status, body, again = await asked(url, If_None_Match=first["ETag"])
        assert (status, body, again["ETag"], len(rendered)) == (304, b"", first["ETag"], 1)
        # Other filters are another page.
        assert (await asked(f"{url}/?outcome=failed", If_None_Match=first["ETag"]))[0] == 200
        stamp = 1
        status, body, changed = await asked(url, If_None_Match=first["ETag"])
    assert (status, body) == (200, b"page")
    assert changed["ETag"] != first["ETag"]
