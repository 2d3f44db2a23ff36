"""The black-box probe of OTLP receivers, run against `toolgauge serve` with a real destination behind it."""

import sys
from pathlib import Path

import pytest

from tests.wire.support import Process, Toolgauge, free_port, get, serving, to_grpc, until

TOOLS = Path(__file__).parent.parent / "bench" / "tools"
# What half a request may wait for; the probe is told a little more.
TIMEOUTS = tuple(
    f"receivers.otlp.protocols.http.{name}=2s" for name in ("read_header_timeout", "read_timeout", "idle_timeout")
)


def _is_up(port: int) -> bool:
    try:
        return bool(get(port, "/stats"))
    except OSError:
        return False


def _probe(toolgauge: Toolgauge, folder: Path, admin_port: int) -> list[str]:
    words = ["--http", f"127.0.0.1:{toolgauge.http_port}", "--grpc", f"127.0.0.1:{toolgauge.grpc_port}"]
    words += ["--admin", f"127.0.0.1:{admin_port}", "--pid", str(toolgauge.pid), "--slow-limit", "30"]
    for port in (toolgauge.http_port, toolgauge.grpc_port):
        words += ["--bind-port", str(port)]
    probe = Process([sys.executable, str(TOOLS / "otlp_probe.py"), *words], folder / "probe.log")
    try:
        probe.ended(300)
    finally:
        probe.close()
    return probe.said().splitlines()


def test_nothing_that_the_probe_asks_for_is_missing(tmp_path: Path):
    grpc_port, http_port, admin_port = free_port(), free_port(), free_port()
    ports = ["--grpc-port", str(grpc_port), "--http-port", str(http_port), "--admin-port", str(admin_port)]
    sink = Process([sys.executable, str(TOOLS / "sink.py"), *ports], tmp_path / "sink.log")
    try:
        until(lambda: _is_up(admin_port), "the sink to answer")
        with serving(tmp_path, to_grpc(grpc_port), *TIMEOUTS) as toolgauge:
            said = _probe(toolgauge, tmp_path, admin_port)
    finally:
        sink.close()
    missing = [line for line in said if line.startswith("FAIL")]
    if missing and all(line.split()[1] == "A9" for line in missing):
        pytest.skip(f"the machine is too busy to tell: {missing}")
    assert missing == []
    assert said[-1].endswith(" 0 not met")
    assert int(said[-1].split()[0]) > 80
