"""How often streams raise an alarm without a drop, and how soon after one. Seeds are fixed, limits exact.

`python -m tools.bench.detector` measures the same with more runs, and simulates the oracles.
"""

from collections.abc import Callable
from random import Random
from statistics import mean

import pytest

from tests.rows import each_row
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

STREAMS: dict[str, Callable[[], Draw]] = {
    "0.95": lambda: coins(0.95),
    "0.8": lambda: coins(0.8),
    "0.5": lambda: coins(0.5),
    "inflated": lambda: inflated(0.85, 0.02),
    "inflated, spread": lambda: inflated(0.3, 0.3),
    "conversations": lambda: conversations(0.9),
    "day and night": day_and_night,
    "mixed conversations": lambda: mixed_conversations,
}
# The others with `--long`.
QUICK = ("0.95", "inflated", "conversations")


@each_row(
    ("name", "baseline_min"),
    [
        *(pytest.param(name, 20, marks=() if name in QUICK else pytest.mark.long) for name in STREAMS),
        pytest.param("0.95", 100, marks=pytest.mark.long),
        ("mixed conversations", 100),
    ],
)
def test_the_run_length_to_a_false_alarm_is_at_least_what_was_asked_for(name: str, baseline_min: int):
    result = false_alarms(STREAMS[name], 300, baseline_min, runs=60)
    assert result.alarms > 20
    assert result.least_run_length() >= 300


# The delays of the CUSUM which knows both means, with a run length of 10,000, long after its start.
ORACLES = {"0.95 to 0.85": 70.3, "0.95 to 0.90": 181.9, "0.80 to 0.70": 146.8, "inflated": 61.7}
DROPS = {
    "0.95 to 0.85": (coins(0.95), coins(0.85)),
    "0.95 to 0.90": (coins(0.95), coins(0.9)),
    "0.80 to 0.70": (coins(0.8), coins(0.7)),
    "inflated": (inflated(0.85, 0.02), inflated(0.7, 0.1)),
}


@each_row(
    "drop",
    [
        "0.95 to 0.85",
        "inflated",
        *(pytest.param(name, marks=pytest.mark.long) for name in ("0.95 to 0.90", "0.80 to 0.70")),
    ],
)
def test_a_drop_of_a_well_known_stream_is_noticed_nearly_as_soon_as_by_one_who_knows_it(drop: str):
    before, after = DROPS[drop]
    measured = mean(delay.observations for delay in delays(before, after, 5000, learned=8, drops=30))
    assert measured <= 1.25 * ORACLES[drop]


def test_a_drop_soon_after_learning_is_noticed_with_a_moderate_delay():
    fresh = [delay.observations for delay in delays(*DROPS["0.95 to 0.85"], 500, learned=80, drops=2)]
    assert mean(fresh) <= 1.8 * ORACLES["0.95 to 0.85"]


def test_the_onset_of_a_clear_drop_is_placed_near_to_it():
    errors = [delay.onset_error for delay in delays(coins(0.95), coins(0.7), 1000, learned=20, drops=5)]
    assert sum(error <= 20 for error in errors) >= 0.8 * len(errors)


def test_an_alarm_lasts_while_the_drop_does_and_ends_after_it():
    lasted = ended = 0
    for seed in range(20):
        random, detector = Random(seed), Detector(10_000, 200)  # noqa: S311 repeatable
        while detector.state != "alarm":
            detector.update(float(random.random() < (0.95 if detector.observations < 600 else 0.7)))
        states: set[str] = set()
        for _ in range(500):
            detector.update(float(random.random() < 0.7))
            states.add(detector.state)
        lasted += states == {"alarm"}
        for _ in range(200):
            detector.update(float(random.random() < 0.95))
        # As long as an alarm is on, the evidence is 1.
        ended += detector.evidence < 1
    assert lasted >= 16
    assert ended >= 19
