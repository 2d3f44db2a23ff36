"""Turns results into observations: the mean score of one conversation, or trace without one, by stream and version.

Compares the means of two samples of these scores, in [0, 1], of any distribution: `fixed_sample_p` is for one look, `always_valid_p`
for many early ones. An interval holds all differences not rejected.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, erfc, exp, inf, lgamma, log, sqrt
from typing import TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from toolgauge.model.outcomes import NotEvaluated, Result, Scorecard, Scored
from toolgauge.model.records import ENVIRONMENT
from toolgauge.model.regressions import Arm, Stream
from toolgauge.model.trajectory import Trajectory
from toolgauge.watch.causes import MAX_OBSERVATIONS
from toolgauge.watch.fingerprint import INSTRUCTIONS, TOOL_SCHEMA, fingerprint, joined

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


_T = TypeVar("_T")


class LiveArms(Struct):
    """What a running process has observed, as `/comparison` answers."""

    arms: list[Arm]


SERVICE = "service.name"
NOTHING = Sample(0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class StreamCounts:
    """The observations of one stream under one version, and results without a score: `None` where they are not counted."""

    sample: Sample = NOTHING
    not_evaluated: int | None = 0
    errors: int | None = 0
    # Failed calls that successes of the stream made good, where its criterion counts them.
    recovered: int = 0
    # At most so many conversations, evenly drawn: score and recorded properties.
    runs: tuple[tuple[float, Mapping[str, str]], ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """Streams by version, and when each version of a service was first seen."""

    streams: Mapping[str, Mapping[Stream, StreamCounts]]
    first_seen_ns: Mapping[str | None, Mapping[str, int]]


@dataclass(slots=True)
class _Tally:
    # By conversation: the number of scores and their sum.
    scores: dict[str, tuple[int, float]] = field(default_factory=dict[str, tuple[int, float]])
    not_evaluated: int = 0
    errors: int = 0
    recovered: int = 0

    def add(self, conversation: str, result: Result) -> None:
        match result.outcome:
            case Scored(value=value, parts=parts):
                self.recovered += int(parts.get("recovered_failures", 0))
                count, total = self.scores.get(conversation, (0, 0.0))
                self.scores[conversation] = (count + 1, total + value)
            case NotEvaluated():
                self.not_evaluated += 1
            case _:
                self.errors += 1

    def join(self, other: "_Tally") -> None:
        for conversation, (count, total) in other.scores.items():
            so_far, sum_so_far = self.scores.get(conversation, (0, 0.0))
            self.scores[conversation] = (so_far + count, sum_so_far + total)
        self.not_evaluated += other.not_evaluated
        self.errors += other.errors
        self.recovered += other.recovered

    def counts(self, properties: Mapping[str, Mapping[str, str]]) -> StreamCounts:
        runs = [(total / count, properties[conversation]) for conversation, (count, total) in self.scores.items()]
        sample = Sample(len(runs), sum(mean for mean, _ in runs), sum(mean * mean for mean, _ in runs))
        return StreamCounts(
            sample, self.not_evaluated, self.errors, self.recovered, evenly_drawn(runs, MAX_OBSERVATIONS)
        )


def evenly_drawn(of: Sequence[_T], most: int) -> tuple[_T, ...]:
    """Draw at most so many, the first and then each n-th."""
    return tuple(of[:: max(1, -(-len(of) // most))])


class Observations:
    """Collects the scorecards of recordings."""

    def __init__(self) -> None:
        self._tallies: defaultdict[str, defaultdict[Stream, _Tally]] = defaultdict(lambda: defaultdict(_Tally))
        self._first_seen_ns: defaultdict[str | None, dict[str, int]] = defaultdict(dict)
        # By version and conversation; runs with equal properties share one object.
        self._properties: defaultdict[str, dict[str, Mapping[str, str]]] = defaultdict(dict)
        self._shared: dict[tuple[tuple[str, str], ...], Mapping[str, str]] = {}

    def add(self, scorecard: Scorecard, version: str) -> None:
        """Add the results of one trajectory; criteria that only run in the shadow decide nothing, here as elsewhere."""
        trajectory = scorecard.trajectory
        results = [result for result in scorecard.results if result.enforce == "live"]
        if not results:
            return
        seen = self._first_seen_ns[trajectory.service]
        seen[version] = min(seen.get(version, trajectory.start_ns), trajectory.start_ns)
        conversation = trajectory.conversation_id or trajectory.trace_id
        known = self._properties[version]
        properties = joined(known.get(conversation, {}), fingerprint(trajectory))
        known[conversation] = self._shared.setdefault(tuple(properties.items()), properties)
        for result in results:
            for stream in _streams(trajectory, result):
                self._tallies[version][stream].add(conversation, result)

    def without_shared_values(self, one: str, other: str) -> tuple[str, ...]:
        """Name the attributes, of service and environment, of which both versions have streams but no value in common."""
        streams, others = (tuple(self._tallies.get(version, ())) for version in (one, other))
        services = {stream.service for stream in streams}.isdisjoint([stream.service for stream in others])
        environments = {stream.environment for stream in streams}.isdisjoint([each.environment for each in others])
        apart = ((SERVICE, services), (ENVIRONMENT, environments))
        return tuple(name for name, is_apart in apart if is_apart and streams and others)

    def observed(self, *, without: Iterable[str] = ()) -> Observed:
        """Return the observations; streams that differ in the attributes `without` alone become one."""
        left_out = frozenset(without)
        streams: dict[str, dict[Stream, StreamCounts]] = {}
        for version, tallies in self._tallies.items():
            by_stream: defaultdict[Stream, _Tally] = defaultdict(_Tally)
            for stream, tally in tallies.items():
                environment = None if ENVIRONMENT in left_out else stream.environment
                service = None if SERVICE in left_out else stream.service
                by_stream[replace(stream, environment=environment, service=service)].join(tally)
            properties = self._properties[version]
            streams[version] = {stream: tally.counts(properties) for stream, tally in by_stream.items()}
        if SERVICE not in left_out:
            return Observed(streams=streams, first_seen_ns=self._first_seen_ns)
        seen: dict[str, int] = {}
        for versions in self._first_seen_ns.values():
            for version, first_ns in versions.items():
                seen[version] = min(seen.get(version, first_ns), first_ns)
        return Observed(streams=streams, first_seen_ns={None: seen})


def observed_live(arms: Iterable[Arm]) -> Observed:
    """Read the arms of a running process; those without a version are left out."""
    streams: defaultdict[str, dict[Stream, StreamCounts]] = defaultdict(dict)
    first_seen_ns: defaultdict[str | None, dict[str, int]] = defaultdict(dict)
    for arm in arms:
        if arm.version is None:
            continue
        sample = Sample(arm.observations, arm.sum, arm.sum_of_squares)
        streams[arm.version][arm.stream] = StreamCounts(sample, None, None)
        seen = first_seen_ns[arm.stream.service]
        seen[arm.version] = min(seen.get(arm.version, arm.first_seen_ns), arm.first_seen_ns)
    return Observed(streams=streams, first_seen_ns=first_seen_ns)


_SHORT: Mapping[str, tuple[str, ...]] = {
    "model": ("gen_ai.response.model", "gen_ai.request.model"),
    "prompt": ("gen_ai.prompt.version", INSTRUCTIONS),
}


def grouping(by: str) -> tuple[str, ...]:
    """Return the names that `by` stands for, the first of which with a value groups a run: `model`, `prompt`, `tool:NAME`, or a name itself."""
    kind, _, tool = by.partition(":")
    return (f"{TOOL_SCHEMA} {tool}",) if kind == "tool" and tool else _SHORT.get(by, (by,))


def group(trajectory: Trajectory, by: str) -> str | None:
    """Return the value of the attribute or the recorded property that groups a run; `None` where it has none."""
    recorded = fingerprint(trajectory)
    found = (attribute(trajectory, name) or recorded.get(name) for name in grouping(by))
    return next((value for value in found if value), None)


def attribute(trajectory: Trajectory, name: str) -> str | None:
    """Return an attribute of the trajectory's resource or of its spans; `None` where no producer set it."""
    if name == SERVICE:
        return trajectory.service
    value = trajectory.resource.get(name, trajectory.attributes.get(name))
    return None if value is None else str(value)


def _streams(trajectory: Trajectory, result: Result) -> Iterator[Stream]:
    """Yield the streams of a result: that of its tool, and that of all tools of the agent."""
    call = result.call
    first_agent = trajectory.agents[0] if trajectory.agents else None
    stream = Stream(
        service=trajectory.service,
        environment=trajectory.resource.get(ENVIRONMENT),
        agent=first_agent if call is None else call.agent,
        tool=None,
        criterion=result.criterion,
        revision=result.revision,
        level=result.level,
    )
    yield stream
    if call is not None and result.level == "call":
        yield replace(stream, tool=call.name)
