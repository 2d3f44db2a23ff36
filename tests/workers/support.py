"""A toolgauge with two workers, and requests of many traces."""

import os
import re
import signal
from pathlib import Path

from tests.wire.support import Toolgauge, recorded, until
from tests.wire.test_reload import other_trace

(RUN,) = recorded("pydantic-ai", "tool_error")
SPANS = 3
TWO = "workers=2"


def runs(first: int, last: int) -> bytes:
    """One request of many traces, each of `SPANS` spans."""
    return b"".join(other_trace(RUN, number) for number in range(first, last + 1))


def state(folder: Path) -> str:
    return f"state.directory={folder / 'state'}"


def workers_of(toolgauge: Toolgauge) -> dict[int, int]:
    """Return the ids of the processes of the workers, by their numbers."""
    found: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes().decode(errors="replace")
            parent = re.search(r"^PPid:\s+(\d+)", (folder / "status").read_text(), re.MULTILINE)
        except OSError:
            continue
        number = re.search(r"--number=(\d+)", line)
        if number and parent and int(parent[1]) == toolgauge.pid:
            found[int(number[1])] = int(folder.name)
    return found


def kill_worker(toolgauge: Toolgauge, number: int) -> None:
    """Kill a worker, and wait until another process has taken its place."""
    before = workers_of(toolgauge)
    os.kill(before[number], signal.SIGKILL)
    until(lambda: workers_of(toolgauge).get(number, before[number]) != before[number], "another process")
    until(lambda: f"worker {number} runs again" in toolgauge.said(), "the worker to be ready")
