"""Many senders behind one connection: what one of them does wrong costs none of the others anything."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from pathlib import Path

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from tests.otlp.stock import field
from tests.wire.destination import receiving
from tests.wire.support import TRACES, Toolgauge, serving, to_grpc, until

SENDERS = 30
START_NS = 1_800_000_000_000_000_000
TRACE_ID = bytes(range(1, 17))
ROOT_ID = (1).to_bytes(8, "big")
# An attribute whose value is no text.
NO_TEXT = field(9, field(1, b"note") + field(2, field(1, b"caf\xe9")))


def text(key: str, value: str) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(string_value=value))


def spans_of(*spans: tuple[int, str]) -> ExportTraceServiceRequest:
    """Spans of the shared run by id and operation; that of the run itself is `invoke_agent`."""
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    for number, operation in spans:
        span = scope.spans.add(
            trace_id=TRACE_ID,
            span_id=number.to_bytes(8, "big"),
            parent_span_id=b"" if operation == "invoke_agent" else ROOT_ID,
            name=operation,
            start_time_unix_nano=START_NS,
            end_time_unix_nano=START_NS + 1_000_000,
        )
        if operation != "work":
            values = {"gen_ai.operation.name": operation, "gen_ai.tool.name": "find_order"}
            span.attributes.extend(text(key, value) for key, value in values.items())
    return request


def request_of(number: int) -> ExportTraceServiceRequest:
    """One sender's request: a tool call of the shared run, held for its score, and a span that goes on at once."""
    return spans_of((number * 2 + 2, "execute_tool"), (number * 2 + 3, "work"))


def broken_request() -> bytes:
    """A request whose tool span and whose other span are no UTF-8."""
    scope = request_of(SENDERS).resource_spans[0].scope_spans[0]
    return field(1, field(2, b"".join(field(2, span.SerializeToString() + NO_TEXT) for span in scope.spans)))


def send_over_one_connection(toolgauge: Toolgauge, bodies: list[bytes]) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{toolgauge.grpc_port}") as channel:
        export = channel.unary_unary(TRACES)
        for answer in [export.future(body, timeout=60) for body in bodies]:
            answer.result()


def test_text_of_one_sender_that_is_no_utf8_costs_the_others_no_span(tmp_path: Path):
    bodies = [request_of(number).SerializeToString() for number in range(SENDERS)]
    bodies.insert(SENDERS // 2, broken_request())
    with receiving(strict=True) as destination, serving(tmp_path, to_grpc(destination.grpc_port)) as toolgauge:
        send_over_one_connection(toolgauge, [*bodies, spans_of((1, "invoke_agent")).SerializeToString()])
        good = SENDERS * 2 + 1
        books = toolgauge.settled(good + 2)
        assert (books["forwarded"], books["dropped"]) == (good, 2)
        assert len({(span.trace_id, span.span_id) for span in destination.spans()}) == good
        assert toolgauge.total("toolgauge_spans_undecodable_total") == 2
        until(destination.scorecards, "the scorecard")
