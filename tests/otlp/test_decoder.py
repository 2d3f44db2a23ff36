"""What is viewed, what gives only its ids, what is left alone."""

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue, KeyValueList
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from tests.otlp import stock
from tests.rows import each_row
from toolgauge.model.records import SpanHead
from toolgauge.otlp.decoder import Decoder

MARKED = stock.span(stock.key_value("gen_ai.a"), name="marked")
PLAIN = stock.span(stock.key_value("http.route"), name="plain")


def decoder() -> Decoder:
    return Decoder(["gen_ai."], ["named.", "exact"], ["session.id"])


def scope_of(name: str, *spans: Span) -> ScopeSpans:
    return ScopeSpans(scope=InstrumentationScope(name=name), spans=spans)


def viewed_names(decoder: Decoder, *groups: ScopeSpans) -> list[str]:
    return [
        viewed.span.name for viewed in stock.read_traces(decoder, stock.request(*groups).SerializeToString()).viewed
    ]


@each_row("count", [2, 3, 4, 255, 256, 257, 700])
def test_a_marked_span_is_found_wherever_it_stands_among_others(count: int):
    for place in (0, 1, count // 2, count - 1):
        spans = [PLAIN] * count
        spans[place] = MARKED
        for body in (stock.request(scope_of("s", *spans)), stock.request(scope_of("t", PLAIN), scope_of("s", *spans))):
            for written in (body.SerializeToString(), stock.back_to_front(body)):
                decoded = stock.read_traces(decoder(), written)
                assert [viewed.place[2] for viewed in decoded.viewed] == [place]
                assert len(decoded.heads) == decoded.span_count - 1


def test_the_first_spans_of_an_unknown_scope_are_looked_at_and_one_of_many_later():
    sampling = Decoder(["gen_ai."], ["named."], samples=3)
    seen = [
        stock.read_traces(sampling, stock.request(scope_of("s", *[PLAIN] * 2)).SerializeToString()) for _ in range(3)
    ]
    assert [[viewed.is_sample for viewed in one.viewed] for one in seen] == [[True, True], [True], []]
    assert [len(one.heads) for one in seen] == [0, 1, 2]
    many = stock.request(scope_of("s", *[PLAIN] * 4096)).SerializeToString()
    assert len(list(stock.read_traces(sampling, many).viewed)) == 1


def test_a_key_that_was_learned_is_looked_for():
    learning = Decoder(["gen_ai."], [])
    request = stock.request(scope_of("s", stock.span(stock.key_value("acme.stage"), name="w"))).SerializeToString()
    assert not list(stock.read_traces(learning, request).viewed)
    learning.look_for("acme.stage")
    assert [viewed.span.name for viewed in stock.read_traces(learning, request).viewed] == ["w"]


@each_row(("name", "expected"), [("named.x", ["plain"]), ("exact", ["plain"]), ("name", []), ("", [])])
def test_span_of_a_named_scope_is_viewed_without_a_mark(name: str, expected: list[str]):
    assert viewed_names(decoder(), scope_of(name, PLAIN)) == expected


def test_our_own_spans_are_counted_and_neither_viewed_nor_remembered():
    decoded = stock.read_traces(decoder(), stock.request(scope_of("toolgauge", MARKED, PLAIN)).SerializeToString())
    assert (decoded.span_count, decoded.viewed, decoded.heads) == (2, (), ())
    assert viewed_names(decoder(), scope_of("toolgauge-demo", MARKED)) == ["marked"]


def test_every_recorded_span_is_viewed_or_gives_its_ids():
    marks = decoder()
    for path in stock.recorded_traces():
        decoded = stock.read_traces(marks, path.read_bytes())
        assert decoded.undecodable == 0
        assert decoded.span_count == len(decoded.viewed) + len(decoded.heads)
    assert marks.values.undecodable == 0


def test_recorded_requests_read_the_same_after_a_collector_has_written_them_back_to_front():
    for path in stock.recorded_traces()[::5]:
        body = path.read_bytes()
        whole = stock.read_traces(decoder(), body)
        other = stock.read_traces(decoder(), stock.back_to_front(ExportTraceServiceRequest.FromString(body)))
        assert other.span_count == whole.span_count
        seen = {one.span.ref: dict(one.span.attributes) for one in other.viewed}
        assert seen == seen | {one.span.ref: dict(one.span.attributes) for one in whole.viewed}
        assert {SpanHead(*head).span_id for head in other.heads} <= {SpanHead(*head).span_id for head in whole.heads}


def logs_of(*records: LogRecord, scope: str = "") -> bytes:
    scope_bytes = InstrumentationScope(name=scope).SerializeToString()
    return stock.request_of([record.SerializeToString() for record in records], scope_bytes)


def test_marked_log_records_are_viewed():
    body = AnyValue(kvlist_value=KeyValueList(values=[stock.key_value("content", "hi")]))
    record = LogRecord(
        time_unix_nano=5,
        observed_time_unix_nano=6,
        event_name="gen_ai.choice",
        body=body,
        attributes=[KeyValue(key="n", value=AnyValue(int_value=3))],
        trace_id=stock.TRACE_ID,
        span_id=stock.SPAN_ID,
    )
    decoded = decoder().logs(logs_of(record, LogRecord(event_name="other")))
    assert (decoded.record_count, decoded.undecodable.total()) == (2, 0)
    [viewed] = decoded.viewed
    assert viewed.ref is not None
    assert (viewed.ref.trace_id, viewed.ref.span_id) == (stock.TRACE_ID.hex(), stock.SPAN_ID.hex())
    assert (viewed.event_name, viewed.time_ns, viewed.body) == ("gen_ai.choice", 5, {"content": "hi"})
    assert viewed.attributes == {"n": 3}
    assert viewed.size_bytes == record.ByteSize()


def test_log_records_of_a_named_scope_are_viewed_and_our_own_are_not():
    record = LogRecord(event_name="x")
    assert len([*decoder().logs(logs_of(record, scope="named.a")).viewed]) == 1
    own = decoder().logs(logs_of(LogRecord(event_name="gen_ai.evaluation.result"), scope="toolgauge"))
    assert (own.record_count, [*own.viewed]) == (1, [])


def test_broken_log_record_is_counted_and_costs_no_other():
    good = LogRecord(event_name="gen_ai.choice").SerializeToString()
    decoded = decoder().logs(stock.request_of([good, good + b"\x0a\x7f", good]))
    assert (decoded.record_count, len([*decoded.viewed]), decoded.undecodable.total()) == (3, 2, 1)


def test_all_recorded_log_records_can_be_viewed():
    everything = Decoder(["gen_ai."], [""])
    count = 0
    for path in stock.recorded_logs():
        body = path.read_bytes()
        decoded = everything.logs(body)
        records = [*decoded.viewed]
        assert decoded.record_count == len(records)
        for raw, viewed in zip(stock.raw_items(body), records, strict=True):
            expected = LogRecord.FromString(raw)
            assert viewed.body == stock.plain_value(expected.body)
            assert viewed.attributes == stock.plain_attributes(expected.attributes)
            count += 1
    assert count > 100


def origins(*senders: str | None) -> list[object]:
    decode, body = decoder(), request_of([scope_of("s", MARKED)]).SerializeToString()
    return [stock.read_traces(decode, body, sender).viewed[0].container.origin for sender in senders]


def request_of(scopes: list[ScopeSpans]) -> ExportTraceServiceRequest:
    attributes = [stock.key_value("service.name", "shop"), stock.key_value("host", "x" * 10_000)]
    resource_spans = ResourceSpans(resource=Resource(attributes=attributes), scope_spans=scopes)
    return ExportTraceServiceRequest(resource_spans=[resource_spans])


def test_requests_on_one_connection_have_one_origin_whatever_they_say_of_themselves():
    one, other, again, unknown, another = origins(
        "ipv4:10.0.0.1:4000", "ipv4:10.0.0.1:4001", "ipv4:10.0.0.1:4000", None, None
    )
    assert one == again
    assert len({one, other, unknown, another}) == 4
