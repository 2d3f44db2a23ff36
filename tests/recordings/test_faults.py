"""Captures of six frameworks with faults that no span marks: each is red by the criterion that is made for it, the good ones are not.

`tests/producers` made them; `README.md` there names the frameworks.
"""

from functools import cache
from pathlib import Path

import pytest

from toolgauge.config.criteria import DEFAULT_CRITERIA
from toolgauge.model.outcomes import Scored
from toolgauge.recordings.recorded_requests import read, scorecards
from toolgauge.service.criteria_factory import load_for_replay
from toolgauge.service.pipeline_factory import offline_pipeline

FAULTS = Path(__file__).parent / "faults"
PRODUCERS = sorted(one.name for one in FAULTS.iterdir())
FOUND_BY = {
    "paid_twice": "one_effect",
    "told_error": "tool_success",
    "claimed": "honest_answer",
    "invented_id": "grounded_answer",
    "empty_answer": "run_completed",
}


@cache
def failing(producer: str, scenario: str) -> frozenset[str]:
    """Return the default criteria that fail in a capture."""
    config, criteria = load_for_replay((), (), (), {})
    files = [str(path) for path in sorted((FAULTS / producer).glob(f"{scenario}*.otlp.pb"))]
    cards = scorecards(read(files, lambda _: None), offline_pipeline(config, criteria))
    results = [result for card in cards for result in card.results]
    assert results
    return frozenset(
        result.evaluator for result in results if isinstance(result.outcome, Scored) and not result.outcome.passed
    )


@pytest.mark.parametrize("producer", PRODUCERS)
@pytest.mark.parametrize(
    ("scenario", "criterion"),
    [
        pytest.param(
            *found, marks=pytest.mark.xfail(found[1] not in DEFAULT_CRITERIA, reason="not a criterion", strict=True)
        )
        for found in FOUND_BY.items()
    ],
)
def test_a_fault_fails_the_criterion_made_for_it(producer: str, scenario: str, criterion: str):
    assert criterion in failing(producer, scenario)
