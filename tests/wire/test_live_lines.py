"""`toolgauge serve` on a terminal: a line a trajectory while it runs, a summary at the end; elsewhere only when asked for."""

import contextlib
import os
import pty
import re
import threading
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.cli.hostile_names import HOSTILE, INSIDE, acting, read_as_commands
from tests.cli.hostile_names import recorded as hostile_recording
from tests.wire.support import Toolgauge, post, serving, until
from tests.wire.test_serve import from_log


class Terminal:
    """A terminal of our own, read on a thread so that nothing ever waits for it."""

    def __init__(self) -> None:
        self._ours, self.theirs = pty.openpty()
        self._shown = bytearray()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def shown(self) -> str:
        return self._shown.decode().replace("\r\n", "\n")

    def shown_at_the_end(self) -> str:
        """Wait until nobody has the other side open any more."""
        self._thread.join()
        return self.shown()

    def _read(self) -> None:
        # Linux answers with an error when the other side is closed.
        with contextlib.suppress(OSError):
            while read := os.read(self._ours, 65536):
                self._shown += read
        os.close(self._ours)


@contextlib.contextmanager
def on_a_terminal(
    folder: Path, *settings: str, options: tuple[str, ...] = (), **env: str
) -> Generator[tuple[Toolgauge, Terminal]]:
    terminal = Terminal()
    # Closed where the process has it: a number that is closed twice may be another file by then.
    with (
        os.fdopen(terminal.theirs, "wb", buffering=0) as theirs,
        serving(
            folder, *settings, env={"COLUMNS": "1000", **env}, options=options, stdout=terminal.theirs
        ) as toolgauge,
    ):
        theirs.close()
        yield toolgauge, terminal


def ended(toolgauge: Toolgauge) -> int:
    toolgauge.signal()
    return toolgauge.ended()


# The traces of two recordings, one of which fails.
GOOD, BAD = ("pydantic-ai", "one_call"), ("pydantic-ai", "tool_error")
PAGE = r"http://\S+:\d+/trajectories/[0-9a-f]{32}"


def test_each_trajectory_is_a_line_and_the_end_a_summary(tmp_path: Path):
    with on_a_terminal(tmp_path, NO_COLOR="1") as (toolgauge, terminal):
        for recording in (GOOD, BAD):
            toolgauge.send_recorded(*recording)
        until(lambda: "FAIL" in terminal.shown() and "pass" in terminal.shown(), "both lines, while it runs")
        assert ended(toolgauge) == 0
        shown = terminal.shown_at_the_end()
    assert re.search(
        rf"^[\d:]{{8}}  pass   pydantic-ai-demo .*  1 call  \d+ checks passed.*  {PAGE}$", shown, re.MULTILINE
    )
    assert re.search(
        rf"^[\d:]{{8}}  FAIL   pydantic-ai-demo .*  default\.\w+ 0\.\d\d.*: .*  {PAGE}$", shown, re.MULTILINE
    )
    assert shown.count("first seen: service pydantic-ai-demo, dialect genai\n") == 1
    assert "\n2 trajectories, 2 tool calls\ncriterion " in shown
    assert re.search(r"^default\.tool_success +1 +1 +0  0$", shown, re.MULTILINE)
    assert "\x1b" not in shown
    assert "INFO" not in shown


def test_a_file_gets_results_only_when_they_are_asked_for(tmp_path: Path):
    for options in ((), ("--print", "failed")):
        output = tmp_path / "results.txt"
        with output.open("wb") as file, serving(tmp_path, options=options, stdout=file.fileno()) as toolgauge:
            for recording in (GOOD, BAD):
                toolgauge.send_recorded(*recording)
            assert ended(toolgauge) == 0
        text = output.read_text()
        assert bool(text) is bool(options)
        assert ("FAIL" in text) is bool(options)
        assert "stopped; nothing was lost\n" in toolgauge.said()
        assert "delivered" not in toolgauge.said()
        assert "  pass   pydantic-ai-demo" not in text
        assert "\x1b" not in text


@pytest.mark.parametrize("error", ["OSError", "BrokenPipeError"])
def test_where_results_cannot_be_printed_they_end_and_nothing_else_does(tmp_path: Path, error: str):
    if error == "OSError":
        reads, writes = None, os.open("/dev/full", os.O_WRONLY)
    else:
        reads, writes = os.pipe()
    with serving(tmp_path, options=("--print", "all"), stdout=writes) as toolgauge:
        for descriptor in filter(None, (reads, writes)):
            os.close(descriptor)
        toolgauge.send_recorded(*BAD)
        from_log(toolgauge, f"results are printed no more: standard output cannot be written ({error})")
        toolgauge.send_recorded(*GOOD)
        assert ended(toolgauge) == 0
        assert toolgauge.said().count("results are printed no more") == 1


def test_no_name_of_a_sender_becomes_a_command_to_a_ci_system(tmp_path: Path):
    body = Path(hostile_recording(tmp_path, *HOSTILE)).read_bytes()
    with serving(tmp_path, options=("--print", "all"), env=INSIDE) as toolgauge:
        assert post(toolgauge.http_port, body, content_type="application/json")[0] == 200
        assert post(toolgauge.http_port, body[:-9], content_type="application/json")[0] == 400
        assert ended(toolgauge) == 0
        shown = toolgauge.said()
    assert shown.count("set-output name=a") >= 2
    assert (read_as_commands(shown), acting(shown)) == ([], [])
