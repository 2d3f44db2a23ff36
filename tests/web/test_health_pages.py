"""The page of health: books that balance, and what asks for attention."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.web.streams import Parsed, page, shown
from toolgauge.export.score_metrics import ScoreMetrics
from toolgauge.export.settings import MetricsSettings
from toolgauge.model.metrics import Histogram, MetricRegistry
from toolgauge.selfmetrics import PROBLEMS, SelfMetrics, drop_reason
from toolgauge.service.health import ComponentHealth, Phase
from toolgauge.web.health_pages import Books, MetricValues, books, health, problems
from toolgauge.web.pages import PageContent

DOCS = Path(__file__).parents[2] / "docs"
FINE = ComponentHealth(status="StatusOK", since_ns=1)


async def health_page(over: PageContent) -> Parsed:
    html = await page(health, over, "health")
    assert html is not None
    return Parsed(html)


def counted(count: Callable[[SelfMetrics], None]) -> MetricValues:
    registry = MetricRegistry()
    metrics = SelfMetrics(registry)
    count(metrics)
    return MetricValues.of(registry)


def test_books_are_kept_for_each_destination() -> None:
    def count(metrics: SelfMetrics) -> None:
        for name in ("one", "two"):
            metrics.begin_destination(name, ("traces",))
        metrics.spans.add(100, ("received", "", ""))
        metrics.spans.add(5, ("refused", "memory", ""))
        metrics.spans.add(60, ("forwarded", "", "one"))
        metrics.spans.add(50, ("forwarded", "", "two"))
        metrics.spans.add(10, ("dropped", "retries_exhausted", "two"))
        metrics.spans.add(1, ("dropped", "http_413", "two"))
        metrics.spans_held.observe = lambda: {(): 15}
        metrics.spans_queued.observe = lambda: {("one",): 20, ("two",): 18}

    one, two = books(counted(count))
    assert one == Books(
        destination="one",
        received=100,
        forwarded=60,
        consumed=0,
        held=15,
        queued=20,
        refused=5,
        dropped=(),
    )
    assert one.difference == 0
    assert two.dropped == (
        ("http_413", 1, "the destination refused the request for good with it"),
        ("retries_exhausted", 10, "no attempt worked within `retry.max_elapsed_time` of the first one"),
    )
    assert two.difference == 1


def test_only_numbers_that_are_not_0_are_problems() -> None:
    assert list(problems(counted(lambda _metrics: None))) == []

    def count(metrics: SelfMetrics) -> None:
        metrics.log_dropped.add(3)
        for dropped in (metrics.own_dropped, metrics.requests_dropped):
            dropped.add(5, ("backend", "logs", "sampled"))
        metrics.criteria_unmatched.set(1, ("refunds",))
        metrics.criteria_unmatched.set(0, ("orders",))
        metrics.requests.add(9, ("grpc", "traces", "accepted"))

    found = list(problems(counted(count)))
    assert [(each.metric, dict(each.labels), each.value) for each in found] == [
        ("toolgauge.criteria.unmatched", {"gen_ai.evaluation.name": "refunds"}, 1),
        ("toolgauge.log.dropped", {}, 3),
    ]


def test_every_number_that_should_be_0_is_a_metric_of_the_page_of_metrics() -> None:
    registry = MetricRegistry()
    SelfMetrics(registry)
    ScoreMetrics(MetricsSettings(), registry)
    known = {metric.name: metric for metric in registry if not isinstance(metric, Histogram)}
    documented = (DOCS / "metrics.md").read_text()
    for name, labels in PROBLEMS:
        assert f"`{name}`" in documented
        assert set(labels) <= {label.removeprefix("toolgauge.") for label in known[name].labels}


def test_reasons_of_dropped_spans_are_those_of_the_page_of_metrics() -> None:
    section = (DOCS / "metrics.md").read_text().partition("## Why a span was dropped")[2]
    rows = re.findall(r"^\| (.+?) \| (.+) \|$", section, re.MULTILINE)
    written = {reason.strip("`"): sentence for reason, sentence in rows if reason.startswith("`") and "," not in reason}
    written["internal_error"] = written.pop("internal_...")
    written.pop("toolgauge.reason")
    assert len(written) == 11
    assert {reason: drop_reason(reason) for reason in written} == written
    assert ("a gRPC status in lower case, `http_<status>`", drop_reason("http_503")) in rows


def over(components: Mapping[str, ComponentHealth], phase: Phase = "running") -> PageContent:
    registry = MetricRegistry()
    metrics = SelfMetrics(registry)
    metrics.faults.add(2, ("<script>alert(1)</script>",))
    metrics.queue_capacity.observe = lambda: {("otlp",): 64 << 20}
    metrics.begin_destination("otlp", ("traces",))
    found = shown(None, registry=registry)
    assert found.running is not None
    found.running.health.components = lambda: components
    found.running.health.enter(phase)
    return found


async def test_the_page_names_what_is_in_trouble_since_when_and_why() -> None:
    away = ComponentHealth(status="StatusRecoverableError", since_ns=1_700_000_000_000_000_000, error="<b>refused</b>")
    found = await health_page(over({"receiver:otlp/grpc": FINE, "exporter:otlp": away}))
    assert "in trouble exporter:otlp" in found.words
    assert "otlp ! in trouble 0 B of 64.0 MiB 0 11-14 22:13:20 <b>refused</b>" in found.words
    assert "they balance" in found.words
    assert found.count("b") == 0
    assert found.count("script") == 1
    assert "toolgauge.faults <script>alert(1)</script> 2 Internal errors" in found.words
