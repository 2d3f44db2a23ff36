# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# prometheus_client's OpenMetrics parser is not annotated.

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest
from msgspec.structs import replace
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import parser as openmetrics_parser
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample, Timestamp

from tests.export.scorecards import START_NS, TOOL_SPAN, TRACE, call, call_result, emitter, failed, passed, scorecard
from tests.rows import each_row
from toolgauge.export.prometheus import accepts_openmetrics, render
from toolgauge.model.metrics import MetricRegistry, snapshot
from toolgauge.service.process import measure_process

OPENMETRICS = "application/openmetrics-text;version=1.0.0"
RESOURCE = {"service.name": "toolgauge", "service.instance.id": "instance-1"}
HOSTILE = '<b>"re\\fund"</b>\n# EOF\n{x="y"} 1'


def exposition(registry: MetricRegistry, accept: str = "") -> str:
    body, content_type = render(snapshot(registry), RESOURCE, accept=accept, start_ns=START_NS)
    assert content_type.startswith("application/openmetrics-text" if accept else "text/plain; version=0.0.4")
    return body.decode()


def parsed(registry: MetricRegistry, accept: str) -> dict[str, Metric]:
    text = exposition(registry, accept)
    families: Iterable[Metric] = (
        openmetrics_parser.text_string_to_metric_families(text) if accept else text_string_to_metric_families(text)
    )
    return {family.name: family for family in families}


def scored_registry(tool: str = "issue_refund") -> MetricRegistry:
    registry = MetricRegistry()
    emitter(registry=registry).record(
        scorecard(call_result(failed(0.25), call(tool)), call_result(passed(1.0), call(tool)))
    )
    return registry


def sample(family: Metric, name: str, **labels: str) -> Sample:
    (found,) = (each for each in family.samples if each.name == name and labels.items() <= each.labels.items())
    return found


def test_a_label_that_would_begin_with_a_digit_begins_with_an_underscore():
    body, _ = render((), {"2nd.region": "eu"}, accept="", start_ns=START_NS)
    assert '_2nd_region="eu"' in body.decode()


@pytest.mark.parametrize("accept", ["", OPENMETRICS])
def test_names_are_those_of_the_translated_otlp_metrics(accept: str):
    families = parsed(scored_registry(), accept)
    labels = {
        "toolgauge_service": "support",
        "gen_ai_agent_name": "refund-agent",
        "gen_ai_tool_name": "issue_refund",
        "gen_ai_evaluation_name": "refund-arguments",
        "toolgauge_criterion_revision": "9f86d081884c",
        "toolgauge_level": "call",
    }
    score = families["toolgauge_evaluation_score"]
    assert sample(score, "toolgauge_evaluation_score_sum").labels == labels
    assert sample(score, "toolgauge_evaluation_score_sum").value == 1.25
    assert sample(score, "toolgauge_evaluation_score_count").value == 2
    assert {each.labels["le"]: each.value for each in score.samples if each.name.endswith("_bucket")} == {
        "0.0": 0,
        "0.5": 1,
        "0.999": 1,
        "+Inf": 2,
    }
    evaluations = families["toolgauge_evaluations"]
    assert sample(evaluations, "toolgauge_evaluations_total", toolgauge_outcome="fail").value == 1
    assert "toolgauge_not_evaluated_reason" not in evaluations.samples[0].labels
    assert families["toolgauge_labels_label_sets"].type == "gauge"
    assert sample(families["toolgauge_labels_label_sets"], "toolgauge_labels_label_sets").value == 3
    assert families["toolgauge_scoring_duration_seconds"].type == "histogram"
    assert families["toolgauge_spans_undecodable"].samples[0].value == 0
    assert families["toolgauge_spans_held"].type == "gauge"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="this system does not describe processes in /proc")
@pytest.mark.parametrize("accept", ["", OPENMETRICS])
def test_the_process_has_the_names_that_dashboards_know_and_no_others(accept: str):
    registry = MetricRegistry()
    measure_process(registry)
    text = exposition(registry, accept)
    names = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE process_")]
    assert [name.removesuffix("_total") for name in names] == [
        "process_virtual_memory_bytes",
        "process_resident_memory_bytes",
        "process_start_time_seconds",
        "process_cpu_seconds",
        "process_open_fds",
        "process_max_fds",
    ]


def test_failures_carry_an_exemplar_and_passes_begin_with_them():
    registry = MetricRegistry()
    emitter(registry=registry).record(scorecard(call_result(failed(0.25))))
    evaluations = parsed(registry, OPENMETRICS)["toolgauge_evaluations"]
    counts = {each.labels["toolgauge_outcome"]: each for each in evaluations.samples if each.name.endswith("_total")}
    assert {outcome: each.value for outcome, each in counts.items()} == {
        "pass": 0,
        "fail": 1,
    }
    exemplar = counts["fail"].exemplar
    assert exemplar is not None
    assert exemplar.labels == {"trace_id": TRACE, "span_id": TOOL_SPAN.span_id}
    assert counts["pass"].exemplar is None


def test_scores_of_0_or_1_have_the_one_bound_that_all_label_sets_share():
    registry = MetricRegistry()
    by = emitter(registry=registry)
    by.record(scorecard(replace(call_result(failed(0.0), criterion="binary"), is_binary=True)))
    by.record(scorecard(call_result(failed(0.25))))
    score = parsed(registry, OPENMETRICS)["toolgauge_evaluation_score"]
    buckets = [each for each in score.samples if each.name.endswith("_bucket")]
    binary = {each.labels["le"]: each.value for each in buckets if each.labels["gen_ai_evaluation_name"] == "binary"}
    assert binary == {"0.0": 1, "+Inf": 1}
    assert binary.keys() < {each.labels["le"] for each in buckets if each.labels["gen_ai_evaluation_name"] != "binary"}


def test_buckets_carry_exemplars_in_openmetrics():
    score = parsed(scored_registry(), OPENMETRICS)["toolgauge_evaluation_score"]
    exemplar = sample(score, "toolgauge_evaluation_score_bucket", le="0.5").exemplar
    assert exemplar is not None
    assert exemplar.labels == {"trace_id": TRACE, "span_id": TOOL_SPAN.span_id}
    assert exemplar.value == 0.25
    assert exemplar.timestamp == Timestamp(1_700_000_060, 0)
    assert sample(score, "toolgauge_evaluation_score_bucket", le="0.999").exemplar is None


@pytest.mark.parametrize("accept", ["", OPENMETRICS])
def test_a_hostile_tool_name_stays_one_label_value(accept: str):
    score = parsed(scored_registry(HOSTILE), accept)["toolgauge_evaluation_score"]
    expected = '<b>"re\\fund"</b>\ufffd# EOF\ufffd{x="y"} 1'
    assert {each.labels["gen_ai_tool_name"] for each in score.samples} == {expected}


@each_row(
    ("accept", "openmetrics"),
    [
        ("", False),
        ("*/*", False),
        ("text/html,*/*;q=0.8", False),
        ("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1", True),
        (
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
            "application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
            True,
        ),
        ("text/plain, application/openmetrics-text;q=0.1", False),
        ("application/openmetrics-text;q=0", False),
        ("application/openmetrics-text;q=nonsense", False),
        ("APPLICATION/OPENMETRICS-TEXT", True),
        (",;=;,", False),
    ],
)
def test_openmetrics_is_written_for_who_asks_for_it(accept: str, openmetrics: bool):  # noqa: FBT001 # the answer under test
    assert accepts_openmetrics(accept) is openmetrics


PROMTOOL = shutil.which("promtool")


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (Debian: apt-get install prometheus)")
@pytest.mark.parametrize("tool", ["issue_refund", HOSTILE])
def test_promtool_takes_the_exposition(tool: str):
    assert PROMTOOL is not None
    checked = subprocess.run(
        [PROMTOOL, "check", "metrics"],
        input=exposition(scored_registry(tool)),
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
