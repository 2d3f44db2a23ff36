"""A real Prometheus scrapes a running toolgauge and answers what dashboards and alert rules ask."""

from pathlib import Path

from tests.wire.prometheus import Prometheus, needs_prometheus, scraping
from tests.wire.support import serving, until

pytestmark = needs_prometheus

BALANCE = """
sum(toolgauge_spans_total{toolgauge_outcome="received"})
- sum(toolgauge_spans_total{toolgauge_outcome!="received"})
- sum(toolgauge_spans_held) - sum(toolgauge_spans_queued)
"""


def test_scores_exemplars_and_the_books_are_stored(tmp_path: Path):
    with serving(tmp_path) as toolgauge, scraping(toolgauge, tmp_path) as prometheus:
        toolgauge.send_recorded("pydantic-ai", "tool_error")
        toolgauge.send_recorded("openinference-langgraph", "sequence")
        count = 'sum(toolgauge_evaluation_score_count{gen_ai_evaluation_name="default.tool_success"})'
        until(lambda: prometheus.value(count) == 4, "the scores of four calls", 20)
        failed = (
            'sum(toolgauge_evaluations_total{gen_ai_evaluation_name="default.tool_success",toolgauge_outcome="fail"})'
        )
        assert prometheus.value(failed) == 1
        mean = f"sum(toolgauge_evaluation_score_sum{{gen_ai_evaluation_name='default.tool_success'}}) / {count}"
        assert prometheus.value(mean) == 0.75
        received = until(
            lambda: prometheus.value('sum(toolgauge_spans_total{toolgauge_outcome="received"})'), "the books"
        )
        assert received == toolgauge.books()["received"]
        assert prometheus.value(BALANCE) == 0
        assert prometheus.value('up{job="toolgauge"}') == 1
        assert_exemplars_lead_to_spans(prometheus)
        assert_metadata_is_there(prometheus)
        assert_the_process_is_measured(prometheus)


def assert_exemplars_lead_to_spans(prometheus: Prometheus) -> None:
    series = prometheus.ask("query_exemplars", query="toolgauge_evaluation_score_bucket", start="0", end="9999999999")
    labels = [exemplar["labels"] for one in series for exemplar in one["exemplars"]]
    assert labels
    assert {frozenset(label) for label in labels} == {frozenset({"trace_id", "span_id"})}


def assert_metadata_is_there(prometheus: Prometheus) -> None:
    targets = prometheus.ask("targets/metadata", metric="toolgauge_evaluation_score")
    assert [target["type"] for target in targets] == ["histogram"]


def assert_the_process_is_measured(prometheus: Prometheus) -> None:
    at_least = {
        "sum(process_cpu_time_seconds_total)": 0.1,
        "process_memory_usage_bytes": 10_000_000,
        "process_uptime_seconds": 0.1,
        "time() - process_start_time_seconds": 0.1,
        "toolgauge_loop_lag_seconds_count": 1,
        "toolgauge_scoring_delay_seconds_count": 2,
        'sum(toolgauge_requests_total{toolgauge_outcome="accepted",toolgauge_transport="grpc"})': 2,
    }
    values = {query: prometheus.value(query) for query in at_least}
    assert [query for query, value in values.items() if value is None or value < at_least[query]] == []
    assert prometheus.value("toolgauge_traces_open_bytes") == 0
    assert {
        series["metric"]["cpu_mode"] for series in prometheus.ask("query", query="process_cpu_time_seconds_total")
    } == {
        "user",
        "system",
    }
