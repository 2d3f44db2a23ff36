"""The sample sender as a process: it waits for whoever is not up yet, then sends a healthy release and a worse one."""

import subprocess
import sys
from pathlib import Path

from tests.wire.support import environment, free_port, serving, until


def test_both_releases_arrive_and_are_scored_as_soon_as_somebody_listens(tmp_path: Path):
    port = free_port()
    words = ("--rate", "1000", "--healthy", "20", "--worse", "30")
    sender = subprocess.Popen(
        [sys.executable, "-m", "toolgauge.demo.sample_sender", *words],
        env=environment(OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{port}"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        with serving(tmp_path, f"receivers.otlp.protocols.grpc.endpoint=127.0.0.1:{port}") as toolgauge:
            output, _ = sender.communicate(timeout=120)
            assert sender.returncode == 0, output
            assert "version 1.1" in output
            assert "everything is sent" in output
            until(lambda: toolgauge.total("toolgauge_trajectories_total") == 50, "50 trajectories")
            scored = [
                dict(labels) for name, labels in toolgauge.samples() if name == "toolgauge_evaluation_score_count"
            ]
            assert {labels["service_version"] for labels in scored} == {"1.0", "1.1"}
    finally:
        sender.kill()
        sender.wait()
