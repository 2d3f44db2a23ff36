"""Runs the command as people do: a process with its streams and its exit code."""

import os
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
