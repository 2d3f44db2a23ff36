"""Many senders behind one connection: what one of them does wrong costs none of the others anything."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from pathlib import Path

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from tests.otlp.stock import field
from tests.wire.destination import receiving
from tests.wire.support import TRACES, Toolgauge, serving, to_grpc, to_http, until

SENDERS = 30
START_NS = 1_800_000_000_000_000_000
TRACE_ID = bytes(range(1, 17))
ROOT_ID = b"rootroot"
# An attribute whose value is no text.
NO_TEXT = field(9, field(1, b"note") + field(2, field(1, b"caf\xe9")))


def text(key: str, value: str) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(string_value=value))


def request_of(number: int) -> bytes:
    """One sender's request: a tool call of the shared run, held for its score, and a span that goes on at once."""
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    group.resource.attributes.append(text("service.name", f"service-{number}"))
    spans = group.scope_spans.add().spans
    for operation, kind in (("execute_tool", 1), ("work", 2)):
        spans.add(
            trace_id=TRACE_ID,
            span_id=(number * 2 + kind).to_bytes(8, "big"),
            parent_span_id=ROOT_ID,
            name=operation,
            start_time_unix_nano=START_NS,
            end_time_unix_nano=START_NS + 1_000_000,
        )
    spans[0].attributes.extend((text("gen_ai.operation.name", "execute_tool"), text("gen_ai.tool.name", "find_order")))
    return request.SerializeToString()


def broken_request() -> bytes:
    """A request whose tool span and whose other span are no UTF-8."""
    request = ExportTraceServiceRequest.FromString(request_of(SENDERS))
    raws = [span.SerializeToString() + NO_TEXT for span in request.resource_spans[0].scope_spans[0].spans]
    return field(1, field(2, b"".join(field(2, raw) for raw in raws)))


def root() -> bytes:
    request = ExportTraceServiceRequest()
    span = (
        request.resource_spans.add()
        .scope_spans.add()
        .spans.add(
            trace_id=TRACE_ID,
            span_id=ROOT_ID,
            name="invoke_agent",
            start_time_unix_nano=START_NS,
            end_time_unix_nano=START_NS + 2_000_000,
        )
    )
    span.attributes.append(text("gen_ai.operation.name", "invoke_agent"))
    return request.SerializeToString()


def send_over_one_connection(toolgauge: Toolgauge, bodies: list[bytes]) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{toolgauge.grpc_port}") as channel:
        export = channel.unary_unary(TRACES)
        for answer in [export.future(body, timeout=60) for body in bodies]:
            answer.result()


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_text_of_one_sender_that_is_no_utf8_costs_the_others_no_span(tmp_path: Path, protocol: str):
    bodies = [request_of(number) for number in range(SENDERS)]
    bodies.insert(SENDERS // 2, broken_request())
    with receiving(strict=True) as destination:
        onward = to_grpc(destination.grpc_port) if protocol == "grpc" else to_http(destination.http_port)
        with serving(tmp_path, onward) as toolgauge:
            send_over_one_connection(toolgauge, [*bodies, root()])
            good = SENDERS * 2 + 1
            books = toolgauge.settled(good + 2)
            assert (books["forwarded"], books["dropped"]) == (good, 2)
            assert len({(span.trace_id, span.span_id) for span in destination.spans()}) == good
            assert toolgauge.total("toolgauge_spans_undecodable_total") == 2
            until(destination.scorecards, "the scorecard")
