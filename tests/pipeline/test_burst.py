"""More one-span traces at once than can be scored: spans that nothing will score go on, and what waits stays bounded."""

# pyright: reportUnknownMemberType=false

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.walk.support import START_NS, MemoryJournal, Walk, attributes, key_value

TRACES = 2100
OPEN = 10
# What waits to be scored, and what waits to be written as not scored.
SCORED, UNSCORED = 1001, 1000


def burst(operation: str = "execute_tool", parent: bytes = b"", conversation: str | None = None) -> bytes:
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for number in range(1, TRACES + 1):
        span = spans.add(
            trace_id=number.to_bytes(16, "big"),
            span_id=number.to_bytes(8, "big"),
            parent_span_id=parent,
            start_time_unix_nano=START_NS,
            end_time_unix_nano=START_NS + 1,
        )
        span.attributes.append(key_value("gen_ai.operation.name", operation))
        span.attributes.append(key_value("gen_ai.tool.name", "find_order"))
        if conversation is not None:
            span.attributes.append(key_value("gen_ai.conversation.id", f"{conversation}{number}"))
    return request.SerializeToString()


@pytest.mark.parametrize(("operation", "parent"), [("execute_tool", b""), ("invoke_agent", b"neverend")])
def test_spans_that_will_not_be_scored_go_on_at_once(operation: str, parent: bytes):
    walk = Walk(f"assemble.max_open={OPEN}", "hold.timeout=1h")
    walk.send(burst(operation, parent))
    walk.pipeline.flush()
    assert walk.books()["held"] == OPEN + SCORED
    assert walk.pipeline.trajectories_open == OPEN + SCORED + UNSCORED
    assert walk.metrics.trajectories_shed.value(()) == TRACES - OPEN - SCORED - UNSCORED
    walk.wait(1000)
    assert (walk.books()["held"], walk.books()["balance"]) == (0, 0)
    assert len(walk.arrived()) == TRACES
    scored = [span for span in walk.arrived() if any(key.startswith("toolgauge.") for key in attributes(span))]
    # Of a trace without its root only calls seen whole are judged.
    assert len(scored) == SCORED + OPEN or parent
    assert len(walk.scorecards()) == OPEN + SCORED + UNSCORED


def test_traces_of_conversations_have_scorecards_in_any_burst():
    walk = Walk(f"assemble.max_open={OPEN}")
    walk.send(burst(conversation="c"))
    walk.pipeline.flush()
    assert walk.books()["held"] == OPEN + SCORED
    walk.wait(1000)
    assert walk.metrics.trajectories_shed.value(()) == 0
    assert len(walk.scorecards()) == TRACES


def test_a_journal_keeps_nothing_of_traces_that_were_shed():
    journal = MemoryJournal()
    walk = Walk(f"assemble.max_open={OPEN}", journal=journal)
    walk.send(burst())
    walk.wait(1000)
    assert walk.metrics.trajectories_shed.value(()) > 0
    assert journal.left() == []
