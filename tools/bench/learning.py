"""What `toolgauge learn` finds in one half of recorded traffic, and what it makes of the other half, against verdicts.

    python -m tools.bench.learning RECORDINGS [--seeds N] [--dialect genai|openinference]

RECORDINGS (or TOOLGAUGE_RECORDINGS) is a folder with `manifest.jsonl.xz` beside a folder of streams for each dialect, see
`recorded_runs`; the recordings are not in this repository. Customers are split at random, so that no customer is in both halves. A run
fails when it fails any learned criterion. Learned from all runs of the half, and from those that passed.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import mean
from typing import Any

from toolgauge.authoring.evidence import Requirements
from toolgauge.authoring.learner import Learner
from toolgauge.config.model import Config, Defaults
from toolgauge.model.trajectory import Trajectory
from toolgauge.recordings.recorded_requests import find_files, read, scorecards
from toolgauge.score.criterion import with_writing_tools
from toolgauge.service.criteria_factory import default_criteria
from toolgauge.service.pipeline_factory import offline_pipeline, tool_kinds
from tools.bench.recorded_runs import Run, ScoredRun, runs_of, scored_runs

REQUIREMENTS = Requirements(runs=20, tolerance=0.01, most_alarms=0.05)
_CUSTOMER = ("user_id", "phone_number", "email", "customer_id")


@dataclass(frozen=True)
class Shares:
    """Of the runs of the other half: how many that passed, and that failed, fail learned criteria."""

    passed: float
    failed: float
    criteria: int
    predicted: float


def customer(run: Run) -> str:
    """Name the customer of a run: the first argument that identifies one, else the task."""
    calls: Sequence[Mapping[str, Any]] = [*run.row["expected"], *run.row["observed"]]
    for key in _CUSTOMER:
        for call in calls:
            if key in (call["args"] or ()):
                return str(call["args"][key])
    return run.row["task"]


def split(runs: Sequence[Run], seed: int) -> tuple[set[str], set[str]]:
    """Return the names of the runs of both halves of the customers."""
    customers = sorted({(run.domain, customer(run)) for run in runs})
    Random(seed).shuffle(customers)  # noqa: S311 repeatable
    chosen = set(customers[: len(customers) // 2])
    first = {run.name for run in runs if (run.domain, customer(run)) in chosen}
    return first, {run.name for run in runs} - first


def conversations(folder: Path, dialect: str) -> dict[str, Trajectory]:
    """Return the conversation of each run, by its name."""
    names = {run.conversation(dialect): run.name for run in runs_of(folder)}
    criteria = [one for one in default_criteria(Defaults(scope="conversation")) if one.evaluator_name == "tool_use"]
    requests = read(find_files([str(folder / dialect)]), lambda _size: None)
    kinds = tool_kinds(Config())
    return {
        names[scorecard.trajectory.conversation_id]: with_writing_tools(scorecard.trajectory, (), kinds)
        for scorecard in scorecards(requests, offline_pipeline(Config(), criteria))
        if scorecard.trajectory.scope == "conversation" and scorecard.trajectory.conversation_id in names
    }


def learned(trajectories: Sequence[Trajectory], requirements: Requirements) -> tuple[str, int, float]:
    """Return the contracts and criteria, how many there are, and the share of runs that are expected to fail by mistake."""
    learner = Learner()
    for trajectory in trajectories:
        learner.add(trajectory)
    found = learner.result(requirements)
    alarms = found.alarms + sum(summary.alarms for summary in found.services if summary.criteria)
    return found.text, found.count, min(1.0, alarms / found.runs) if found.count else 0.0


def judged(folder: Path, dialect: str, criteria: str) -> Mapping[str, ScoredRun]:
    """Replay all runs with the learned criteria."""
    return scored_runs(folder, dialect, criteria=criteria, overrides=("defaults.enabled=false",))


def shares(scored: Mapping[str, ScoredRun], names: set[str], criteria: int, predicted: float) -> Shares:
    """Count the runs that fail a learned criterion."""
    failing = {name: bool(scored[name].fails(prefix="learned.")) for name in names}
    by_verdict = {
        verdict: [failing[name] for name in names if scored[name].run.has_passed is verdict]
        for verdict in (True, False)
    }
    return Shares(
        *(sum(flags) / len(flags) if flags else 0.0 for flags in (by_verdict[True], by_verdict[False])),
        criteria=criteria,
        predicted=predicted,
    )


def measured(
    folder: Path, dialect: str, seeds: int, requirements: Requirements, *, passed_only: bool
) -> Iterator[Shares]:
    """Learn from one half and judge the other, for several splits."""
    runs = runs_of(folder)
    passed = {run.name for run in runs if run.has_passed}
    all_conversations = conversations(folder, dialect)
    for seed in range(seeds):
        first, second = split(runs, seed)
        names = [name for name in all_conversations if name in first and (not passed_only or name in passed)]
        text, criteria, predicted = learned([all_conversations[name] for name in names], requirements)
        if not criteria:
            yield Shares(0.0, 0.0, 0, 0.0)
            continue
        scored = judged(folder, dialect, text)
        yield shares(scored, second & scored.keys(), criteria, predicted)
        if os.environ.get("TOOLGAUGE_SHOW"):
            _show(scored, second, seed)


def _show(scored: Mapping[str, ScoredRun], names: set[str], seed: int) -> None:
    for name in sorted(names):
        for criterion, results in scored[name].fails(prefix="learned.").items():
            verdict = "passed" if scored[name].run.has_passed else "failed"
            explanation = getattr(results[0].outcome, "explanation", "")[:160]
            print(f"  {seed} {verdict} {name} {criterion}: {explanation}", file=sys.stderr)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("recordings", nargs="?", type=Path, default=os.environ.get("TOOLGAUGE_RECORDINGS"))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--dialect", default="genai")
    parser.add_argument("--min-runs", type=int, default=REQUIREMENTS.runs)
    parser.add_argument("--false-alarms", type=float, default=REQUIREMENTS.most_alarms)
    arguments = parser.parse_args()
    if arguments.recordings is None:
        parser.error("name the folder of recordings, or set TOOLGAUGE_RECORDINGS")
    folder = Path(arguments.recordings)
    folder = folder if (folder / "manifest.jsonl.xz").exists() else folder.parent
    requirements = Requirements(
        runs=arguments.min_runs, tolerance=REQUIREMENTS.tolerance, most_alarms=arguments.false_alarms
    )
    for passed_only in (False, True):
        started = time.monotonic()
        found = list(measured(folder, arguments.dialect, arguments.seeds, requirements, passed_only=passed_only))
        source = "the passed runs" if passed_only else "all runs"
        print(f"learned from {source} of one half, {len(found)} splits:")
        print(f"  passed runs of the other half that fail: {_range([one.passed for one in found])} (aim: at most 5 %)")
        print(
            f"  failed runs of the other half that fail: {_range([one.failed for one in found])} (aim: at least 40 %)"
        )
        print(f"  runs predicted to fail by mistake:       {_range([one.predicted for one in found])}")
        print(f"  criteria: {mean(one.criteria for one in found):.1f}; {time.monotonic() - started:.0f} s")


def _range(figures: Sequence[float]) -> str:
    return f"{mean(figures):.1%} ({min(figures):.1%} to {max(figures):.1%})"


if __name__ == "__main__":
    main()
