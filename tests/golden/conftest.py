"""Turns every line of every golden file into a test."""

from pathlib import Path

import pytest

from tests.golden.goldens import read_goldens


def pytest_generate_tests(metafunc: pytest.Metafunc):
    if "golden" not in metafunc.fixturenames:
        return
    folder = metafunc.config.getoption("--golden-dir")
    assert isinstance(folder, Path)
    goldens = read_goldens(folder)
    if not goldens:
        raise pytest.UsageError(f"no golden cases (`*.jsonl`) in `{folder}`")
    metafunc.parametrize("golden", goldens, ids=[golden.case.name for golden in goldens])
