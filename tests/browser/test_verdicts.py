"""Who can give a verdict in a real browser: pages of the web view, and no page of another origin."""

from collections.abc import Generator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.support import Visitor, chromium_running, needs_chromium, web_address
from tests.http_server import Quiet, answering
from tests.wire.support import serving, until
from tests.wire.test_verdicts import shown_run, verdicts

pytestmark = needs_chromium
# As a person would: the page goes on to the answer.
_SUBMIT = """(fields) => {
    const form = document.createElement("form");
    form.method = "post";
    form.action = fields.action;
    for (const [name, value] of Object.entries(fields.values)) {
        const input = document.createElement("input");
        [input.name, input.value] = [name, value];
        form.append(input);
    }
    document.body.append(form);
    form.submit();
}"""
_FETCH = """async (fields) => {
    const body = new URLSearchParams(fields.values);
    try {
        const answer = await fetch(fields.action, { method: "POST", mode: fields.mode, body });
        return answer.status;
    } catch (error) {
        return -1;
    }
}"""


class OtherSite(Quiet, BaseHTTPRequestHandler):
    """A page of another origin, and one that is put into a sandbox and has none."""

    def do_GET(self) -> None:
        """Answer."""
        page = b"<!doctype html><title>other</title><body>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        if self.path == "/sandbox":
            self.send_header("Content-Security-Policy", "sandbox allow-scripts allow-forms")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)


@pytest.fixture(scope="module")
def chromium() -> Generator[Browser]:
    with chromium_running() as browser:
        yield browser


def test_a_page_of_ours_gives_a_verdict_and_no_page_of_another_origin_does(chromium: Browser, tmp_path: Path):
    with serving(tmp_path) as toolgauge, answering(OtherSite) as other, chromium.new_context() as context:
        port, run = shown_run(toolgauge)
        visitor, address = Visitor(context), web_address(toolgauge)
        values = {"id": run, "verdict": "bad"}
        wanted = {"action": f"{address}/verdict", "values": values}
        for path in ("/", "/sandbox"):
            for elsewhere in (other, other.replace("127.0.0.1", "localhost")):
                page = visitor.opens(elsewhere + path)
                assert page.evaluate(_FETCH, {**wanted, "mode": "cors"}) == -1
                assert page.evaluate(_FETCH, {**wanted, "mode": "no-cors"}) in (-1, 0)
                with page.expect_response(f"{address}/verdict") as answer:
                    page.evaluate(_SUBMIT, wanted)
                assert answer.value.status == 403
        assert verdicts(port) == []
        page = visitor.opens(f"{address}/trajectories/{run}")
        own = {"action": "/verdict", "values": {**values, "reason": "wrong city", "back": "/trajectories"}}
        page.evaluate(_SUBMIT, own)
        page.wait_for_url(f"{address}/trajectories", wait_until="load")
        assert verdicts(port) == [[run, "bad", "wrong city", "web view"]]
        assert page.evaluate(_FETCH, {**own, "mode": "same-origin", "values": {"id": run, "verdict": "none"}}) == 204
        until(lambda: verdicts(port) == [], "the verdict to be taken back")
