"""The rules of Prometheus and the example of Alertmanager: valid, tested case by case, and about what is there."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.files import DEPLOY, ROOT, document
from tests.deploy.promql import OF_TARGETS, Known, known, named, recording_rules, unknown
from tests.page_commands import Command, steps
from tests.rows import each_row
from toolgauge.export.settings import PrometheusSettings

PROMETHEUS = DEPLOY / "prometheus"
RULES, ALERTS = PROMETHEUS / "rules.yaml", PROMETHEUS / "alerts.yaml"
CASES = sorted((PROMETHEUS / "tests").glob("*.yaml"))
ALERTMANAGER = DEPLOY / "alertmanager" / "alertmanager.yaml"
PAGE = (ROOT / "docs" / "alerting.md").read_text()

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="no promtool on this machine (Debian's `prometheus`)"
)
needs_amtool = pytest.mark.skipif(
    shutil.which("amtool") is None, reason="no amtool on this machine (Debian's `prometheus-alertmanager`)"
)

# Alert: (severity, category, for, keep_firing_for).
EXPECTED = {
    "ToolgaugeQualityRegression": ("warning", "quality", None, "10m"),
    "ToolgaugeQualityRegressionBroad": ("critical", "quality", None, "10m"),
    "ToolgaugeScoreBelowObjective": ("critical", "quality", "5m", None),
    "ToolgaugeNoScores": ("warning", "quality", "15m", None),
    "ToolgaugeEvaluationErrors": ("warning", "processing", "10m", None),
    "ToolgaugeSpansDropped": ("warning", "processing", "10m", None),
    "ToolgaugeLabelsCapped": ("info", "processing", "15m", None),
    "ToolgaugeDown": ("critical", "processing", "5m", None),
    "ToolgaugeInstanceDown": ("warning", "processing", "5m", None),
}


def groups(file: Path) -> list[dict[str, Any]]:
    return document(file)["groups"]


RECORDS = recording_rules()
BY_NAME = {rule["alert"]: rule for group in groups(ALERTS) for rule in group["rules"]}


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def series() -> Known:
    return known()


# -- with the tools of Prometheus and Alertmanager --------------------------------------------------------------------


@needs_promtool
def test_the_rules_and_the_example_configuration_of_prometheus_are_valid():
    run("promtool", "check", "rules", "--lint=all", "--lint-fatal", str(RULES), str(ALERTS))
    assert "2 rule files found" in run("promtool", "check", "config", str(PROMETHEUS / "prometheus.yaml"))


# One by one, which takes half a minute of CPU: `tests/test_page_commands.py` leaves the command of the page to these.
@needs_promtool
@pytest.mark.parametrize("file", CASES, ids=lambda file: file.stem)
def test_every_case_of_the_rules_passes(file: Path):
    (command,) = (step for step in steps(PAGE) if isinstance(step, Command) and "promtool test" in step.text)
    assert (command.text, command.not_run) == ("promtool test rules deploy/prometheus/tests/*.yaml", None)
    run("promtool", "test", "rules", str(file))


@needs_amtool
def test_alerts_reach_the_receiver_for_their_severity():
    assert "2 inhibit rules" in run("amtool", "check-config", str(ALERTMANAGER))
    for severity, receiver in (("critical", "on-call"), ("warning", "team"), ("info", "team")):
        labels = ("alertname=ToolgaugeDown", f"severity={severity}")
        assert run("amtool", "config", "routes", "test", f"--config.file={ALERTMANAGER}", *labels).strip() == receiver


# -- what they are about ----------------------------------------------------------------------------------------------


@each_row("file", [RULES, ALERTS])
def test_every_metric_and_label_of_an_expression_is_there(file: Path, series: Known):
    rules = [rule for group in groups(file) for rule in group["rules"]]
    missing = {rule.get("alert", rule.get("record")): list(unknown(rule["expr"], series)) for rule in rules}
    assert {name: names for name, names in missing.items() if names} == {}


@each_row("alert", BY_NAME)
def test_every_metric_and_label_of_the_annotations_is_there(alert: str, series: Known):
    rule = BY_NAME[alert]
    found = named(rule["expr"])
    labels = found.grouping.union(*(series[metric] for metric in found.metrics if ":" in metric))
    for annotation in rule["annotations"].values():
        assert set(re.findall(r"\$labels\.(\w+)", annotation)) <= labels | OF_TARGETS
        for query in queries(annotation):
            assert list(unknown(query, series)) == []


def queries(annotation: str) -> list[str]:
    """The queries of an annotation, with the selectors that it keeps in a variable put in."""
    texts = [text.replace('\\"', '"').replace("%q", '"x"') for text in re.findall(PRINTF, annotation)]
    selectors = [text for text in texts if text.startswith(("{", "job="))]
    return [text.replace("%s", selectors[0]) if selectors else text for text in texts if text not in selectors]


PRINTF = r'printf "((?:[^"\\]|\\.)*[a-z]{4}(?:[^"\\]|\\.)*)"'


def test_recording_rules_are_named_by_level_metric_and_operation_and_groups_have_names_of_their_own():
    names = {rule["record"] for rule in RECORDS}
    pattern = r"(stream|version|tool|criterion):toolgauge_\w+:\w+"
    assert [name for name in names if not re.fullmatch(pattern, name)] == []
    assert [name for name in sorted(names) if f"`{name}`" not in PAGE] == []
    # One resource of Kubernetes holds both files.
    of_groups = [group["name"] for file in (RULES, ALERTS) for group in groups(file)]
    assert len(of_groups) == len(set(of_groups))


def test_every_expression_about_scores_leaves_out_shadow_criteria_and_names_the_level():
    for rule in (*RECORDS, *BY_NAME.values()):
        for metric, labels in named(rule["expr"]).selected:
            about_scores = metric.startswith("toolgauge_evaluation") and rule.get("alert") != "ToolgaugeNoScores"
            assert not about_scores or "toolgauge_enforce" in labels, rule["expr"]
        if named(rule["expr"]).grouping & {"gen_ai_evaluation_name"} and "group_left" not in rule["expr"]:
            assert "toolgauge_level" in named(rule["expr"]).grouping


# -- alerts -----------------------------------------------------------------------------------------------------------


def test_every_alert_is_as_urgent_and_as_patient_as_it_should_be():
    found = {
        name: (*(rule["labels"][key] for key in ("severity", "category")), rule.get("for"), rule.get("keep_firing_for"))
        for name, rule in BY_NAME.items()
    }
    assert found == EXPECTED


@each_row("alert", BY_NAME)
def test_every_alert_leads_to_its_section_and_to_a_dashboard(alert: str):
    annotations = BY_NAME[alert]["annotations"]
    assert set(annotations) == {"summary", "description", "runbook_url", "dashboard_url"}
    assert annotations["runbook_url"] == f"https://runbooks.example.com/alerting.html#{alert.lower()}"
    assert f"\n### {alert}\n" in PAGE
    uid, variables = re.findall(r"^https://grafana\.example\.com/d/([\w-]+)\?(.*)$", annotations["dashboard_url"])[0]
    dashboard = json.loads((DEPLOY / "grafana" / "dashboards" / f"{uid}.json").read_text())
    assert dashboard["uid"] == uid
    named_there = {variable["name"] for variable in dashboard["templating"]["list"]}
    assert set(re.findall(r"var-(\w+)=", variables)) <= named_there


@each_row("alert", BY_NAME)
def test_every_alert_has_cases_in_which_it_fires_and_in_which_it_does_not(alert: str):
    cases = [
        case
        for file in CASES
        for test in document(file)["tests"]
        for case in test.get("alert_rule_test", [])
        if case["alertname"] == alert
    ]
    assert any(case["exp_alerts"] for case in cases)
    assert any(not case["exp_alerts"] for case in cases)


def test_inhibitions_are_about_alerts_and_labels_that_are_there():
    rules = document(ALERTMANAGER)["inhibit_rules"]
    assert [rule["source_matchers"] for rule in rules] == [
        ["alertname = ToolgaugeQualityRegressionBroad"],
        ["alertname = ToolgaugeDown"],
    ]
    broad = named(BY_NAME["ToolgaugeQualityRegressionBroad"]["expr"])
    single = named(BY_NAME["ToolgaugeQualityRegression"]["expr"])
    of_an_agent = {"job", "toolgauge_service", "deployment_environment_name", "gen_ai_agent_name"}
    assert set(rules[0]["equal"]) == of_an_agent
    assert of_an_agent <= broad.grouping & single.grouping
    assert rules[1]["target_matchers"] == ["category = quality"]


# -- what people paste ------------------------------------------------------------------------------------------------


def test_prometheus_scrapes_where_toolgauge_serves_under_the_name_that_the_rules_ask_for():
    (job,) = document(PROMETHEUS / "prometheus.yaml")["scrape_configs"]
    assert job["job_name"] == "toolgauge"
    assert job["static_configs"] == [{"targets": [PrometheusSettings().endpoint]}]
    assert named(BY_NAME["ToolgaugeDown"]["expr"]).metrics == {"up"}
    assert 'job="toolgauge"' in BY_NAME["ToolgaugeDown"]["expr"]


def test_the_command_on_the_page_writes_a_resource_with_all_groups(tmp_path: Path):
    written = tmp_path / "toolgauge-rules.yaml"
    command = documented("> toolgauge-rules.yaml").replace(written.name, str(written))
    subprocess.run(["sh", "-c", command], cwd=ROOT, check=True, timeout=60)
    resource = yaml.safe_load(written.read_text())
    assert resource["kind"] == "PrometheusRule"
    assert resource["spec"]["groups"] == [*groups(RULES), *groups(ALERTS)]


def test_the_command_on_the_page_puts_addresses_into_alerts_and_their_tests(tmp_path: Path):
    shutil.copytree(PROMETHEUS, tmp_path / "deploy" / "prometheus")
    subprocess.run(["sh", "-c", documented("sed -i")], cwd=tmp_path, check=True, timeout=60)
    written = {file.name: file.read_text() for file in tmp_path.rglob("*.yaml")}
    assert [name for name, text in written.items() if ".example.com" in text] == []
    # Each expected annotation is that of the alert.
    assert "https://wiki.internal/toolgauge/alerting.html#toolgaugenoscores" in written["no_scores.yaml"]


def documented(part: str) -> str:
    """Return the one command of the page with this part."""
    (command,) = (step.text for step in steps(PAGE) if isinstance(step, Command) and part in step.text)
    return command
