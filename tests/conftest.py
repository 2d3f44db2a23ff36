"""Options of the test runs."""

from pathlib import Path

import pytest

from tests.leaks import grpc_keeps_its_sockets, leaves_no_socket_and_no_thread, leaves_no_task

__all__ = ["grpc_keeps_its_sockets", "leaves_no_socket_and_no_thread", "leaves_no_task"]


def pytest_addoption(parser: pytest.Parser):
    parser.addoption(
        "--golden-dir",
        type=Path,
        default=Path(__file__).parent / "golden",
        metavar="DIR",
        help="the folder of golden cases that `tests/golden` compares with",
    )
    parser.addoption("--long", action="store_true", help="build a Collector for `tests/deploy` where there is none yet")
