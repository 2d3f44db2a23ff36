"""Runs `toolgauge` in processes that need not load it first: a server that has loaded it forks them.

Such a process has streams, an environment, signals and an exit code like any other. Loading takes 0.5 s of CPU, a fork 0.02 s.
`patched` replaces constants of modules in it by their full names: a deadline of 24 s is tested with one of 2 s.
"""

import importlib
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from multiprocessing import reduction
from multiprocessing.popen_forkserver import _DupFd  # pyright: ignore[reportPrivateUsage] - what `DupFd` returns
from pathlib import Path
from typing import TypeAlias

from toolgauge.__main__ import run as run_command

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(["tests.preloaded"])


class Forked:
    """One running command, with the methods of `subprocess.Popen`; both its streams are open files of ours."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        stdout: int,
        stderr: int,
        env: Mapping[str, str],
        cwd: Path | None = None,
        patched: Mapping[str, float] | None = None,
    ) -> None:
        place = str(cwd or Path.cwd())
        given = (tuple(arguments), dict(env), place, dict(patched or {}), _Descriptor(stdout), _Descriptor(stderr))
        self._process = _SERVER.Process(target=_run, args=given, daemon=True)
        self._process.start()
        self.pid = self._process.pid or 0

    def poll(self) -> int | None:
        """Return the exit code, `None` as long as it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit code."""
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


Running: TypeAlias = Forked | subprocess.Popen[bytes]


def start(
    command: Sequence[str],
    *,
    stdout: int,
    stderr: int,
    env: Mapping[str, str],
    cwd: Path | None = None,
    patched: Mapping[str, float] | None = None,
) -> Running:
    """Start a command without input: forked where it is `toolgauge`, unless Python itself has to read a variable of its own.

    What is not forked has its constants as they are.
    """
    own = [name for name, value in env.items() if name.startswith("PYTHON") and value != os.environ.get(name)]
    if command[:3] == [sys.executable, "-m", "toolgauge"] and not own:
        return Forked(command[3:], stdout=stdout, stderr=stderr, env=env, cwd=cwd, patched=patched)
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, env=env, cwd=cwd)


class _Descriptor:
    """An open file on its way into the new process."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __reduce__(self) -> tuple[object, ...]:
        return _DupFd.detach, (reduction.DupFd(self._number),)


def _run(
    arguments: Sequence[str], env: Mapping[str, str], cwd: str, patched: Mapping[str, float], stdout: int, stderr: int
) -> None:
    """Become the command, in the new process."""
    for given, taken in ((stdout, 1), (stderr, 2)):
        os.dup2(given, taken)
    for given in {stdout, stderr}:
        os.close(given)
    # Their buffers are as Python makes them for a terminal or a file.
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 - open until the end
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115 - as above
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    os.chdir(cwd)
    for name, value in patched.items():
        module, _, constant = name.rpartition(".")
        loaded = importlib.import_module(f"toolgauge.{module}")
        assert hasattr(loaded, constant), f"no constant {name}"
        setattr(loaded, constant, value)
    sys.argv = ["toolgauge", *arguments]
    sys.exit(run_command())
