"""The web view as people use it: a real browser on the pages of a running `toolgauge serve`."""

import itertools
import re
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.hostile import HOSTILE, hostile_run
from tests.browser.support import (
    DEADLINE_MS,
    DESKTOP_WIDTH,
    PHONE_WIDTH,
    Visitor,
    axe_findings,
    bytes_on_the_wire,
    chromium_running,
    needs_chromium,
    web_address,
)
from tests.cli.command import run
from tests.wire.support import CORPUS, Toolgauge, free_port, long_ago, serving, until
from toolgauge.demo.sample_sender import HEALTHY, WORSE, drawn, recordings

pytestmark = needs_chromium
expect.set_options(timeout=DEADLINE_MS)

RECORDINGS = (
    ("pydantic-ai", "one_call"),
    ("pydantic-ai", "tool_error"),
    ("pydantic-ai", "unknown_tool"),
    ("openinference-langgraph", "sequence"),
)
CONFIG = """
redact: {values: show}
watch: {conversation_idle: 1s, baseline_min: 30, false_alarms_per_week: 4}
criteria:
  - name: refund-arguments
    evaluator: tool_call_args
    when: {service: shop-assistant}
    tools: [refund_order]
    expected:
      - {name: refund_order, args: {order_id: A-1001, amount: 40.0, reason: arrived damaged}, optional: true}
"""
MOST_BYTES = 300_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A running toolgauge that has scored runs of several frameworks, and two releases of one."""

    toolgauge: Toolgauge
    address: str


# Until its end no event loop can run on this thread: not for the session.
@pytest.fixture(scope="module")
def chromium() -> Generator[Browser]:
    with chromium_running() as browser:
        yield browser


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Generator[Seen]:
    folder = tmp_path_factory.mktemp("seen")
    (folder / "toolgauge.yaml").write_text(CONFIG)
    state = f"state.directory={folder / 'state'}"
    with serving(folder, state, options=("--config", str(folder / "toolgauge.yaml"))) as toolgauge:
        for recording in RECORDINGS:
            toolgauge.send_recorded(*recording)
        runs = len(RECORDINGS) + 1 + _send_releases(toolgauge)
        toolgauge.send(hostile_run())
        until(lambda: toolgauge.total("toolgauge_trajectories_total") >= runs, "all runs to be scored")
        until(lambda: toolgauge.total("toolgauge_regression_active"), "the alarm")
        yield Seen(toolgauge=toolgauge, address=web_address(toolgauge))


def _send_releases(toolgauge: Toolgauge) -> int:
    """Send a healthy release and a worse one, as the demo draws them, until long ago enough to be whole."""
    chosen = [each for each in recordings() if each.scenario == "sequence"]
    moments = itertools.count(long_ago() - 60_000_000_000, 200_000_000)
    sent = 0
    for release, count in ((HEALTHY, 60), (WORSE, 50)):
        for body in itertools.islice(drawn(chosen, release, seed=8, clock=lambda: next(moments)), count):
            toolgauge.send(body, "http")
            sent += 1
    return sent


@pytest.fixture
def visitor(chromium: Browser) -> Generator[Visitor]:
    with chromium.new_context(viewport={"width": DESKTOP_WIDTH, "height": 800}) as context:
        yield Visitor(context)


# Where a link is given, the page is the one that its first link leads to.
PAGES: Mapping[str, tuple[str, str | None]] = {
    "overview": ("/", None),
    "streams": ("/streams", None),
    "a stream in alarm": ("/streams?state=alarm", "#live table a"),
    "trajectories": ("/trajectories", None),
    "a failed trajectory": ("/trajectories?criterion=refund-arguments&outcome=failed", "#live table a"),
    "verdicts": ("/verdicts", None),
    "differences": ("/separation", None),
    "agents": ("/agents", None),
    "an agent": ("/agents", "#live table a"),
    "not evaluated": ("/not-evaluated", None),
    "health": ("/health", None),
}


def opened(visitor: Visitor, address: str, name: str) -> Page:
    path, link = PAGES[name]
    page = visitor.opens(address + path)
    if link is not None:
        page.locator(link).first.click()
        page.wait_for_url(re.compile(r"/(streams|trajectories|agents)/\w"), wait_until="load")
    return page


# Both schemes have the same elements, in other colours: this page has most of them.
ALSO_IN_DARK = ("a failed trajectory",)


def test_a_page_is_for_everybody_and_asks_nobody_else(chromium: Browser, seen: Seen):
    for name in PAGES:
        with chromium.new_context(viewport={"width": DESKTOP_WIDTH, "height": 800}) as context:
            assert_is_for_everybody(Visitor(context), seen, name)


def assert_is_for_everybody(visitor: Visitor, seen: Seen, name: str) -> None:
    page = opened(visitor, seen.address, name)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    assert axe_findings(page) == [], name
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.emulate_media(color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    if name in ALSO_IN_DARK:
        assert axe_findings(page) == [], name
    page.set_viewport_size({"width": PHONE_WIDTH, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE_WIDTH
    assert visitor.origins() == {seen.address}
    assert visitor.complaints == []


def test_whichever_page_comes_first_is_small(chromium: Browser, seen: Seen):
    for path in ("/", "/streams", "/trajectories"):
        with chromium.new_context() as context:
            page = context.new_page()
            with bytes_on_the_wire(page) as loaded:
                page.goto(seen.address + path, wait_until="load")
            assert 0 < sum(loaded) < MOST_BYTES, path


def test_an_open_page_shows_a_run_soon_after_its_end(visitor: Visitor, seen: Seen):
    page = visitor.opens(f"{seen.address}/trajectories?service=google-adk-demo")
    expect(page.get_by_role("status").get_by_text("Live")).to_be_visible()
    expect(page.locator("#live table tbody tr")).to_have_count(0)
    seen.toolgauge.send_recorded("google-adk", "content_off")
    expect(page.locator("#live table tbody tr")).to_have_count(1)
    expect(page.locator("#live table")).to_contain_text("google-adk-demo")
    assert visitor.complaints == []


def focus_by_tab(page: Page, what: str) -> None:
    """Press Tab until the element that the selector finds first has the focus."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("what => document.activeElement === document.querySelector(what)", what):
            return
    raise AssertionError(f"not reached by Tab: {what}")


def choose_by_keyboard(page: Page, field: str, value: str) -> None:
    focus_by_tab(page, field)
    for _ in range(40):
        page.keyboard.press("ArrowDown")
        if page.locator(field).input_value() == value:
            return
    raise AssertionError(f"no such choice: {value}")


def test_trajectories_are_filtered_by_keyboard_alone(visitor: Visitor, seen: Seen):
    filters = {"outcome": "failed", "version": "1.1", "criterion": "refund-arguments"}
    page = visitor.opens(f"{seen.address}/trajectories")
    unfiltered = page.locator("#live .lead").inner_text()
    for name, value in filters.items():
        choose_by_keyboard(page, f"select[name={name}]", value)
        page.wait_for_url(re.compile(rf"[?&]{name}={value}"))
        assert page.evaluate("document.activeElement.name") == name
    # The address is the state: whoever gets it sees the same.
    again = visitor.opens(page.url)
    filtered = again.locator("#live .lead").inner_text()
    assert filtered != unfiltered
    expect(page.locator("#live .lead")).to_have_text(filtered)
    expect(page.locator("#live tbody tr").first).to_contain_text("shop-assistant")
    assert visitor.complaints == []


def test_a_failed_run_is_opened_by_keyboard_and_has_expected_beside_actual(visitor: Visitor, seen: Seen):
    page = visitor.opens(f"{seen.address}/trajectories?criterion=refund-arguments&outcome=failed")
    focus_by_tab(page, "#live table a")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/trajectories/[0-9a-f]{32}"))
    row = page.locator("table.differences tbody tr").filter(has=page.locator("ins"))
    expect(row).to_contain_text("refund_order: amount")
    expect(row.locator("ins")).to_have_text("40.0")
    expect(row.locator("del")).to_have_text("42.5")
    expect(page.locator(".call mark").filter(has_text="expected 40.0")).to_have_count(1)
    assert visitor.complaints == []


def test_script_tags_in_spans_are_text(visitor: Visitor, seen: Seen):
    page = visitor.opens(f"{seen.address}/trajectories?outcome=failed")
    page.get_by_role("row").filter(has_text=HOSTILE[:20]).get_by_role("link").first.click()
    page.wait_for_url(re.compile("/trajectories/[0-9a-f]{32}"))
    assert page.locator("main").inner_text().count(HOSTILE) >= 4
    for path in (None, "/", "/streams", "/trajectories", "/agents", "/not-evaluated", "/health"):
        if path is not None:
            page.goto(seen.address + path, wait_until="load")
        assert page.evaluate("window.owned") is None
        assert page.locator("main img, main script, main iframe").count() == 0
        assert page.locator("script:not([src='/static/toolgauge.js'])").count() == 0
    assert visitor.complaints == []


def test_pages_work_without_scripts(chromium: Browser, seen: Seen):
    with chromium.new_context(java_script_enabled=False) as context:
        page = Visitor(context).opens(f"{seen.address}/trajectories")
        page.locator("select[name=outcome]").select_option("failed")
        page.locator("select[name=criterion]").select_option("refund-arguments")
        page.locator("form.filters button").click()
        page.wait_for_url(re.compile("criterion=refund-arguments"))
        page.locator("#live table a").first.click()
        expect(page.locator("table.differences ins").first).to_have_text("40.0")
        page.get_by_role("link", name="Streams").click()
        expect(page.locator("table.streams")).to_contain_text("alarm")


FAILED_LOOKUPS = "/trajectories?criterion=default.tool_success&outcome=failed&version=1.1"


def test_bad_runs_are_marked_and_a_criterion_is_adopted_by_keyboard_alone(visitor: Visitor, seen: Seen):
    page = visitor.opens(seen.address + FAILED_LOOKUPS)
    for number in range(1, 3):
        page.keyboard.press("j")
        page.keyboard.press("b")
        expect(page.locator("#live .tag.bad")).to_have_count(number)
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/trajectories/[0-9a-f]{32}"), wait_until="load")
    page.keyboard.press("b")
    page.keyboard.type("begged for the goods")
    page.keyboard.press("Enter")
    expect(page.locator("#verdict [role=status]")).to_contain_text("marked bad begged for the goods by web view")
    focus_by_tab(page, "#verdict a[href='/verdicts']")
    page.keyboard.press("Enter")
    expect(page.locator("#live tbody tr")).to_have_count(3)
    assert axe_findings(page) == []
    focus_by_tab(page, "a[href='/separation']")
    page.keyboard.press("Enter")
    page.wait_for_url("**/separation", wait_until="load")
    assert axe_findings(page) == []
    focus_by_tab(page, "form[action='/adopt'] button")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Make it live")).to_be_visible()
    assert axe_findings(page) == []
    until(lambda: "is tried in the shadow" in seen.toolgauge.said(), "the adoption in the log")
    until(lambda: "the configuration was reloaded: criterion learned." in seen.toolgauge.said(), "the reload")
    focus_by_tab(page, "form[action='/adopt'] button[value='live']")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Back to the shadow")).to_be_visible()
    assert visitor.complaints == []


def test_a_key_in_a_field_is_a_letter_and_marks_nothing(visitor: Visitor, seen: Seen):
    page = visitor.opens(f"{seen.address}/trajectories?service=pydantic-ai-demo")
    page.locator("input[name=q]").focus()
    page.keyboard.type("bgb")
    assert page.locator("input[name=q]").input_value() == "bgb"
    expect(page.locator("#live .tag.bad")).to_have_count(0)


def test_verdicts_work_without_scripts(chromium: Browser, seen: Seen):
    with chromium.new_context(java_script_enabled=False) as context:
        page = Visitor(context).opens(f"{seen.address}/trajectories?service=pydantic-ai-demo")
        page.locator("#live table a").first.click()
        page.get_by_label("Why").fill("as it should be")
        page.get_by_role("button", name="Good").click()
        expect(page.locator("#verdict")).to_contain_text("marked good as it should be")
        page.get_by_role("button", name="Take back").click()
        expect(page.locator("#verdict")).to_contain_text("Was this a good run?")


def test_a_page_shows_that_the_connection_is_lost_and_that_it_is_back(visitor: Visitor, tmp_path: Path):
    here = f"web.endpoint=127.0.0.1:{free_port()}"
    with serving(tmp_path, here) as toolgauge:
        page = visitor.opens(f"{web_address(toolgauge)}/trajectories")
        status = page.get_by_role("status")
        expect(status).to_have_text("Live")
    expect(status).to_contain_text("Connection lost")
    with serving(tmp_path, here) as toolgauge:
        expect(status).to_have_text("Live")
        toolgauge.send_recorded("pydantic-ai", "tool_error")
        expect(page.locator("#live table")).to_contain_text("pydantic-ai-demo")


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that `replay --html` writes of the recordings and of the hostile run."""
    folder = tmp_path_factory.mktemp("document")
    (folder / "toolgauge.yaml").write_text(CONFIG)
    (folder / "hostile.otlp.pb").write_bytes(hostile_run())
    files = [file for framework, scenario in RECORDINGS for file in CORPUS.glob(f"{framework}/{scenario}.*otlp.pb")]
    written = folder / "runs.html"
    ended = run(
        *("check", "--fail-on", "nothing", "--html", str(written), "--config", str(folder / "toolgauge.yaml")),
        *map(str, (*sorted(files), folder / "hostile.otlp.pb")),
    )
    assert ended.code == 0, ended.err
    return written


def test_the_file_of_a_recording_is_read_and_filtered_without_any_network(chromium: Browser, document: Path):
    with chromium.new_context(viewport={"width": DESKTOP_WIDTH, "height": 800}, offline=True) as context:
        visitor = Visitor(context)
        page = visitor.opens(document.as_uri())
        shown = page.locator("section.entry:visible")
        expect(shown).to_have_count(5)
        page.get_by_label("Result").select_option("fail")
        page.get_by_label("Criterion").select_option("refund-arguments")
        expect(shown).to_have_count(1)
        expect(page.get_by_role("status")).to_have_text("1 of 5 trajectories")
        shown.locator("summary").first.click()
        expect(shown.locator(".call mark").filter(has_text="expected 40.0")).to_be_visible()
        assert axe_findings(page) == []
        page.get_by_label("Criterion").select_option("")
        page.get_by_label("Result").select_option("")
        expect(shown).to_have_count(5)
        page.emulate_media(color_scheme="dark")
        page.set_viewport_size({"width": PHONE_WIDTH, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE_WIDTH
        assert axe_findings(page) == []
        assert page.evaluate("window.owned") is None
        assert visitor.origins() == {"file://"}
        assert visitor.complaints == []
