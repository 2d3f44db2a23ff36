# pyright: reportMissingTypeStubs=false
import asyncio
import json

import pytest
from google.protobuf import json_format
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.receive.fakes import gzipped, post, receiving
from toolgauge.model.delivery import Refused, Signal

SPAN = {
    "traceId": "0AF7651916CD43DD8448EB211C80319C",
    "spanId": "00f067aa0ba902b7",
    "name": "execute_tool search",
    "kind": 3,
    "startTimeUnixNano": "1800000000000000000",
    "endTimeUnixNano": 1800000000000000005,
    "attributes": [{"key": "gen_ai.tool.name", "value": {"stringValue": "search"}}],
    "unheardOf": {"nested": [1]},
}
DOCUMENT = {"resourceSpans": [{"scopeSpans": [{"spans": [SPAN]}]}]}
TEXT = json.dumps(DOCUMENT).encode()
JSON = "application/json"


def spans_of(body: bytes):
    (group,) = ExportTraceServiceRequest.FromString(body).resource_spans
    return group.scope_spans[0].spans


async def test_json_request_arrives_as_protobuf_and_is_answered_in_json():
    async with receiving() as receivers:
        reply = await post(receivers.http.port, TEXT, Content_Type="application/json; charset=utf-8")
    assert (reply.status, reply.body, reply.headers["content-type"]) == (200, b"{}", JSON)
    ((signal, body),) = receivers.consumer.taken
    (span,) = spans_of(body)
    assert signal == "traces"
    assert span.trace_id.hex() == "0af7651916cd43dd8448eb211c80319c"
    assert (span.kind, span.start_time_unix_nano, span.end_time_unix_nano) == (3, 18 * 10**17, 18 * 10**17 + 5)
    assert receivers.outcomes() == {("http", "traces", "accepted"): 1}


async def test_broken_json_is_refused_in_json_naming_what_is_wrong():
    wrong = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [{**SPAN, "traceId": "xyz"}]}]}]}).encode()
    async with receiving() as receivers:
        reply = await post(receivers.http.port, wrong, Content_Type=JSON)
    status = json_format.Parse(reply.body.decode(), Status())
    assert (reply.status, reply.headers["content-type"], status.code) == (400, JSON, 3)
    assert status.message == "`resourceSpans[0].scopeSpans[0].spans[0].traceId` must be hex"
    assert receivers.consumer.taken == []
    assert receivers.outcomes() == {("http", "traces", "invalid"): 1}


async def test_refusal_to_a_json_sender_tells_when_to_come_back():
    async with receiving() as receivers:
        receivers.consumer.answer = Refused("the queue is full", 1.5)
        reply = await post(receivers.http.port, TEXT, Content_Type=JSON)
    told = json.loads(reply.body)
    assert (reply.status, reply.headers["retry-after"]) == (503, "2")
    assert told["details"] == [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1.500s"}]


async def test_json_beyond_the_limit_is_refused_before_it_is_decoded():
    bomb = gzipped(b"[" + b" " * (4 << 20) + b"]")
    async with receiving(limit=1 << 20) as receivers:
        reply = await post(receivers.http.port, bomb, Content_Type=JSON, Content_Encoding="gzip")
    assert reply.status == 413


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
async def test_large_json_does_not_keep_others_waiting(encoding: str):
    entered, may_go_on = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def slow(signal: Signal, text: bytes) -> bytes:
        del signal, text
        loop.call_soon_threadsafe(entered.set)
        asyncio.run_coroutine_threadsafe(may_go_on.wait(), loop).result(10)
        return b"\n\0"

    text = b"{" + b" " * 100_000 + b"}"
    body = gzipped(text) if encoding == "gzip" else text
    async with receiving(from_json=slow) as receivers:
        large = asyncio.create_task(post(receivers.http.port, body, Content_Type=JSON, Content_Encoding=encoding))
        await entered.wait()
        assert (await post(receivers.http.port, b"\n\0")).status == 200
        assert not large.done()
        may_go_on.set()
        assert (await large).status == 200


@pytest.mark.parametrize(
    ("path", "text", "reason", "message"),
    [
        ("/v1/traces", b'{"resource_spans": []}', "unknown_keys", "lowerCamelCase: `resourceSpans`, not `resource_spans`"),
        ("/v1/logs", b'{"resource_logs": []}', "unknown_keys", "lowerCamelCase: `resourceLogs`, not `resource_logs`"),
        ("/v1/metrics", b'{"metrics": []}', "unknown_keys", "no `resourceMetrics` in it"),
        ("/v1/traces", b'{"resourceLogs": []}', "wrong_signal", "holds `resourceLogs`, not `resourceSpans`"),
        ("/v1/logs", b'{"resourceSpans": []}', "wrong_signal", "holds `resourceSpans`, not `resourceLogs`"),
        ("/v1/traces", b'{"resourceSpans": 1}', "undecodable", "must be an array"),
    ],
)  # fmt: skip
async def test_json_in_which_nothing_can_be_read_is_400_with_the_cause(
    path: str, text: bytes, reason: str, message: str
):
    async with receiving() as receivers:
        reply = await post(receivers.http.port, text, path=path, Content_Type=JSON)
    assert reply.status == 400
    assert message in json.loads(reply.body)["message"]
    assert receivers.consumer.taken == []
    assert receivers.reasons() == {("http", path.removeprefix("/v1/"), reason): 1}
