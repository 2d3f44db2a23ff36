"""A real OpenTelemetry Collector: built once from its public Go modules, kept in a cache, and run with what people paste.

`collector_source` is what the Collector's own builder wrote for `builder.yaml`, with every module pinned by hash.
"""

import contextlib
import fcntl
import functools
import hashlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Generator, Mapping
from pathlib import Path

import pytest

from tests.wire.support import Process, environment, until

SOURCE = Path(__file__).parent / "collector_source"
# Its own metrics would want port 8888, which is somebody's on many machines.
_QUIET = "service: {telemetry: {metrics: {level: none}}}\n"
_GO = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
_BUILD_TIMEOUT_S = 1500


def cached() -> Path:
    """Name the binary of these sources."""
    sources = hashlib.sha256()
    for file in sorted(SOURCE.iterdir()):
        sources.update(file.name.encode() + b"\0" + file.read_bytes())
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return caches / "toolgauge-tests" / f"collector-{sources.hexdigest()[:16]}"


def built(*, may_build: bool = False) -> Path:
    """Find the binary, or build it; skip the test with the reason where that cannot be done, or may not."""
    if not may_build and not cached().exists():
        pytest.skip("no real Collector: `python3 tests --long` builds it, in 4 minutes and 1.4 GB of caches")
    found = _attempt()
    if isinstance(found, str):
        pytest.skip(f"no real Collector: {found}")
    return found


@functools.cache
def _attempt() -> Path | str:
    binary = cached()
    binary.parent.mkdir(parents=True, exist_ok=True)
    # Tests run in several processes: one of them builds, the others wait for it.
    with binary.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _build(binary)


def _build(binary: Path) -> Path | str:
    if binary.exists():
        return binary
    if _GO is None:
        return "there is no Go toolchain to build it with"
    # Whatever only the network can give is fetched first: after that a failure is one of ours.
    fetched = _go("list", "-deps", "-f", "{{.ImportPath}}", ".")
    if fetched.returncode:
        return f"its modules cannot be had here: {fetched.stderr.strip()[-300:]}"
    unfinished = binary.with_suffix(f".{os.getpid()}")
    done = _go("build", "-ldflags=-s -w", "-o", str(unfinished), ".")
    assert done.returncode == 0, done.stderr
    unfinished.rename(binary)
    return binary


def _go(*words: str) -> subprocess.CompletedProcess[str]:
    assert _GO is not None
    settings = {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -trimpath -buildvcs=false", "GOTOOLCHAIN": "local"}
    return subprocess.run(
        [_GO, *words],
        cwd=SOURCE,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
        timeout=_BUILD_TIMEOUT_S,
    )


def pasted(file: Path, addresses: Mapping[str, str]) -> str:
    """Read a configuration and put free ports where it names addresses; every `host:port` in use must be given."""
    text = re.sub(r"(?m)^\s*#.*$", "", file.read_text())

    def address(found: re.Match[str]) -> str:
        return addresses[found[0]]

    return re.sub(r"\b[a-z0-9.-]+:\d{4,5}\b", address, text)


@contextlib.contextmanager
def collecting(folder: Path, file: Path, addresses: Mapping[str, str], *, backend: int = 0) -> Generator[Process]:
    """Run the Collector with a pasted configuration; at the end it must stop in order."""
    binary = built()
    configuration = folder / f"collector-{time.monotonic_ns()}.yaml"
    configuration.write_text(pasted(file, addresses))
    quiet = folder / "quiet.yaml"
    quiet.write_text(_QUIET)
    command = [str(binary), f"--config={configuration}", f"--config={quiet}"]
    variables = {"BACKEND": f"127.0.0.1:{backend}", "BACKEND_INSECURE": "true"}
    process = Process(command, configuration.with_suffix(".log"), environment(**variables))
    try:

        def is_ready() -> bool:
            assert process.is_running(), process.said()
            return "Everything is ready" in process.said()

        until(is_ready, "the Collector to be ready")
        yield process
        process.signal()
        assert process.ended() == 0, process.said()
    finally:
        process.close()
