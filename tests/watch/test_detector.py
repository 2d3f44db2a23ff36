"""One stream: what an observation is, when an alarm is raised, when it ends, and what outlives a restart."""

from random import Random

import pytest

from toolgauge.watch.detector import Detector


def coins(seed: int, mean: float, count: int) -> list[float]:
    random = Random(seed)  # noqa: S311 repeatable
    return [float(random.random() < mean) for _ in range(count)]


def learned(mean: float = 0.95, count: int = 500, seed: int = 1, arl: float = 10_000) -> Detector:
    detector = Detector(arl, 200)
    assert not any(detector.update(score) for score in coins(seed, mean, count))
    return detector


def first_alarm(detector: Detector, scores: list[float]) -> int:
    return next(number for number, score in enumerate(scores, 1) if detector.update(score))


def test_a_drop_raises_one_alarm_and_names_its_size():
    detector = learned()
    needed = first_alarm(detector, coins(2, 0.7, 500))
    assert needed < 60
    assert detector.state == "alarm"
    assert detector.evidence == 1
    assert detector.baseline == pytest.approx(0.95, abs=0.03)
    assert detector.current < 0.85
    assert abs(detector.since_onset - needed) <= 100
    low, high = detector.interval
    assert 0 <= low < detector.current < high < detector.baseline
    assert not any(detector.update(0) for _ in range(100))


def test_an_alarm_ends_when_the_mean_is_back():
    detector = learned()
    first_alarm(detector, coins(2, 0.5, 500))
    before = detector.observations
    for score in coins(3, 0.95, 300):
        assert not detector.update(score)
    assert detector.state == "recovered"
    assert detector.observations >= before
    assert detector.baseline == pytest.approx(0.95, abs=0.03)
    first_alarm(detector, coins(4, 0.5, 500))
    assert detector.state == "alarm"


def test_a_reset_learns_the_present_as_normal():
    detector = learned()
    first_alarm(detector, coins(2, 0.5, 500))
    detector.reset()
    assert (detector.state, detector.observations, detector.since_onset, detector.evidence) == ("learning", 0, 0, 0)
    assert not any(detector.update(score) for score in coins(3, 0.5, 2000))
    assert detector.baseline == pytest.approx(0.5, abs=0.05)


def test_a_change_of_the_mix_of_strata_raises_no_alarm():
    detector = Detector(10_000, 100)
    random = Random(6)  # noqa: S311 repeatable
    for share in (0.9, 0.1) * 5:
        for _ in range(300):
            tool, mean = ("good", 0.98) if random.random() < share else ("bad", 0.6)
            assert not detector.update(float(random.random() < mean), tool)


def test_a_stratum_that_appears_late_raises_no_alarm_and_is_watched_later():
    detector = learned(0.99, 2000, seed=3)
    random = Random(7)  # noqa: S311 repeatable
    for _ in range(300):
        assert not detector.update(float(random.random() < 0.7), "late")
    assert any(detector.update(0, "late") for _ in range(40))


def test_a_restart_changes_nothing():
    random = Random(8)  # noqa: S311 repeatable
    detector = Detector(1000, 20)
    for number in range(1000):
        mean = 0.9 if number < 400 or number > 800 else 0.5
        parts = {stratum: (float(random.random() < mean), 1) for stratum in random.choice(("x", "y", "xy"))}
        resumed = Detector.load(detector.dump())
        assert resumed.observe(parts) == detector.observe(parts)
        assert resumed.dump() == detector.dump()
        assert (resumed.state, resumed.interval) == (detector.state, detector.interval)


def test_a_new_run_length_holds_for_new_observations_alone():
    def until_alarm(changed: float) -> int:
        detector = learned(arl=1_000_000)
        while detector.evidence < 0.7:
            assert not detector.update(0)
        detector.arl = changed
        return next(number for number in range(1, 100) if detector.update(0))

    assert 1 < until_alarm(1000) <= until_alarm(1_000_000) == until_alarm(1e12)


def test_an_alarm_lasts_while_the_mean_stays_down():
    detector = learned()
    first_alarm(detector, coins(3, 0.7, 500))
    for score in coins(12, 0.7, 3000):
        detector.update(score)
        assert detector.state == "alarm"
