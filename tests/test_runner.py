"""How tests are run: groups of packages, words for pytest, and a start in the background of a script."""

import os
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.changed import branching_point, changed_paths, reached_tests
from tests.groups import MODULES

ROOT = Path(__file__).parents[1]
RUNNER = runpy.run_path(str(ROOT / "tests" / "__main__.py"))
GROUPS = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:xdist")
NAME = re.compile(r"(?m)^([a-z0-9-]+)(?:\[.*\])?==(\S+)")


def pins(group: str) -> dict[str, str]:
    return dict(NAME.findall(RUNNER["PINS"][group].read_text()))


def pytest_of(*words: str, path: Path = ROOT) -> str:
    """Run pytest as a script does in the background, with SIGINT ignored, and return what it printed."""
    command = ["sh", "-c", "trap '' INT; exec \"$@\"", "sh", *PYTEST, *words]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(path), os.environ.get("PYTHONPATH", "")))}
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=300).stdout


# -- groups -------------------------------------------------------------------------------------------------------------


def test_each_group_has_its_pins_and_names_its_modules():
    assert GROUPS.keys() == RUNNER["PINS"].keys()
    assert {*MODULES.values()} == GROUPS.keys() - {"test"}


@pytest.mark.parametrize("group", GROUPS)
def test_each_package_of_a_group_is_pinned(group: str):
    packages = {re.split(r"[<>=\[]", requirement.lower())[0] for requirement in GROUPS[group]}
    assert packages <= pins(group).keys()


def test_a_package_has_one_version_in_all_groups():
    versions = {(name, version) for group in GROUPS for name, version in pins(group).items()}
    names = [name for name, _ in versions]
    assert sorted(names) == sorted({*names})


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """Words for pytest: three tests that need the group `docs`, of which a module is missing."""
    (tmp_path / "lacking.py").write_text("from tests.groups import MODULES\nMODULES['absent'] = 'docs'\n")
    (tmp_path / "test_importing.py").write_text("import absent\n")
    (tmp_path / "test_calling.py").write_text("def test_it():\n    import absent\n")
    (tmp_path / "test_marked.py").write_text("import pytest\n@pytest.mark.needs('docs')\ndef test_it(): pass\n")
    return ["-c", "pyproject.toml", "-p", "lacking", "-p", "tests.conftest", "-rsfE", str(tmp_path)]


def test_tests_of_a_group_that_is_not_installed_skip_and_name_the_command(words: list[str], tmp_path: Path):
    printed = pytest_of(*words, path=tmp_path)
    assert len(re.findall(r"SKIPPED .* needs the group `docs`: `python3 tests --with docs` installs it", printed)) == 3
    assert "3 skipped" in printed


def test_they_fail_where_every_group_must_be_installed(words: list[str], tmp_path: Path):
    printed = pytest_of("--every-group", "--continue-on-collection-errors", *words, path=tmp_path)
    assert "1 failed, 2 errors" in printed


# -- words --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "command"),
    [
        ("tests/score -q", ["pytest", "tests/score", "-q"]),
        ("changed", ["tests.changed"]),
        ("changed --since HEAD~1 -x", ["tests.changed", "--since", "HEAD~1", "-x"]),
    ],
)
def test_changed_is_the_word_for_tests_that_a_change_can_reach(given: str, command: list[str]):
    assert RUNNER["module_and_words"](given.split()) == command


# -- what a change can reach --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "reached", "not_reached"),
    [
        ("src/toolgauge/score/align.py", "tests/score/test_align.py", "tests/config/test_units.py"),
        ("src/toolgauge/web/view.py", "tests/web/test_endpoint.py", "tests/score/test_align.py"),
        ("tests/captures.py", "tests/property/test_repair.py", "tests/score/test_align.py"),
        ("docs/alerting.md", "tests/deploy/test_rules.py", "tests/score/test_align.py"),
        ("docs/evaluators/budget.md", "tests/test_evaluator_pages.py", "tests/deploy/test_helm.py"),
        ("src/toolgauge/dialects/tracing_services.py", "tests/testing/test_dialects.py", "tests/score/test_align.py"),
        ("src/toolgauge/demo/traffic/new.otlp.pb", "tests/demo/test_drawing.py", "tests/score/test_align.py"),
    ],
)
def test_a_change_reaches_the_tests_that_import_or_name_it(changed: str, reached: str, not_reached: str):
    found = reached_tests([changed])
    assert reached in found
    assert not_reached not in found


def test_a_change_is_what_git_tells_since_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tests.changed.ROOT", tmp_path)
    for name in ("known.py", "same.py"):
        (tmp_path / name).write_text("")
    for words in (
        "init -q -b main",
        "add .",
        "-c user.name=A -c user.email=a@example.org commit -q -m first",
        "switch -q -c mine",
    ):
        subprocess.run(["git", *words.split()], cwd=tmp_path, check=True)
    (tmp_path / "known.py").write_text("x = 1")
    (tmp_path / "new.py").write_text("")
    assert changed_paths(branching_point()) == ["known.py", "new.py"]


# -- started in the background ------------------------------------------------------------------------------------------


def test_tests_that_are_started_with_interrupts_ignored_can_interrupt_a_child():
    printed = pytest_of("tests/wire/test_record.py", "-k", "all_commands_read")
    assert "1 passed" in printed, printed


# -- rows ---------------------------------------------------------------------------------------------------------------

ROWS = """
import pytest
from tests.rows import each_row

@pytest.mark.parametrize("more", [0, 1])
@each_row(("number", "double"), [(1, 2), (2, 5), (3, 6), (4, 9)])
def test_it(number, double, more):
    assert 2 * number + more == double + more
"""


def test_all_rows_of_a_table_are_tried_in_one_test_and_each_that_fails_is_named(tmp_path: Path):
    (tmp_path / "test_table.py").write_text(ROWS)
    printed = pytest_of("-c", "pyproject.toml", "-p", "tests.conftest", str(tmp_path))
    assert "2 failed" in printed
    assert "2 of 4 rows fail" in printed
    assert printed.count("in row 1: number=2, double=5") == 2
    assert printed.count("in row 3: number=4, double=9") == 2
    assert "in row 0" not in printed


# -- repeats ------------------------------------------------------------------------------------------------------------


FAILS_ONCE = """
import pathlib
import pytest

@pytest.mark.flaky(reruns=1{reason})
@pytest.mark.parametrize("number", range({repeats}))
def test_it(number, request):
    ran = pathlib.Path(request.path).with_name(f"{{number}}.ran")
    ran_before = ran.exists()
    ran.touch()
    assert ran_before
"""


@pytest.mark.parametrize(("repeats", "reason"), [(6, ", reason='it is'"), (1, "")])
def test_few_tests_are_marked_as_flaky_each_with_its_reason(tmp_path: Path, repeats: int, reason: str):
    (tmp_path / "test_repeated.py").write_text(FAILS_ONCE.format(repeats=repeats, reason=reason))
    command = [*PYTEST, "-c", "pyproject.toml", "-p", "tests.conftest", str(tmp_path)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert run.returncode == pytest.ExitCode.USAGE_ERROR
    assert f"{repeats} tests are flaky, of at most 5" in run.stderr


@pytest.mark.parametrize(("repeats", "exit_code"), [(3, 0), (4, 1)])
def test_a_run_with_more_than_three_repeats_fails(tmp_path: Path, repeats: int, exit_code: int):
    (tmp_path / "test_repeated.py").write_text(FAILS_ONCE.format(repeats=repeats, reason=", reason='it is'"))
    command = [*PYTEST, "-c", "pyproject.toml", "-p", "tests.conftest", str(tmp_path)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert f"repeated: {repeats}, at most 3" in run.stdout
    assert run.returncode == exit_code
