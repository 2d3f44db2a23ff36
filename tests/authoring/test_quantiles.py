"""Quantiles in bounded memory."""

from toolgauge.authoring.value_profiles import Quantiles, outwards


def of(*numbers: float) -> Quantiles:
    quantiles = Quantiles()
    for number in numbers:
        quantiles.add(number)
    return quantiles


def test_quantiles_of_whole_numbers_are_exact():
    numbers = of(*range(1, 101))
    assert [numbers.quantile(share) for share in (0, 0.5, 0.9, 0.99, 1)] == [1, 50, 90, 99, 100]


def test_memory_is_bounded_by_the_digits():
    numbers = of(*(place / 7 for place in range(100_000)))
    assert numbers.quantile(0.5) == 7140
    assert numbers.spread() == (0, 15000)


def test_bounds_are_rounded_outwards():
    assert outwards(1234.5, up=True) == 1300
    assert outwards(1234.5, up=False) == 1200
    assert outwards(-1234.5, up=True) == -1200
    assert outwards(7, up=True) == 7
    assert outwards(0.0123, up=True) == 0.013
    assert outwards(99.5, up=True) == 100
