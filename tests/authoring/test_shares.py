"""Wilson's interval, against the figures of Newcombe (1998), table I."""

import random
from itertools import repeat

import pytest

from tests.rows import each_row
from toolgauge.authoring.firings import Agreement, Share, Tally


@each_row(
    ("count", "of", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_an_interval_is_as_published(count: int, of: int, low: float, high: float):
    assert Share(count, of).interval == pytest.approx((low, high), abs=5e-5)


def test_the_ends_of_nothing_and_of_everything_are_exact():
    nothing, everything = Share(0, 7).interval, Share(7, 7).interval
    assert nothing is not None
    assert everything is not None
    assert (nothing[0], everything[1]) == (0.0, 1.0)


def test_of_nothing_there_is_no_share():
    assert (Share(0, 0).value, Share(0, 0).interval, str(Share(0, 0))) == (None, None, "-")


def tally(*weights: float) -> Tally:
    found = Tally()
    for weight in weights:
        found = found.plus(weight)
    return found


def test_equal_weights_leave_share_and_interval_as_they_are():
    counted = Share(15, 148)
    weighted = Share.of_tallies(tally(*repeat(4.0, 15)), tally(*repeat(4.0, 133)), 4.0)
    assert (weighted.count, weighted.of) == (15, 148)
    assert weighted.value == pytest.approx(counted.value)
    assert weighted.interval == pytest.approx(counted.interval)


def test_a_share_of_weighted_runs_is_that_of_all_runs_they_stand_for():
    share = Share.of_tallies(tally(*repeat(1.0, 30)), tally(20.0), 20.0)
    assert share.value == 0.6
    assert (share.count, share.of) == (30, 31)
    assert share.interval is not None
    assert share.interval[0] < 0.3


def test_heavy_runs_of_which_none_was_seen_widen_the_interval():
    """Of runs that each stand for 50, a missed one would halve the recall."""
    all_found = Share.of_tallies(tally(*repeat(1.0, 100)), Tally(), 50.0)
    assert all_found.value == 1.0
    assert all_found.interval is not None
    assert all_found.interval[0] < 0.6


@each_row(
    ("runs", "failing", "found", "alarms", "fired_share", "quiet_share"),
    [(2000, 0.1, 0.6, 0.03, 1.0, 0.05), (2000, 0.1, 0.9, 0.03, 1.0, 0.02), (1000, 0.3, 0.5, 0.1, 0.5, 0.1)],
)
def test_the_interval_of_drawn_runs_covers_the_truth(
    runs: int, failing: float, found: float, alarms: float, fired_share: float, quiet_share: float
):
    """Draws runs by stratum as a queue does, 400 times, and looks how often the 95 % interval holds the true figure."""
    draw = random.Random(34)  # noqa: S311 (a simulation)
    truths = {
        "precision": failing * found / (failing * found + (1 - failing) * alarms),
        "recall": found,
        "agreement": failing * found + (1 - failing) * (1 - alarms),
    }
    covered = dict.fromkeys(truths, 0)
    repeats = 400
    for _ in range(repeats):
        tallies = {(failed, fired): Tally() for failed in (True, False) for fired in (True, False)}
        for _run in range(runs):
            failed = draw.random() < failing
            fired = draw.random() < (found if failed else alarms)
            share = fired_share if fired else quiet_share
            if draw.random() < share:
                tallies[failed, fired] = tallies[failed, fired].plus(1 / share)
        agreement = Agreement(
            on_passed=(tallies[False, True], tallies[False, False]),
            on_failed=(tallies[True, True], tallies[True, False]),
            heaviest=1 / quiet_share,
            heaviest_fired=1 / fired_share,
            not_judged=0,
            false_alarms=(),
            missed=(),
        )
        for figure, truth in truths.items():
            interval = getattr(agreement, figure).interval
            covered[figure] += interval[0] <= truth <= interval[1]
    assert all(count >= 0.92 * repeats for count in covered.values()), covered
    assert covered["precision"] <= 0.99 * repeats
