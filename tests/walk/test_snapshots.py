"""A producer that sends each span when it begins, and again when it has ended, is scored as one that sends it once."""

# pyright: reportUnknownMemberType=false

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.walk.support import Walk
from tests.walk.test_recovery import close_all, requests, results
from toolgauge.model.delivery import Signal

RUNS = [("openinference-langgraph", "nested"), ("strands", "multi_turn"), ("google-adk", "multi_turn")]


def begun(body: bytes) -> bytes:
    """Return a request of one span as it was when that began: with half of its attributes, and no end, status or events."""
    request = ExportTraceServiceRequest.FromString(body)
    span = request.resource_spans[0].scope_spans[0].spans[0]
    span.ClearField("end_time_unix_nano")
    span.ClearField("status")
    del span.events[:]
    del span.attributes[len(span.attributes) // 2 :]
    return request.SerializeToString()


def with_snapshots(sent: list[tuple[Signal, bytes]]) -> list[tuple[Signal, bytes]]:
    """Return the requests, and before that of each span the one that its producer sends when it begins."""
    started: list[tuple[int, bool, Signal, bytes]] = []
    for place, (signal, body) in enumerate(sent):
        started.append((place, True, signal, body))
        if signal == "traces":
            # A handful of spans earlier: a parent begins before its children end.
            started.append((max(0, place - 6), False, signal, begun(body)))
    return [(signal, body) for _, _, signal, body in sorted(started, key=lambda one: one[:2])]


@pytest.mark.parametrize(("framework", "scenario"), RUNS)
def test_copies_of_spans_that_go_on_change_no_score(framework: str, scenario: str):
    once, twice = Walk("events=all"), Walk("events=all")
    plain = requests(framework, scenario)
    for signal, body in plain:
        once.send(body, signal)
    for signal, body in with_snapshots(plain):
        twice.send(body, signal)
    close_all(once)
    close_all(twice)
    assert results(once)
    assert results(twice) == results(once)


@pytest.mark.parametrize("annotate", ["both", "scorecard"])
def test_both_copies_are_passed_on_as_they_came(annotate: str):
    walk = Walk(f"annotate={annotate}")
    sent = with_snapshots(requests("pydantic-ai", "multi_turn"))
    for signal, body in sent:
        walk.send(body, signal)
    # The copy of a span that goes on does not wait for scores.
    snapshots = [begun(body) for _, body in requests("pydantic-ai", "multi_turn")]
    assert len([span for span in walk.arrived() if not span.end_time_unix_nano]) == len(snapshots)
    close_all(walk)
    arrived = walk.arrived()
    assert len(arrived) == len(sent)
    assert walk.books()["balance"] == 0
    walk.pipeline.tick(walk.now_ns + 61_000_000_000)
    assert walk.metrics.loop_suspected.cells[()] == 0
