"""Run every check: `python3 tests` from the project's root, with nothing installed but Python and pip.

Makes an environment of its own (`.venv-test`) from the pinned file in `deploy/`, then runs format check, lint,
import contracts, types and tests beside each other and shows their output in this order. Words after the command go to
pytest (`python3 tests -k align`); `python3 tests --long` also runs what takes long, and `python3 tests --prepare` makes the
environment alone.
"""

import hashlib
import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv-test"
PINS = ROOT / "deploy" / "requirements-test.txt"
# More than there are processors, since many tests wait for timers and sockets; each takes half a gigabyte.
WORKERS = min((os.cpu_count() or 1) + 3, 10)
# On a busy machine a test of real processes may miss its moment; one that fails twice fails. The summary shows both.
ONCE_MORE = ("--reruns", "1", "--reruns-delay", "5", "--rerun-show-tracebacks")


def main() -> int:
    """Prepare the environment and run the checks; the exit code is 1 when any of them failed."""
    os.chdir(ROOT)
    prepare()
    if sys.argv[1:] == ["--prepare"]:
        return compile_tests()
    started = {name: start(command) for name, command in checks(sys.argv[1:]).items()}
    failed = [name for name, check in started.items() if not passes(name, check)]
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
        return 1
    return 0


def checks(pytest_words: list[str]) -> dict[str, list[str]]:
    """Name the checks in the order in which their output is shown: the quick ones first."""
    binaries = ENVIRONMENT / "bin"
    workers = ["-n", str(WORKERS), "--dist", "worksteal"]
    return {
        "format": [str(binaries / "ruff"), "format", "--check", "."],
        "lint": [str(binaries / "ruff"), "check", "."],
        "contracts": [str(binaries / "lint-imports")],
        "types": [str(binaries / "basedpyright"), "--pythonpath", str(binaries / "python")],
        "tests": [str(binaries / "python"), "-m", "pytest", *workers, *ONCE_MORE, *pytest_words],
    }


def start(command: list[str]) -> subprocess.Popen[bytes]:
    """Start one check; a pipe keeps its output until its turn."""
    return subprocess.Popen(command, env=variables(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def variables() -> dict[str, str]:
    """Return the environment of a check."""
    kept = {**os.environ, "NO_COLOR": "1"}
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


def prepare() -> None:
    """Install what is pinned and the project itself, unless that has been done for these pins."""
    stamp = ENVIRONMENT / "installed"
    wanted = hashlib.sha256(PINS.read_bytes() + (ROOT / "pyproject.toml").read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return
    print("== environment", flush=True)
    # Without pip inside: Debian's Python has no ensurepip, and the pip that is there can serve another environment.
    venv.create(ENVIRONMENT, clear=True, with_pip=False, symlinks=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(ENVIRONMENT), "install", "-q"]
    subprocess.run([*pip, "--require-hashes", "-r", str(PINS)], check=True)
    subprocess.run([*pip, "--no-deps", "-e", str(ROOT)], check=True)
    stamp.write_text(wanted)


if __name__ == "__main__":
    sys.exit(main())
