"""The two tests keep their promises: shown exactly where scores are 0 or 1 and samples small, else by simulation."""

from collections.abc import Callable, Iterator
from itertools import product
from math import comb
from random import Random

import pytest

from tests.rows import each_row
from toolgauge.recordings.conversation_means import PValue, Sample, always_valid_p, fixed_sample_p, interval

ALPHA = 0.05
Draw = Callable[[Random, float], float]


def seeded(seed: int) -> Random:
    return Random(seed)  # noqa: S311 (no secret)


def passes(count: int, passed: int) -> Sample:
    """Scores that are 0 or 1."""
    return Sample(count, passed, passed)


def zero_or_one(random: Random, mean: float) -> float:
    return float(random.random() < mean)


def mostly_one(random: Random, mean: float) -> float:
    """1 but for a share of 0 and of scores in between."""
    loss = 1 - mean
    if random.random() < loss / 2:
        return 0.0
    return random.random() if random.random() < loss / (1 - loss / 2) else 1.0


def continuous(random: Random, mean: float) -> float:
    return random.betavariate(8 * mean, 8 * (1 - mean))


DRAWS: tuple[Draw, ...] = (zero_or_one, mostly_one, continuous)


def sample(values: list[float]) -> Sample:
    return Sample(len(values), sum(values), sum(value * value for value in values))


def binomial(count: int, mean: float) -> list[float]:
    return [comb(count, passed) * mean**passed * (1 - mean) ** (count - passed) for passed in range(count + 1)]


def exact_errors(sizes: tuple[int, int], mean: float, drop: float) -> tuple[float, float]:
    """The chances that the true difference is rejected because the second mean seems lower, and higher."""
    first, second = binomial(sizes[0], mean), binomial(sizes[1], mean - drop)
    lower = higher = 0.0
    for old, new in product(range(sizes[0] + 1), range(sizes[1] + 1)):
        chance = first[old] * second[new]
        if chance < 1e-9 or fixed_sample_p(passes(sizes[0], old), passes(sizes[1], new), -drop) >= ALPHA:
            continue
        if new / sizes[1] - old / sizes[0] < -drop:
            lower += chance
        else:
            higher += chance
    return lower, higher


@pytest.mark.parametrize("drop", [0.0, 0.05])
@pytest.mark.parametrize("sizes", [(10, 10), (30, 30), (100, 100), (100, 10), (10, 100), (300, 30)])
def test_one_look_at_scores_of_0_and_1_is_wrong_at_most_as_often_as_asked(sizes: tuple[int, int], drop: float):
    for mean in (0.5, 0.8, 0.9, 0.95, 0.99):
        lower, higher = exact_errors(sizes, mean, drop)
        # Counts jump: no test without randomisation meets 5 % at every mean, least of all with ten observations.
        most = 0.075 if sizes == (10, 10) else 0.06
        assert lower + higher <= most, (mean, lower, higher)
        assert max(lower, higher) <= 0.042, (mean, lower, higher)


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize(("sizes", "repetitions"), [((10, 30), 1000), ((100, 100), 300), ((1000, 1000), 100)])
def test_one_look_at_any_scores_is_wrong_at_most_as_often_as_asked(
    draw: Draw, sizes: tuple[int, int], repetitions: int
):
    random = seeded(7)
    for mean, other in ((0.95, 0.95), (0.9, 0.8)):
        wrong = 0
        for _ in range(repetitions):
            first = sample([draw(random, mean) for _ in range(sizes[0])])
            second = sample([draw(random, other) for _ in range(sizes[1])])
            wrong += fixed_sample_p(first, second, other - mean) < ALPHA
        # Three standard errors above the level.
        assert wrong <= repetitions * ALPHA + 3 * (repetitions * ALPHA * (1 - ALPHA)) ** 0.5


def growing(random: Random, draw: Draw, means: tuple[float, float], most: int) -> Iterator[tuple[Sample, Sample]]:
    """Yield both samples after every observation; whose turn it is depends on what was seen, as it may."""
    values: tuple[list[float], list[float]] = ([], [])
    counts, sums, squares = [0, 0], [0.0, 0.0], [0.0, 0.0]
    for number in range(most):
        # A release that does well gets more traffic.
        leads = counts[0] > 0 and counts[1] > 0 and sums[1] / counts[1] > sums[0] / counts[0]
        turn = number % 2 if number < 4 else int(random.random() < (0.7 if leads else 0.3))
        value = draw(random, means[turn])
        values[turn].append(value)
        counts[turn] += 1
        sums[turn] += value
        squares[turn] += value * value
        yield (Sample(counts[0], sums[0], squares[0]), Sample(counts[1], sums[1], squares[1]))


def ever_rejected(p_value: PValue, draw: Draw, means: tuple[float, float], *, repetitions: int, most: int) -> float:
    """The share of repetitions in which the true difference is rejected at some look: one after every conversation."""
    random = seeded(11)
    difference = means[1] - means[0]
    rejected = sum(
        any(p_value(first, second, difference) < ALPHA for first, second in growing(random, draw, means, most))
        for _ in range(repetitions)
    )
    return rejected / repetitions


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("mean", [0.7, 0.95])
def test_looking_after_every_conversation_is_wrong_at_most_as_often_as_asked(draw: Draw, mean: float):
    assert ever_rejected(always_valid_p, draw, (mean, mean), repetitions=100, most=400) <= ALPHA


@each_row(("means", "most"), [((0.95, 0.85), 700), ((1.0, 0.9), 300), ((0.8, 0.6), 600)])
def test_a_drop_is_found_while_looking(means: tuple[float, float], most: int):
    random = seeded(3)
    found = 0
    for _ in range(20):
        for first, second in growing(random, zero_or_one, means, 2 * most):
            if always_valid_p(first, second, 0.0) < ALPHA:
                found += second.mean < first.mean
                break
    assert found >= 18


@pytest.mark.parametrize("p_value", [fixed_sample_p, always_valid_p])
def test_an_interval_holds_the_difference_seen_and_ends_where_the_test_rejects(p_value: PValue):
    random = seeded(5)
    for _ in range(40):
        first, second = (sample([mostly_one(random, 0.9) for _ in range(random.randint(1, 200))]) for _ in range(2))
        low, high = interval(p_value, first, second, ALPHA)
        assert -1 <= low <= second.mean - first.mean <= high <= 1
        for end, outwards in ((low, -0.01), (high, 0.01)):
            if abs(end) < 0.99:
                assert p_value(first, second, end + outwards) < ALPHA <= p_value(first, second, end - outwards)


@pytest.mark.parametrize("p_value", [fixed_sample_p, always_valid_p])
def test_without_an_observation_nothing_is_known(p_value: PValue):
    nothing = passes(0, 0)
    for first, second in ((nothing, passes(5, 5)), (passes(5, 5), nothing), (nothing, nothing)):
        assert p_value(first, second, 0.0) == 1.0
        assert interval(p_value, first, second, ALPHA) == (-1.0, 1.0)
