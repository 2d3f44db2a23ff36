"""How tests are run: a start in the background of a script."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:xdist")


def pytest_of(*words: str) -> str:
    """Run pytest as a script does in the background, with SIGINT ignored, and return what it printed."""
    command = ["sh", "-c", "trap '' INT; exec \"$@\"", "sh", *PYTEST, *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300).stdout


def test_tests_that_are_started_with_interrupts_ignored_can_interrupt_a_child():
    printed = pytest_of("tests/wire/test_learning.py", "-k", "without_traffic")
    assert "1 passed" in printed, printed
