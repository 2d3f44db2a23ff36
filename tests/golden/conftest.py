"""Gives every golden file to a test of its own."""

from pathlib import Path

import pytest


def pytest_generate_tests(metafunc: pytest.Metafunc):
    if "golden_file" not in metafunc.fixturenames:
        return
    folder = metafunc.config.getoption("--golden-dir")
    assert isinstance(folder, Path)
    files = sorted(folder.glob("*.jsonl"))
    if not files:
        raise pytest.UsageError(f"no golden cases (`*.jsonl`) in `{folder}`")
    metafunc.parametrize("golden_file", files, ids=lambda file: file.stem)
