"""A running toolgauge learns from what it scores, for `toolgauge learn --live`."""

import itertools
import json
import re
import signal
from pathlib import Path

import pytest

from tests.cli.command import run
from tests.offline.compare.recordings import framed
from tests.wire.support import Process, Toolgauge, a_minute_ago, free_port, serving, toolgauge_command, until
from toolgauge.demo.drawing import Release, drawn, recordings

SHOP = [each for each in recordings() if (each.framework, each.scenario) == ("openinference-langgraph", "sequence")]
RUNS = 40


def bodies() -> list[bytes]:
    release = Release(version="1.0", failures=0)
    return list(itertools.islice(drawn(SHOP, release, seed=1, clock=a_minute_ago), RUNS))


def scored(toolgauge: Toolgauge) -> float:
    return toolgauge.total("toolgauge_trajectories_total")


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, str, str]:
    """Send runs while one client learns and another one would like to; the first is interrupted then."""
    folder = tmp_path_factory.mktemp("learned")
    file, recording, port = folder / "envelope.yaml", folder / "runs.otlp", free_port()
    recording.write_bytes(b"".join(map(framed, bodies())))
    admin = f"http://127.0.0.1:{port}"
    command = toolgauge_command("learn", "--live", "1h", "--admin", admin, "-o", str(file))
    with serving(folder, f"admin.endpoint=127.0.0.1:{port}") as toolgauge:
        client = Process(command, folder / "learn.log")
        try:
            until(lambda: "learning for 1h" in client.said(), "learning to begin")
            for body in bodies():
                toolgauge.send(body, "http")
            until(lambda: scored(toolgauge) >= RUNS, "all runs to be scored")
            second = run("learn", "--live", "1h", "--admin", admin)
            client.signal(signal.SIGINT)
            assert client.ended() == 0, client.said()
        finally:
            client.close()
        third = run("learn", "--live", "1s", "--admin", admin)
    assert second.code == 1
    assert second.err == f"error: `{admin}` refuses: another client learns at the moment\n"
    return file, recording, client.said(), third.err


def test_what_was_learned_live_runs_in_a_replay_and_no_usual_run_fails(learned: tuple[Path, Path, str, str]):
    file, recording, said, _ = learned
    assert re.search(rf"shop-assistant: {RUNS} runs, \d+ calls, \d criteria\n", said), said
    ended = run("replay", "--json", "--set", "defaults.enabled=false", "--criteria", str(file), str(recording))
    assert ended.code == 0, ended.err
    results = [json.loads(line) for line in ended.out.splitlines()]
    assert "learned.shop-assistant.arguments" in {result["criterion"] for result in results}
    assert {result["outcome"] for result in results} <= {"pass", "not_evaluated"}


def test_file_names_how_long_it_was_learned_from_what(learned: tuple[Path, Path, str, str]):
    text = learned[0].read_text()
    assert "# No criterion of the process looks at messages" not in text
    assert re.search(rf"^# Live traffic: {RUNS} runs in \d+[sm]\.$", text, re.MULTILINE), text[:500]


def test_without_traffic_nothing_is_learned(learned: tuple[Path, Path, str, str]):
    assert "error: there was no tool call in this time (0 runs)\n" in learned[3]
