"""`toolgauge learn` as people use it: recordings in, a criteria file out that runs as it is."""

import json
import re
from itertools import chain, count, islice
from pathlib import Path

import pytest

from tests.cli.command import run
from tests.recordings.recordings import framed
from toolgauge.demo.sample_sender import Release, drawn, recordings

CORPUS = Path(__file__).parents[1] / "corpus"


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record runs of three frameworks, each as often as chance has it."""
    frameworks = ("openinference-langgraph", "pydantic-ai", "google-adk")
    recorded = [found for found in recordings() if found.framework in frameworks]
    times = count(1_800_000_000_000_000_000, 60_000_000_000)
    bodies = islice(drawn(recorded, Release(version="1.0", failures=0.0), seed=1, clock=lambda: next(times)), 200)
    file = tmp_path_factory.mktemp("three") / "three.otlp"
    file.write_bytes(b"".join(map(framed, bodies)))
    return file


@pytest.fixture(scope="module")
def learned(three: Path) -> Path:
    ended = run("learn", str(three), "-o", str(three.parent / "envelope.yaml"))
    assert ended.code == 0, ended.err
    assert "wrote contracts of " in ended.err
    return three.parent / "envelope.yaml"


def test_what_was_learned_runs_in_a_replay_and_nothing_fails(three: Path, learned: Path):
    ended = run(
        "check",
        "--fail-on",
        "nothing",
        "--json",
        "--set",
        "defaults.enabled=false",
        "--criteria",
        str(learned),
        str(three),
    )
    assert ended.code == 0, ended.err
    results = [json.loads(line) for line in ended.out.splitlines()]
    assert {result["explanation"] for result in results if result["outcome"] == "fail"} == set()
    assert "learned.shop-assistant.budget" in {result["criterion"] for result in results if result["outcome"] == "pass"}


def test_the_same_recording_gives_the_same_bytes(three: Path, learned: Path):
    assert run("learn", str(three)).out == learned.read_text()


def test_no_argument_or_result_of_the_recording_is_in_the_file(learned: Path):
    text = learned.read_text()
    assert not [value for value in ("@example", "Oslo", "Berlin", "A-1001", "ORD", "Ada") if value in text]


def test_runs_that_passed_can_be_chosen_by_labels(three: Path, tmp_path: Path):
    inspected = [json.loads(line) for line in run("check", "--calls", "--json", str(three)).out.splitlines()]
    labels = tmp_path / "labels.csv"
    rows = [f"{one['trace_id']},{'passed' if place % 2 else 'failed'}" for place, one in enumerate(inspected)]
    labels.write_text("\n".join(("trace_id,verdict", *rows)))
    ended = run("learn", "--labels", str(labels), str(three))
    assert ended.code == 0, ended.err
    total = sum(int(count) for count in re.findall(r": (\d+) runs, ", ended.err))
    assert total == len(inspected) // 2


def test_mixed_versions_are_named(tmp_path: Path):
    times = count(1_800_000_000_000_000_000, 60_000_000_000)
    recorded = [found for found in recordings() if found.framework == "google-adk"]
    releases = [Release(version=version, failures=0.0) for version in ("1.0", "1.1")]
    bodies = chain.from_iterable(
        islice(drawn(recorded, release, seed=1, clock=lambda: next(times)), 30) for release in releases
    )
    file = tmp_path / "mixed.otlp"
    file.write_bytes(b"".join(map(framed, bodies)))
    ended = run("learn", str(file))
    assert ended.code == 0
    assert "2 versions are mixed: `--only service.version=...` learns from one" in ended.err
    assert "versions: 1.0 (30 runs), 1.1 (30 runs)" in ended.out
