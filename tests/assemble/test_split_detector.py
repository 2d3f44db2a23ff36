"""A split is suspected from a share of trajectories with signs of it, and reported when that begins."""

from toolgauge.assemble.misrouting import SplitDetector

HOUR = 3_600_000_000_000


def seen(detector: SplitDetector, *, whole: int = 0, split: int = 0, now_ns: int = 0) -> int:
    """Show it so many; return how often it wants to report."""
    signs = [False] * whole + [True] * split
    return sum([detector.add(now_ns, has_sign=sign) for sign in signs])


def test_a_share_of_signs_is_suspicious():
    detector = SplitDetector()
    assert seen(detector, whole=45, split=5) == 1
    assert detector.split_suspected
    assert detector.share == 0.1


def test_a_few_are_not():
    detector = SplitDetector()
    assert seen(detector, whole=5, split=4) == 0
    assert not detector.split_suspected


def test_requests_that_were_lost_now_and_then_are_not():
    detector = SplitDetector()
    for _ in range(10):
        assert seen(detector, whole=95, split=5) == 0


def test_a_suspicion_ends_with_the_signs():
    detector = SplitDetector()
    seen(detector, split=50)
    seen(detector, whole=90)
    assert detector.split_suspected
    seen(detector, whole=1)
    assert not detector.split_suspected


def test_it_is_reported_again_after_an_hour():
    detector = SplitDetector()
    assert seen(detector, split=50) == 1
    assert seen(detector, whole=100, split=50, now_ns=HOUR - 1) == 0
    assert seen(detector, whole=100, split=50, now_ns=HOUR) == 1
