"""A worse model in recorded conversations: tau2-bench, airline, gpt-4.1 and then qwen2.5-7b, by `default.tool_success`.

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


@pytest.fixture(scope="module")
def good() -> list[float]:
    return scores("tau2-airline-gpt-4.1.otlp.xz")


@pytest.fixture(scope="module")
def worse() -> list[float]:
    return scores("tau2-airline-qwen2.5-7b.otlp.xz")


def scores(name: str) -> list[float]:
    """The mean of each conversation that has scores, in recorded order."""
    command = [sys.executable, "-m", "toolgauge", "replay", str(Path(RECORDINGS or "") / name), "--json"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    conversations: dict[str, list[float]] = defaultdict(list)
    for result in map(json.loads, printed.splitlines()):
        if (
            result.get("criterion") == "default.tool_success"
            and result["level"] == "call"
            and result["value"] is not None
        ):
            conversations[result["conversation_id"] or result["trace_id"]].append(result["value"])
    return [mean(values) for values in conversations.values()]


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
