"""Annotated spans are the original spans with attributes added."""

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.otlp import stock
from toolgauge.otlp.encode import annotate, taken_slots

SCORE = KeyValue(key="toolgauge.eval.x.score", value=AnyValue(double_value=0.5))
OUTCOME = stock.key_value("toolgauge.outcome", "pass")
ATTRIBUTES = Span(attributes=[SCORE, OUTCOME]).SerializeToString()
FAILED = Span(attributes=[stock.key_value("toolgauge.outcome", "fail")]).SerializeToString()


def keys(raw: bytes) -> list[str]:
    return [entry.key for entry in Span.FromString(raw).attributes]


def test_annotated_recorded_spans_are_the_originals_with_attributes_added():
    for number, raw in enumerate(stock.recorded_spans()):
        expected = Span.FromString(raw)
        expected.attributes.extend([SCORE, OUTCOME])
        annotated = annotate(raw, ATTRIBUTES)
        assert annotated.startswith(raw)
        assert Span.FromString(annotated) == expected
        if number % 5 == 0:
            assert Span.FromString(annotate(annotate(raw, FAILED), ATTRIBUTES)) == expected


def test_attributes_of_another_toolgauge_are_replaced_and_not_doubled():
    span = stock.span(
        stock.key_value("toolgauge.old"), stock.key_value("a"), stock.key_value("toolgauge.outcome", "fail")
    )
    annotated = annotate(span.SerializeToString(), ATTRIBUTES)
    assert list(Span.FromString(annotated).attributes) == [stock.key_value("a"), SCORE, OUTCOME]


def test_key_that_only_begins_like_ours_and_what_is_broken_are_kept():
    raw = stock.span(stock.key_value("toolgauges"), stock.key_value("toolgauge.old")).SerializeToString()
    assert keys(annotate(raw, b"")) == ["toolgauges"]
    for kept in (raw + b"\x2a\x7fcut off", stock.span(stock.key_value("a")).SerializeToString()):
        assert annotate(kept, b"") == kept


def test_evaluations_of_another_toolgauge_are_replaced_and_those_of_others_stay():
    others = stock.key_value("evaluations.0.evaluation.name", "relevance")
    span = stock.span(
        others,
        stock.key_value("trace.evaluations.2.evaluation.name", "tone"),
        stock.key_value("toolgauge.outcome", "fail"),
        stock.key_value("evaluations.1.evaluation.name", "refund"),
        stock.key_value("evaluations.1.evaluation.identifier", "toolgauge:9f86"),
    )
    raw = span.SerializeToString()
    assert taken_slots(raw) == {b"evaluations.0", b"trace.evaluations.2"}
    assert keys(annotate(raw, ATTRIBUTES)) == [
        others.key,
        "trace.evaluations.2.evaluation.name",
        "toolgauge.eval.x.score",
        "toolgauge.outcome",
    ]
    assert taken_slots(stock.span(stock.key_value("a")).SerializeToString()) == frozenset()
