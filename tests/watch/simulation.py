"""Simulated streams, and what a detector does with them: shared by the tests and by `tools/bench/detector.py`."""

import math
from collections.abc import Callable, Iterator
from itertools import count
from random import Random
from typing import NamedTuple, TypeAlias

from toolgauge.watch.detector import Detector

# One observation: sum and number of scores by stratum.
Observation: TypeAlias = dict[str, tuple[float, int]]
Draw: TypeAlias = Callable[[Random], Observation]


def coins(mean: float) -> Draw:
    """Scores 0 and 1."""
    return lambda random: {"": (float(random.random() < mean), 1)}


def inflated(ones: float, zeros: float) -> Draw:
    """Many scores exactly 0 or 1, the others spread evenly between."""

    def draw(random: Random) -> Observation:
        where = random.random()
        score = 1.0 if where < ones else 0.0 if where < ones + zeros else random.random()
        return {"": (score, 1)}

    return draw


def conversations(mean: float, alike: float = 3.0) -> Draw:
    """One to eight calls with a fate in common: their chance of success is drawn anew for each conversation."""

    def draw(random: Random) -> Observation:
        chance = random.betavariate(alike * mean, alike * (1 - mean))
        calls = random.randint(1, 8)
        return {"": (float(sum(random.random() < chance for _ in range(calls))), calls)}

    return draw


def day_and_night(day: int = 400) -> Draw:
    """Two tools, one good and one bad, of which one is rare by day and the other by night."""
    clock = count()

    def draw(random: Random) -> Observation:
        share = 0.5 + 0.45 * math.sin(2 * math.pi * next(clock) / day)
        tool, mean = ("good", 0.98) if random.random() < share else ("bad", 0.7)
        return {tool: (float(random.random() < mean), 1)}

    return draw


def mixed_conversations(random: Random) -> Observation:
    """Conversations that call several tools of unlike quality."""
    observation: Observation = {}
    for tool, mean, calls in (("search", 0.99, 4), ("order", 0.9, 2), ("refund", 0.6, 1)):
        number = random.randint(0, calls)
        if number:
            observation[tool] = (float(sum(random.random() < mean for _ in range(number))), number)
    return observation or {"search": (1.0, 1)}


class FalseAlarms(NamedTuple):
    """Of streams without any drop: alarms, all observations, and alarms in the first tenth of the run length."""

    alarms: int
    observations: int
    early: int

    def run_length(self) -> float:
        """Estimate the average run length."""
        return self.observations / self.alarms if self.alarms else math.inf

    def least_run_length(self) -> float:
        """The exact lower 95 % limit of the average run length."""
        return self.observations / poisson_limit(self.alarms)


def false_alarms(
    draw: Callable[[], Draw], arl: float, baseline_min: int, *, runs: int, limit: float = 4.0
) -> FalseAlarms:
    """Watch streams without any drop until an alarm, or for `limit` times the run length."""
    alarms = observations = early = 0
    for seed in range(runs):
        random, detector, stream = Random(seed), Detector(arl, baseline_min), draw()  # noqa: S311 repeatable
        for number in range(1, int(limit * arl) + 1):
            observations += 1
            if detector.observe(stream(random)):
                alarms += 1
                early += number <= arl / 10
                break
    return FalseAlarms(alarms, observations, early)


class Delay(NamedTuple):
    """Of one drop: observations until the alarm, and how far from the drop the onset was placed."""

    observations: int
    onset_error: int


def delays(before: Draw, after: Draw, known: int, *, learned: int, drops: int, arl: float = 10_000) -> Iterator[Delay]:
    """Let `learned` detectors learn `known` observations, then each see `drops` drops, from copies of it.

    The last 100 observations before the drop are others in each copy. Detectors that raised a false alarm do not count.
    """
    for seed in range(learned):
        detector = _calm(before, known - 100, arl, seed)
        for drop in range(drops):
            random = Random(f"{seed} {drop}")  # noqa: S311 repeatable
            copied = Detector.load(detector.dump())
            if any([copied.observe(before(random)) for _ in range(100)]):  # noqa: C419 all of them
                continue
            needed = next(number for number in count(1) if copied.observe(after(random)))
            yield Delay(needed, abs(copied.since_onset - needed))


def _calm(before: Draw, known: int, arl: float, seed: int) -> Detector:
    """The first of the detectors that reaches the end of its learning without an alarm."""
    for attempt in count():
        random, detector = Random(f"{seed} {attempt}"), Detector(arl, 200)  # noqa: S311 repeatable
        if not any(detector.observe(before(random)) for _ in range(known)):
            return detector
    raise AssertionError


def poisson_limit(events: int, chance: float = 0.05) -> float:
    """The exact upper limit of the mean of a Poisson variable that came out as `events`."""
    low, high = 0.0, 2.0 * events + 20
    while high - low > 1e-6:
        middle = (low + high) / 2
        term = total = math.exp(-middle)
        for number in range(1, events + 1):
            term *= middle / number
            total += term
        low, high = (middle, high) if total > chance else (low, middle)
    return high


def binomial_limit(events: int, runs: int, chance: float = 0.05) -> float:
    """The exact upper limit of a share that came out as `events` of `runs`."""
    low, high = 0.0, 1.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        total = sum(math.comb(runs, k) * middle**k * (1 - middle) ** (runs - k) for k in range(events + 1))
        low, high = (middle, high) if total > chance else (low, middle)
    return high
