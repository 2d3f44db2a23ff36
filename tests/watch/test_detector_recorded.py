"""A worse model in recorded conversations: tau2-bench, airline, gpt-4.1 and then qwen2.5-7b.

By the default criterion `default.tool_success`, and by criteria that count and that ignore failures which were made good.

The recordings are not in this repository. Name the folder of `tau2-airline-gpt-4.1.otlp.xz` and `tau2-airline-qwen2.5-7b.otlp.xz`:

    TOOLGAUGE_RECORDINGS=.../genai pytest tests/watch/test_detector_recorded.py
"""

import json
import os
import subprocess
import sys
from collections import defaultdict
from itertools import cycle, islice
from pathlib import Path
from random import Random
from statistics import mean

import pytest

from toolgauge.watch.detector import Detector

RECORDINGS = os.environ.get("TOOLGAUGE_RECORDINGS")

pytestmark = pytest.mark.skipif(RECORDINGS is None, reason="TOOLGAUGE_RECORDINGS names no folder of recordings")


CRITERIA = """
criteria:
  - {name: counted, evaluator: tool_success, retries: count}
  - {name: ignored, evaluator: tool_success, retries: ignore}
  - {name: ignored-in-conversations, evaluator: tool_success, retries: ignore, scope: conversation}
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, list[float]]]:
    file = tmp_path_factory.mktemp("criteria") / "criteria.yaml"
    file.write_text(CRITERIA)
    return {model: scores(f"tau2-airline-{model}.otlp.xz", file) for model in ("gpt-4.1", "qwen2.5-7b")}


@pytest.fixture(params=["default.tool_success", "counted", "ignored", "ignored-in-conversations"])
def criterion(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def good(recorded: dict[str, dict[str, list[float]]], criterion: str) -> list[float]:
    return recorded["gpt-4.1"][criterion]


@pytest.fixture
def worse(recorded: dict[str, dict[str, list[float]]], criterion: str) -> list[float]:
    return recorded["qwen2.5-7b"][criterion]


def scores(name: str, criteria: Path) -> dict[str, list[float]]:
    """By criterion, the mean of each conversation that has scores, in recorded order."""
    file = str(Path(RECORDINGS or "") / name)
    command = [
        sys.executable,
        "-m",
        "toolgauge",
        "check",
        "--fail-on",
        "nothing",
        "--criteria",
        str(criteria),
        file,
        "--json",
    ]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for result in map(json.loads, printed.splitlines()):
        if result["level"] == "call" and result["value"] is not None:
            values[result["criterion"]][result["conversation_id"] or result["trace_id"]].append(result["value"])
    return {criterion: [mean(scored) for scored in by_run.values()] for criterion, by_run in values.items()}


def test_a_worse_model_raises_an_alarm_with_its_onset_in_place(good: list[float], worse: list[float]):
    detector, random = Detector(10_000, 200), Random(1)  # noqa: S311 repeatable
    assert not any(detector.update(random.choice(good)) for _ in range(300))
    needed = next(number for number, score in enumerate(islice(cycle(worse), 300), 1) if detector.update(score))
    assert abs(detector.since_onset - needed) <= 20


def test_twenty_streams_of_one_model_raise_at_most_one_alarm(good: list[float]):
    alarms = 0
    for seed in range(20):
        detector, random = Detector(10_000, 200), Random(seed)  # noqa: S311 repeatable
        alarms += any(detector.update(random.choice(good)) for _ in range(300))
    assert alarms <= 1
