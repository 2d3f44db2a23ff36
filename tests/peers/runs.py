"""Runs of an agent for backends: in each, the call of `issue_refund` fails; no two spans have the same id."""

import itertools
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.wire.agent_runs import AgentRun, request

CALL, WHOLE = "default.tool_success", "whole-f1"
_TOOL = "execute_tool issue_refund"
_NUMBERS = itertools.count()


@dataclass(frozen=True)
class FailedRun:
    """One run, and where its scores belong."""

    body: bytes
    trace_id: str
    tool_span: str
    root_span: str


def failed_runs(count: int) -> list[FailedRun]:
    """Make runs that ended an hour ago: what began shortly before toolgauge started may lack spans that it never saw."""
    return [_failed_run() for _ in range(count)]


def _failed_run() -> FailedRun:
    end_ns = time.time_ns() - 3_600_000_000_000
    number = next(_NUMBERS)
    run = AgentRun(number, end_ns - 5_000_000_000, end_ns, trace=random.getrandbits(63))
    spans = run.spans()
    # A backend knows a span by its id alone.
    first = random.getrandbits(55) << 8
    for span in spans:
        span.span_id = _shifted(span.span_id, first)
        span.parent_span_id = _shifted(span.parent_span_id, first)
    tool, root = _named(spans, _TOOL), spans[-1]
    tool.status.CopyFrom(Status(code=Status.STATUS_CODE_ERROR, message="the refund was refused"))
    return FailedRun(request(spans), run.trace_id.hex(), tool.span_id.hex(), root.span_id.hex())


def _shifted(span_id: bytes, by: int) -> bytes:
    return (int.from_bytes(span_id) + by).to_bytes(8) if span_id else b""


def _named(spans: Sequence[Span], name: str) -> Span:
    return next(span for span in spans if span.name == name)
