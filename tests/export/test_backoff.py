import pytest

from tests.rows import each_row
from toolgauge.export.destination import Backoff
from toolgauge.export.settings import RetrySettings
from toolgauge.settings import SECOND

CALM = RetrySettings(
    initial_interval=5 * SECOND,
    multiplier=1.5,
    randomization_factor=0,
    max_interval=10 * SECOND,
    max_elapsed_time=300 * SECOND,
)


def waits(settings: RetrySettings, chance: float, count: int) -> list[float | None]:
    backoff = Backoff(settings, lambda: chance)
    return [backoff.next_wait_s(elapsed_s=0, retry_after_s=None) for _ in range(count)]


def test_waits_grow_up_to_the_largest():
    assert waits(CALM, 0.5, 5) == [5, 7.5, 10, 10, 10]


@each_row(("chance", "expected"), [(0.0, 2.5), (0.5, 5.0), (0.999999, 7.5)])
def test_waits_are_jittered_by_the_factor(chance: float, expected: float):
    assert waits(RetrySettings(randomization_factor=0.5), chance, 1) == [pytest.approx(expected, abs=1e-4)]


@each_row(("retry_after_s", "expected"), [(0.0, 5), (3.0, 5), (12.0, 12)])
def test_destination_can_only_lengthen_a_wait(retry_after_s: float, expected: float):
    assert Backoff(CALM, lambda: 0.5).next_wait_s(elapsed_s=0, retry_after_s=retry_after_s) == expected


def test_retries_end_when_the_next_would_come_too_late():
    backoff = Backoff(CALM, lambda: 0.5)
    assert backoff.next_wait_s(elapsed_s=294, retry_after_s=None) == 5
    assert backoff.next_wait_s(elapsed_s=294, retry_after_s=None) is None


def test_no_elapsed_limit_means_for_ever():
    forever = RetrySettings(max_elapsed_time=0, randomization_factor=0)
    assert Backoff(forever, lambda: 0.5).next_wait_s(elapsed_s=1e9, retry_after_s=None) == 5
