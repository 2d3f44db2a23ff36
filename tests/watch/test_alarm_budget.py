"""The budget of false alarms comes in with time, and observations spend it."""

import pytest

from tests.rows import each_row
from tests.watch.support import HOUR, MINUTE, SECOND, START
from toolgauge.watch.watcher import Budget

_WEEK_NS = 7 * 24 * HOUR


def spent(
    budget: Budget, *, every_ns: int, count: int, at_ns: int = START, per_week: float = 1, each: int = 1
) -> float:
    """Make observations at a steady rate; return what they spent together."""
    total = 0.0
    for number in range(count):
        total += each / budget.spend(at_ns + number * every_ns, each, per_week)
    return total


@each_row(("every_ns", "each"), [(SECOND // 1000, 1), (SECOND // 10, 40), (10 * SECOND, 1)])
def test_at_a_steady_rate_the_run_length_is_the_observations_of_a_week(every_ns: int, each: int) -> None:
    budget = Budget(left=0, last_ns=START)
    spent(budget, every_ns=every_ns, count=30_000, each=each)
    weekly = _WEEK_NS / every_ns * each
    assert budget.run_length == pytest.approx(max(1000, weekly), rel=0.1)


@each_row("every_ns", [SECOND // 1000, SECOND])
def test_from_the_first_minute_no_more_is_spent_than_was_there_and_came_in(every_ns: int) -> None:
    assert spent(Budget(), every_ns=every_ns, count=5000) <= 0.5 + 5000 * every_ns / _WEEK_NS


def test_a_burst_spends_no_more_than_what_is_left() -> None:
    budget = Budget()
    spent(budget, every_ns=MINUTE, count=1000)
    left = budget.left
    assert left is not None
    assert spent(budget, every_ns=0, count=20_000, at_ns=START + 1000 * MINUTE) <= left + 2 * MINUTE / _WEEK_NS
    assert budget.run_length < float("inf")


def test_what_was_not_spent_in_a_week_lapses() -> None:
    budget = Budget()
    budget.spend(START, 1, 1)
    budget.spend(START + 100 * _WEEK_NS, 1, 1)
    assert budget.left is not None
    assert budget.left <= 1


def test_a_clock_that_was_set_back_brings_nothing_and_holds_nothing_up() -> None:
    budget = Budget(left=0, last_ns=START)
    spent(budget, every_ns=SECOND, count=1000, at_ns=START + 1000 * HOUR)
    left = budget.left
    assert left is not None
    budget.spend(START, 1, 1)
    assert budget.left is not None
    assert budget.left < left
    spent(budget, every_ns=SECOND, count=30_000)
    assert budget.run_length == pytest.approx(_WEEK_NS / SECOND, rel=0.1)
