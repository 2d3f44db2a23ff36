"""A real Chromium and the web view of a running `toolgauge serve`: what the tests and the screenshots share."""

import os
import re
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, sync_playwright

from tests.wire.support import Toolgauge, until

CHROMIUM = shutil.which("chromium")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine (Debian's `chromium`)")
_AXE = (files("axe_playwright_python") / "axe.min.js").read_text()
_RUN_AXE = """async () => {
    const found = await axe.run({ resultTypes: ["violations"] });
    const grave = found.violations.filter((each) => ["serious", "critical"].includes(each.impact));
    return grave.map((each) => `${each.id}: ${each.nodes.slice(0, 5).map((node) => node.target + " " + node.failureSummary)}`);
}"""
# A browser has as long as the processes that it looks at.
DEADLINE_MS = 60_000
DESKTOP_WIDTH, PHONE_WIDTH = 1280, 375


@contextmanager
def chromium_running() -> Generator[Browser]:
    """Run it without a window. Until its end no event loop can run on this thread."""
    # Its sandbox wants user namespaces, which root does not have in a container.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments, timeout=DEADLINE_MS)
        try:
            yield browser
        finally:
            browser.close()


class Visitor:
    """One person with a browser of their own: what it asked for and what it complained about is kept."""

    def __init__(self, context: BrowserContext) -> None:
        context.set_default_timeout(DEADLINE_MS)
        self.context = context
        self.requested: list[str] = []
        self.complaints: list[str] = []
        context.on("request", self._request)
        # Violations of the content security policy are errors on the console, too.
        context.on("console", self._console)
        context.on("weberror", lambda error: self.complaints.append(str(error.error)))

    def opens(self, url: str) -> Page:
        """Open a page, and return when it is loaded."""
        page = self.context.new_page()
        page.goto(url, wait_until="load")
        return page

    def origins(self) -> set[str]:
        """Name the servers, and the schemes, from which anything was asked for."""
        parts = [urlsplit(url) for url in self.requested]
        return {f"{part.scheme}://{part.netloc}" for part in parts}

    def _request(self, request: Request) -> None:
        self.requested.append(request.url)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.text} ({message.location['url']})")


def web_address(toolgauge: Toolgauge) -> str:
    """Read from the log where the web view is."""
    found = until(lambda: re.search(r"web view on (http://\S+)", toolgauge.said()), "the address in the log")
    return found[1]


def axe_findings(page: Page) -> list[str]:
    """Name what shuts people out of the page as it is shown now: what axe calls serious or critical."""
    page.evaluate(_AXE)
    return page.evaluate(_RUN_AXE)


@contextmanager
def bytes_on_the_wire(page: Page) -> Generator[list[int]]:
    """Collect the size of each answer, with its headers and as it was sent."""
    sizes: list[int] = []
    session = page.context.new_cdp_session(page)

    def finished(event: dict[str, Any]) -> None:
        sizes.append(round(event["encodedDataLength"]))

    session.on("Network.loadingFinished", finished)
    session.send("Network.enable")  # pyright: ignore[reportUnknownMemberType]
    yield sizes
    session.detach()
