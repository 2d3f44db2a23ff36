"""A run of an agent that puts markup wherever a producer can put text."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import json
import os

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

from tests.wire.support import long_ago

# Kept short: names are cut where they are long.
HOSTILE = "<script>owned=1</script>"
_ALL = f"{HOSTILE}<img src=x onerror=owned=1>\"'><svg onload=owned=1>"
_SECOND_NS = 1_000_000_000


def hostile_run() -> bytes:
    """Return a request with one run, whose only call failed."""
    trace_id, agent, call = os.urandom(16), os.urandom(8), os.urandom(8)
    end_ns = long_ago()
    run = Span(
        trace_id=trace_id,
        span_id=agent,
        name=f"invoke_agent {_ALL}",
        start_time_unix_nano=end_ns - 2 * _SECOND_NS,
        end_time_unix_nano=end_ns,
        attributes=_attributes({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": _ALL}),
    )
    tool = Span(
        trace_id=trace_id,
        span_id=call,
        parent_span_id=agent,
        name=f"execute_tool {_ALL}",
        start_time_unix_nano=end_ns - _SECOND_NS,
        end_time_unix_nano=end_ns - _SECOND_NS // 2,
        status=Status(code=Status.STATUS_CODE_ERROR, message=_ALL),
        attributes=_attributes(
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": _ALL,
                "gen_ai.tool.call.id": _ALL,
                "gen_ai.tool.call.arguments": json.dumps({_ALL: _ALL, "nested": [{_ALL: _ALL}]}),
                "error.type": _ALL,
            }
        ),
    )
    resource = Resource(attributes=_attributes({"service.name": _ALL, "service.version": _ALL}))
    return ExportTraceServiceRequest(
        resource_spans=[ResourceSpans(resource=resource, scope_spans=[ScopeSpans(spans=[tool, run])])]
    ).SerializeToString()


def _attributes(values: dict[str, str]) -> list[KeyValue]:
    return [KeyValue(key=key, value=AnyValue(string_value=value)) for key, value in values.items()]
