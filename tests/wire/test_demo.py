"""`toolgauge demo` as a process: what a person sees in the first half minute, without keys, network or home."""

import contextlib
import fcntl
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import run
from tests.wire.support import Process, get, toolgauge_command, until

FRAMEWORKS = (
    "google-adk",
    "openinference-crewai",
    "openinference-langgraph",
    "otel-util-genai",
    "pydantic-ai",
    "vercel-ai",
)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> tuple[str, float, Path]:
    """Run it once for all workers of the tests, where nothing of the outside can be reached.

    Return what it printed, the CPU seconds that it took, and its home.
    """
    own = tmp_path_factory.getbasetemp()
    shared = own if worker_id == "master" else own.parent
    home, shown = shared / "demo-home", shared / "demo.json"
    with (shared / "demo.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not shown.exists():
            home.mkdir()
            shown.write_text(json.dumps(ran(home)))
    output, used_s = json.loads(shown.read_text())
    return output, used_s, home


def ran(home: Path) -> tuple[str, float]:
    nowhere = "http://127.0.0.1:9"
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "HTTP_PROXY": nowhere, "HTTPS_PROXY": nowhere, "LC_ALL": "C"}
    env |= {"http_proxy": nowhere, "https_proxy": nowhere, "grpc_proxy": nowhere}
    before_s = used_by_children_s()
    ended = subprocess.run(
        [sys.executable, "-m", "toolgauge", "demo"], capture_output=True, env=env, cwd=home, timeout=300, check=False
    )
    assert ended.returncode == 0, ended.stderr.decode()
    assert ended.stderr == b""
    return ended.stdout.decode(), used_by_children_s() - before_s


def used_by_children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_it_takes_little_of_the_processor_and_ends_by_itself(demo: tuple[str, float, Path]):
    assert demo[1] < 15


def test_it_prints_the_results_of_the_readme(demo: tuple[str, float, Path]):
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    shown = readme.partition("Two lines of the demo's result")[2].split("```")[1].strip("\n").splitlines()
    assert len(shown) == 2
    assert [line for line in shown if line not in demo[0].splitlines()] == []


def test_it_leaves_nothing_on_disk(demo: tuple[str, float, Path]):
    assert list(demo[2].iterdir()) == []


def test_its_output_in_a_pipe_has_no_control_characters(demo: tuple[str, float, Path]):
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\x9b]", demo[0])


def test_it_shows_a_run_of_each_framework(demo: tuple[str, float, Path]):
    assert [one for one in FRAMEWORKS if not re.search(rf"(?m)^{one}, \w+: \d calls?; \d+ pass", demo[0])] == []


LINES = (
    "  FAIL  default.tool_success: `charge_card` failed with `ValueError`",
    "  FAIL  refund-arguments: refund_order: amount: expected 40.0, got 42.5",
    "62 spans were sent and 62 arrived, 27 of them with scores as attributes;",
    "  toolgauge.eval.default.tool_success.outcome = fail",
    "The span `toolgauge.scorecard` of its trace ",
    '  toolgauge_spans_total{toolgauge_outcome="received"} 62.0',
    '  toolgauge_trajectories_total{toolgauge_closed_because="run_ended"} 8.0',
    "these are drawn with replacement",
    "version 1.0: 180 conversations, no alarm",
    "`default.tool_success` of `list_orders` fell from ",
    "  `service.version` changed from `1.0` to `1.1` at ",
    "toolgauge serve ",
)


def test_it_says_what_a_person_needs_to_know(demo: tuple[str, float, Path]):
    assert [line for line in LINES if line not in demo[0]] == []
    assert "only " not in demo[0].partition("What arrived")[0]


def test_the_best_example_comes_first(demo: tuple[str, float, Path]):
    shown = re.findall(r"^(\S+), (\S+): \d calls?; ", demo[0], re.MULTILINE)
    assert shown[:3] == [
        ("openinference-langgraph", "sequence"),
        ("pydantic-ai", "unknown_tool"),
        ("openinference-langgraph", "error"),
    ]
    assert len(shown) == 8


def screens(output: str) -> list[list[str]]:
    """What is printed before the first heading, and from each heading to the next."""
    return [screen.splitlines() for screen in re.split(r"\n(?=[^\n]+\n=+\n)", output)]


def test_each_phase_and_the_summary_fit_a_screen(demo: tuple[str, float, Path]):
    found = screens(demo[0])
    assert [screen[0] for screen in found[1:]] == [
        "Runs and their scores",
        "What arrived at the destination",
        "A release: a healthy agent, then a worse one",
        "Summary",
    ]
    # The prompt is on the last line of a screen.
    assert max(map(len, found)) < 24
    assert max(len(line) for screen in found for line in screen) <= 80


def test_the_summary_lists_everything_that_it_counts(demo: tuple[str, float, Path]):
    *_, phase, summary = screens(demo[0])
    totals = re.fullmatch(r"8 runs with 20 tool calls; results: \d+ pass, (\d+) FAIL, (\d+) not evaluated", summary[2])
    assert totals is not None
    assert sum(line.startswith("  FAIL  ") for line in summary) == int(totals[1])
    unseen = [re.match(r" +(\d+) \w+, as ", line) for line in summary]
    assert sum(int(found[1]) for found in unseen if found) == int(totals[2])
    alarms = sum(line.startswith("  ALARM  ") for line in summary)
    assert alarms >= 1
    assert any(re.fullmatch(rf"{alarms} alarms? \(in Prometheus .*", line) for line in summary)
    assert any(re.fullmatch(rf"version 1\.1: \d+ conversations, {alarms} alarms?", line) for line in phase)
    assert summary[-1].split() == ["toolgauge", "check", "FILE...", "score", "recorded", "traffic"]


def test_addresses_stay_masked_where_values_are_shown(demo: tuple[str, float, Path]):
    assert "@example.com" not in demo[0]


def test_a_reader_who_has_seen_enough_ends_it_quietly(tmp_path: Path):
    command = [sys.executable, "-m", "toolgauge", "demo"]
    with (tmp_path / "err").open("wb") as err:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=err)
        assert process.stdout is not None
        assert b"recorded runs" in process.stdout.readline()
        process.stdout.close()
        assert process.wait(300) == 0
    assert (tmp_path / "err").read_text() == ""


def test_without_the_regression_it_ends_after_the_recordings(tmp_path: Path):
    shown = run("demo", "--no-regression", cwd=tmp_path).out
    assert "8 runs with " in shown
    assert "A release" not in shown


def test_with_stay_the_web_view_shows_it_until_an_interruption(tmp_path: Path):
    with contextlib.ExitStack() as taken:
        # The port that people know is taken: by us, or by somebody else.
        with contextlib.suppress(OSError):
            taken.enter_context(socket.create_server(("127.0.0.1", 8317)))
        demo = Process(toolgauge_command("demo", "--no-regression", "--stay"), tmp_path / "demo.txt")
        taken.callback(demo.close)
        # Before the first run, and again when everything has been shown.
        ports = until(lambda: re.findall(r"http://localhost:(\d+) ", demo.said())[1:], "the address, twice")
        assert ports != ["8317"]
        assert "shop-assistant" in get(int(ports[0]), "/trajectories")
        assert "toolgauge demo --stay" not in demo.said()
        # Each run that failed names its page.
        pages = re.findall(rf"http://localhost:{ports[0]}(/trajectories/\w+)", demo.said())
        assert len(pages) >= 4
        assert all(page.rpartition("/")[2] in get(int(ports[0]), page) for page in pages)
        demo.signal(signal.SIGINT)
        assert demo.ended() == 0
        assert "Traceback" not in demo.said()
