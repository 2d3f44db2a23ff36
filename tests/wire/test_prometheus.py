"""A real Prometheus scrapes a running toolgauge and answers what dashboards and alert rules ask."""

import time
from pathlib import Path

from tests.wire.agent_runs import request, run_of
from tests.wire.prometheus import Prometheus, needs_prometheus, scraping
from tests.wire.support import free_port, serving, until, until_equal

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
        failed = (
            'sum(toolgauge_evaluations_total{gen_ai_evaluation_name="default.tool_success",toolgauge_outcome="fail"})'
        )
        mean = f"sum(toolgauge_evaluation_score_sum{{gen_ai_evaluation_name='default.tool_success'}}) / {count}"
        received = 'sum(toolgauge_spans_total{toolgauge_outcome="received"})'
        # What is counted becomes visible piece by piece, and a scrape that takes too long leaves a gap.
        wanted = {
            count: 4,
            failed: 1,
            mean: 0.75,
            received: toolgauge.books()["received"],
            BALANCE: 0,
            'up{job="toolgauge"}': 1,
            "toolgauge_traces_open_bytes": 0,
        }
        until_equal(lambda: {query: prometheus.value(query) for query in wanted}, wanted, "scores and books")
        everywhen = {"start": "0", "end": "9999999999"}
        series = prometheus.ask("query_exemplars", query="toolgauge_evaluation_score_bucket", **everywhen)
        labels = {frozenset(exemplar["labels"]) for one in series for exemplar in one["exemplars"]}
        assert labels == {frozenset({"trace_id", "span_id"})}
        (target,) = prometheus.ask("targets/metadata", metric="toolgauge_evaluation_score")
        assert target["type"] == "histogram"
        assert_the_process_is_measured(prometheus)


def assert_the_process_is_measured(prometheus: Prometheus) -> None:
    at_least = {
        "process_cpu_seconds_total": 0.1,
        "process_resident_memory_bytes": 10_000_000,
        "process_virtual_memory_bytes": 10_000_000,
        "process_open_fds": 5,
        "process_max_fds": 5,
        "time() - process_start_time_seconds": 0.1,
        "toolgauge_loop_lag_seconds_count": 1,
        "toolgauge_scoring_delay_seconds_count": 2,
        'sum(toolgauge_requests_total{toolgauge_outcome="accepted",toolgauge_transport="grpc"})': 2,
    }

    def less() -> list[str]:
        return [query for query, least in at_least.items() if (prometheus.value(query) or 0) < least]

    until_equal(less, [], "what is measured about the process")


def called(number: int, *, failing: str = "") -> bytes:
    """A trace of an agent run with one call of a tool."""
    return request(run_of(number, "pay", failing=failing, start_ns=time.time_ns()), service_version="1.1")


def test_the_first_failure_and_the_first_dropped_span_are_increases(tmp_path: Path):
    retry = "{initial_interval: 50ms, max_interval: 50ms, max_elapsed_time: 1500ms}"
    nowhere = f"exporters.otlp={{endpoint: 'http://127.0.0.1:{free_port()}', protocol: http, retry: {retry}}}"
    selector = 'gen_ai_tool_name="pay",gen_ai_evaluation_name="default.tool_success",service_version="1.1"'
    evaluations = f"toolgauge_evaluations_total{{{selector}"
    dropped = 'increase(toolgauge_spans_total{toolgauge_outcome="dropped",toolgauge_reason="retries_exhausted"}[1m])'
    with serving(tmp_path, nowhere) as toolgauge, scraping(toolgauge, tmp_path) as prometheus:
        until(lambda: prometheus.value(dropped) == 0, "no dropped span")
        toolgauge.send(called(1))
        until(lambda: prometheus.value(f'{evaluations},toolgauge_outcome="pass"}}') == 1, "a call that worked")
        failures = f'increase({evaluations},toolgauge_outcome="fail"}}[1m])'
        until(lambda: prometheus.value(failures) == 0, "no failure")
        toolgauge.send(called(2, failing="pay"))
        until(lambda: (prometheus.value(failures) or 0) > 0.5, "the first failure as an increase")
        until(lambda: (prometheus.value(dropped) or 0) > 0.5, "the first dropped span as an increase")
        calls = 'sum by (error_type) (toolgauge_tool_calls_total{service_version="1.1",error_type="TimeoutError"})'
        until(lambda: prometheus.value(calls) == 1, "the call that failed")
        for counter in ("toolgauge_evaluations_total", "toolgauge_tool_calls_total"):
            until_equal(lambda counter=counter: exemplars_of(prometheus, counter), {f"{2:032x}"}, "its exemplar")
        # What is queued has nowhere to go.
        toolgauge.close()


def exemplars_of(prometheus: Prometheus, query: str) -> set[str]:
    series = prometheus.ask("query_exemplars", query=query, start="0", end="9999999999")
    return {exemplar["labels"]["trace_id"] for one in series for exemplar in one["exemplars"]}
