"""What scoring costs: our evaluators beside the packages they come from, on the golden cases of `tests/golden`.

    python -m tools.bench.evaluators [--rounds 7] [--peers uipath,ragas,adk,agentevals] [--environments DIR]

Each package is installed with pip in an environment of its own, in a temporary directory unless told where (what is there
already is used). It is called by its public entry point (`tools/score_originals.py`), ours by `Evaluator.evaluate`: on
objects that are there already (`built`), and from the JSON of the case (`read`). Rounds alternate between theirs and
ours, one process at a time, on the cases that both score alike. Figures are medians of CPU time, so that other work on
the machine counts less. At the end: a trajectory of 7 calls with 3 criteria through `Scorer.score`.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from toolgauge.cases.actual import trajectory_of
from toolgauge.cases.case import Case, CaseError, parse
from toolgauge.cases.expectations import expected_of
from toolgauge.model.errors import ConfigError
from toolgauge.model.expected import Expected
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.outcomes import Outcome, Scored
from toolgauge.model.ports import Evaluator
from toolgauge.model.trajectory import Trajectory
from toolgauge.score.criterion import Criterion, Inline, ToolKinds
from toolgauge.score.scorer import Scorer
from toolgauge.service.criteria_factory import make_evaluator

GOLDEN = Path(__file__).parents[2] / "tests" / "golden"
ORIGINALS = Path(__file__).parents[1] / "scripts" / "score_originals.py"
REQUIREMENTS = {
    "uipath": ("uipath==2.14.44",),
    "ragas": ("ragas==0.4.3", "langchain-community<0.4"),
    "adk": ("google-adk[eval]==2.13.0",),
    "agentevals": ("agentevals==0.0.9",),
    "deepeval": ("deepeval==4.3.1",),
}
# Evaluators of a release that cannot be installed, and those that ask a judge.
LEFT_OUT = ("adk.tool_parameter_match", "deepeval.argument_correctness")
OURS = {
    "adk.tool_trajectory": "tool_trajectory",
    "agentevals.trajectory_match": "tool_trajectory",
    "deepeval.tool_correctness": "tool_call_args",
}
SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A case that is ready to be scored: by the original's number, and by our own evaluator."""

    case: Case
    trajectory: Trajectory
    expected: Expected | None
    original: Evaluator
    native: Evaluator


class Peer:
    """A process in the environment of a package."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.scores: dict[str, dict[str, float | None]] = json.loads(self._line())

    def round(self, names: list[str]) -> dict[str, float]:
        """Return the CPU seconds of one pass over these cases."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(names) + "\n")
        self._process.stdin.flush()
        return json.loads(self._line())

    def _line(self) -> str:
        assert self._process.stdout is not None
        # Packages print what they like; ours are the lines of JSON.
        for line in self._process.stdout:
            if line.startswith("{"):
                return line
        raise SystemExit(f"error: the process of the original ended with {self._process.wait()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--peers", default="uipath,ragas,adk,agentevals")
    parser.add_argument("--environments", type=Path)
    arguments = parser.parse_args()
    print(
        "| original | cases | theirs, built | ours | factor | theirs, read | ours | factor | our own evaluator, built |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        environments = arguments.environments or Path(temporary)
        for name in arguments.peers.split(",") if arguments.peers else ():
            compare_with(name, environments / name, arguments.rounds)
    print(f"\n7 calls, 3 criteria: {three_criteria_us(arguments.rounds):.0f} us")


def compare_with(name: str, environment: Path, rounds: int) -> None:
    """Print a row for each evaluator of a package."""
    files = [file for file in sorted(GOLDEN.glob(f"{name}.*.jsonl")) if file.stem not in LEFT_OUT]
    with running(name, environment, files) as peer:
        for file in files:
            prepared = [one for one in prepare(file) if is_alike(one, peer)]
            if not prepared:
                print(f"| `{file.stem}` | 0 | no case could be scored |", flush=True)
                continue
            names = [one.case.name for one in prepared]
            figures: dict[str, list[float]] = defaultdict(list)
            for _ in range(rounds):
                theirs = peer.round(names)
                figures["theirs, built"].append(theirs["built"])
                figures["theirs, read"].append(theirs["read"])
                figures["ours, built"].append(cpu_seconds(prepared, score_built))
                figures["ours, read"].append(cpu_seconds(prepared, score_read))
                figures["native"].append(cpu_seconds(prepared, score_native))
            print_row(file.stem, len(prepared), {key: statistics.median(spent) for key, spent in figures.items()})


def print_row(name: str, cases: int, spent: dict[str, float]) -> None:
    cells = [f"`{name}`", str(cases)]
    for kind in ("built", "read"):
        theirs, ours = spent[f"theirs, {kind}"], spent[f"ours, {kind}"]
        cells += [f"{cases / theirs:,.0f}/s", f"{cases / ours:,.0f}/s", f"{theirs / ours:.1f}"]
    cells.append(f"{cases / spent['native']:,.0f}/s")
    print(f"| {' | '.join(cells)} |", flush=True)


@contextmanager
def running(name: str, environment: Path, files: list[Path]) -> Generator[Peer, None, None]:
    """Start the package's process, after installing it where it is not there."""
    python = environment / "bin" / "python"
    if not python.exists():
        print(f"installing {', '.join(REQUIREMENTS[name])}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", *REQUIREMENTS[name]], check=True)
    command = [str(python), str(ORIGINALS), name, *map(str, files)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Peer(process)
        assert process.stdin is not None
        process.stdin.close()


def prepare(file: Path) -> Iterator[Prepared]:
    """Read the cases of a file as far as they can be scored as trajectories."""
    evaluators: dict[str, tuple[Evaluator, Evaluator]] = {}
    for number, line in enumerate(file.read_bytes().splitlines(), 1):
        case = parse(f"{file.name}:{number}", line)
        key = json.dumps(case.config, sort_keys=True)
        try:
            if key not in evaluators:
                evaluators[key] = (made(case.evaluator, case.config), native(case))
            trajectory, expected = trajectory_of(case.actual), expected_of(case.expected)
        except (CaseError, ConfigError):
            continue
        original, ours = evaluators[key]
        yield Prepared(case=case, trajectory=trajectory, expected=expected, original=original, native=ours)


def native(case: Case) -> Evaluator:
    """Make our own evaluator, with the parameters that both have."""
    name = OURS.get(case.evaluator, case.evaluator.partition(".")[2])
    shared = {key: value for key, value in case.config.items() if key in ("strict", "subset")}
    if name == "tool_call_count":
        shared["others"] = 1
    return made(name, {} if name == "tool_trajectory" else shared)


def made(name: str, config: JsonObject) -> Evaluator:
    return cast("Evaluator", make_evaluator(name, config))  # none of these asks a judge


def is_alike(prepared: Prepared, peer: Peer) -> bool:
    theirs, ours = peer.scores.get(prepared.case.name, {}).get("score"), score_built(prepared)
    return isinstance(ours, Scored) and theirs is not None and abs(ours.value - theirs) < 1e-9


def score_built(prepared: Prepared) -> Outcome:
    return evaluated(prepared.original, prepared.trajectory, prepared.expected)


def score_native(prepared: Prepared) -> Outcome:
    return evaluated(prepared.native, prepared.trajectory, prepared.expected)


def score_read(prepared: Prepared) -> Outcome:
    case = prepared.case
    return evaluated(prepared.original, trajectory_of(case.actual), expected_of(case.expected))


def evaluated(evaluator: Evaluator, trajectory: Trajectory, expected: Expected | None) -> Outcome:
    (outcome,) = [said[1] for said in evaluator.evaluate(trajectory, expected) if said is not None]
    return outcome


def cpu_seconds(prepared: list[Prepared], score: Callable[[Prepared], Outcome]) -> float:
    """Return the CPU seconds of one pass over the cases, the mean over as many as fit."""
    passes, begin = 0, time.process_time()
    while True:
        for one in prepared:
            score(one)
        passes += 1
        spent = time.process_time() - begin
        if spent >= SECONDS:
            return spent / passes


def three_criteria_us(rounds: int) -> float:
    """Return what a trajectory of 7 calls costs, of which one has a wrong argument."""
    expected, actual = (cast("Json", [call(place, side) for place in range(7)]) for side in ("expected", "actual"))
    reference = expected_of({"calls": expected})
    assert reference is not None
    criteria = [
        Criterion(
            name=name,
            evaluator_name=name,
            evaluator=made(name, {}),
            revision="",
            scope="trace",
            reference=Inline(reference),
            pass_at=1.0,
        )
        for name in ("tool_call_args", "tool_call_f1", "tool_trajectory")
    ]
    scorer, trajectory = Scorer(criteria, ToolKinds()), trajectory_of({"calls": actual})
    spent: list[float] = []
    for _ in range(rounds):
        passes, begin = 200, time.process_time()
        for _ in range(passes):
            scorer.score(trajectory)
        spent.append((time.process_time() - begin) / passes)
    return statistics.median(spent) * 1e6


def call(place: int, side: str) -> JsonObject:
    date = "2025-02-01" if (place, side) == (6, "actual") else "2025-01-31"
    return {"name": f"book_{place % 3}", "args": {"id": place, "name": f"n{place}", "date": date}}


if __name__ == "__main__":
    main()
