"""What pytest itself sees: a start that costs nothing, and peace with its other plug-ins. Each run is a process of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.pytest_plugin.conftest import write_tests

pytest_plugins = ["pytester"]
HEAVY = ("aiohttp", "google", "grpc", "msgspec", "opentelemetry", "pydantic", "re2", "yaml")
TESTS = """
    pytestmark = pytest.mark.toolgauge("criteria.yaml")
    attempts = []

    @pytest.mark.parametrize("number", range(4))
    def test_good(scored, number):
        run(FOUND, REFUNDED)
        scored.assert_passes("right-calls")

    def test_bad(scored):
        run(FOUND)
        scored.assert_passes("right-calls")

    def test_nothing_of_ours_is_rewritten(scored):
        import toolgauge.api.evaluate

        assert type(toolgauge.api.evaluate.__loader__).__name__ == "SourceFileLoader"

    async def test_async(scored):
        run(FOUND, REFUNDED)
        scored.assert_passes()

    @pytest.mark.flaky(reruns=2)
    def test_flaky(scored):
        attempts.append(1)
        run(FOUND, *([REFUNDED] if len(attempts) > 1 else []))
        scored.assert_passes("right-calls")
"""


def ran(directory: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:langsmith_plugin", *options]
    return subprocess.run(command, cwd=directory, capture_output=True, check=False, text=True, timeout=120)


def test_entry_point_imports_neither_the_sdk_nor_ourselves():
    code = (
        "import sys; before = {*sys.modules}; import toolgauge.pytest_plugin.hooks; print(*({*sys.modules} - before))"
    )
    imported = subprocess.run(
        [sys.executable, "-c", f"import pytest; {code}"], capture_output=True, text=True, check=True, timeout=60
    ).stdout.split()
    assert sorted(imported) == ["toolgauge", "toolgauge.pytest_plugin", "toolgauge.pytest_plugin.hooks"]


def test_run_without_agents_imports_none_of_it(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    heavy = ", ".join(map(repr, HEAVY))
    write_tests(
        pytester,
        f"""
        import sys
        import pytest
        @pytest.mark.parametrize("scored", ["an argument of the test's own"])
        def test_other(scored): assert not [name for name in ({heavy},) if name in sys.modules]
        """,
        agent__py="",
    )
    # The plug-ins of others in this environment import some of it.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    run = ran(pytester.path, "-p", "toolgauge.pytest_plugin.hooks")
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.long
def test_other_plugins_and_strict_settings_are_no_trouble(pytester: pytest.Pytester):
    """Workers of pytest-xdist, random order, repeated attempts and coroutines, where every warning is an error."""
    settings = """
        [pytest]
        addopts = --strict-markers --strict-config
        filterwarnings = error
        asyncio_mode = auto
        asyncio_default_fixture_loop_scope = function
    """
    write_tests(pytester, TESTS, pytest__ini=settings)
    run = ran(pytester.path, "-n", "2", "--toolgauge-record=runs")
    assert "1 failed, 7 passed, 1 rerun" in run.stdout, run.stdout + run.stderr
    # The attempt that was repeated does not count.
    assert [line.split() for line in run.stdout.splitlines() if line.startswith("right-calls ")] == [
        ["right-calls", "6", "1", "0", "0.952", "7", "0"]
    ]
    assert len([*(pytester.path / "runs").iterdir()]) == 7


def test_plugin_can_be_switched_off(pytester: pytest.Pytester):
    write_tests(pytester, "def test_other(): pass")
    refused = ran(pytester.path, "-p", "no:toolgauge", "-p", "no:xdist", "--toolgauge-record=runs")
    assert "unrecognized arguments: --toolgauge-record=runs" in refused.stderr


def test_program_may_import_us_before_it_starts_pytest(pytester: pytest.Pytester):
    write_tests(
        pytester, "def test_other(): pass", pytest__ini="[pytest]\nasyncio_default_fixture_loop_scope = function"
    )
    code = "import sys, toolgauge, pytest; sys.exit(pytest.main(['-W', 'error', '-p', 'no:langsmith_plugin']))"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=pytester.path, capture_output=True, check=False, text=True, timeout=60
    )
    assert run.returncode == 0, run.stdout + run.stderr
