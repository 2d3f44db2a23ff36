"""What rules that are learned from thirty marked runs find in the runs that nobody marked.

    python -m tools.bench.separation [RECORDINGS] [--unmarked]

Of a shop (`verdicts`), of an office (`tests/authoring/office.py`) and of RECORDINGS, a folder with a manifest of verdicts
(`recorded_runs`), ten bad and twenty good runs are marked at random. The rules that are chosen together judge all other runs, which
are not seen when learning, except with `--unmarked`.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import mean, median

from tests.authoring.office import FAULTS, office
from toolgauge.authoring.separation import separate
from toolgauge.config.criteria import read_criterion
from toolgauge.config.parse import parse_yaml
from toolgauge.model.outcomes import Result, Scorecard, outcome_word
from toolgauge.recordings.recorded_requests import find_files, read, scorecards
from toolgauge.score.contracts import BY_NAME
from toolgauge.score.scorer import Scorer
from toolgauge.service.criteria_factory import default_criteria, load_for_replay, make_criterion
from toolgauge.service.pipeline_factory import offline_pipeline
from tools.bench.recorded_runs import scored_runs
from tools.bench.verdicts import write

DRAWS, BAD, GOOD = 50, 10, 20
# Scorecards and whether the run is bad.
Marked = list[tuple[Scorecard, bool]]


def shop() -> Marked:
    """Make the 150 runs of the shop."""
    with tempfile.TemporaryDirectory() as folder:
        recording, labels = write(Path(folder), "past", 1)
        pipeline = offline_pipeline(*load_for_replay((), (), (), {}))
        cards = list(scorecards(read(find_files([str(recording)]), lambda _size: None), pipeline))
        failed = {line.split(",")[0] for line in labels.read_text().splitlines() if line.endswith(",fail")}
    return [(card, card.trajectory.trace_id in failed) for card in cards]


def offices() -> Marked:
    """Make 150 runs of the office: 40 are bad, eight by each fault."""
    faults = [*FAULTS * 8, *[""] * 110]
    scorer = Scorer(default_criteria(), BY_NAME)
    return [
        (Scorecard(trajectory=run, results=scorer.score(run), scored_at_ns=0), bool(fault))
        for run, fault in zip(office(1, faults), faults, strict=True)
    ]


def recorded(folder: Path) -> Marked:
    """Read recorded conversations with their verdicts."""
    return [
        (Scorecard(trajectory=one.conversations[0], results=tuple(one.results), scored_at_ns=0), not one.run.has_passed)
        for one in scored_runs(folder, "genai").values()
        if one.conversations
    ]


@dataclass
class Draw:
    """Bad runs found and good ones flagged, of those without a mark: by the chosen rules, with the default criteria, by these alone,
    and by the estimate.
    """

    figures: list[tuple[float, float]]
    seconds: float


def _has_failed(results: Iterable[Result]) -> bool:
    return any(outcome_word(one.outcome) == "fail" for one in results)


def drawn(bad: list[Scorecard], good: list[Scorecard], seed: int, *, is_told: bool) -> Draw:
    """Mark runs at random, learn, and judge the others; `is_told` if the unmarked runs are seen when learning."""
    random = Random(seed)  # noqa: S311 (made-up marks)
    random.shuffle(bad)
    random.shuffle(good)
    left = bad[BAD:], good[GOOD:]
    others = random.sample([*left[0], *left[1]], len(left[0]) + len(left[1])) if is_told else ()
    began = time.process_time()
    found = separate(bad[:BAD], good[:GOOD], others).all_together
    seconds = time.process_time() - began
    nodes = parse_yaml(found.text, "learned", {}).items() if found.text else []
    scorer = Scorer([make_criterion(read_criterion(node)) for node in nodes], BY_NAME)
    by_rules = [[_has_failed(scorer.score(one.trajectory)) for one in runs] for runs in left]
    by_defaults = [[_has_failed(one.results) for one in runs] for runs in left]
    by_both = [list(map(max, *pair)) for pair in zip(by_rules, by_defaults, strict=True)]
    counts = [(sum(found), sum(flagged)) for found, flagged in (by_rules, by_both, by_defaults)]
    shares = [
        share * len(runs) / of
        for (share, of), runs in zip((found.estimated_found, found.estimated_flagged), left, strict=True)
    ]
    return Draw([*counts, (shares[0], shares[1])], seconds)


def lines(name: str, marked: Marked, *, is_told: bool = False) -> Iterator[str]:
    """Write the figures of all draws."""
    bad, good = ([card for card, is_bad in marked if is_bad is wanted] for wanted in (True, False))
    draws = [drawn(bad, good, seed, is_told=is_told) for seed in range(DRAWS)]
    told = ", with the unmarked runs" if is_told else ""
    slowest = max(one.seconds for one in draws)
    yield f"{name}{told}: of {len(bad) - BAD} bad and {len(good) - GOOD} good runs without a mark, {DRAWS} draws, at most {slowest:.1f} s"
    for place, what in enumerate(("the chosen rules", "and the default criteria", "these alone", "the estimate")):
        yield f"  {what}: found {_spread([one.figures[place][0] for one in draws], -1)}; flagged {_spread([one.figures[place][1] for one in draws], 1)}"


def _spread(figures: Sequence[float], worst: int) -> str:
    ordered = sorted(figures, reverse=worst > 0)
    return f"median {median(ordered):g}, worst quarter {ordered[len(ordered) // 4]:g}, mean {mean(ordered):.1f}"


def main() -> None:
    """Print the figures of all runs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("recordings", nargs="?", type=Path)
    parser.add_argument("--unmarked", action="store_true")
    arguments = parser.parse_args()
    folder: Path | None = arguments.recordings
    worlds: dict[str, Callable[[], Marked]] = {"shop": shop, "office": offices}
    if folder is not None:
        worlds[folder.name] = lambda: recorded(folder)
    for name, make in worlds.items():
        for line in lines(name, make(), is_told=arguments.unmarked):
            print(line, flush=True)


if __name__ == "__main__":
    main()
