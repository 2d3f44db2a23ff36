"""Say which planted faults the tests find: `.venv-test/bin/python -m tests.faults [--jobs N] [words in a fault]`.

Each fault is planted alone in a copy of the tree. The tests of its room run first, the nearest to the fault before the others, then
all others that import the faulty module, then the rest, until one fails; with `--own` the tests of the room alone. Ends with 1 when
a fault was not found.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from queue import SimpleQueue

from msgspec import Struct

from tests.changed import ROOT, distances, git
from tests.faults.planted import Fault, planted_faults

_FAILED = re.compile(r"(?m)^(?:FAILED|ERROR) (\S+)")
# What checks the code itself finds no fault: it would name sizes.
_NOT_TESTS_OF_FAULTS = (
    "--ignore=tests/faults",
    "--ignore=tests/architecture",
    "-p",
    "no:randomly",
    "-x",
    "-q",
    "-rfE",
    "--no-header",
)
_LONGEST_S = 900


class Found(Struct, frozen=True):
    """The test that found a fault, if one did, and the seconds until then."""

    fault: Fault
    test: str | None
    seconds: float


def main() -> int:
    """Plant the faults and print a line for each."""
    parser = argparse.ArgumentParser("python -m tests.faults", description=__doc__, allow_abbrev=False)
    parser.add_argument(
        "words", nargs="*", help="faults with one of these in their file or description; all without words"
    )
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="faults at the same time, each in its own copy"
    )
    parser.add_argument(
        "--without",
        metavar="TEST",
        action="append",
        default=[],
        help="a test that fails without any fault; may be given several times",
    )
    parser.add_argument("--own", action="store_true", help="run the tests of a fault's own room alone")
    options = parser.parse_args()
    faults = [one for one in planted_faults() if is_meant(one, options.words)]
    missed, began_s = 0, time.monotonic()
    with tempfile.TemporaryDirectory(prefix="toolgauge-faults-") as folder:
        for found in in_copies(faults, Path(folder), options.jobs, options.without, own=options.own):
            missed += found.test is None
            by = found.test or "NOT FOUND"
            print(f"{found.seconds:6.1f} s  {found.fault.file}: {found.fault.what}\n          {by}", flush=True)
    minutes = (time.monotonic() - began_s) / 60
    print(
        f"{len(faults) - missed} of {len(faults)} faults found, in {minutes:.1f} minutes with {options.jobs} at a time"
    )
    return 1 if missed else 0


def is_meant(fault: Fault, words: Sequence[str]) -> bool:
    """Return whether a fault is one of those that were asked for."""
    return not words or any(word in fault.file or word in fault.what for word in words)


def in_copies(
    faults: Sequence[Fault], folder: Path, jobs: int, without: Sequence[str], *, own: bool
) -> Iterator[Found]:
    """Look for each fault in one of as many copies of the tree, and yield in order."""
    copies: SimpleQueue[Path] = SimpleQueue()
    for number in range(min(jobs, len(faults))):
        copies.put(copy_tree(folder / str(number)))

    def look(fault: Fault) -> Found:
        copy = copies.get()
        try:
            return look_for(fault, copy, without, own=own)
        finally:
            copies.put(copy)

    with ThreadPoolExecutor(max_workers=jobs) as pool:
        yield from pool.map(look, faults)


def copy_tree(target: Path) -> Path:
    """Copy what git knows or would take, as it stands."""
    for name in git("ls-files", "--cached", "--others", "--exclude-standard"):
        source = ROOT / name
        if source.is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)
    return target


def look_for(fault: Fault, copy: Path, without: Sequence[str] = (), *, own: bool = False) -> Found:
    """Plant a fault in a copy of the tree, run tests until one fails, and mend the copy."""
    began_s = time.monotonic()
    sound = fault.plant(copy)
    try:
        for tests in islice(steps(fault), 1 if own else None):
            if failed := first_failure(tests, copy, without):
                return Found(fault, failed, time.monotonic() - began_s)
        return Found(fault, None, time.monotonic() - began_s)
    finally:
        (copy / fault.path).write_text(sound)


def steps(fault: Fault) -> Iterator[list[str]]:
    """Yield the tests of the room, those that import what is faulty, and all."""
    far = distances([str(fault.path)])
    modules = (ROOT / fault.tests).glob("test_*.py") if (ROOT / fault.tests).is_dir() else [ROOT / fault.tests]
    own = {path.relative_to(ROOT).as_posix() for path in modules}
    yield sorted(own, key=lambda path: (not is_named_after(path, fault.path), far.get(path, len(far)), path))
    yield [*sorted(far.keys() - own, key=far.__getitem__), "tests/walk"]
    yield ["tests"]


def is_named_after(test: str, source: Path) -> bool:
    """Return whether a test module has the name of the module that it tests."""
    return Path(test).stem.removeprefix("test_") in source.stem


def first_failure(tests: Sequence[str], copy: Path, without: Sequence[str]) -> str | None:
    """Run tests in a copy until one fails; return its name."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        *_NOT_TESTS_OF_FAULTS,
        *(f"--deselect={test}" for test in without),
        *tests,
    ]
    paths = os.pathsep.join((str(copy / "src"), str(copy)))
    env = {**os.environ, "PYTHONPATH": paths}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    try:
        done = subprocess.run(
            command, cwd=copy, env=env, capture_output=True, text=True, check=False, timeout=_LONGEST_S
        )
    except subprocess.TimeoutExpired:
        return f"it did not end within {_LONGEST_S} s"
    if done.returncode in (0, 5):
        return None
    found = _FAILED.search(done.stdout)
    return found[1] if found else (done.stdout + done.stderr)[-300:]


if __name__ == "__main__":
    sys.exit(main())
