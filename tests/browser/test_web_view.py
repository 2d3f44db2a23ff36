"""The web view as people use it: a real browser on the pages of a running `toolgauge serve`."""

from collections.abc import Generator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Browser

from tests.browser.support import DESKTOP_WIDTH, Visitor, chromium_running, needs_chromium, web_address
from tests.wire.support import Toolgauge, serving, until

pytestmark = needs_chromium

# Good runs and bad ones, of several frameworks.
RECORDINGS = (
    ("pydantic-ai", "one_call"),
    ("pydantic-ai", "tool_error"),
    ("pydantic-ai", "unknown_tool"),
    ("openinference-langgraph", "sequence"),
)


@pytest.fixture(scope="module")
def chromium() -> Generator[Browser]:
    with chromium_running() as browser:
        yield browser


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A running toolgauge that has scored some runs."""

    toolgauge: Toolgauge
    address: str


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Generator[Seen]:
    with serving(tmp_path_factory.mktemp("seen")) as toolgauge:
        for recording in RECORDINGS:
            toolgauge.send_recorded(*recording)
        until(lambda: toolgauge.total("toolgauge_trajectories_total") >= len(RECORDINGS), "all runs to be scored")
        yield Seen(toolgauge=toolgauge, address=web_address(toolgauge))


@pytest.fixture
def visitor(chromium: Browser) -> Generator[Visitor]:
    with chromium.new_context(viewport={"width": DESKTOP_WIDTH, "height": 800}) as context:
        yield Visitor(context)


def test_a_page_asks_nobody_else(visitor: Visitor, seen: Seen):
    page = visitor.opens(seen.address)
    assert page.get_by_role("heading", level=1).is_visible()
    assert visitor.origins() == {seen.address}
