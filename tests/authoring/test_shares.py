"""Wilson's interval, against the figures of Newcombe (1998), table I."""

import pytest

from tests.rows import each_row
from toolgauge.authoring.firings import Share


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
