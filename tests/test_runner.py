"""How tests are run: groups of packages, words for pytest, and a start in the background of a script."""

import os
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

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
    ("given", "groups", "pytest_words"),
    [
        ("", [], []),
        ("--long", [], []),
        ("-k align", [], ["-k", "align"]),
        ("--long tests/property -n 2", [], ["tests/property", "-n", "2"]),
        ("--with kafka --with mcp tests/wire", ["kafka", "mcp"], ["tests/wire"]),
    ],
)
def test_words_that_are_not_ours_go_to_pytest(
    given: str, groups: list[str], pytest_words: list[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sys, "argv", ["tests", *given.split()])
    options, words = RUNNER["arguments"]()
    assert (options.groups, words) == (groups, pytest_words)


# -- started in the background ------------------------------------------------------------------------------------------


def test_tests_that_are_started_with_interrupts_ignored_can_interrupt_a_child():
    printed = pytest_of("tests/wire/test_record.py", "-k", "all_commands_read")
    assert "1 passed" in printed, printed
