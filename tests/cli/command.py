"""Runs the command as people do: a process with its streams and its exit code."""

import os
import pty
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


def run(*arguments: str, cwd: Path | None = None, environment: Mapping[str, str] | None = None) -> Ended:
    """Run `toolgauge` and wait for its end."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "NO_COLOR"))}
    ended = subprocess.run(
        [sys.executable, "-m", "toolgauge", *arguments],
        cwd=cwd,
        env={**kept, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def run_on_terminal(*arguments: str, environment: Mapping[str, str] | None = None) -> Ended:
    """Run `toolgauge` with a terminal as stdout and stderr, and wait for its end; `out` is what both wrote, as it was sent."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "NO_COLOR", "TERM"))}
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "toolgauge", *arguments]
    environment = {"TERM": "xterm", **(environment or {})}
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, env={**kept, **environment}) as process:
        os.close(theirs)
        shown = _read_all(ours)
        return Ended(process.wait(timeout=300), shown.decode(), "")


def _read_all(descriptor: int) -> bytes:
    """Read until the other side of a terminal is closed, which is an error on Linux."""
    found = b""
    try:
        while piece := os.read(descriptor, 65536):
            found += piece
    except OSError:
        pass
    os.close(descriptor)
    return found


def on_screen(sent: str) -> list[str]:
    """Return the lines that a terminal shows: a carriage return goes back to the beginning of its line."""
    lines: list[str] = []
    for sent_line in sent.split("\n"):
        shown = ""
        for piece in sent_line.split("\r"):
            shown = piece + shown[len(piece) :]
        lines.append(shown.rstrip())
    return lines
