"""The examples that people copy: agents of frameworks with scripted models, whose tests pass, and fail as they should.

A framework is instrumented for the whole of a process, so each has one of its own.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
RIGHT, WRONG = '"A-17", "amount": 20}', '"A-17", "amount": 25}'


@pytest.mark.long
@pytest.mark.parametrize("framework", ["pydantic-ai", "langgraph"])
def test_example_passes_and_a_wrong_refund_fails_with_expected_beside_actual(framework: str, tmp_path: Path):
    for file in (EXAMPLES / f"pytest-{framework}").glob("*.*"):
        (tmp_path / file.name).write_text(file.read_text())
    tests = (tmp_path / "test_shop.py").read_text()
    assert RIGHT in tests
    (tmp_path / "test_wrong.py").write_text(tests.replace(RIGHT, WRONG))
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("LANG", "OTEL_", "CI"))}
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "toolgauge.pytest_plugin.hooks", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env={**kept, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    lines = [line.removeprefix("E").strip() for line in result.stdout.splitlines()]
    assert lines[-1].strip("= ").startswith("1 failed, 3 passed"), result.stdout
    assert "AssertionError: `refund-order` failed: refund_order: amount (exact): expected 20, got 25" in lines
    assert [line.removesuffix("  executed  [shop_agent]") for line in lines if line.startswith("turn ")] == [
        'turn 1  find_order(order_id="A-17")',
        'turn 2  refund_order(order_id="A-17", amount=25)',
    ]
