"""Pictures of a failed call's score in Phoenix and MLflow: python -m tests.peers.screenshots docs/pictures."""

import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page

from tests.browser.support import DEADLINE_MS, DESKTOP_WIDTH, chromium_running
from tests.peers.backends import running_mlflow, running_phoenix
from tests.peers.runs import CALL, failed_runs
from tests.peers.test_backends import to_mlflow, to_phoenix
from tests.wire.support import serving, until

_HEIGHT = 640


def main(pictures: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch, chromium_running() as browser:
        folder = Path(scratch)
        (run,) = failed_runs(1)
        with running_phoenix(folder) as phoenix, serving(folder, *to_phoenix(phoenix)) as toolgauge:
            toolgauge.send(run.body, "http")
            until(lambda: phoenix.scores([run.tool_span]), "the annotation")
            with _opened(browser, f"{phoenix.url}/redirects/spans/{run.tool_span}") as page:
                page.get_by_test_id("application-drawer-plane").get_by_text(CALL).first.wait_for()
                _take(page, pictures / "phoenix.png", DESKTOP_WIDTH)
        with running_mlflow(folder) as mlflow, serving(folder, *to_mlflow(mlflow)) as toolgauge:
            toolgauge.send(run.body, "http")
            until(lambda: mlflow.scores([run.trace_id]), "the assessment")
            with _opened(
                browser, f"{mlflow.url}/#/experiments/0/traces?selectedEvaluationId=tr-{run.trace_id}"
            ) as page:
                page.get_by_text("execute_tool issue_refund").first.click()
                page.locator("button", has_text="Assess").first.click()
                page.get_by_text(CALL).first.wait_for()
                # The trace is before the list of traces, and leaves room beside it.
                _take(page, pictures / "mlflow.png", 896)


@contextmanager
def _opened(browser: Browser, address: str) -> Generator[Page]:
    with browser.new_context(viewport={"width": DESKTOP_WIDTH, "height": _HEIGHT}, timezone_id="UTC") as context:
        context.set_default_timeout(DEADLINE_MS)
        page = context.new_page()
        page.goto(address, wait_until="load")
        yield page


def _take(page: Page, file: Path, width: int) -> None:
    # Both draw with animations.
    page.wait_for_timeout(5000)
    page.screenshot(path=file, clip={"x": 0, "y": 0, "width": width, "height": _HEIGHT})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
