"""Options of the test runs."""

import signal
from pathlib import Path

import hypothesis
import pytest

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


def pytest_configure(config: pytest.Config):
    # A script's shell starts a background process with SIGINT ignored, and its children inherit that: tests that
    # interrupt a child would wait in vain.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    hypothesis.settings.load_profile("long" if config.getoption("--long") else "quick")
