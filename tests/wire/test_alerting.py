"""From a release that is worse to the notification: toolgauge, a real Prometheus with our rules, a real Alertmanager."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.wire.agent_runs import request, run_of
from tests.wire.alertmanager import (
    Alertmanager,
    Webhook,
    alertmanager_running,
    needs_alertmanager,
    webhook_listening,
)
from tests.wire.prometheus import Prometheus, needs_prometheus, prometheus_running, scrape_job
from tests.wire.support import Toolgauge, serving, until

DEPLOY = Path(__file__).parent.parent.parent / "deploy"
ALERTMANAGER = DEPLOY / "alertmanager" / "alertmanager.yaml"

AGENT = {
    "job": "toolgauge",
    "toolgauge_service": "shop",
    "deployment_environment_name": "prod",
    "gen_ai_agent_name": "helper",
}
STREAM = {
    **AGENT,
    "gen_ai_tool_name": "find_order",
    "gen_ai_evaluation_name": "default.tool_success",
    "toolgauge_level": "call",
}
SINGLE = {**STREAM, "alertname": "ToolgaugeQualityRegression", "category": "quality", "severity": "warning"}
BROAD = {**AGENT, "alertname": "ToolgaugeQualityRegressionBroad", "category": "quality", "severity": "critical"}
DOWN = {"job": "toolgauge", "alertname": "ToolgaugeDown", "category": "processing", "severity": "critical"}


# -- what people paste into Alertmanager ------------------------------------------------------------------------------


@pytest.fixture
def alertmanager(tmp_path: Path) -> Iterator[Alertmanager]:
    with alertmanager_running(tmp_path, yaml.safe_load(ALERTMANAGER.read_text())) as running:
        yield running


@needs_alertmanager
def test_alerts_of_single_streams_are_silent_while_the_broad_one_of_the_same_agent_fires(alertmanager: Alertmanager):
    other = {"gen_ai_agent_name": "other"}
    alertmanager.raise_alerts(SINGLE, {**SINGLE, **other}, {**BROAD, "toolgauge_service": "another"})
    assert alertmanager.states(**AGENT) == {"ToolgaugeQualityRegression": "active"}
    alertmanager.raise_alerts(BROAD)
    wanted = {"ToolgaugeQualityRegression": "suppressed", "ToolgaugeQualityRegressionBroad": "active"}
    until(lambda: alertmanager.states(**AGENT) == wanted, "the single one to be silent")
    assert alertmanager.states(**other) == {"ToolgaugeQualityRegression": "active"}


@needs_alertmanager
def test_alerts_on_quality_are_silent_while_toolgauge_is_down(alertmanager: Alertmanager):
    objective = {**STREAM, "alertname": "ToolgaugeScoreBelowObjective", "category": "quality", "severity": "critical"}
    errors = {"job": "toolgauge", "alertname": "ToolgaugeEvaluationErrors", "category": "processing"}
    alertmanager.raise_alerts(SINGLE, objective, errors, {**DOWN, "job": "other"})
    assert set(alertmanager.states().values()) == {"active"}
    alertmanager.raise_alerts(DOWN)
    wanted = {
        "ToolgaugeDown": "active",
        "ToolgaugeEvaluationErrors": "active",
        "ToolgaugeQualityRegression": "suppressed",
        "ToolgaugeScoreBelowObjective": "suppressed",
    }
    until(lambda: alertmanager.states(job="toolgauge") == wanted, "quality to be silent")


# -- end to end -------------------------------------------------------------------------------------------------------

# One trace is one observation, as soon as it is closed.
WATCH = ("watch.conversation_idle=2s", "watch.baseline_min=40", "watch.false_alarms_per_week=4")
# It sees the same drop, and must not alert.
SHADOW = "criteria=[{name: rehearsal, evaluator: tool_success, enforce: shadow}]"


class Agent:
    """An agent whose runs each call two tools once, sent as whole traces, many in one request."""

    def __init__(self, toolgauge: Toolgauge) -> None:
        self._toolgauge = toolgauge
        self._sent = 0

    def works(self, runs: int, *, version: str, fails_every: int) -> None:
        """Send runs in which every so many-th call of `find_order` fails, and wait until they are scored."""
        spans: list[Span] = []
        for run in range(1, runs + 1):
            self._sent += 1
            failing = "find_order" if run % fails_every == 0 else ""
            of_run = {"gen_ai.agent.name": "helper"}
            start_ns = self._sent * 1_000_000
            spans += run_of(self._sent, "find_order", "list_orders", failing=failing, start_ns=start_ns, run=of_run)
        self._toolgauge.send(request(spans, service_version=version, deployment_environment_name="prod"))
        until(lambda: self._scored() == 2 * self._sent, f"the scores of {self._sent} runs")

    def _scored(self) -> float:
        criterion = ("gen_ai_evaluation_name", "default.tool_success")
        return sum(
            value
            for (name, labels), value in self._toolgauge.samples().items()
            if name == "toolgauge_evaluation_score_count" and criterion in labels
        )


@dataclass
class Monitored:
    toolgauge: Toolgauge
    prometheus: Prometheus
    webhook: Webhook


@pytest.fixture
def monitored(tmp_path: Path) -> Iterator[Monitored]:
    with (
        webhook_listening() as webhook,
        alertmanager_running(tmp_path, notifying(webhook)) as alertmanager,
        serving(tmp_path, *WATCH, SHADOW) as toolgauge,
        prometheus_running(tmp_path, watching(toolgauge, alertmanager, tmp_path)) as prometheus,
    ):
        yield Monitored(toolgauge, prometheus, webhook)


def notifying(webhook: Webhook) -> dict[str, Any]:
    """The example configuration without its waiting, and with one receiver for all."""
    config = yaml.safe_load(ALERTMANAGER.read_text())
    config["route"] |= {"group_wait": "100ms", "group_interval": "500ms"}
    for receiver in config["receivers"]:
        receiver["webhook_configs"] = [{"url": f"{webhook.url}{receiver['name']}"}]
    return config


def watching(toolgauge: Toolgauge, alertmanager: Alertmanager, folder: Path) -> dict[str, Any]:
    """A configuration with our rules, but for how long an alert goes on, which is 2 s."""
    for name in ("rules.yaml", "alerts.yaml"):
        rules = (DEPLOY / "prometheus" / name).read_text()
        (folder / name).write_text(rules.replace("keep_firing_for: 10m", "keep_firing_for: 2s"))
    return {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "500ms"},
        "rule_files": ["rules.yaml", "alerts.yaml"],
        "scrape_configs": [scrape_job(toolgauge)],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [f"127.0.0.1:{alertmanager.port}"]}]}]},
    }


@needs_prometheus
@needs_alertmanager
def test_a_release_that_is_worse_is_notified_and_cleared_after_it_is_rolled_back(monitored: Monitored):
    agent, webhook = Agent(monitored.toolgauge), monitored.webhook
    agent.works(200, version="1.0", fails_every=40)
    name = 'gen_ai_evaluation_name="default.tool_success"'
    baseline = f'toolgauge_regression_observations{{gen_ai_tool_name="find_order", {name}}} >= 40'
    until(lambda: monitored.prometheus.value(baseline), "the stream to be watched")
    assert webhook.notifications == []

    agent.works(60, version="1.1", fails_every=2)
    until(lambda: SINGLE in labels(webhook, "firing"), "the notification")
    notification = next(each for each in webhook.notifications if SINGLE in [one["labels"] for one in each["alerts"]])
    assert notification["groupLabels"] == {"job": "toolgauge", "gen_ai_agent_name": "helper"}
    assert notification["receiver"] == "team"
    assert_all_rules_are_evaluated(monitored.prometheus)
    assert_describes_the_drop(next(alert for alert in notification["alerts"] if alert["labels"] == SINGLE))

    agent.works(300, version="1.0", fails_every=40)
    until(lambda: SINGLE in labels(webhook, "resolved"), "the end of the alert")
    until(lambda: monitored.prometheus.value("count(ALERTS)") is None, "the end of all alerts")
    # Neither the tool that is well nor a shadow criterion; what else may fire is the stream of all tools.
    fired = labels(webhook, "firing")
    assert {alert.get("gen_ai_tool_name", "find_order") for alert in fired} == {"find_order"}
    assert {alert["gen_ai_evaluation_name"] for alert in fired} == {"default.tool_success"}
    assert monitored.prometheus.value('count(toolgauge_evaluation_score_count{toolgauge_enforce="shadow"}) > 0')


def assert_all_rules_are_evaluated(prometheus: Prometheus) -> None:
    rules = [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]
    assert [rule for rule in rules if rule["health"] != "ok"] == []
    assert {"ToolgaugeDown", "stream:toolgauge_evaluation_score:mean5m"} <= {rule["name"] for rule in rules}


def assert_describes_the_drop(alert: dict[str, Any]) -> None:
    annotations = alert["annotations"]
    assert annotations["summary"] == "default.tool_success of find_order has dropped (agent helper)"
    figures = r"Mean score (0\.\d+) since the drop began, baseline (0\.\d+) from (\d+) observations"
    found = re.match(figures, annotations["description"])
    assert found, annotations["description"]
    current, baseline, observations = map(float, found.groups())
    assert 0.3 < current < 0.7
    assert 0.9 < baseline < 1
    assert observations >= 40


def labels(webhook: Webhook, status: str) -> list[dict[str, str]]:
    return [alert["labels"] for alert in webhook.alerts(status)]
