"""More connections than the process may have open: others wait, the log stays short, and it heals by itself."""

import contextlib
import resource
import socket
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.wire.support import Toolgauge, post, recorded, serving, until

(BODY,) = recorded("pydantic-ai", "tool_error")
CANNOT_ACCEPT = "cannot accept connections for now: too many open files"


@contextlib.contextmanager
def idle(port: int, count: int) -> Generator[None]:
    with contextlib.ExitStack() as connections:
        for _ in range(count):
            connections.enter_context(socket.create_connection(("127.0.0.1", port), 60))
        yield


def open_descriptors(toolgauge: Toolgauge) -> int:
    return len(list(Path(f"/proc/{toolgauge.pid}/fd").iterdir()))


@pytest.mark.parametrize("port", ["http_port", "grpc_port"])
def test_clients_that_take_all_descriptors_cost_a_line_in_the_log_and_no_more(tmp_path: Path, port: str):
    with serving(tmp_path) as toolgauge:
        limit = open_descriptors(toolgauge) + 30
        resource.prlimit(toolgauge.pid, resource.RLIMIT_NOFILE, (limit, limit))
        with idle(getattr(toolgauge, port), 200):
            until(lambda: open_descriptors(toolgauge) >= limit, "all descriptors to be taken")
            before_s = cpu_seconds(toolgauge)
            # Long enough for a loop that tries again and again to be seen.
            with contextlib.suppress(TimeoutError), socket.create_connection(("127.0.0.1", toolgauge.http_port)) as one:
                one.settimeout(1)
                one.recv(1)
            assert cpu_seconds(toolgauge) - before_s < 0.8
            # gRPC waits without a word: it is the receiver that was asked meanwhile.
            until(lambda: CANNOT_ACCEPT in toolgauge.said(), "what the log tells of it")
        status, _ = post(toolgauge.http_port, BODY)
        assert status == 200
        toolgauge.send(BODY, "grpc")
        toolgauge.settled(6)
        assert len(toolgauge.said().splitlines()) < 20, toolgauge.said()[:2000]
        assert toolgauge.said().count(CANNOT_ACCEPT) == 1
        assert "how much memory" not in toolgauge.said()


def test_as_many_descriptors_as_the_system_allows_are_used(tmp_path: Path):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, hard), hard))
    try:
        toolgauge = Toolgauge(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    try:
        toolgauge.wait_until_up()
        assert resource.prlimit(toolgauge.pid, resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        toolgauge.close()


def cpu_seconds(toolgauge: Toolgauge) -> float:
    fields = Path(f"/proc/{toolgauge.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100
