"""What the default criteria find of errors that people labelled: no fewer of them, and no more wrongly, than aimed at.

The labelled runs are not in this repository. Name a folder as `python -m tools.bench.labels` reads it:

    TOOLGAUGE_LABELS=... pytest tests/walk/test_labelled_runs.py
"""

import os
from pathlib import Path

import pytest

from toolgauge.authoring.firings import Share
from tools.bench.labels.comparison import Comparison, Comparisons, verdicts
from tools.bench.labels.labelled_runs import read_sets

LABELS = os.environ.get("TOOLGAUGE_LABELS")
GAIA, SWE, CHATS = "trail-gaia", "trail-swe", "agentrx-tau"

pytestmark = pytest.mark.skipif(LABELS is None, reason="TOOLGAUGE_LABELS names no folder of labelled runs")


def compared(*overrides: str) -> Comparisons:
    folder = Path(LABELS or "")
    sets = read_sets(folder)
    return {name: Comparison(sets[name], verdicts(folder / f"{name}.jsonl.xz", overrides)) for name in sets}


@pytest.fixture(scope="module")
def default() -> Comparisons:
    return compared()


def share(found: Share) -> float:
    return 0.0 if found.value is None else found.value


def test_most_broken_calls_are_found(default: Comparisons):
    assert share(default[GAIA].recall()) >= 0.80


def test_more_broken_calls_are_found_where_retries_count():
    assert share(compared("defaults.tool_success.retries=count")[GAIA].recall()) >= 0.90


def test_failed_steps_are_nearly_all_marked_or_repeats(default: Comparisons):
    steps = default[GAIA].failed_steps(among=default[GAIA].tool_steps)
    assert share(steps.precision) >= 0.70
    assert share(steps.precision_with_repeats) >= 0.90


@pytest.mark.parametrize(("name", "most"), [(GAIA, 1), (SWE, 0)])
def test_hardly_a_step_fails_without_other_evidence(default: Comparisons, name: str, most: int):
    assert default[name].failed_steps(among=default[name].tool_steps).wrong <= most


@pytest.mark.parametrize("name", [GAIA, SWE, CHATS])
def test_no_tool_on_offer_counts_as_invented(default: Comparisons, name: str):
    assert default[name].failed_steps("known_tool").wrong == 0


def test_arguments_are_compared_with_a_schema_in_most_calls(default: Comparisons):
    assert share(default[GAIA].coverage("arguments_schema")) >= 0.90


def test_every_invalid_invocation_in_a_chat_is_found(default: Comparisons):
    assert share(default[CHATS].found_of(["Invalid Invocation"])) == 1.0


def test_at_most_one_passed_chat_is_flagged(default: Comparisons):
    assert default[CHATS].flagged_runs(passed=True).count <= 1
