"""A real OpenTelemetry Collector: built once from its public Go modules, kept in a cache, and run with what people paste.

`collector_source` is what the Collector's own builder wrote for `builder.yaml`, with every module pinned by hash.
"""

import contextlib
import functools
import hashlib
import os
import re
import time
from collections.abc import Generator, Mapping
from pathlib import Path

import pytest

from tests.deploy.fetched import GO, alone, cache, go
from tests.wire.support import Process, environment, until

SOURCE = Path(__file__).parent / "collector_source"
# Its own metrics would want port 8888, which is somebody's on many machines.
_QUIET = "service: {telemetry: {metrics: {level: none}}}\n"


def cached() -> Path:
    """Name the binary of these sources."""
    sources = hashlib.sha256()
    for file in sorted(SOURCE.iterdir()):
        sources.update(file.name.encode() + b"\0" + file.read_bytes())
    return cache() / f"collector-{sources.hexdigest()[:16]}"


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
    binary, flags = cached(), {"GOFLAGS": "-mod=readonly -trimpath -buildvcs=false"}
    with alone(binary):
        if binary.exists():
            return binary
        if GO is None:
            return "there is no Go toolchain to build it with"
        # Whatever only the network can give is fetched first: after that a failure is one of ours.
        fetched = go("list", "-deps", "-f", "{{.ImportPath}}", ".", cwd=SOURCE, **flags)
        if fetched.returncode:
            return f"its modules cannot be had here: {fetched.stderr.strip()[-300:]}"
        unfinished = binary.with_suffix(f".{os.getpid()}")
        done = go("build", "-ldflags=-s -w", "-o", str(unfinished), ".", cwd=SOURCE, **flags)
        assert done.returncode == 0, done.stderr
        unfinished.rename(binary)
        return binary


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
    with contextlib.closing(Process(command, configuration.with_suffix(".log"), environment(**variables))) as process:

        def is_ready() -> bool:
            assert process.is_running(), process.said()
            return "Everything is ready" in process.said()

        until(is_ready, "the Collector to be ready")
        yield process
        process.signal()
        assert process.ended() == 0, process.said()
