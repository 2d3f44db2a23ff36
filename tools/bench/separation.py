"""What "What separates them" finds in the runs that nobody marked.

    python -m tools.bench.separation [RECORDINGS]

Ten bad and twenty good runs are marked at random. Rules are learned from them and judge all other runs: of the shop of `verdicts`, of the
office of the tests, and of RECORDINGS, a folder with a manifest of verdicts (see `recorded_runs`).
"""

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from statistics import mean, median

from tests.authoring.office import FAULTS, office
from toolgauge.authoring.separation import separate
from toolgauge.config.criteria import read_criterion
from toolgauge.config.parse import parse_yaml
from toolgauge.model.outcomes import Scorecard, outcome_word
from toolgauge.recordings.recorded_requests import find_files, read, scorecards
from toolgauge.score.contracts import BY_NAME
from toolgauge.score.scorer import Scorer
from toolgauge.service.criteria_factory import default_criteria, load_for_replay, make_criterion
from toolgauge.service.pipeline_factory import offline_pipeline
from tools.bench.recorded_runs import runs_of, scored_runs
from tools.bench.verdicts import write

DRAWS, BAD, GOOD = 50, 10, 20


def shop() -> tuple[list[Scorecard], list[Scorecard]]:
    """Return the bad and the good runs of the shop."""
    with tempfile.TemporaryDirectory() as folder:
        recording, labels = write(Path(folder), "past", 1)
        config, made = load_for_replay((), (), (), {})
        cards = list(scorecards(read(find_files([str(recording)]), lambda _size: None), offline_pipeline(config, made)))
        failed = {line.split(",")[0] for line in labels.read_text().splitlines() if line.endswith(",fail")}
    return _split(cards, [one.trajectory.trace_id in failed for one in cards])


def offices() -> tuple[list[Scorecard], list[Scorecard]]:
    """Return the bad and the good runs of the office."""
    faults = [*FAULTS * 8, *[""] * 110]
    scorer = Scorer(default_criteria(), BY_NAME)
    runs = office(1, faults)
    return _split(
        [Scorecard(trajectory=one, results=scorer.score(one), scored_at_ns=0) for one in runs], list(map(bool, faults))
    )


def recorded(folder: Path, *domains: str) -> tuple[list[Scorecard], list[Scorecard]]:
    """Return the failed and the passed runs of recordings."""
    runs = {run.name: run for run in runs_of(folder)}
    cards, failed = [], []
    for name, scored in scored_runs(folder, "genai").items():
        if scored.conversations and (not domains or runs[name].domain in domains):
            cards.append(Scorecard(trajectory=scored.conversations[0], results=tuple(scored.results), scored_at_ns=0))
            failed.append(not runs[name].has_passed)
    return _split(cards, failed)


def _split(cards: Sequence[Scorecard], is_bad: Sequence[bool]) -> tuple[list[Scorecard], list[Scorecard]]:
    marked = list(zip(cards, is_bad, strict=True))
    return [one for one, bad in marked if bad], [one for one, bad in marked if not bad]


def figures(
    name: str, bad: Sequence[Scorecard], good: Sequence[Scorecard], others: bool = False, draws=DRAWS, verbose=False
) -> None:
    """Print what is found and flagged among the runs left, over all draws."""
    rows: list[tuple[int, int, int, int, int, int]] = []
    seconds = 0.0
    for seed in range(draws):
        random = Random(seed)
        draw = [random.sample(list(runs), len(runs)) for runs in (bad, good)]
        marked, left = (draw[0][:BAD], draw[1][:GOOD]), (draw[0][BAD:], draw[1][GOOD:])
        unmarked = [*left[0], *left[1]] if others else []
        random.shuffle(unmarked)
        began = time.process_time()
        found = separate(*marked, unmarked)
        seconds = max(seconds, time.process_time() - began)
        text = found.all_together.text
        nodes = parse_yaml(text, "", {}).items() if text else []
        scorers = {node.child("name").value: Scorer([make_criterion(read_criterion(node))], BY_NAME) for node in nodes}
        row = []
        per = []
        for runs in left:
            by = {
                name: [
                    any(outcome_word(result.outcome) == "fail" for result in scorer.score(one.trajectory))
                    for one in runs
                ]
                for name, scorer in scorers.items()
            }
            per.append({n: sum(x) for n, x in by.items()})
            by_rules = [any(by[n][i] for n in by) for i in range(len(runs))]
            by_default = [any(outcome_word(result.outcome) == "fail" for result in one.results) for one in runs]
            row += [sum(by_rules), sum(map(max, by_rules, by_default)), sum(by_default)]
        e = found.all_together
        rows.append(
            (
                row[0],
                row[3],
                row[1],
                row[4],
                row[2],
                row[5],
                e.estimated_found[0] * len(left[0]) / BAD,
                e.estimated_flagged[0] * len(left[1]) / GOOD,
            )
        )
        if verbose:
            print(seed, rows[-1], len(scorers), {n: (per[0][n], per[1][n]) for n in scorers})
    of_bad, of_good = len(bad) - BAD, len(good) - GOOD
    print(f"{name}: {of_bad} bad and {of_good} good runs left, {draws} draws, at most {seconds:.1f} s each")
    for what, place in (("chosen rules", 0), ("with default criteria", 2), ("default criteria", 4), ("estimate", 6)):
        bads, goods = sorted(row[place] for row in rows), sorted(row[place + 1] for row in rows)
        print(
            f"  {what}: found median {median(bads):g}, worst quarter {bads[len(rows) // 4]:g}, mean {mean(bads):.1f};"
            f" flagged median {median(goods):g}, worst quarter {goods[-1 - len(rows) // 4]:g}, mean {mean(goods):.1f}"
        )


def main() -> None:
    """Print the figures of all worlds."""
    v = "-v" in sys.argv
    if "shop" in sys.argv:
        figures("shop", *shop(), verbose=v)
    if "shopo" in sys.argv:
        figures("shop", *shop(), others=True, verbose=v)
    if "office" in sys.argv:
        figures("office", *offices(), verbose=v)
    if "officeo" in sys.argv:
        figures("office", *offices(), others=True, verbose=v)
    if "tau" in sys.argv:
        figures("tau", *recorded(Path(sys.argv[-1])), verbose=v)


if __name__ == "__main__":
    main()
