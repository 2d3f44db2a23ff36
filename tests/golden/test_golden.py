"""Originals score what their published packages score, on every case of the golden files."""

import pytest

from tests.golden.goldens import Golden, differences
from toolgauge import plugins
from toolgauge.cases.run import Cases

_CASES = Cases()


def test_the_original_is_reproduced(golden: Golden):
    if golden.case.evaluator not in plugins.names(plugins.EVALUATORS):
        pytest.skip("not written yet")
    assert differences(golden, _CASES.score(golden.case)) == []
