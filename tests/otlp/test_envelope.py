"""Requests taken apart and put together again."""

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from tests.otlp import stock
from tests.rows import each_row
from toolgauge.model.errors import DecodeError
from toolgauge.otlp.decoder import Decoder
from toolgauge.otlp.envelope import count_items, encode_spans, parse_request


def decoder() -> Decoder:
    return Decoder(["gen_ai."], [])


def names(body: bytes | None) -> list[list[list[str]]]:
    assert body is not None
    groups = ExportTraceServiceRequest.FromString(body).resource_spans
    return [[[span.name for span in scope.spans] for scope in group.scope_spans] for group in groups]


def marked(name: str) -> Span:
    return stock.span(stock.key_value("gen_ai.tool.name"), name=name)


def test_all_recorded_requests_survive_the_envelope_byte_for_byte():
    paths = [*stock.recorded_traces(), *stock.recorded_logs()]
    assert len(paths) > 300
    for path in paths:
        body = path.read_bytes()
        assert parse_request(body).SerializeToString() == body, path


def request_of_three() -> bytes:
    first = ScopeSpans(spans=[marked("a"), stock.span(name="b")], schema_url="one")
    second = ScopeSpans(scope=InstrumentationScope(name="s"), spans=[marked("c")])
    return stock.request(first, second).SerializeToString()


def test_removed_span_is_gone_and_its_neighbours_stay():
    decoded = stock.read_traces(decoder(), request_of_three())
    assert [viewed.place for viewed in decoded.viewed] == [(0, 0, 0), (0, 1, 0)]
    assert names(decoded.body([(0, 0, 0)])) == [[["b"], ["c"]]]
    assert names(decoded.body([(0, 0, 1)])) == [[["a"], ["c"]]]
    assert names(decoded.body([(0, 1, 0)])) == [[["a", "b"]]]
    assert decoded.body([(0, 0, 0), (0, 0, 1), (0, 1, 0)]) is None
    five = stock.request(ScopeSpans(spans=[marked(name) for name in "abcde"])).SerializeToString()
    assert names(stock.read_traces(decoder(), five).body([(0, 0, 3), (0, 0, 1)])) == [[["a", "c", "e"]]]


def test_empty_group_of_the_sender_stays_while_other_spans_do():
    body = stock.request(ScopeSpans(spans=[marked("a"), marked("b")]), ScopeSpans()).SerializeToString()
    assert names(stock.read_traces(decoder(), body).body([(0, 0, 0)])) == [[["b"], []]]
    assert stock.read_traces(decoder(), body).body([(0, 0, 0), (0, 0, 1)]) is None


def test_unknown_fields_of_an_emptied_group_are_kept_while_other_spans_are_left():
    unknown = stock.field(77, b"unknown")
    body = stock.field(1, stock.field(2, stock.field(2, marked("a").SerializeToString()) + unknown))
    body += stock.request_of([marked("b").SerializeToString()])
    rest = stock.read_traces(decoder(), body).body([(0, 0, 0)])
    assert names(rest) == [[[]], [["b"]]]
    assert rest is not None
    assert unknown in rest


def test_released_spans_are_grouped_by_what_stood_around_them():
    service = Resource(attributes=[stock.key_value("service.name", "shop")])
    body = ExportTraceServiceRequest(
        resource_spans=[
            ResourceSpans(
                resource=service,
                schema_url="r",
                scope_spans=[
                    ScopeSpans(scope=InstrumentationScope(name="x"), schema_url="s", spans=[marked("a"), marked("b")]),
                    ScopeSpans(scope=InstrumentationScope(name="y"), spans=[marked("c")]),
                ],
            )
        ]
    ).SerializeToString()
    a, b, c = stock.read_traces(decoder(), body).viewed
    assert a.container is b.container
    assert a.container is not c.container
    # Interleaved on purpose.
    assert encode_spans((viewed.container, viewed.raw) for viewed in (a, c, b)) == body


def test_items_of_both_signals_are_counted():
    assert count_items(request_of_three()) == 3
    assert count_items(b"") == 0
    for path in stock.recorded_logs()[:5]:
        body = path.read_bytes()
        request = ExportLogsServiceRequest.FromString(body)
        assert count_items(body) == sum(len(s.log_records) for r in request.resource_logs for s in r.scope_logs)


@each_row("damage", ["cut off", "trailing bytes", "end of a group", "not protobuf"])
def test_broken_envelope_is_a_decode_error(damage: str):
    body = request_of_three()
    broken = {
        "cut off": body[:-1],
        "trailing bytes": body + b"\x0a",
        "end of a group": body + b"\x0c",
        "not protobuf": b"\xff" * 40,
    }[damage]
    for read in (decoder().traces, decoder().logs, count_items):
        with pytest.raises(DecodeError):
            read(broken)


def test_a_scope_that_is_written_senselessly_often_is_kept_as_one():
    span = stock.field(2, marked("a").SerializeToString())
    name = stock.field(1, stock.field(1, b"s"))
    held = stock.read_traces(decoder(), stock.field(1, stock.field(2, name + b"\x0a\0" * 100_000 + span))).viewed[0]
    assert held.container.scope == (stock.field(1, b"s"),)
    body = encode_spans([(held.container, held.raw)])
    group = ExportTraceServiceRequest.FromString(body).resource_spans[0].scope_spans[0]
    assert (group.scope.name, [span.name for span in group.spans]) == ("s", ["a"])
