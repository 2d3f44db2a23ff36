"""Which spans and log records of a request a strict reader cannot decode.

Here they are read leniently: text that is no UTF-8 harms nothing. A destination that reads with the stock message
classes refuses the whole request for it; this finds out whose fault that is, when it has happened.
"""

from collections.abc import Iterable

from google.protobuf.message import DecodeError as ProtobufError
from google.protobuf.message import Message
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from toolgauge.model.delivery import Signal
from toolgauge.model.errors import DecodeError
from toolgauge.otlp.bounds import check_span
from toolgauge.otlp.envelope import parse_request
from toolgauge.otlp.messages import ResourceGroupMessage

# What is larger is not looked at: taken apart, it may need a hundred times its size in memory.
_LARGEST_BYTES = 1 << 20


def count_undecodable(signal: Signal, body: bytes) -> int:
    """Count the spans or log records that cannot be decoded; all of a group are counted whose resource or scope cannot."""
    if signal == "metrics":
        return 0
    kind = Span if signal == "traces" else LogRecord
    try:
        request = parse_request(body)
    except DecodeError:  # no span can be told from another
        return 0
    return sum(_count_in_group(kind, group) for group in request.resource_groups)


def _count_in_group(kind: type[Message], group: ResourceGroupMessage) -> int:
    is_broken = _count(Resource, group.resource) > 0
    return sum(
        len(scope.items) if is_broken or _count(InstrumentationScope, scope.scope) else _count(kind, scope.items)
        for scope in group.scope_groups
    )


def _count(kind: type[Message], raws: Iterable[bytes]) -> int:
    return sum(not _is_decodable(kind, raw) for raw in raws if len(raw) <= _LARGEST_BYTES)


def _is_decodable(kind: type[Message], raw: bytes) -> bool:
    try:
        check_span(raw)
        kind.FromString(raw)
    except (DecodeError, ProtobufError):
        return False
    return True
