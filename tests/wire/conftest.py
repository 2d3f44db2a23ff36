"""Every test of the wire leaves nothing behind: no process, no thread, no listening socket."""

import contextlib
import os
import sys
from collections.abc import Generator, Iterator
from multiprocessing.forkserver import ensure_running
from pathlib import Path

import pytest

from tests.wire.sink import SINK, Sink
from tests.wire.support import Process, free_port, threads_beside_main, until


@pytest.fixture(scope="session", autouse=True)
def forks_commands() -> None:
    """Start the server that forks commands: else the first test would seem to leave it behind."""
    ensure_running()


@pytest.fixture(autouse=True)
def leaves_nothing_behind() -> Iterator[None]:
    threads = threads_beside_main()
    processes, sockets = _children(), _listening()
    yield
    until(lambda: threads_beside_main() <= threads, f"no more threads than {threads}")
    until(lambda: _children() <= processes, "all processes to have ended")
    until(lambda: _listening() <= sockets, "all ports to be closed")


@pytest.fixture(scope="module")
def one_sink(tmp_path_factory: pytest.TempPathFactory) -> Generator[Sink]:
    ports = {kind: free_port() for kind in ("grpc", "http", "admin")}
    command = [sys.executable, str(SINK), "--unique", "--proxy"]
    for kind, port in ports.items():
        command += [f"--{kind}-port", str(port)]
    with contextlib.closing(Process(command, tmp_path_factory.mktemp("sink") / "sink.log")) as process:
        until(lambda: '"ready": true' in process.said(), "the destination to be ready")
        yield Sink(process, ports)


@pytest.fixture
def sink(one_sink: Sink) -> Sink:
    """A destination without faults that has seen nothing."""
    one_sink.tell("/up")
    one_sink.tell("/fault")
    one_sink.tell("/reset")
    return one_sink


@pytest.fixture(autouse=True)
def without_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything here talks to this machine, and real exporters ask the environment."""
    for name in tuple(os.environ):
        if name.lower().endswith("_proxy") or name.startswith("OTEL_"):
            monkeypatch.delenv(name)


def _children() -> set[str]:
    """Processes that this one started, and those that these did; empty where /proc does not tell."""
    found: set[str] = set()
    parents = ["self"]
    while parents:
        for task in Path(f"/proc/{parents.pop()}/task").glob("*"):
            # A thread that ends meanwhile has none.
            with contextlib.suppress(OSError):
                parents += (task / "children").read_text().split()
        found.update(parents)
    return found


def _listening() -> set[str]:
    """Inodes of the sockets on which this process listens."""
    listening: set[str] = set()
    for table in (Path("/proc/self/net/tcp"), Path("/proc/self/net/tcp6")):
        rows = table.read_text().splitlines()[1:] if table.exists() else ()
        listening.update(row.split()[9] for row in rows if row.split()[3] == "0A")
    own: set[str] = set()
    for descriptor in Path("/proc/self/fd").glob("*"):
        try:
            own.add(str(descriptor.readlink()).removeprefix("socket:[").removesuffix("]"))
        except OSError:  # the listing itself used it
            continue
    return listening & own
