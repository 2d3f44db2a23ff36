"""Originals score what their published packages score, on every case of the golden files."""

from tests.golden.goldens import Golden, differences
from toolgauge.cases.scoring import Cases

_CASES = Cases()


def test_the_original_is_reproduced(golden: Golden):
    assert differences(golden, _CASES.score(golden.case)) == []
