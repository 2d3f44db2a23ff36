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


def test_it_leaves_nothing_on_disk(demo: tuple[str, float, Path]):
    assert list(demo[2].iterdir()) == []


def test_its_output_in_a_pipe_has_no_control_characters(demo: tuple[str, float, Path]):
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\x9b]", demo[0])


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_it_shows_a_trajectory_of_each_framework(demo: tuple[str, float, Path], framework: str):
    begin = demo[0].index(f"\n{framework}, scenario ")
    shown = demo[0][begin : demo[0].index("\n\n", begin)]
    assert "trace " in shown
    assert re.search(r"turn 0  \w+\(.*\)  (executed|rejected)", shown)
    assert "scores:" in shown


@pytest.mark.parametrize(
    "line",
    [
        "FAIL           default.tool_success: 0.00 in turn 0: `charge_card` failed with `ValueError`",
        "FAIL           default.known_tool: 0.00 in turn 0: `get_wether` was not among the 6 tools on offer; "
        "the closest on offer is `get_weather`",
        "not evaluated  mail-arguments: arguments_not_recorded: the arguments of `send_email` were not recorded",
        "62 spans were sent and 62 arrived, 27 of them with scores as attributes;",
        "  toolgauge.eval.default.tool_success.outcome = fail",
        "toolgauge.scorecard  parent ",
        'toolgauge_spans_total{toolgauge_outcome="received"} 62.0',
        'toolgauge_trajectories_total{toolgauge_closed_because="run_ended"} 8.0',
        "toolgauge_evaluation_score_bucket{",
        "these are drawn with replacement",
        "version 1.0: 180 conversations, no regressions",
        "`default.tool_success` of `list_orders` fell from ",
        " with version 1.1, ",
        "toolgauge serve ",
    ],
)
def test_it_says(demo: tuple[str, float, Path], line: str):
    assert line in demo[0]
    assert "only " not in demo[0].partition("What arrived")[0]


def test_the_best_example_comes_first(demo: tuple[str, float, Path]):
    shown = re.findall(r"^(\S+), scenario (\S+)$", demo[0], re.MULTILINE)
    assert shown[:3] == [
        ("openinference-langgraph", "sequence"),
        ("pydantic-ai", "unknown_tool"),
        ("openinference-langgraph", "error"),
    ]
    assert len(shown) == 8


def test_the_summary_fits_a_screen_together_with_what_to_do_next(demo: tuple[str, float, Path]):
    lines = demo[0].splitlines()
    summary = lines[lines.index("Summary") :]
    assert len(summary) < 24  # the prompt is on the last one
    assert max(map(len, summary)) <= 80
    assert summary[2] == "8 runs with 20 tool calls; results: 87 pass, 5 FAIL, 27 not evaluated"
    assert summary[3] == "  FAIL  refund-arguments: refund_order: amount: expected 40.0, got 42.5"
    assert any(line.startswith("  ALARM  `default.tool_success` of `list_orders` fell from ") for line in summary)
    assert summary[-1] == "  toolgauge replay FILE...   the scores of recorded traffic"


def test_a_refund_that_differs_has_what_was_expected_below_it(demo: tuple[str, float, Path]):
    lines = demo[0].splitlines()
    (place,) = [number for number, line in enumerate(lines) if "FAIL           refund-arguments" in line]
    assert "0.67" in lines[place]
    assert lines[place + 1].strip() == "refund_order: amount: expected 40.0, got 42.5"


def test_addresses_stay_masked_where_values_are_shown(demo: tuple[str, float, Path]):
    assert 'email="[email]"' in demo[0]
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
        demo.signal(signal.SIGINT)
        assert demo.ended() == 0
        assert "Traceback" not in demo.said()
