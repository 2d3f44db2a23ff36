"""Turns every line of every golden file into a test."""

from pathlib import Path

import pytest

from tests.golden.goldens import read_goldens


def pytest_generate_tests(metafunc: pytest.Metafunc):
    wanted = {"golden", "judged_golden"} & set(metafunc.fixturenames)
    if not wanted:
        return
    folder = metafunc.config.getoption("--golden-dir")
    assert isinstance(folder, Path)
    goldens = read_goldens(folder)
    if not goldens:
        raise pytest.UsageError(f"no golden cases (`*.jsonl`) in `{folder}`")
    if "judged_golden" in wanted:
        # Those that tell what a judge was shown.
        goldens = [golden for golden in goldens if golden.said.get("judge_inputs") is not None]
    metafunc.parametrize(wanted.pop(), goldens, ids=[golden.case.name for golden in goldens])
