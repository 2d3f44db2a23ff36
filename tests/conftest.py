"""Options of the test runs."""

import signal
from collections.abc import Generator
from pathlib import Path

import hypothesis
import pytest

from tests.groups import MODULES, is_installed, reason
from tests.leaks import grpc_keeps_its_sockets, leaves_no_socket_and_no_thread, leaves_no_task

__all__ = ["grpc_keeps_its_sockets", "leaves_no_socket_and_no_thread", "leaves_no_task"]

hypothesis.settings.register_profile("quick", max_examples=50, deadline=None)
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
        help="more examples and random bytes, and a Collector built for `tests/deploy` where there is none yet",
    )
    parser.addoption(
        "--every-group",
        action="store_true",
        help="fail, and do not skip, tests that need a group of packages that is not installed",
    )


def pytest_configure(config: pytest.Config):
    config.addinivalue_line("markers", "needs(group): skip where this group of `pyproject.toml` is not installed")
    # A script's shell starts a background process with SIGINT ignored, and its children inherit that: tests that
    # interrupt a child would wait in vain.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    hypothesis.settings.load_profile("long" if config.getoption("--long") else "quick")


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
    """Skip a module of tests that imports a package of a group that is not installed."""
    report = yield
    found = report.call.excinfo.value if report.call and report.call.excinfo else None
    for error in (found, found and found.__cause__):
        if isinstance(error, ModuleNotFoundError) and not collector.config.getoption("--every-group"):
            group = MODULES.get((error.name or "").partition(".")[0])
            if group and not is_installed(group):
                report.outcome = "skipped"
                report.longrepr = (str(collector.path), 1, f"Skipped: {reason(group)}")
    return report
