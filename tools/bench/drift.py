"""How soon a change of behaviour is noticed, and how often a steady mix of conversations raises an alarm.

    python -m tools.bench.drift [release|steady|used|scores] [--seeds 500] [--first 0] [--weeks 2] [--busiest 200]

`release`: each third refund of a new version skips the lookup, which came before 99 % of refunds; one conversation a minute, defaults.
`steady`: weeks of two kinds of conversations, whose mix and number follow the hours of the day and the weekend while traffic grows; all
alarms of all streams are false. `used`: a tool is used more and less often, a week after the start. `scores`: whether a drop of
scores is noticed later with behaviour watched beside them. Seeds are fixed. `steady` takes about half an hour, the others minutes.
"""

import argparse
from collections import Counter
from collections.abc import Sequence
from random import Random
from statistics import mean, median

from tests.watch.behaviour_simulation import Mix, alarms_of, more_used, release
from tests.watch.simulation import poisson_limit
from toolgauge.model.regressions import BEHAVIOUR


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", nargs="?", choices=["release", "steady", "used", "scores"])
    parser.add_argument("--seeds", type=int, default=500)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--weeks", type=float, default=2)
    parser.add_argument("--busiest", type=float, default=200, help="conversations a day")
    chosen = parser.parse_args()
    if chosen.study in (None, "release"):
        print_release(min(chosen.seeds, 100))
    if chosen.study in (None, "used"):
        print_used(min(chosen.seeds, 20))
    if chosen.study in (None, "scores"):
        print_scores(min(chosen.seeds, 100))
    if chosen.study in (None, "steady"):
        print_steady(range(chosen.first, chosen.first + chosen.seeds), chosen.weeks, chosen.busiest)


def summary(delays: Sequence[int | None]) -> str:
    found = sorted(each for each in delays if each is not None)
    if not found:
        return f"noticed in 0 of {len(delays)}"
    tenth = found[min(len(found) - 1, int(0.9 * len(found)))]
    within = sum(each <= 60 for each in found)
    return (
        f"median {median(found):.0f}, 9 of 10 {tenth}, most {found[-1]}; within 60: {within} of {len(delays)}, "
        f"never: {len(delays) - len(found)}"
    )


def print_release(seeds: int) -> None:
    """Conversations until the first alarm of behaviour, by the share that refunds, and by conversations before the release."""
    for refunds in (1.0, 0.5):
        for known in (200, 400, 1000):
            found = [release(seed, known=known, refunds=refunds, skipped=1 / 3) for seed in range(seeds)]
            false = sum(each.false for each in found)
            print(
                f"skipped lookups, {refunds:.0%} refunds, {known} before: {summary([each.skips for each in found])}; "
                f"{false} false before",
                flush=True,
            )


def print_used(seeds: int) -> None:
    """Conversations until a tool that is used in 30 % of conversations is known to be used in more of them, or in fewer."""
    for a_day in (200, 1000):
        for share in (0.7, 0.5, 0.1):
            found = [more_used(seed, share, a_day) for seed in range(seeds)]
            print(f"used in {share:.0%} after 30 %, {a_day} a day: {summary(found)}", flush=True)


def print_scores(seeds: int) -> None:
    """Conversations until a drop of scores from 0.95 to 0.85 is noticed, with behaviour and without, among scores of eight criteria."""
    for behaviour in ("off", ("used", "before", "calls")):
        for known in (400, 1000):
            found = [release(seed, known=known, ok=0.85, more=7, behaviour=behaviour).fails for seed in range(seeds)]
            print(
                f"scores 0.95 to 0.85, {known} before, behaviour {'off' if behaviour == 'off' else 'on'}: {summary(found)}, mean "
                f"{mean(each for each in found if each is not None):.1f}",
                flush=True,
            )


def print_steady(seeds: Sequence[int], weeks: float, busiest: float) -> None:
    """False alarms a week, with the exact upper 95 % limit of their mean."""
    counts: list[int] = []
    by_criterion: Counter[str] = Counter()
    for seed in seeds:
        mix = Mix.drawn(Random(seed), busiest)  # noqa: S311 repeatable
        found = alarms_of(mix, seed, weeks)
        counts.append(len(found))
        by_criterion.update([each.stream.criterion for each in found])
        total, behaviour = sum(counts), sum(by_criterion[name] for name in BEHAVIOUR)
        if len(counts) % 25 == 0 or seed == seeds[-1]:
            print(
                f"steady mixes, {len(counts)} seeds from {seeds[0]}, {weeks:g} weeks each: {total} false alarms, "
                f"{total / len(counts) / weeks:.3f} a week (at most {poisson_limit(total) / len(counts) / weeks:.3f}), "
                f"{behaviour} of them of behaviour; the most in one seed {max(counts)}; {dict(by_criterion)}",
                flush=True,
            )


if __name__ == "__main__":
    main()
