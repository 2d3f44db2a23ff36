"""How long a run to a false alarm is asked for."""

from tests.watch.support import HOUR, START
from toolgauge.watch.watcher import Budget

_DAY = 24 * HOUR


def counted(per_hour: int, hours: int) -> Budget:
    budget = Budget()
    for hour in range(hours):
        for _ in range(per_hour):
            budget.count(START + hour * HOUR)
    return budget


def test_until_an_hour_was_observed_the_run_length_is_ten_thousand() -> None:
    budget = counted(per_hour=5000, hours=1)
    assert not budget.is_changed(START + HOUR - 1, 1)
    assert budget.run_length == 10_000


def test_after_an_hour_the_run_length_is_the_observations_of_a_week() -> None:
    budget = counted(per_hour=500, hours=1)
    assert budget.is_changed(START + HOUR, 1)
    assert budget.run_length == 500 * 168


def test_more_tolerated_alarms_make_shorter_runs() -> None:
    budget = counted(per_hour=500, hours=1)
    budget.is_changed(START + HOUR, 7)
    assert budget.run_length == 500 * 24


def test_the_run_length_is_never_below_a_thousand() -> None:
    budget = counted(per_hour=1, hours=1)
    budget.is_changed(START + HOUR, 1)
    assert (budget.run_length, budget.weekly) == (1000, 168)


def test_the_run_length_changes_at_most_daily() -> None:
    budget = counted(per_hour=500, hours=1)
    budget.is_changed(START + HOUR, 1)
    for _ in range(100_000):
        budget.count(START + 2 * HOUR)
    assert not budget.is_changed(START + HOUR + _DAY - 1, 1)
    assert budget.is_changed(START + HOUR + _DAY, 1)


def test_only_the_last_seven_days_count() -> None:
    budget = counted(per_hour=100, hours=24)
    budget.is_changed(START + HOUR, 1)
    assert budget.is_changed(START + 9 * _DAY, 1)
    assert (budget.weekly, budget.run_length) == (0, 1000)


def test_a_clock_that_was_set_back_holds_nothing_up() -> None:
    budget = counted(per_hour=100, hours=3)
    assert budget.is_changed(START + 1000 * HOUR, 1)
    assert not budget.is_changed(START, 1)
    for _ in range(20_000):
        budget.count(START)
    assert budget.is_changed(START + HOUR, 1)
    assert budget.weekly == 20_000 * 7 * 24
