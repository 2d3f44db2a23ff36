"""Run every check: `python3 tests` from the project's root, with nothing installed but Python and pip.

Makes an environment of its own (`.venv-test`) from the pinned files in `deploy/`, then runs format check, lint,
import contracts, types and tests beside each other and shows their output in this order. With words (`python3 tests -k align`)
pytest runs alone, with these words. `python3 tests changed` runs the tests that a change can reach (`tests/changed.py`),
`python3 tests --long` also runs what takes long, and `python3 tests --prepare` makes the environment alone.

All checks need every group of packages. With words only `test` is installed, tests that need another group skip, and
`python3 tests --with producers` installs that group.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import venv
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv-test"
BASE = "test"
PINS = {
    BASE: ROOT / "deploy" / "requirements-test.txt",
    **{
        path.stem.removeprefix("requirements-test-"): path
        for path in sorted((ROOT / "deploy").glob("requirements-test-*.txt"))
    },
}
# More than there are processors, since tests wait for timers and sockets. Few more, since each finds all tests, which takes
# a processor 10 s, and half a gigabyte.
WORKERS = min((os.cpu_count() or 1) + 2, 10)
# What a test showed when it failed is of use where it passed the second time.
SHOW_REPEATS = "--rerun-show-tracebacks"


def main() -> int:
    """Prepare the environment and run the checks; the exit code is 1 when any of them failed."""
    options, words = arguments()
    os.chdir(ROOT)
    needs_all = options.prepare or not (words or options.groups)
    prepare(PINS if needs_all else options.groups)
    if options.prepare:
        return compile_tests()
    long = ["--long"] if options.long else []
    if words:
        # A test that fails shows it at once: pytest takes the place of this process, on its terminal.
        python = str(ENVIRONMENT / "bin" / "python")
        command = [python, "-m", *module_and_words(words), *long]
        os.execve(python, command, variables())  # noqa: S606 - our own interpreter
    if not needs_all:
        return 0
    started = {name: start(command) for name, command in checks(long).items()}
    failed = [name for name, check in started.items() if not passes(name, check)]
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
        return 1
    return 0


def arguments() -> tuple[argparse.Namespace, list[str]]:
    """Return our own options, and the words for pytest."""
    parser = argparse.ArgumentParser(
        "python3 tests",
        usage="%(prog)s [--prepare] [--with GROUP] [--long] [changed [--since COMMIT]] [words for pytest]",
        description="Run every check, or with words for pytest the tests alone.",
        allow_abbrev=False,
    )
    parser.add_argument("--prepare", action="store_true", help="make the environment with every group, and run nothing")
    parser.add_argument(
        "--with",
        dest="groups",
        action="append",
        default=[],
        choices=[group for group in PINS if group != BASE],
        help="install this group, and run the tests that words name; may be given several times",
    )
    parser.add_argument("--long", action="store_true", help="run what takes long, too")
    return parser.parse_known_args()


def module_and_words(words: list[str]) -> list[str]:
    """Return the module that runs the tests which words name, and its own words."""
    return ["tests.changed", *words[1:]] if words[0] == "changed" else ["pytest", *words]


def checks(pytest_words: list[str]) -> dict[str, list[str]]:
    """Name the checks in the order in which their output is shown: the quick ones first."""
    binaries = ENVIRONMENT / "bin"
    workers = ["-n", str(WORKERS), "--dist", "worksteal"]
    return {
        "format": [str(binaries / "ruff"), "format", "--check", "."],
        "lint": [str(binaries / "ruff"), "check", "."],
        "contracts": [str(binaries / "lint-imports")],
        "types": [str(binaries / "basedpyright"), "--pythonpath", str(binaries / "python")],
        "tests": [str(binaries / "python"), "-m", "pytest", *workers, SHOW_REPEATS, "--every-group", *pytest_words],
    }


def start(command: list[str]) -> subprocess.Popen[bytes]:
    """Start one check; a pipe keeps its output until its turn."""
    return subprocess.Popen(
        command, env={**variables(), "NO_COLOR": "1"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def variables() -> dict[str, str]:
    """Return the environment of a check."""
    kept = dict(os.environ)
    # Half of the time that it takes to find all tests is their compilation, and each command would compile the project.
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    return kept


def compile_tests() -> int:
    """Find all tests once, so that the processes that run them do not all compile them; they show what is wrong."""
    command = [str(ENVIRONMENT / "bin" / "python"), "-m", "pytest", "--collect-only", "-qq"]
    subprocess.run(command, env=variables(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return 0


def passes(name: str, check: subprocess.Popen[bytes]) -> bool:
    """Show the output of one check while it comes, until the check ends."""
    print(f"== {name}", flush=True)
    assert check.stdout
    while output := os.read(check.stdout.fileno(), 1 << 16):
        sys.stdout.buffer.write(output)
        sys.stdout.buffer.flush()
    return check.wait() == 0


def prepare(groups: Iterable[str]) -> None:
    """Install the project and these groups, and renew those that were installed before: each when its pins have changed."""
    kept = {stamp.name.removeprefix("installed-") for stamp in ENVIRONMENT.glob("installed-*")}
    if not is_installed(BASE, PINS[BASE]):
        # Without pip inside: Debian's Python has no ensurepip, and the pip that is there can serve another environment.
        venv.create(ENVIRONMENT, clear=True, with_pip=False, symlinks=True)
    wanted = [group for group in PINS if group in {BASE, *groups, *kept} and not is_installed(group, PINS[group])]
    for number, group in enumerate(wanted, start=1):
        print(f"== environment: installing {group} ({number} of {len(wanted)})", flush=True)
        # The pins of a group are complete: there is nothing to resolve.
        install("--no-deps", "--require-hashes", "-r", str(PINS[group]))
        note_installed(group, PINS[group])
    project = ROOT / "pyproject.toml"
    if not is_installed("project", project):
        print("== environment: installing the project", flush=True)
        install("--no-deps", "-e", str(ROOT))
        note_installed("project", project)


def install(*words: str) -> None:
    """Install packages into the environment; pip shows its progress."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(ENVIRONMENT), "install"]
    subprocess.run([*pip, *words], check=True)


def is_installed(part: str, source: Path) -> bool:
    """Return whether this part of the environment was installed from the source as it is."""
    stamp = ENVIRONMENT / f"installed-{part}"
    return stamp.exists() and stamp.read_text() == hashlib.sha256(source.read_bytes()).hexdigest()


def note_installed(part: str, source: Path) -> None:
    (ENVIRONMENT / f"installed-{part}").write_text(hashlib.sha256(source.read_bytes()).hexdigest())


if __name__ == "__main__":
    sys.exit(main())
