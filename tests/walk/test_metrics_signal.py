from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics

from tests.walk.support import Walk
from toolgauge.model.delivery import Accepted, Invalid, Refused, Unsupported

BODY = ExportMetricsServiceRequest(
    resource_metrics=[
        ResourceMetrics(
            scope_metrics=[
                ScopeMetrics(
                    metrics=[Metric(name="queue.length", gauge=Gauge(data_points=[NumberDataPoint(as_int=3)]))]
                )
            ]
        )
    ]
).SerializeToString()
UNKNOWN_FIELD = b"\xc2\xbb\x07\x01x"


def test_metrics_go_on_byte_for_byte():
    walk = Walk()
    assert walk.pipeline.consume("metrics", BODY + UNKNOWN_FIELD, walk.now_ns) == Accepted()
    (sent,) = walk.bag.taken
    assert (sent.signal, sent.body, sent.spans, sent.own) == ("metrics", BODY + UNKNOWN_FIELD, 0, False)


def test_metrics_are_refused_where_nothing_is_sent_on():
    walk = Walk()
    walk.bag.is_leaf = True
    answer = walk.pipeline.consume("metrics", BODY, walk.now_ns)
    assert isinstance(answer, Unsupported)
    assert walk.bag.taken == []


def test_metrics_envelope_without_metrics_is_taken_and_not_sent():
    walk = Walk()
    assert walk.pipeline.consume("metrics", b"\n\0", walk.now_ns) == Accepted()
    assert walk.bag.taken == []


def test_broken_metrics_are_refused_for_good():
    walk = Walk()
    assert isinstance(walk.pipeline.consume("metrics", BODY[:-3], walk.now_ns), Invalid)


def test_metrics_come_back_later_when_the_queue_is_full():
    walk = Walk()
    walk.bag.room = 0
    assert isinstance(walk.pipeline.consume("metrics", BODY, walk.now_ns), Refused)
