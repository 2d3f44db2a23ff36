"""How good the detector of regressions is: run length to a false alarm, delay after a drop, onset, end of an alarm, cost.

    python -m tools.bench.detector [false-alarms|delay|end|cost|deployments] [--runs 100] [--arl 10000] [--baseline-min 200]

False alarms on streams without any drop, with the exact lower 95 % limit of the run length; delays beside those of a CUSUM
that knows both means and has the same run length (its threshold is simulated), long after its start; how often an alarm ends while
the drop lasts, and how soon after it; microseconds an update. All seeds are fixed. The default takes about half an hour.
`deployments` (an hour or more, not part of the default) is one week of whole deployments without any drop, with 1 to 500 streams and
0.1 to 1,000 observations a second: the false alarms of the first million observations, where baselines are known badly.
"""

import argparse
import math
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from random import Random
from statistics import mean, median, quantiles

from tests.watch.simulation import (
    Draw,
    coins,
    conversations,
    day_and_night,
    delays,
    false_alarms,
    inflated,
    mixed_conversations,
)
from toolgauge.watch.detector import Detector
from toolgauge.watch.watcher import Budget, least_baseline

STREAMS: dict[str, Callable[[], Draw]] = {
    **{f"0/1, mean {chance}": lambda chance=chance: coins(chance) for chance in (0.999, 0.99, 0.95, 0.8, 0.5)},
    "inflated, mean 0.915": lambda: inflated(0.85, 0.02),
    "inflated, mean 0.5": lambda: inflated(0.3, 0.3),
    "conversations, mean 0.9": lambda: conversations(0.9),
    "day and night": day_and_night,
    "mixed conversations": lambda: mixed_conversations,
}
DROPS: dict[str, tuple[Draw, Draw, float, float]] = {
    "0.95 to 0.50": (coins(0.95), coins(0.5), 0.95, 0.5),
    "0.99 to 0.90": (coins(0.99), coins(0.9), 0.99, 0.9),
    "0.95 to 0.85": (coins(0.95), coins(0.85), 0.95, 0.85),
    "0.95 to 0.90": (coins(0.95), coins(0.9), 0.95, 0.9),
    "0.80 to 0.70": (coins(0.8), coins(0.7), 0.8, 0.7),
    "inflated, 0.915 to 0.80": (inflated(0.85, 0.02), inflated(0.7, 0.1), 0.915, 0.8),
}
RECOVERIES = {
    "0.95 to 0.85": (0.95, 0.85),
    "0.95 to 0.50": (0.95, 0.5),
    "1.0 to 0.9": (1.0, 0.9),
    "0.8 to 0.6": (0.8, 0.6),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", nargs="?", choices=["false-alarms", "delay", "end", "cost", "deployments"])
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--arl", type=float, default=10_000)
    parser.add_argument("--baseline-min", type=int, default=200)
    chosen = parser.parse_args()
    if chosen.study == "deployments":
        print_deployments(chosen.runs)
    if chosen.study in (None, "cost"):
        print_cost()
    if chosen.study in (None, "delay"):
        print_delays(chosen.runs, chosen.arl)
    if chosen.study in (None, "end"):
        print_ends(chosen.runs, chosen.arl)
    if chosen.study in (None, "false-alarms"):
        print_false_alarms(chosen.runs, chosen.arl, chosen.baseline_min)


def print_deployments(runs: int) -> None:
    """False alarms of deployments, where one a week is asked for."""
    found: list[int] = []
    for seed in range(runs):
        random = Random(seed)  # noqa: S311 repeatable
        streams = [coins(1 - 0.2 * random.random() ** 2) for _ in range(round(500 ** random.random()))]
        a_second = 0.1 * 10_000 ** random.random()
        found.append(deployment(streams, a_second, random))
        print(
            f"{len(streams):>4} streams, {a_second:>7.1f} observations a second: {found[-1]} false alarms", flush=True
        )
    highest = quantiles(found, n=20)[-1]
    print(
        f"{runs} deployments: {mean(found):.2f} false alarms on average, {highest:.1f} in 19 of 20, {max(found)} at most"
    )


def deployment(streams: Sequence[Draw], a_second: float, random: Random, most: int = 1_000_000) -> int:
    """Watch streams until a week is over, or so many observations are made; return the number of alarms."""
    budget, alarms, now_ns = Budget(), 0, 0
    detectors = [Detector(10_000, 200) for _ in streams]
    for _ in range(min(most, int(a_second * 7 * 86_400))):
        now_ns += int(random.expovariate(a_second) * 1e9)
        chosen = random.randrange(len(streams))
        detector = detectors[chosen]
        detector.arl = budget.spend(now_ns, 1, 1)
        detector.needed = least_baseline(detector.arl)
        if detector.observe(streams[chosen](random)):
            alarms += 1
            detector.reset()
    return alarms


def print_cost() -> None:
    """The cost of an update while it watches, in processor time."""
    detector, random = Detector(1e9, 200), Random(1)  # noqa: S311 repeatable
    scores = [float(random.random() < 0.95) for _ in range(20_000)]
    for score in scores:
        detector.update(score)
    alone = math.inf
    for _ in range(7):
        began = time.process_time()
        for score in scores:
            detector.update(score)
        alone = min(alone, time.process_time() - began)
    print(f"update: {alone * 50:.1f} us; dump: {len(detector.dump())} bytes\n")


def print_false_alarms(runs: int, arl: float, baseline_min: int) -> None:
    """Run lengths, and alarms within the first tenth of the nominal one."""
    print(f"{'without a drop':26}{'alarms':>8}{'run length / nominal':>22}{'at least':>10}{'early':>8}")
    for name, draw in STREAMS.items():
        result = false_alarms(draw, arl, baseline_min, runs=runs)
        lengths = f"{result.run_length() / arl:>22.2f}{result.least_run_length() / arl:>10.2f}"
        print(f"{name:26}{result.alarms:>8}{lengths}{result.early / runs:>8.3f}", flush=True)


def print_delays(runs: int, arl: float) -> None:
    """Delays and errors of the onset, with the delay in multiples of the oracle's."""
    print(
        f"{'drop':26}{'known':>6}{'delay':>8}{'oracle':>8}{'ratio':>7}{'onset error, median':>21}{'9 of 10':>9}{'<= 20':>7}"
    )
    for name, (before, after, high, low) in DROPS.items():
        best = _oracle_delay(before, after, high, low, arl)
        for known, learned in ((500, runs), (5000, max(10, runs // 5))):
            seen = list(delays(before, after, known, learned=learned, drops=10, arl=arl))
            delay, errors = mean(each.observations for each in seen), [each.onset_error for each in seen]
            near = sum(error <= 20 for error in errors) / len(errors)
            ratio = f"{delay:>8.1f}{best:>8.1f}{delay / best:>7.2f}"
            print(
                f"{name:26}{known:>6}{ratio}{median(errors):>21.0f}{quantiles(errors, n=10)[-1]:>9.0f}{near:>7.2f}",
                flush=True,
            )
    print()


def print_ends(runs: int, arl: float) -> None:
    """Alarms which end within 1,000 observations while the drop lasts; observations until the end once it is over."""
    print(
        f"{'drop, over after 1000':26}{'alarms':>8}{'ended before':>14}{'observations until the end, median':>36}{'9 of 10':>9}"
    )
    for name, (high, low) in RECOVERIES.items():
        needed = list(_ends(high, low, runs, arl))
        ended = [each for each in needed if each is not None]
        early = len(needed) - len(ended)
        print(
            f"{name:26}{len(needed):>8}{early:>14}{median(ended):>36.0f}{quantiles(ended, n=10)[-1]:>9.0f}", flush=True
        )
    print()


def _ends(high: float, low: float, runs: int, arl: float) -> Iterator[int | None]:
    for seed in range(runs):
        random, detector = Random(seed), Detector(arl, 200)  # noqa: S311 repeatable
        if any(detector.update(float(random.random() < high)) for _ in range(1000)):
            continue
        while not detector.update(float(random.random() < low)):
            pass
        if not all(_is_still_in_alarm(detector, random, low) for _ in range(1000)):
            yield None
            continue
        yield next(number for number in count(1) if not _is_still_in_alarm(detector, random, high))


def _is_still_in_alarm(detector: Detector, random: Random, chance: float) -> bool:
    detector.update(float(random.random() < chance))
    return detector.state == "alarm"


def _oracle_delay(before: Draw, after: Draw, high: float, low: float, arl: float) -> float:
    """The mean delay of the CUSUM that knows both means, from 500 observations before the drop on."""
    low_limit, high_limit = 0.0, math.log(arl) + 1
    for _ in range(10):
        limit = (low_limit + high_limit) / 2
        random = Random(1)  # noqa: S311 repeatable
        lengths = mean(_cusum(0.0, limit, before, high, low, random)[0] for _ in range(100))
        low_limit, high_limit = (limit, high_limit) if lengths < arl else (low_limit, limit)
    random = Random(2)  # noqa: S311 repeatable
    found: list[int] = []
    for _ in range(1000):
        value = 0.0
        for _ in range(500):
            value = _step(value, before, high, low, random)
        found.append(_cusum(min(value, high_limit), high_limit, after, high, low, random)[0])
    return mean(found)


def _cusum(value: float, limit: float, draw: Draw, high: float, low: float, random: Random) -> tuple[int, float]:
    for number in count(1):
        value = _step(value, draw, high, low, random)
        if value >= limit:
            return number, value
    raise AssertionError


def _step(value: float, draw: Draw, high: float, low: float, random: Random) -> float:
    ((score, _),) = draw(random).values()
    return max(0.0, value + math.log(score * low / high + (1 - score) * (1 - low) / (1 - high)))


if __name__ == "__main__":
    main()
