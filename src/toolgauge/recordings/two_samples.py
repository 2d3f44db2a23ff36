"""Compares the means of two samples of scores in [0, 1], of any distribution.

`fixed_sample_p` is for one look, `always_valid_p` for many early ones. An interval holds all differences not rejected.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, erfc, exp, inf, lgamma, log, sqrt
from typing import TypeAlias

# The p-value of "the mean of the second sample is the first one's plus the difference".
PValue: TypeAlias = Callable[["Sample", "Sample", float], float]

_STEPS = 40
_ROUNDING = 1e-12
# The prior of the mixture: most of it where the scores of working agents lie. Beta(1/2, 1/2) asks for a fifth more observations
# to find a drop from 0.95 to 0.85 (326 of each, not 270); with more mass still, low means take long.
_A, _B = 2.0, 0.5
# Draws the dispersion towards 1: a sample without a failure does not show how bad failures are.
_PRIOR_SPREAD = 2.0


@dataclass(frozen=True, slots=True)
class Sample:
    """Observations in [0, 1]: their number, sum and sum of squares."""

    count: int
    sum: float
    sum_of_squares: float

    @property
    def mean(self) -> float:
        """The mean; 0 without observations."""
        return min(self.sum / self.count, 1.0) if self.count else 0.0

    @property
    def dispersion(self) -> float:
        """The variance as a share of mean (1 - mean), which is the variance of scores that are 0 or 1 and the largest there is."""
        if self.count < 2:
            return 1.0
        largest = self.count * self.mean * (1 - self.mean)
        squares = max(0.0, self.sum_of_squares - self.count * self.mean**2) * self.count / (self.count - 1)
        return min(1.0, (squares + _PRIOR_SPREAD) / (largest + _PRIOR_SPREAD))

    def repeated(self, times: float) -> "Sample":
        """Return a sample `times` as large with the same mean and spread."""
        count = ceil(self.count * times)
        share = count / self.count if self.count else 0.0
        return Sample(count, self.sum * share, self.sum_of_squares * share)


def fixed_sample_p(first: Sample, second: Sample, difference: float) -> float:
    """Return the p-value for samples that are looked at once: the larger one of two tests by quasi-likelihood.

    Miettinen and Nurminen's score test is too bold for a chance failure, the likelihood ratio for a sample without any.
    """
    gap = second.mean - first.mean - difference
    if not first.count or not second.count or abs(gap) < _ROUNDING:
        return 1.0
    phi, psi = first.dispersion, second.dispersion
    mean, other = _nearest_means(first, second, first.count / phi, second.count / psi, difference)
    total = first.count + second.count
    variance = (phi * mean * (1 - mean) / first.count + psi * other * (1 - other) / second.count) * total / (total - 1)
    score = abs(gap) / sqrt(variance) if variance > 0 else inf
    deviance = 2 * first.count / phi * _divergence(first.mean, mean)
    deviance += 2 * second.count / psi * _divergence(second.mean, other)
    return erfc(min(score, sqrt(max(deviance, 0.0))) / sqrt(2))


def always_valid_p(first: Sample, second: Sample, difference: float) -> float:
    """Return a p-value that may be looked at after every observation of either sample.

    For scores in [0, 1] with mean m, (p/m)^x ((1-p)/(1-m))^(1-x) is convex in x with an expectation of at most 1. Its
    products, mixed over p, are a supermartingale that starts at 1: the chance to ever exceed 1/alpha is at most alpha.
    """
    if not first.count or not second.count:
        return 1.0
    mean, other = _nearest_means(first, second, first.count, second.count, difference)
    return min(1.0, exp(-max(0.0, _log_mixture(first, mean) + _log_mixture(second, other))))


def interval(p_value: PValue, first: Sample, second: Sample, alpha: float) -> tuple[float, float]:
    """Return the differences of the means (second minus first) that are not rejected at the level `alpha`."""
    seen = second.mean - first.mean
    return (_last_kept(p_value, first, second, alpha, seen, -1.0), _last_kept(p_value, first, second, alpha, seen, 1.0))


def _last_kept(p_value: PValue, first: Sample, second: Sample, alpha: float, kept: float, rejected: float) -> float:
    if p_value(first, second, rejected) >= alpha:
        return rejected
    for _ in range(_STEPS):
        middle = (kept + rejected) / 2
        if p_value(first, second, middle) >= alpha:
            kept = middle
        else:
            rejected = middle
    return rejected


def _nearest_means(
    first: Sample, second: Sample, weight: float, other_weight: float, difference: float
) -> tuple[float, float]:
    """Return the likeliest means with this difference; the weights are numbers of observations."""
    if not difference:
        mean = (weight * first.mean + other_weight * second.mean) / (weight + other_weight)
        return mean, mean
    low, high = max(0.0, -difference), min(1.0, 1 - difference)
    for _ in range(_STEPS):
        mean = (low + high) / 2
        other = mean + difference
        # The slope of the log likelihood, without its denominators.
        slope = weight * (first.mean - mean) * other * (1 - other)
        slope += other_weight * (second.mean - other) * mean * (1 - mean)
        if slope > 0:
            low = mean
        else:
            high = mean
    mean = (low + high) / 2
    return mean, min(max(mean + difference, 0.0), 1.0)


def _divergence(seen: float, assumed: float) -> float:
    """Return the Kullback-Leibler divergence of two means of scores of 0 and 1."""
    return _weighted_log(seen, seen, assumed) + _weighted_log(1 - seen, 1 - seen, 1 - assumed)


def _weighted_log(weight: float, above: float, below: float) -> float:
    if weight <= _ROUNDING:
        return 0.0
    return weight * log(above / below) if below > 0 else inf


def _log_mixture(sample: Sample, mean: float) -> float:
    """Return the log of the likelihood ratio against `mean`, mixed over all means by Beta(a, b)."""
    passed = min(sample.sum, sample.count)
    failed = sample.count - passed
    against = _weighted_log(passed, 1.0, mean) + _weighted_log(failed, 1.0, 1 - mean)
    return _log_beta(_A + passed, _B + failed) - _log_beta(_A, _B) + against


def _log_beta(a: float, b: float) -> float:
    return lgamma(a) + lgamma(b) - lgamma(a + b)
