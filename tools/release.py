"""Make the parts of a release in `dist/`, and check them: `python3 -m tools.release --dry-run`.

Packages hold what git tracks, and nothing else. A part that is named has to succeed; without names, a part whose program is
missing is listed with the command that was not run. Without `--dry-run`, image and chart are pushed, too. Only the workflow
`release.yml` publishes to PyPI, which trusts that workflow instead of a token.
"""

import argparse
import datetime
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLATFORMS = "linux/amd64,linux/arm64"
REGISTRY = f"ghcr.io/{os.environ.get('GITHUB_REPOSITORY_OWNER', 'OWNER').lower()}"
SDIST_TOPS = ("src", "docs", "deploy", "examples")
SDIST_FILES = {".gitignore", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml"}
DIST_INFO = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}
_UNRELEASED = "## [Unreleased]\n"


class UnfitError(Exception):
    """Something that must not be released."""


class MissingError(Exception):
    """A program that this machine does not have."""


class Release:
    """The parts of one release; each method makes one of them from the tree `root` in the folder `dist`."""

    def __init__(self, root: Path, dist: Path, *, dry_run: bool) -> None:
        dist.mkdir(exist_ok=True)
        self._root = root
        self._dist = dist
        self._packages = self._dist / "python"
        self._dry_run = dry_run
        self._version = version(root)

    def packages(self) -> None:
        """Build source distribution and wheel twice, with the same bytes, and check their content."""
        _needs_module("build", "release")
        stamp = self._git("log", "-1", "--format=%ct").strip()
        command = [sys.executable, "-m", "build", "--no-isolation", str(self._root), "--outdir"]
        shutil.rmtree(self._packages, ignore_errors=True)
        with tempfile.TemporaryDirectory() as again:
            for folder in (str(self._packages), again):
                self._run([*command, folder], SOURCE_DATE_EPOCH=stamp)
            if _sums(self._packages) != _sums(Path(again)):
                raise UnfitError("a second build made other bytes")
        tracked = set(self._git("ls-files", "-z").split("\0")) - {""}
        with tarfile.open(self._packages / f"toolgauge-{self._version}.tar.gz") as sdist:
            held = {name.partition("/")[2] for name in sdist.getnames()}
        check_sdist(held, tracked)
        with zipfile.ZipFile(self.wheel()) as wheel:
            check_wheel(set(wheel.namelist()), tracked, f"toolgauge-{self._version}.dist-info")

    def wheel(self) -> Path:
        """Return the path of the wheel that was built."""
        wheel = self._packages / f"toolgauge-{self._version}-py3-none-any.whl"
        if not wheel.exists():
            raise UnfitError(f"no {wheel}: make `packages` first")
        return wheel

    def install(self) -> None:
        """Install the wheel with the README's command for this Python, and compare the demo with the README."""
        readme = (self._root / "README.md").read_text()
        command, shown = re.findall(r"```(?:sh)?\n(.*?)\n```", readme, re.DOTALL)[:2]
        if command.count(" install -q . ") != 1:
            raise UnfitError("the first command of README.md does not install the project")
        command = command.replace(" install -q . ", f" install -q {self.wheel()} ")
        # An environment of its own, too: the interpreter that it was made from has pip.
        path = f"{Path(sys.base_prefix) / 'bin'}:{os.environ['PATH']}"
        with tempfile.TemporaryDirectory() as folder:
            demo = self._run(["bash", "-c", command], cwd=Path(folder), PATH=path, PYTHONPATH="", NO_COLOR="1")
        if absent := [line for line in shown.splitlines() if line.strip() not in demo]:
            raise UnfitError(f"the demo does not print these lines of README.md: {absent}")

    def sbom(self) -> None:
        """List what the image installs as a CycloneDX document, from the pins."""
        _needs_module("cyclonedx_py", "release")
        words = ["requirements", "deploy/requirements.txt", "--pyproject", "pyproject.toml", "--output-reproducible"]
        out = str(self._dist / f"toolgauge-{self._version}.cdx.json")
        self._run([sys.executable, "-m", "cyclonedx_py", *words, "--output-file", out])

    def chart(self) -> None:
        """Package the Helm chart with the address of the image, and push it as an OCI artefact unless this is a dry run."""
        with tempfile.TemporaryDirectory() as folder:
            chart = Path(folder) / "toolgauge"
            shutil.copytree(self._root / "deploy" / "helm" / "toolgauge", chart)
            _replace(chart / "values.yaml", "^  repository: toolgauge$", f"  repository: {REGISTRY}/toolgauge", 1)
            self._run(["helm", "package", str(chart), "--destination", str(self._dist)])
        if not self._dry_run:
            self._run(["helm", "push", str(self._dist / f"toolgauge-{self._version}.tgz"), f"oci://{REGISTRY}/charts"])

    def image(self) -> None:
        """Build the image for each platform; a dry run writes it to a file and does not push it."""
        source = f"org.opencontainers.image.source=https://github.com/{os.environ.get('GITHUB_REPOSITORY', 'OWNER/toolgauge')}"
        command = ["docker", "buildx", "build", "--platform", PLATFORMS, "--file", "deploy/docker/Dockerfile"]
        command += ["--tag", f"{REGISTRY}/toolgauge:{self._version}", "--label", source]
        command += ["--sbom=true", "--provenance=mode=max", "--metadata-file", str(self._dist / "image.json")]
        command += (
            ["--output", f"type=oci,dest={self._dist}/toolgauge-{self._version}-image.tar"]
            if self._dry_run
            else ["--push"]
        )
        if (
            not shutil.which("docker")
            or subprocess.run(["docker", "buildx", "version"], capture_output=True, check=False).returncode
        ):
            raise MissingError(" ".join([*command, "."]))
        self._run([*command, "."])

    def site(self) -> None:
        """Build the site of the pages; a warning is an error."""
        _needs_module("furo", "docs")
        self._run(
            [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", "docs", str(self._dist / "site")]
        )

    def sums(self) -> None:
        """Write the release notes and, for the provenance, the checksum of each file to download."""
        (self._dist / "NOTES.md").write_text(notes((self._root / "CHANGELOG.md").read_text(), self._version))
        others = ("site/", "SHA256", "NOTES")
        files = {name: digest for name, digest in _sums(self._dist).items() if not name.startswith(others)}
        # A release on GitHub has no folders.
        lines = [f"{digest}  {Path(name).name}\n" for name, digest in files.items()]
        (self._dist / "SHA256SUMS").write_text("".join(lines))

    def _git(self, *words: str) -> str:
        return self._run(["git", *words])

    def _run(self, command: list[str], *, cwd: Path | None = None, **variables: str) -> str:
        print("$", " ".join(command), flush=True)
        if not shutil.which(command[0]):
            raise MissingError(" ".join(command))
        environment = {**os.environ, **variables}
        done = subprocess.run(
            command, cwd=cwd or self._root, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise UnfitError(
                f"exit code {done.returncode} of {command[0]}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
            )
        return done.stdout


PARTS: dict[str, Callable[[Release], None]] = {
    "packages": Release.packages,
    "install": Release.install,
    "sbom": Release.sbom,
    "chart": Release.chart,
    "image": Release.image,
    "site": Release.site,
    "sums": Release.sums,
}


def version(root: Path) -> str:
    """Return the version of the tree, which `pyproject.toml` alone decides."""
    return str(tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"])


def check_sdist(held: set[str], tracked: set[str]) -> None:
    """Raise unless the source distribution holds only tracked files of the tops it is made for."""
    unknown = {name for name in held if name not in SDIST_FILES and name.partition("/")[0] not in SDIST_TOPS}
    if strays := unknown | (held - tracked - {"PKG-INFO"}):
        raise UnfitError(f"files that do not belong into the source distribution: {sorted(strays)}")
    if missing := {name for name in tracked if name.startswith("src/")} - held:
        raise UnfitError(f"the source distribution lacks {sorted(missing)}")


def check_wheel(held: set[str], tracked: set[str], dist_info: str) -> None:
    """Raise unless the wheel holds the tracked files of the package and its metadata, all of them and no others."""
    wanted = {name.removeprefix("src/") for name in tracked if name.startswith("src/toolgauge/")}
    wanted |= {f"{dist_info}/{name}" for name in DIST_INFO}
    if held != wanted:
        raise UnfitError(f"the wheel has {sorted(held - wanted)} beside its files, and lacks {sorted(wanted - held)}")


def check_tag(root: Path, tag: str) -> None:
    """Raise unless the tag is the version of the tree, and the changelog has a dated section for it."""
    if tag != f"v{version(root)}":
        raise UnfitError(f"the tag is {tag}, and the version in pyproject.toml {version(root)}")
    if not re.search(
        rf"(?m)^## {re.escape(version(root))} \(\d{{4}}-\d\d-\d\d\)$", (root / "CHANGELOG.md").read_text()
    ):
        raise UnfitError(f"CHANGELOG.md has no section of {version(root)}: `python3 -m tools.release --cut` makes it")


def notes(changelog: str, of: str) -> str:
    """Return the section of a version, or of what is not released where it has none."""
    found = re.search(rf"(?ms)^## {re.escape(of)} .*?\n(.*?)(?=^## |\Z)", changelog) or re.search(
        rf"(?ms)^{re.escape(_UNRELEASED)}(.*?)(?=^## |\Z)", changelog
    )
    return found[1].strip() + "\n" if found else ""


def cut(root: Path, new: str, today: datetime.date) -> None:
    """Set the version where it is written, and date the section of what is not released."""
    changelog = (root / "CHANGELOG.md").read_text()
    if not re.fullmatch(r"\d+\.\d+\.\d+", new):
        raise UnfitError(f"{new} is no version of the form 1.2.3")
    if f"\n## {new} (" in changelog:
        raise UnfitError(f"CHANGELOG.md has {new} already")
    if not notes(changelog, "[none]").strip():
        raise UnfitError("CHANGELOG.md has no changes under [Unreleased]")
    _replace(
        root / "CHANGELOG.md", rf"^{re.escape(_UNRELEASED)}", f"{_UNRELEASED}\n## {new} ({today.isoformat()})\n", 1
    )
    _replace(root / "pyproject.toml", r'^version = ".*"$', f'version = "{new}"', 1)
    _replace(root / "deploy" / "helm" / "toolgauge" / "Chart.yaml", r"^(version|appVersion): .*$", rf"\1: {new}", 2)


def _replace(path: Path, pattern: str, by: str, times: int) -> None:
    text, found = re.subn(pattern, by, path.read_text(), flags=re.MULTILINE)
    if found != times:
        raise UnfitError(f"{path.name}: {found} places in place of {times} that match {pattern}")
    path.write_text(text)


def _needs_module(name: str, group: str) -> None:
    # A folder of this name, such as `build`, is a module without an origin.
    if (found := importlib.util.find_spec(name)) is None or found.origin is None:
        raise MissingError(f"python3 tests --with {group}    # and then `.venv-test/bin/python -m tools.release`")


def _sums(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def options(words: list[str] | None = None) -> argparse.Namespace:
    """Read the words of the command."""
    parser = argparse.ArgumentParser("python3 -m tools.release", description=__doc__, allow_abbrev=False)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all without one")
    parser.add_argument("--dry-run", action="store_true", help="push nothing")
    parser.add_argument("--tag", help="fail unless this is the tag of the version")
    parser.add_argument("--cut", metavar="VERSION", help="set this version and date the changelog, and make nothing")
    found = parser.parse_args(words)
    if unknown := set(found.parts) - PARTS.keys():
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    return found


def make(release: Release, parts: list[str], *, dry_run: bool) -> None:
    """Make these parts, or all that this machine has the programs for."""
    not_made: list[str] = []
    for part in parts or PARTS:
        try:
            PARTS[part](release)
        except MissingError as error:
            if part in parts or not dry_run:
                raise UnfitError(f"{part} needs a program that is not here: {error}") from error
            not_made.append(f"not made, for want of a program: {part}: {error}")
    for line in not_made:
        print(line)


def main() -> int:
    """Cut a version, or make the parts of a release; the exit code is 1 where one of them is unfit."""
    given = options()
    try:
        if given.cut:
            cut(ROOT, given.cut, datetime.datetime.now(datetime.UTC).date())
            print(
                "next: python -m tests.deploy.helm --write, python -m tests.compat.names --write, python -m tests.compat.freeze; commit; tag"
            )
            return 0
        if given.tag:
            check_tag(ROOT, given.tag)
        make(Release(ROOT, ROOT / "dist", dry_run=given.dry_run), given.parts, dry_run=given.dry_run)
    except UnfitError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
