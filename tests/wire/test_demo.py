"""`toolgauge demo` as a process: what a person sees in the first half minute, without keys, network or home."""

import contextlib
import fcntl
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.forked import start
from tests.wire.support import Process, get, toolgauge_command, until


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> tuple[str, Path]:
    """Run it once for all workers of the tests, where nothing of the outside can be reached.

    Return what it printed, and its home.
    """
    own = tmp_path_factory.getbasetemp()
    shared = own if worker_id == "master" else own.parent
    home, shown = shared / "demo-home", shared / "demo.txt"
    with (shared / "demo.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not shown.exists():
            home.mkdir()
            shown.write_text(ran(home))
    return shown.read_text(), home


# Sooner than a person reads it; and on a busy machine it waits for what it shows.
PACE = {
    "demo.demo._PER_SECOND": 150,
    "demo.demo._BETWEEN_REQUESTS_S": 0.02,
    "demo.demo._BETWEEN_RECORDINGS_S": 0.02,
    "demo.demo._LONGEST_S": 300,
    "demo.demo._LONGEST_WAIT_S": 120,
}


def ran(home: Path) -> str:
    nowhere = "http://127.0.0.1:9"
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "HTTP_PROXY": nowhere, "HTTPS_PROXY": nowhere, "LC_ALL": "C"}
    env |= {"http_proxy": nowhere, "https_proxy": nowhere, "grpc_proxy": nowhere}
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        command = toolgauge_command("demo")
        process = start(command, stdout=out.fileno(), stderr=err.fileno(), env=env, cwd=home, patched=PACE)
        try:
            code = process.wait(300)
        finally:
            process.kill()
        out.seek(0)
        err.seek(0)
        assert (code, err.read()) == (0, "")
        return out.read()


def test_it_prints_the_results_of_the_readme_and_leaves_nothing_on_disk(demo: tuple[str, Path]):
    output, home = demo
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    shown = readme.partition("Two lines of the demo's result")[2].split("```")[1].strip("\n").splitlines()
    assert len(shown) == 2
    assert [line for line in shown if line not in output.splitlines()] == []
    assert list(home.iterdir()) == []


def test_its_output_in_a_pipe_has_no_control_characters_and_addresses_stay_masked(demo: tuple[str, Path]):
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\x9b]", demo[0])
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


def test_with_stay_the_web_view_shows_it_until_an_interruption(tmp_path: Path):
    with contextlib.ExitStack() as taken:
        # The port that people know is taken: by us, or by somebody else.
        with contextlib.suppress(OSError):
            taken.enter_context(socket.create_server(("127.0.0.1", 8317)))
        demo = Process(toolgauge_command("demo", "--no-regression", "--stay"), tmp_path / "demo.txt", patched=PACE)
        taken.callback(demo.close)
        # Before the first run, and again when everything has been shown.
        ports = until(lambda: re.findall(r"http://localhost:(\d+) ", demo.said())[1:], "the address, twice")
        assert ports != ["8317"]
        assert "shop-assistant" in get(int(ports[0]), "/trajectories")
        assert "toolgauge demo --stay" not in demo.said()
        assert "8 runs with " in demo.said()
        assert "A release" not in demo.said()
        # Each run that failed names its page.
        pages = re.findall(rf"http://localhost:{ports[0]}(/trajectories/\w+)", demo.said())
        assert len(pages) >= 4
        assert all(page.rpartition("/")[2] in get(int(ports[0]), page) for page in pages)
        demo.signal(signal.SIGINT)
        assert demo.ended() == 0
        assert "Traceback" not in demo.said()
