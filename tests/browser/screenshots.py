"""Pictures of the web view, of what `toolgauge demo --stay` shows in it.

python -m tests.browser.screenshots docs/pictures     # the pictures of the pages, in light, 1280 pixels wide
python -m tests.browser.screenshots --all FOLDER      # every view, light and dark, on a desktop and a phone: to look at
"""

import argparse
import re
import tempfile
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Literal, TypeAlias

from playwright.sync_api import Browser, Page

from tests.browser.support import DEADLINE_MS, DESKTOP_WIDTH, PHONE_WIDTH, chromium_running
from tests.wire.support import Process, environment, toolgauge_command, until

Scheme: TypeAlias = Literal["light", "dark"]

_HEIGHT = 1000
_FAILED_REFUND = "/trajectories?outcome=failed&criterion=refund-arguments&version=1.0"
# The name of each view and how it is reached: a path, and whose first link is followed from there.
VIEWS: Mapping[str, tuple[str, str | None]] = {
    "overview": ("/", None),
    "streams": ("/streams", None),
    "stream": ("/streams?state=alarm", "table a"),
    "trajectories": ("/trajectories", None),
    "trajectory": (_FAILED_REFUND, "table a"),
    "verdicts": ("/verdicts", None),
    "separation": ("/separation", None),
    "not-evaluated": ("/not-evaluated", None),
    "health": ("/health", None),
}
# The pictures of the documentation, with their heights.
_DOCUMENTED: Mapping[str, int] = {"overview": 720, "stream": 1080, "trajectory": 1400, "separation": 820}
# Runs to mark as bad, and how many.
_BAD, _MARKED = "/trajectories?version=1.1&criterion=default.tool_success&outcome=failed", 4


@contextmanager
def demo_running(folder: Path) -> Generator[str]:
    """Run the demo to its end, and return the address of its web view."""
    with closing(Process(toolgauge_command("demo", "--stay"), folder / "demo.txt", environment(TZ="UTC"))) as process:
        # At the beginning, and again when everything has been shown.
        addresses = until(lambda: re.findall(r"(http://localhost:\d+) ", process.said())[1:], "the end of the demo")
        yield addresses[0]


def opened(page: Page, address: str, view: str) -> None:
    """Open a view."""
    path, link = VIEWS[view]
    page.goto(address + path, wait_until="load")
    if link is not None:
        page.locator(link).first.click()
        page.wait_for_load_state("load")
    # What is finished changes no more: its page follows nothing.
    if page.locator("#live").count():
        page.get_by_role("status").get_by_text("Live").wait_for()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="every view, light and dark, on a desktop and a phone")
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as scratch,
        demo_running(Path(scratch)) as address,
        chromium_running() as browser,
    ):
        _mark_and_adopt(browser, address)
        if options.all:
            _take_all(browser, address, options.folder)
        else:
            _take_documented(browser, address, options.folder)


def _mark_and_adopt(browser: Browser, address: str) -> None:
    """Mark some runs as bad, and try the first criterion that separates them."""
    with browser.new_context() as context:
        context.set_default_timeout(DEADLINE_MS)
        page = context.new_page()
        page.goto(address + _BAD, wait_until="load")
        for number in range(_MARKED):
            page.keyboard.press("j")
            page.keyboard.press("b")
            page.locator("#live .tag.bad").nth(number).wait_for()
        page.goto(f"{address}/separation", wait_until="load")
        page.locator("form[action='/adopt'] button").first.click()
        page.get_by_role("button", name="Make it live").first.wait_for()


def _take_documented(browser: Browser, address: str, folder: Path) -> None:
    for view, height in _DOCUMENTED.items():
        with browser.new_context(viewport={"width": DESKTOP_WIDTH, "height": height}, timezone_id="UTC") as context:
            context.set_default_timeout(DEADLINE_MS)
            page = context.new_page()
            opened(page, address, view)
            page.screenshot(path=folder / f"{view}.png")


def _take_all(browser: Browser, address: str, folder: Path) -> None:
    schemes: tuple[Scheme, ...] = ("light", "dark")
    for view in VIEWS:
        for scheme in schemes:
            for name, width in (("desktop", DESKTOP_WIDTH), ("phone", PHONE_WIDTH)):
                viewport = {"width": width, "height": _HEIGHT}
                with browser.new_context(viewport=viewport, color_scheme=scheme) as context:  # pyright: ignore[reportArgumentType]
                    context.set_default_timeout(DEADLINE_MS)
                    page = context.new_page()
                    opened(page, address, view)
                    page.screenshot(path=folder / f"{view}-{scheme}-{name}.png", full_page=True)


if __name__ == "__main__":
    main()
