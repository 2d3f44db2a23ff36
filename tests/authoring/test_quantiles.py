"""Figures of runs in bounded memory."""

from toolgauge.authoring.learner import Figure
from toolgauge.authoring.value_profiles import coarse, outwards


def of(*numbers: float) -> Figure:
    figure = Figure()
    for run, number in enumerate(numbers):
        figure.add_run(run, number)
    return figure


def test_quantiles_of_whole_numbers_are_exact():
    numbers = of(*range(1, 101))
    assert [numbers.quantile(share) for share in (0, 0.5, 0.9, 0.99, 1)] == [1, 50, 90, 99, 100]


def test_memory_is_bounded_by_the_digits():
    assert of(*(place / 7 for place in range(100_000))).quantile(0.5) == 7140
    assert len({coarse(place / 7) for place in range(100_000)}) < 5000


def test_bounds_are_rounded_outwards():
    assert outwards(1234.5, up=True) == 1300
    assert outwards(1234.5, up=False) == 1200
    assert outwards(-1234.5, up=True) == -1200
    assert outwards(7, up=True) == 7
    assert outwards(0.0123, up=True) == 0.013
    assert outwards(99.5, up=True) == 100
