"""Fuzz by hand: `python -m tests.fuzz --minutes 10 [TARGET...]`; inputs that make trouble go to `--found`.

The targets are functions from bytes to nothing, as coverage-guided fuzzers such as atheris want them.
"""

import argparse
import hashlib
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from tests.fuzz.mutations import mutated
from tests.fuzz.targets import Target, Targets, seeds, time_limit_s

_TESTS = Path(__file__).parent.parent
SEEDS = Path(__file__).parent / "seeds"


def sound_inputs() -> dict[str, list[bytes]]:
    """Collect what to begin with, by target."""
    found: dict[str, list[bytes]] = {}
    for target, data in seeds(_TESTS / "corpus", _TESTS / "golden", _TESTS.parent / "examples"):
        found.setdefault(target, []).append(data)
    for file in sorted(SEEDS.glob("*/*")):
        found.setdefault(file.parent.name, []).append(file.read_bytes())
    found["pipeline"] = [*found["traces"]]
    found["recording"] = [*found["traces"][:20], *found.get("json", []), *found.get("recording", [])]
    return found


def faults_of(target: Target, data: bytes) -> str | None:
    """Run a target once; say what went wrong."""
    began_s = time.process_time()
    try:
        target(data)
    except Exception:  # noqa: BLE001 - any is a fault
        return traceback.format_exc()
    took_s = time.process_time() - began_s
    return None if took_s <= time_limit_s(len(data)) else f"took {took_s:.1f} s for {len(data)} bytes"


def main() -> int:
    """Fuzz until the time is over; the exit code is 1 when something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=time.time_ns())
    parser.add_argument("--found", type=Path, default=Path("fuzz-found"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        targets = Targets(Path(folder)).all()
        chosen = options.targets or list(targets)
        inputs = sound_inputs()
        runs, found = _run(targets, chosen, inputs, options)
    print(f"seed {options.seed}: {sum(runs.values())} executions {dict(runs)}, {len(found)} faults")
    return 1 if found else 0


def _run(
    targets: Mapping[str, Target], chosen: list[str], inputs: dict[str, list[bytes]], options: argparse.Namespace
) -> tuple[Counter[str], set[str]]:
    chance = random.Random(options.seed)  # noqa: S311 - not for secrets
    runs: Counter[str] = Counter()
    found: set[str] = set()
    until = time.monotonic() + options.minutes * 60
    while time.monotonic() < until:
        name = chance.choice(chosen)
        data = mutated(chance, name, chance.choice(inputs[name]), chance.choice(inputs[name]))
        fault = faults_of(targets[name], data)
        runs[name] += 1
        if fault is not None:
            where = fault.splitlines()[-4:]
            key = f"{name}: {' | '.join(where)}"[:300]
            if key not in found:
                found.add(key)
                _keep(options.found, name, data)
                print(f"{name} ({len(data)} bytes): {fault}", flush=True)
    return runs, found


def _keep(folder: Path, name: str, data: bytes) -> None:
    target = folder / name
    target.mkdir(parents=True, exist_ok=True)
    (target / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)


if __name__ == "__main__":
    sys.exit(main())
