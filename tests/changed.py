"""Run the tests that a change can reach: `python3 tests changed [--since COMMIT] [words for pytest]`.

A change is what git tells: files that differ from COMMIT (where this branch left `main`, unless it is named), and files that git does not
know. A test module is reached where it imports a changed module, directly or through others, where it looks at all plug-ins and one
of them is reached, and where it names a changed file or its folder. Tests that start the command and import nothing are not found
by that, so the walks, which send spans from one end to the other, always run.
"""

import argparse
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[1]
PLUG_INS = "toolgauge.plugins"
# A text without blanks: perhaps the name of a file or a folder.
_NAME = re.compile(r'"([^"\s]+)"')
ALWAYS = ("tests/architecture", "tests/walk")


def main() -> int:
    """Find the tests and become pytest."""
    parser = argparse.ArgumentParser("python3 tests changed", allow_abbrev=False, description=__doc__)
    parser.add_argument("--since", metavar="COMMIT", help="the commit to compare with")
    options, words = parser.parse_known_args()
    paths = changed_paths(options.since or branching_point())
    if not paths:
        print("nothing has changed", file=sys.stderr)
        return 0
    tests = reached_tests(paths)
    print(f"{len(paths)} changed files reach {len(tests)} test modules", file=sys.stderr)
    command = [sys.executable, "-m", "pytest", *words, *tests, *ALWAYS]
    return os.execv(sys.executable, command)  # noqa: S606 - our own interpreter


def branching_point() -> str:
    """Return the commit at which this branch left `main`; on `main`, the one that was fetched."""
    for main_branch in ("origin/main", "main"):
        if (found := git("merge-base", "HEAD", main_branch)) and found[0] != (git("rev-parse", "HEAD") or [""])[0]:
            return found[0]
    return "HEAD"


def changed_paths(since: str) -> list[str]:
    """List paths from the root that differ from a commit, or that git does not know."""
    return [*git("diff", "--name-only", since), *git("ls-files", "--others", "--exclude-standard")]


def git(*words: str) -> list[str]:
    """Return the lines that git prints; none where it fails."""
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


def reached_tests(paths: Iterable[str], root: Path = ROOT) -> list[str]:
    """List the test modules that changes of these paths can reach."""
    return sorted(distances(paths, root))


def distances(paths: Iterable[str], root: Path = ROOT) -> dict[str, int]:
    """Return the test modules that changes of these paths can reach, and over how many imports."""
    graph = imports()
    far: dict[str, int] = {}
    plug_ins = plug_in_modules()
    steps, nearest = 0, {module for path in paths for module in modules_of(Path(path), graph.modules, root)}
    while nearest:
        far |= dict.fromkeys(nearest, steps)
        steps += 1
        above = {one for module in nearest for one in graph.find_modules_that_directly_import(module)}
        if nearest & plug_ins:
            above |= {one for one in graph.find_modules_that_directly_import(PLUG_INS) if one.startswith("tests.")}
        nearest = above - far.keys()
    always = tuple(f"{folder}/" for folder in ALWAYS)
    tests = {
        f"{module.replace('.', '/')}.py": n
        for module, n in far.items()
        if module.rpartition(".")[2].startswith("test_")
    }
    return {path: n for path, n in tests.items() if (root / path).is_file() and not path.startswith(always)}


@cache
def imports() -> grimp.ImportGraph:
    """Read the imports of the project and its tests."""
    return grimp.build_graph("toolgauge", "tests", cache_dir=None)


@cache
def plug_in_modules() -> frozenset[str]:
    """Name the modules that entry points load, which nothing has to import."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"].values()
    return frozenset(place.partition(":")[0] for group in groups for place in group.values())


def modules_of(path: Path, modules: Iterable[str], root: Path) -> Iterator[str]:
    """Name the modules that a changed file stands for: itself, those beside it that may read it, or tests that name it or its folder."""
    first, *rest = path.parts
    if path.suffix == ".py" and first in ("src", "tests"):
        name = ".".join(rest if first == "src" else path.parts).removesuffix(".py").removesuffix(".__init__")
        yield from (module for module in modules if module == name)
    elif first == "src":
        packages = (".".join(parent.parts[1:]) for parent in path.parents)
        beside = ([module for module in modules if module.rpartition(".")[0] == package] for package in packages)
        yield from next(filter(None, beside), ())
    else:
        folder = rest[0] if first == "tests" else first
        files = {file.name for file in (root / folder).rglob("*.*")} if rest else set[str]()
        for module in modules:
            source = root / f"{module.replace('.', '/')}.py"
            if module.startswith("tests.") and source.is_file():
                names = {*_NAME.findall(source.read_text())}
                names_folders = names.issuperset(path.parent.parts[1:] if first == "tests" else path.parent.parts)
                # A test that names files of the folder reads these alone.
                is_selective = module.rpartition(".")[2].startswith("test_") and names & files
                if path.name in names or (
                    folder in names and (not is_selective or (path.parent.name != folder and names_folders))
                ):
                    yield module


if __name__ == "__main__":
    sys.exit(main())
