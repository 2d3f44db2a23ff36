import math
from random import Random
from typing import TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st

from toolgauge.watch.detector import ODDS, Bets, Detector, interval

fractions = st.floats(0, 1)
scores = st.sampled_from([0.0, 1.0]) | fractions
# Sum and number of the scores of one observation, by stratum.
Parts: TypeAlias = dict[str, tuple[float, int]]
observations = st.dictionaries(st.sampled_from(["", "a", "b", "c"]), scores.map(lambda score: (score, 1)), min_size=1)
detectors = st.builds(Detector, st.sampled_from([2.0, 50.0, 10_000.0]), st.integers(1, 10), st.sampled_from(["guarded", "conservative"]))  # fmt: skip


@given(fractions, fractions, fractions, st.floats(1e-4, 1))
def test_a_bet_gains_nothing_on_average_unless_the_mean_is_lower(low: float, high: float, share: float, part: float):
    """On a score which has two values and a mean that is the baseline or higher."""
    baseline = (share * low + (1 - share) * high) * part
    gains = [0.0] * len(ODDS)
    for score, chance in ((low, share), (high, 1 - share)):
        bets = Bets()
        bets.bet(1, 1 - score, 1 - baseline, score, baseline)
        gains = [gain + chance * stake for gain, stake in zip(gains, bets.stakes, strict=True)]
    assert max(gains) <= 1 + 1e-12


@settings(max_examples=50)
@given(detectors, st.lists(observations, max_size=60), st.integers(0, 2**32), st.integers(0, 60))
def test_a_restart_at_any_call_changes_nothing(detector: Detector, some: list[Parts], seed: int, at: int):
    random = Random(seed)  # noqa: S311 repeatable
    after: list[Parts] = [{"": (float(random.random() < 0.3), 1)} for _ in range(60)]
    resumed = detector
    for number, call in enumerate(some + after):
        if number == at:
            resumed = Detector.load(detector.dump())
        alarm = detector.observe(call)
        if number >= at:
            assert resumed.observe(call) == alarm
            assert resumed.dump() == detector.dump()


@settings(max_examples=50)
@given(detectors, st.lists(observations, max_size=150))
def test_what_it_shows_is_always_within_its_bounds(detector: Detector, some: list[Parts]):
    for call in some:
        was_alarm = detector.state == "alarm"
        raised = detector.observe(call)
        assert not (raised and was_alarm)
        assert not raised or detector.state == "alarm"
        low, high = detector.interval
        rounding = 1e-9
        assert -rounding <= low <= detector.current + rounding
        assert detector.current - rounding <= high <= 1 + rounding
        assert 0 <= detector.evidence <= 1
        assert 0 <= detector.baseline <= 1 + rounding
        assert detector.observations >= 0
        assert detector.since_onset >= 0


@given(st.floats(0, 1), st.integers(1, 10_000))
def test_an_interval_holds_its_mean(mean: float, count: int):
    low, high = interval(mean, count)
    assert 0 <= low <= mean <= high <= 1
    assert not math.isnan(low + high)
