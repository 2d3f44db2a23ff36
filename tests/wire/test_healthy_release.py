"""A healthy release of the samples in a real Prometheus with the shipped rules: no alert fires, and none is pending."""

import contextlib
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.wire.prometheus import Prometheus, needs_prometheus, prometheus_running, scrape_job
from tests.wire.support import environment, serving, until

pytestmark = needs_prometheus
ROOT = Path(__file__).parent.parent.parent
CRITERIA = ROOT / "src" / "toolgauge" / "demo" / "criteria.yaml"
RULES = [str(ROOT / "deploy" / "prometheus" / name) for name in ("rules.yaml", "alerts.yaml")]
# As deploy/docker/trial.yaml has it.
SETTINGS = (
    f"criteria_files=[{CRITERIA}]",
    "watch.conversation_idle=2s",
    "watch.baseline_min=30",
    "assemble.run_end_grace=1s",
)
# On a busy machine a scrape may take longer than a second.
INTERVALS = {"scrape_interval": "5s", "scrape_timeout": "5s", "evaluation_interval": "1s"}
# Enough for more than 50 calls of each tool, from which on an objective counts.
CONVERSATIONS = 700


@contextmanager
def sending(grpc_port: int, *options: str) -> Generator[None]:
    command = [sys.executable, "-m", "toolgauge.demo.sample_sender", "--endpoint", f"http://127.0.0.1:{grpc_port}"]
    sender = subprocess.Popen([*command, *options], env=environment(), stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        sender.kill()
        sender.wait()


def names(prometheus: Prometheus) -> set[str]:
    return {f"{alert['labels']['alertname']} {alert['state']}" for alert in prometheus.ask("alerts")["alerts"]}


@pytest.mark.long
def test_a_healthy_release_of_the_sample_sender_raises_no_alert_not_even_a_pending_one(tmp_path: Path):
    with contextlib.ExitStack() as running:
        toolgauge = running.enter_context(serving(tmp_path, *SETTINGS))
        config = {"global": INTERVALS, "rule_files": RULES, "scrape_configs": [scrape_job(toolgauge)]}
        prometheus = running.enter_context(prometheus_running(tmp_path, config))
        # Before the first scrape there is no target, which is what ToolgaugeDown is about.
        until(lambda: (prometheus.value("count_over_time(up[1m])") or 0) >= 1 and not names(prometheus), "scrapes")
        # One conversation of the worse release is the least.
        running.enter_context(
            sending(toolgauge.grpc_port, "--healthy", str(CONVERSATIONS), "--worse", "1", "--rate", "70")
        )
        seen: set[str] = set()

        def is_over() -> bool:
            seen.update(names(prometheus))
            return prometheus.value("sum(toolgauge_trajectories_total)") == CONVERSATIONS + 1

        until(is_over, "the healthy release")
        # What was asked of it: every tool that has an objective was called often enough for it.
        least = "min(stream:toolgauge_evaluation_score_count:increase1h{gen_ai_evaluation_name='default.tool_success'})"
        assert (prometheus.value(least) or 0) > 50
        assert seen == set()
