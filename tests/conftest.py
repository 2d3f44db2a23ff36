"""Options of the test runs."""

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser):
    parser.addoption(
        "--golden-dir",
        type=Path,
        default=Path(__file__).parent / "golden",
        metavar="DIR",
        help="the folder of golden cases that `tests/golden` compares with",
    )
