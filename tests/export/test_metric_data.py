import math

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric

from tests.export.scorecards import (
    SCORED_NS,
    START_NS,
    TOOL_SPAN,
    TRACE,
    call_result,
    emitter,
    failed,
    passed,
    plain,
    scorecard,
)
from toolgauge.export.emitter import Emitter
from toolgauge.model.metrics import MetricRegistry

NOW_NS = 1_700_000_090_000_000_000


def metrics(by: Emitter, now_ns: int = NOW_NS) -> dict[str, Metric]:
    outgoing = by.metrics(now_ns)
    assert (outgoing.signal, outgoing.spans, outgoing.own) == ("metrics", 0, True)
    request = ExportMetricsServiceRequest.FromString(outgoing.body)
    assert plain(request.resource_metrics[0].resource.attributes)["service.instance.id"] == "instance-1"
    scope_metrics = request.resource_metrics[0].scope_metrics[0]
    assert scope_metrics.scope.name == "toolgauge"
    return {metric.name: metric for metric in scope_metrics.metrics}


def test_a_score_as_a_cumulative_histogram_with_its_exemplar():
    emitting = emitter()
    emitting.record(scorecard(call_result(failed(0.25)), call_result(passed(1.0))))
    metric = metrics(emitting)["toolgauge.evaluation.score"]
    assert metric.unit == "1"
    assert metric.histogram.aggregation_temporality == AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
    (point,) = metric.histogram.data_points
    assert (point.start_time_unix_nano, point.time_unix_nano) == (START_NS, NOW_NS)
    assert (point.count, point.sum) == (2, 1.25)
    assert list(point.explicit_bounds) == [0, 0.5, 0.999]
    assert list(point.bucket_counts) == [0, 1, 0, 1]
    assert plain(point.attributes) == {
        "toolgauge.service": "support",
        "gen_ai.agent.name": "refund-agent",
        "gen_ai.tool.name": "issue_refund",
        "gen_ai.evaluation.name": "refund-arguments",
        "toolgauge.criterion.revision": "9f86d081884c",
        "toolgauge.level": "call",
    }
    assert [exemplar.as_double for exemplar in point.exemplars] == [0.25, 1.0]
    bad = point.exemplars[0]
    assert (bad.trace_id.hex(), bad.span_id.hex()) == (TRACE, TOOL_SPAN.span_id)
    assert bad.time_unix_nano == SCORED_NS


def test_self_metrics_are_written_with_the_scores():
    registry = MetricRegistry()
    emitting = emitter(registry=registry)
    registry.gauge("toolgauge.test.level", "{thing}", "A level.", ("kind",)).observe = lambda: {
        ("a",): 2.5,
        ("b",): math.nan,
    }
    found = metrics(emitting)
    (point,) = found["toolgauge.test.level"].gauge.data_points
    assert plain(point.attributes) == {"kind": "a"}
    assert point.as_double == 2.5
    # Nothing has been counted yet, and that is known.
    assert found["toolgauge.spans.undecodable"].sum.data_points[0].as_int == 0
    # A gauge that nobody set and a counter whose labels nobody knows are left out.
    assert "toolgauge.spans.held" not in found
    assert "toolgauge.send.retries" not in found


def test_each_cell_has_the_time_at_which_it_began_and_failures_an_exemplar():
    times = iter(range(START_NS, START_NS + 1000))
    registry = MetricRegistry(lambda: next(times))
    emitting = emitter(registry=registry)
    emitting.record(scorecard(call_result(passed())))
    emitting.record(scorecard(call_result(failed(0.25), criterion="later")))
    found = metrics(emitting)
    evaluations = found["toolgauge.evaluations"].sum
    assert evaluations.is_monotonic
    assert evaluations.aggregation_temporality == AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
    points = evaluations.data_points
    began = {plain(point.attributes)["gen_ai.evaluation.name"]: point.start_time_unix_nano for point in points}
    assert START_NS < began["refund-arguments"] < began["later"] < START_NS + 1000
    scored = found["toolgauge.evaluation.score"].histogram.data_points
    assert [point.start_time_unix_nano > START_NS for point in scored] == [True, True]
    (failure,) = (point for point in points if point.as_int and plain(point.attributes)["toolgauge.outcome"] == "fail")
    (exemplar,) = failure.exemplars
    assert (exemplar.trace_id.hex(), exemplar.span_id.hex()) == (TRACE, TOOL_SPAN.span_id)
    assert (exemplar.as_double, exemplar.time_unix_nano) == (1.0, SCORED_NS)
    assert [len(point.exemplars) for point in points if point is not failure] == [0] * (len(points) - 1)


def test_a_clock_that_was_set_back_gives_no_start_after_the_end():
    registry = MetricRegistry(lambda: NOW_NS + 1)
    emitting = emitter(registry=registry)
    emitting.record(scorecard(call_result(passed())))
    (point,) = metrics(emitting)["toolgauge.evaluation.score"].histogram.data_points
    assert (point.start_time_unix_nano, point.time_unix_nano) == (NOW_NS, NOW_NS)


def test_a_snapshot_does_not_move():
    emitting = emitter()
    card = scorecard(call_result(passed()))
    emitting.record(card)
    before = emitting.snapshot()
    emitting.record(card)
    request = ExportMetricsServiceRequest.FromString(emitting.metrics_request(before, NOW_NS).body)
    named = {metric.name: metric for metric in request.resource_metrics[0].scope_metrics[0].metrics}
    assert named["toolgauge.evaluation.score"].histogram.data_points[0].count == 1
    assert named["toolgauge.trajectories"].sum.data_points[0].as_int == 1
