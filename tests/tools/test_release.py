"""What a release is made of: built once for these tests, and what must not be released is refused."""

import datetime
import json
import os
import re
import shlex
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.helm import installed
from tests.rows import each_row
from tests.test_runner import pins
from tools.release import (
    PARTS,
    REGISTRY,
    MissingError,
    Release,
    UnfitError,
    check_sdist,
    check_tag,
    check_wheel,
    cut,
    make,
    notes,
    options,
    version,
)

ROOT = Path(__file__).parents[2]
WORKFLOWS: dict[str, Any] = {
    path.name: yaml.safe_load(path.read_text()) for path in sorted((ROOT / ".github" / "workflows").glob("*.yml"))
}
JOBS = [(file, name, job) for file, found in WORKFLOWS.items() for name, job in found["jobs"].items()]
GITLAB: dict[str, Any] = yaml.safe_load(
    re.findall(r"```yaml\n(checks:.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)[0]
)
RUNS: list[str] = [
    *(step["run"] for _, _, job in JOBS for step in job["steps"] if "run" in step),
    *(line for job in GITLAB.values() for line in job["script"]),
]
DIST_INFO = "toolgauge-0.1.0.dist-info"
METADATA = {f"{DIST_INFO}/{name}" for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")}
CHANGELOG = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- A door.\n\n## 0.1.0 (2026-01-02)\n\n- A house.\n"


# -- packages -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    Release(ROOT, folder, dry_run=True).packages()
    return folder


@pytest.mark.needs("release")
def test_a_built_wheel_has_the_version_its_licence_and_the_plug_ins(dist: Path):
    with zipfile.ZipFile(dist / "python" / f"toolgauge-{version(ROOT)}-py3-none-any.whl") as wheel:
        info = f"toolgauge-{version(ROOT)}.dist-info"
        assert f"\nVersion: {version(ROOT)}\n" in wheel.read(f"{info}/METADATA").decode()
        assert b"tool_call_args = toolgauge.evaluators" in wheel.read(f"{info}/entry_points.txt")
        assert f"{info}/licenses/LICENSE" in wheel.namelist()


@pytest.mark.long  # It downloads packages.
@pytest.mark.needs("release")
def test_a_built_wheel_installs_with_the_command_of_the_readme(dist: Path):
    Release(ROOT, dist, dry_run=True).install()


def test_a_wheel_with_a_cache_or_without_a_module_is_refused():
    tracked = {"src/toolgauge/cli.py", "src/toolgauge/py.typed", "tests/test_cli.py"}
    held = {"toolgauge/cli.py", "toolgauge/py.typed", *METADATA}
    check_wheel(held, tracked, DIST_INFO)
    with pytest.raises(UnfitError, match=r"has \['toolgauge/cli\.pyc'\]"):
        check_wheel({*held, "toolgauge/cli.pyc"}, tracked, DIST_INFO)
    with pytest.raises(UnfitError, match=r"lacks \['toolgauge/py\.typed'\]"):
        check_wheel(held - {"toolgauge/py.typed"}, tracked, DIST_INFO)


@each_row("stray", ["tests/test_cli.py", "docs/untracked.md", "shared.txt", ".github/workflows/ci.yml"])
def test_a_source_distribution_with_a_stray_file_is_refused(stray: str):
    tracked = {"src/toolgauge/cli.py", "pyproject.toml", "tests/test_cli.py", ".github/workflows/ci.yml"}
    held = {"src/toolgauge/cli.py", "pyproject.toml", "PKG-INFO"}
    check_sdist(held, tracked)
    with pytest.raises(UnfitError, match=re.escape(stray)):
        check_sdist({*held, stray}, tracked)
    with pytest.raises(UnfitError, match="lacks"):
        check_sdist(held - {"src/toolgauge/cli.py"}, tracked)


@pytest.mark.long
@pytest.mark.needs("release")
def test_the_bill_of_materials_lists_what_the_image_installs(tmp_path: Path):
    Release(ROOT, tmp_path, dry_run=True).sbom()
    listed = json.loads((tmp_path / f"toolgauge-{version(ROOT)}.cdx.json").read_text())
    pinned = set(re.findall(r"(?m)^([\w.-]+)==(\S+)", (ROOT / "deploy" / "requirements.txt").read_text()))
    assert listed["bomFormat"] == "CycloneDX"
    assert {(one["name"], one["version"]) for one in listed["components"]} == pinned
    assert all(one["externalReferences"][0]["hashes"] for one in listed["components"])


def test_a_program_that_is_not_here_fails_the_part_that_was_named_and_is_listed_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("PATH", str(tmp_path))
    release = Release(ROOT, tmp_path / "dist", dry_run=True)
    with pytest.raises(UnfitError, match="image needs a program that is not here: docker buildx build"):
        make(release, ["image"], dry_run=True)
    with pytest.raises(MissingError, match=r"helm package .*/toolgauge --destination"):
        release.chart()
    with pytest.raises(MissingError, match=r"linux/amd64,linux/arm64 .*type=oci,dest="):
        release.image()
    with pytest.raises(MissingError, match="--push"):
        Release(ROOT, tmp_path / "dist", dry_run=False).image()
    assert capsys.readouterr().out.startswith("$ helm package")


def test_the_packaged_chart_names_the_published_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
):
    (tmp_path / "helm").symlink_to(installed(may_build=bool(pytestconfig.getoption("--long"))))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    Release(ROOT, tmp_path / "dist", dry_run=True).chart()
    with tarfile.open(tmp_path / "dist" / f"toolgauge-{version(ROOT)}.tgz") as package:
        held = package.extractfile("toolgauge/values.yaml")
        assert held is not None
        assert yaml.safe_load(held)["image"]["repository"] == f"{REGISTRY}/toolgauge"


def test_checksums_are_of_the_files_to_download_by_the_names_that_they_have_then(tmp_path: Path):
    for name in ("python/a.whl", "a.tgz", "site/index.html"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    Release(ROOT, tmp_path, dry_run=True).sums()
    lines = [line.split("  ") for line in (tmp_path / "SHA256SUMS").read_text().splitlines()]
    assert [name for _, name in lines] == ["a.tgz", "a.whl"]
    assert lines[0][0] == "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"


# -- version and changelog ----------------------------------------------------------------------------------------------


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "toolgauge"\nversion = "0.1.0"\n')
    chart = tmp_path / "deploy" / "helm" / "toolgauge" / "Chart.yaml"
    chart.parent.mkdir(parents=True)
    chart.write_text("name: toolgauge\nversion: 0.1.0\nappVersion: 0.1.0\n")
    return tmp_path


def test_a_cut_dates_the_changes_and_sets_the_version_everywhere(tree: Path):
    cut(tree, "0.2.0", datetime.date(2026, 3, 4))
    changelog = (tree / "CHANGELOG.md").read_text()
    assert changelog.startswith("# Changelog\n\n## [Unreleased]\n\n## 0.2.0 (2026-03-04)\n\n### Added\n\n- A door.\n")
    assert version(tree) == "0.2.0"
    assert (tree / "deploy/helm/toolgauge/Chart.yaml").read_text().endswith("version: 0.2.0\nappVersion: 0.2.0\n")
    check_tag(tree, "v0.2.0")
    assert notes(changelog, "0.2.0") == "### Added\n\n- A door.\n"


@pytest.mark.parametrize(
    ("new", "reason"), [("0.2", "no version"), ("0.1.0", "has 0.1.0 already"), ("0.3.0", "no changes")]
)
def test_a_cut_without_changes_or_with_a_used_version_is_refused(tree: Path, new: str, reason: str):
    if new == "0.3.0":
        cut(tree, "0.2.0", datetime.date(2026, 3, 4))
    with pytest.raises(UnfitError, match=reason):
        cut(tree, new, datetime.date(2026, 3, 4))


def test_a_tag_of_another_version_or_before_the_cut_is_refused(tree: Path):
    with pytest.raises(UnfitError, match=r"tag is v0\.2\.0, and the version in pyproject\.toml 0\.1\.0"):
        check_tag(tree, "v0.2.0")
    (tree / "pyproject.toml").write_text('[project]\nversion = "0.2.0"\n')
    with pytest.raises(UnfitError, match=r"no section of 0\.2\.0"):
        check_tag(tree, "v0.2.0")


def test_the_changelog_of_this_tree_can_be_cut():
    assert notes((ROOT / "CHANGELOG.md").read_text(), "none").startswith("### ")


# -- dependencies -------------------------------------------------------------------------------------------------------


def test_each_dependency_has_a_lowest_version_and_ends_before_the_major_version_after_the_tested_one():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    tested = {
        name: found for group in ("test", "cel", "kafka", "mcp", "producers") for name, found in pins(group).items()
    }
    extras = [one for extra in project["optional-dependencies"].values() for one in extra]
    for requirement in [*project["dependencies"], *extras]:
        found = re.match(r"([\w.-]+)(?:\[\w+\])?>=([\d.]+),<(\d+)(?:;|$)", requirement)
        assert found, f"`{requirement}` needs the form `name>=1.2,<3`"
        name, lowest, end = found.groups()
        pinned = [int(part) for part in tested[name.lower()].split(".")]
        assert [int(part) for part in lowest.split(".")] <= pinned, requirement
        assert int(end) == pinned[0] + 1, requirement


# -- workflows ----------------------------------------------------------------------------------------------------------


def test_actions_are_pinned_by_their_commit():
    lines = [line for path in (ROOT / ".github" / "workflows").iterdir() for line in path.read_text().splitlines()]
    uses = [line.strip() for line in lines if "uses:" in line]
    assert len(uses) > 20
    assert [line for line in uses if not re.fullmatch(r"(- )?uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line)] == []


@each_row("command", [line for run in RUNS for line in run.splitlines() if "tools.release" in line])
def test_a_workflow_calls_the_release_command_with_words_that_it_knows(command: str):
    words = shlex.split(command)
    found = options(words[words.index("tools.release") + 1 :])
    assert found.parts


def test_a_workflow_runs_only_scripts_that_are_there():
    scripts = {word for run in RUNS for word in re.findall(r"(?m)^(\.ci/\w+)", run)}
    assert scripts == {".ci/run", ".ci/lowest"}
    assert all((ROOT / script).stat().st_mode & 0o100 for script in scripts)
    groups = {group for run in RUNS for group in re.findall(r"--with (\w+)", run)}
    assert groups <= tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"].keys()


def test_only_the_jobs_that_push_may_write_and_nothing_is_pushed_before_it_is_checked():
    assert all(found["permissions"] == {"contents": "read"} for found in WORKFLOWS.values())
    writes = {name for _, name, job in JOBS if "write" in job.get("permissions", {}).values()}
    assert writes == {"image", "pypi", "github", "site"}
    release = WORKFLOWS["release.yml"]["jobs"]
    assert {name: job.get("needs") for name, job in release.items()} == {
        "make": None,
        "image": "make",
        "pypi": "image",
        "github": "pypi",
        "site": "pypi",
    }
    assert release["pypi"]["permissions"] == {"id-token": "write"}


def test_every_part_is_made_in_the_workflow_of_releases():
    made = [word for job in WORKFLOWS["release.yml"]["jobs"].values() for step in job["steps"] for word in shlex.split(step.get("run", "").replace("'", ""), comments=True)]  # fmt: skip
    assert PARTS.keys() - set(made) == set()


def test_every_supported_python_installs_the_wheel():
    (job,) = [job for _, name, job in JOBS if name == "install"]
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    supported = re.findall(r"Python :: (3\.\d+)", "\n".join(classifiers))
    assert job["strategy"]["matrix"]["python-version"] == supported == ["3.11", "3.12", "3.13", "3.14"]
