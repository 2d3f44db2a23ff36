"""A loop or a split is suspected from a high share of repeated spans or of signs, and only from that."""

from tests.rows import each_row
from toolgauge.assemble.misrouting import LoopDetector, SplitDetector
from toolgauge.model.records import SpanRef

# -- loops

MINUTE = 60_000_000_000


def refs(count: int, offset: int = 0) -> list[SpanRef]:
    return [SpanRef("a" * 32, f"{number:016x}") for number in range(offset, offset + count)]


def suspected(*groups: tuple[list[SpanRef], int]) -> bool:
    seen = LoopDetector()
    newest = 0
    for group, now_ns in groups:
        newest = now_ns
        for ref in group:
            seen.add(ref, now_ns)
    seen.turn_over_if_due(newest + MINUTE)
    return seen.loop_suspected


@each_row(
    ("spans", "repeated", "at_ns", "is_suspected"),
    [
        (200, 200, MINUTE + 1, True),
        # The next minute.
        (200, 200, 2 * MINUTE + 1, True),
        # A request that was sent again.
        (2000, 500, MINUTE + 1, False),
        # Beyond the memory.
        (100_000, 100_000, MINUTE + 1, True),
        (20, 20, MINUTE + 1, False),
    ],
)
def test_a_loop_is_suspected_where_a_large_share_comes_twice(
    spans: int, repeated: int, at_ns: int, *, is_suspected: bool
):
    assert suspected((refs(spans), MINUTE), (refs(repeated), at_ns)) is is_suspected


def test_a_suspicion_ends_with_the_repetition():
    seen = LoopDetector()
    for ref in refs(200) * 2:
        seen.add(ref, MINUTE)
    seen.turn_over_if_due(2 * MINUTE)
    assert seen.loop_suspected
    seen.turn_over_if_due(3 * MINUTE)
    assert not seen.loop_suspected


# -- splits

HOUR = 3_600_000_000_000


def reports(detector: SplitDetector, *, whole: int = 0, split: int = 0, now_ns: int = 0) -> int:
    """Show it so many; return how often it wants to report."""
    signs = [False] * whole + [True] * split
    return sum([detector.add(now_ns, has_sign=sign) for sign in signs])


def test_a_share_of_signs_is_suspicious():
    detector = SplitDetector()
    assert reports(detector, whole=45, split=5) == 1
    assert detector.split_suspected
    assert detector.share == 0.1


def test_a_few_are_not():
    detector = SplitDetector()
    assert reports(detector, whole=5, split=4) == 0
    assert not detector.split_suspected


def test_requests_that_were_lost_now_and_then_are_not():
    detector = SplitDetector()
    for _ in range(10):
        assert reports(detector, whole=95, split=5) == 0


def test_a_suspicion_ends_with_the_signs():
    detector = SplitDetector()
    reports(detector, split=50)
    reports(detector, whole=90)
    assert detector.split_suspected
    reports(detector, whole=1)
    assert not detector.split_suspected


def test_it_is_reported_again_after_an_hour():
    detector = SplitDetector()
    assert reports(detector, split=50) == 1
    assert reports(detector, whole=100, split=50, now_ns=HOUR - 1) == 0
    assert reports(detector, whole=100, split=50, now_ns=HOUR) == 1
