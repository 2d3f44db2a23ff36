"""The sample sender as a process: a healthy release, then a worse one."""

import subprocess
import sys
from pathlib import Path

from tests.wire.support import environment, free_port, serving, until


def test_both_releases_arrive_and_are_scored(tmp_path: Path):
    with serving(tmp_path) as toolgauge:
        command = [
            sys.executable,
            "-m",
            "toolgauge.demo.sample_sender",
            "--rate",
            "1000",
            "--healthy",
            "20",
            "--worse",
            "30",
        ]
        command += ["--endpoint", f"http://127.0.0.1:{toolgauge.grpc_port}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment(), timeout=120)
        assert (done.returncode, done.stderr) == (0, "")
        assert "version 1.1" in done.stdout
        until(lambda: toolgauge.total("toolgauge_trajectories_total") == 50, "50 trajectories")
        scored = [dict(labels) for name, labels in toolgauge.samples() if name == "toolgauge_evaluation_score_count"]
        assert {labels["service_version"] for labels in scored} == {"1.0", "1.1"}


def test_the_sender_waits_for_whoever_is_not_up_yet(tmp_path: Path):
    port = free_port()
    command = [sys.executable, "-m", "toolgauge.demo.sample_sender", "--healthy", "1", "--worse", "1"]
    sender = subprocess.Popen(
        command, env=environment(OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{port}"), stdout=subprocess.PIPE
    )
    try:
        with serving(tmp_path, f"receivers.otlp.protocols.grpc.endpoint=127.0.0.1:{port}"):
            output, _ = sender.communicate(timeout=120)
        assert b"everything is sent" in output
    finally:
        sender.kill()
        sender.wait()
