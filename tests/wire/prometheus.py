"""A real Prometheus on a port of its own, and what it answers."""

import json
import shutil
import time
import urllib.parse
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.wire.support import Process, Toolgauge, free_port, get, until

BINARY = shutil.which("prometheus")
needs_prometheus = pytest.mark.skipif(BINARY is None, reason="no prometheus on this machine (Debian's `prometheus`)")


class Prometheus:
    def __init__(self, port: int) -> None:
        self.port = port
        self.began_s = time.time()

    def ask(self, path: str, **parameters: str) -> Any:  # noqa: ANN401 (any JSON)
        answer = json.loads(get(self.port, f"/api/v1/{path}?{urllib.parse.urlencode(parameters)}"))
        assert answer["status"] == "success"
        return answer["data"]["result"] if "result" in answer["data"] else answer["data"]

    def value(self, query: str) -> float | None:
        answer = self.ask("query", query=query)
        return float(answer[0]["value"][1]) if len(answer) == 1 else None


@contextmanager
def prometheus_running(folder: Path, config: Mapping[str, object]) -> Generator[Prometheus]:
    """Run it with this configuration (JSON is YAML); paths in it are relative to the folder."""
    assert BINARY is not None
    port = free_port()
    (folder / "prometheus.json").write_text(json.dumps(config))
    command = [BINARY, f"--config.file={folder / 'prometheus.json'}", f"--storage.tsdb.path={folder / 'data'}"]
    command += [f"--web.listen-address=127.0.0.1:{port}", "--enable-feature=exemplar-storage"]
    process = Process(command, folder / "prometheus.log")

    def is_ready() -> bool:
        assert process.is_running(), process.said()
        return "Server is ready" in process.said()

    try:
        until(is_ready, "Prometheus to be ready")
        yield Prometheus(port)
        process.signal()
        process.ended()
    finally:
        process.close()


def scrape_job(toolgauge: Toolgauge) -> dict[str, object]:
    """The job that scrapes one toolgauge."""
    return {
        "job_name": "toolgauge",
        "static_configs": [{"targets": [f"127.0.0.1:{toolgauge.metrics_port}"]}],
    }


@contextmanager
def scraping(toolgauge: Toolgauge, folder: Path) -> Generator[Prometheus]:
    """Run a Prometheus that scrapes one toolgauge every second, since a scrape may take no longer than that."""
    intervals = {"scrape_interval": "1s", "scrape_timeout": "1s"}
    with prometheus_running(folder, {"global": intervals, "scrape_configs": [scrape_job(toolgauge)]}) as prometheus:
        yield prometheus
