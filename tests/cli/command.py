"""Runs the command as people do: a process with its streams and its exit code."""

import os
import pty
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.forked import Running, start


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


def run(*arguments: str, cwd: Path | None = None, environment: Mapping[str, str] | None = None) -> Ended:
    """Run `toolgauge` and wait for its end."""
    env = {**_inherited("OTEL_", "NO_COLOR"), **(environment or {})}
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = start(_command(arguments), stdout=out.fileno(), stderr=err.fileno(), env=env, cwd=cwd)
        code = _ended(process)
        out.seek(0)
        err.seek(0)
        return Ended(code, out.read(), err.read())


def unbroken(text: str) -> str:
    """Join the lines that were broken to fit a screen."""
    lines, indent, taken = list[str](), "", 0
    for line in text.split("\n"):
        word = line.lstrip().split(" ")[0]
        is_broken = bool(lines) and line.startswith(indent + 4 * " ") and line[len(indent) + 4 :][:1].strip() != ""
        if is_broken and (taken + 1 + len(word) > 100 or word.startswith("`")):
            lines[-1] += f" {line.lstrip()}"
        else:
            lines.append(line)
            indent = line[: len(line) - len(line.lstrip())]
        taken = len(line)
    return "\n".join(lines)


def run_on_terminal(*arguments: str, cwd: Path | None = None, environment: Mapping[str, str] | None = None) -> Ended:
    """Run `toolgauge` with a terminal as stdout and stderr, and wait for its end; `out` is what both wrote, as it was sent."""
    env = {**_inherited("OTEL_", "NO_COLOR", "TERM"), "TERM": "xterm", **(environment or {})}
    ours, theirs = pty.openpty()
    process = start(_command(arguments), stdout=theirs, stderr=theirs, env=env, cwd=cwd)
    os.close(theirs)
    shown = _read_all(ours)
    return Ended(_ended(process), shown.decode(), "")


def _command(arguments: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "toolgauge", *arguments]


def _inherited(*without: str) -> dict[str, str]:
    """Return our own environment but for these variables, and those that Python reads."""
    return {name: value for name, value in os.environ.items() if not name.startswith((*without, "PYTHON"))}


def _ended(process: Running) -> int:
    try:
        return process.wait(300)
    finally:
        process.kill()


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
