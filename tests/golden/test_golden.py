"""Originals score what their published packages score, on every case of the golden files."""

from pathlib import Path

from tests.golden.goldens import differences, read_file
from toolgauge.cases.scoring import Cases

_CASES = Cases()


def test_the_original_is_reproduced(golden_file: Path):
    found = {golden.case.name: differences(golden, _CASES.score(golden.case)) for golden in read_file(golden_file)}
    assert found
    assert {name: differing for name, differing in found.items() if differing} == {}
