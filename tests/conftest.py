"""Options of the test runs."""

import gc
import signal
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests.captures import all_captures, few, sample
from tests.groups import is_installed, missing_group, reason
from tests.leaks import grpc_keeps_its_sockets, leaves_no_socket_and_no_thread, leaves_no_task
from tests.rows import Row, marked, parametrize, run_rows

__all__ = ["grpc_keeps_its_sockets", "leaves_no_socket_and_no_thread", "leaves_no_task"]

# Tests that may run once more where they fail, each with its reason: `@pytest.mark.flaky(reruns=1, reason="...")`.
MOST_FLAKY = 5
# More repeats than that are a fault of the code and not of the machine.
MOST_REPEATS = 3

hypothesis.settings.register_profile("quick", max_examples=30, deadline=None)
hypothesis.settings.register_profile("long", max_examples=500, deadline=None)


def pytest_addoption(parser: pytest.Parser):
    parser.addoption(
        "--golden-dir",
        type=Path,
        default=Path(__file__).parent / "golden",
        metavar="DIR",
        help="the folder of golden cases that `tests/golden` compares with",
    )
    parser.addoption(
        "--long",
        action="store_true",
        help="more examples and random bytes, every captured run, and a Collector built for `tests/deploy` where there is none yet",
    )
    parser.addoption(
        "--every-group",
        action="store_true",
        help="fail, and do not skip, tests that need a group of packages that is not installed",
    )


def pytest_configure(config: pytest.Config):
    config.addinivalue_line(
        "markers", "rows(names, rows): go through rows of one shape in one test; see `tests/rows.py`"
    )
    config.addinivalue_line("markers", "long: run with `--long` alone")
    config.addinivalue_line("markers", "needs(group): skip where this group of `pyproject.toml` is not installed")
    # A script's shell starts a background process with SIGINT ignored, and its children inherit that: tests that
    # interrupt a child would wait in vain.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    hypothesis.settings.load_profile("long" if config.getoption("--long") else "quick")


def pytest_generate_tests(metafunc: pytest.Metafunc):
    long = bool(metafunc.config.getoption("--long"))
    for fixture, some in (("captured", sample), ("few_captured", few)):
        if fixture in metafunc.fixturenames:
            found = all_captures() if long else some()
            rows = (Row(folder, {fixture: each}) for folder, each in found.items())
            parametrize(metafunc, [fixture], rows, each=long)
    for mark in metafunc.definition.iter_markers("rows"):
        names, of_mark = marked(mark, long=long)
        parametrize(metafunc, names, of_mark, each=long)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    return run_rows(pyfuncitem) or None


def pytest_collection(session: pytest.Session):  # noqa: ARG001 - a hook has its names
    # What is imported and found stays until the end: looking through it for what could go takes a quarter of that time.
    gc.disable()


def pytest_collection_finish(session: pytest.Session):  # noqa: ARG001 - a hook has its names
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]):
    if not config.getoption("--long"):
        items[:] = [item for item in items if not item.get_closest_marker("long")]
    flaky = [(item.nodeid, mark) for item in items if (mark := item.get_closest_marker("flaky"))]
    unexplained = [name for name, mark in flaky if not mark.kwargs.get("reason")]
    if len(flaky) > MOST_FLAKY or unexplained:
        raise pytest.UsageError(
            f"{len(flaky)} tests are flaky, of at most {MOST_FLAKY}; without a reason: {unexplained}"
        )


def pytest_sessionstart(session: pytest.Session):
    session.config.pluginmanager.register(Repeats(session))


class Repeats:
    """Lists the tests that ran more than once, and fails a run with too many of them."""

    def __init__(self, session: pytest.Session) -> None:
        self._session = session
        self._names: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if str(report.outcome) == "rerun":
            self._names.append(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        if len(self._names) > MOST_REPEATS and self._session.exitstatus == 0:
            self._session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._names:
            terminalreporter.section(f"repeated: {len(self._names)}, at most {MOST_REPEATS}")
            for name in self._names:
                terminalreporter.line(name)


def pytest_runtest_setup(item: pytest.Item):
    missing = [mark.args[0] for mark in item.iter_markers("needs") if not is_installed(mark.args[0])]
    if missing and item.config.getoption("--every-group"):
        pytest.fail(reason(missing[0]))
    elif missing:
        pytest.skip(reason(missing[0]))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if report.failed and report.call:
        skip_without_group(report, report.call, collector)
        # pytest keeps a module whose import failed, and tests that import it would miss a name instead of a package.
        for name, module in [*sys.modules.items()]:
            if getattr(module, "__file__", None) == str(collector.path):
                del sys.modules[name]
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        skip_without_group(report, call, item)
    return report


def skip_without_group(
    report: pytest.CollectReport | pytest.TestReport, call: pytest.CallInfo[Any], node: pytest.Item | pytest.Collector
) -> None:
    """Turn a failure into a skip where its error is about a package of a group that is not installed."""
    group = missing_group(call.excinfo.value) if call.excinfo else None
    if group is not None and not node.config.getoption("--every-group"):
        report.outcome = "skipped"
        report.longrepr = (str(node.path), 1, f"Skipped: {reason(group)}")
