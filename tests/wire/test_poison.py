"""Runs and requests that end the process are set aside: the others are scored, and all spans arrive."""

import signal
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.wire.destination import Destination, attributes, receiving
from tests.wire.support import Toolgauge, free_port, recorded, serving, to_grpc, until
from tests.wire.test_reload import other_trace
from toolgauge.state.under_way import UnderWay

(RUN,) = recorded("pydantic-ai", "tool_error")
SPANS = 3
RUNS = 8
POISON = 3
BODIES = [other_trace(RUN, number) for number in range(1, RUNS + 1)]

EVALUATOR = """
import os, signal, time
from toolgauge.model.outcomes import Scored

class Deadly:
    version = "1"
    level = "trajectory"

    def evaluate(self, trajectory, expected):
        if {condition}:
            {act}
        yield None, Scored(1.0, "survived")
"""


def poisoned(folder: Path, act: str, condition: str) -> tuple[str, ...]:
    """A criterion whose evaluator does something to its process."""
    (folder / "deadly.py").write_text(EVALUATOR.format(act=act, condition=condition))
    (folder / "criteria.yaml").write_text("- {name: deadly, evaluator: ./deadly.py:Deadly}\n")
    return (f"criteria_files=[{folder / 'criteria.yaml'}]", f"state.directory={folder / 'state'}")


def poison_trace(bodies: Sequence[bytes]) -> str:
    groups = ExportTraceServiceRequest.FromString(bodies[POISON]).resource_spans
    return groups[0].scope_spans[0].spans[0].trace_id.hex()


def of_trace(destination: Destination, trace_id: str) -> Sequence[Span]:
    return [card for card in destination.scorecards() if card.trace_id.hex() == trace_id]


def ends(folder: Path, *settings: str, bodies: Sequence[bytes] = ()) -> None:
    """Run a process that ends itself, at once or when it is sent something."""
    with closing(Toolgauge(folder, *settings)) as toolgauge:
        if bodies:
            toolgauge.wait_until_up()
        for body in bodies:
            toolgauge.send(body, "http")
        assert toolgauge.ended() == -signal.SIGKILL


def arrived(destination: Destination) -> int:
    return len({span.span_id + span.trace_id for span in destination.spans()})


def scored(destination: Destination) -> int:
    return len({card.trace_id for card in destination.scorecards()})


def test_a_run_that_ends_the_process_is_tried_twice_and_all_others_are_scored(tmp_path: Path):
    condition = f'trajectory.trace_id == "{poison_trace(BODIES)}"'
    settings = poisoned(tmp_path, "os.kill(os.getpid(), signal.SIGKILL)", condition)
    with receiving() as destination:
        sends_to = to_grpc(destination.grpc_port)
        ends(tmp_path, sends_to, *settings, bodies=BODIES)
        # The spans are delivered before the run is tried again.
        ends(tmp_path, sends_to, *settings)
        assert arrived(destination) == RUNS * SPANS
        with serving(tmp_path, sends_to, *settings) as toolgauge:
            until(lambda: scored(destination) == RUNS, "a scorecard for each run")
            assert poison_trace(BODIES) in toolgauge.said()
            assert "criterion deadly (evaluator ./deadly.py:Deadly)" in toolgauge.said()
            (card,) = of_trace(destination, poison_trace(BODIES))
            assert attributes(card)["toolgauge.eval.deadly.outcome"] == "error"
            others = [card for card in destination.scorecards() if card.trace_id.hex() != poison_trace(BODIES)]
            assert {attributes(card)["toolgauge.eval.deadly.outcome"] for card in others} == {"pass"}
            toolgauge.assert_books_balance()


def test_an_evaluator_that_ends_the_process_with_every_run_is_switched_off(tmp_path: Path):
    settings = poisoned(tmp_path, "os.kill(os.getpid(), signal.SIGKILL)", "True")
    with receiving() as destination:
        sends_to = to_grpc(destination.grpc_port)
        ends(tmp_path, sends_to, *settings, bodies=BODIES)
        for _ in range(3):
            ends(tmp_path, sends_to, *settings)
        with serving(tmp_path, sends_to, *settings) as toolgauge:
            until(lambda: scored(destination) == RUNS, "a scorecard for each run")
            assert "any run" in toolgauge.said()
            assert arrived(destination) == RUNS * SPANS


def test_a_request_whose_reading_ends_the_process_goes_on_unread(tmp_path: Path):
    state = tmp_path / "state"
    with serving(tmp_path, to_grpc(free_port()), f"state.directory={state}") as toolgauge:
        for body in BODIES:
            toolgauge.send(body, "http")
        toolgauge.signal(signal.SIGKILL)
        toolgauge.ended()
    with closing(sqlite3.connect(state / "toolgauge.sqlite3")) as connection:
        entries = [entry for (entry,) in connection.execute("SELECT id FROM entries ORDER BY id")]
    # As if two processes had ended while they read it.
    for _ in range(2):
        UnderWay(state, time.time_ns()).reads(entries[POISON])
    with receiving() as destination:
        sends_to = to_grpc(destination.grpc_port)
        with serving(tmp_path, sends_to, f"state.directory={state}") as toolgauge:
            until(lambda: scored(destination) == RUNS - 1, "the other scorecards")
            toolgauge.settled(RUNS * SPANS)
            assert f"while it read request {entries[POISON]} of the journal" in toolgauge.said()
        assert (arrived(destination), scored(destination)) == (RUNS * SPANS, RUNS - 1)
