"""What the default criteria and F1 find in recorded runs with verdicts: no more false alarms, and no fewer catches, than aimed at.

The recordings are not in this repository. Name their folder, or one in it:

    TOOLGAUGE_RECORDINGS=... pytest tests/walk/test_recorded_runs.py
"""

import os
from pathlib import Path

import pytest

from tools.bench.recorded_runs import recordings_folder
from tools.bench.reference_free import STUDIES, Recordings

RECORDINGS = os.environ.get("TOOLGAUGE_RECORDINGS")

pytestmark = pytest.mark.skipif(RECORDINGS is None, reason="TOOLGAUGE_RECORDINGS names no folder of recordings")


@pytest.fixture(scope="module")
def recordings() -> Recordings:
    return Recordings(recordings_folder(Path(RECORDINGS or "")))


@pytest.mark.parametrize("study", ["grounded", "healthy", "caught", "f1", "dialects", "layouts", "without_content"])
def test_every_figure_of_the_study_meets_its_target(recordings: Recordings, study: str):
    figures = list(STUDIES[study](recordings))
    assert [figure for figure in figures if figure.is_met is False] == []
    assert any(figure.is_met for figure in figures)
