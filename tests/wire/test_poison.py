"""Runs and requests that end the process go on unscored after three crashes, and all spans arrive."""

import signal
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from tests.wire.destination import Destination, receiving
from tests.wire.support import Toolgauge, recorded, serving, to_grpc, until
from tests.wire.test_reload import other_trace

(RUN,) = recorded("pydantic-ai", "tool_error")
SPANS = 3
RUNS = 8
BODIES = [other_trace(RUN, number) for number in range(1, RUNS + 1)]

DEADLY = """
import os, signal
from toolgauge.model.outcomes import Scored

class Deadly:
    version = "1"
    level = "trajectory"

    def evaluate(self, trajectory, expected):
        if not trajectory.trace_id.startswith("{survives}"):
            os.kill(os.getpid(), signal.SIGKILL)
        yield None, Scored(1.0, "survived")
"""


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


def test_runs_that_ended_three_processes_go_on_unscored_and_later_ones_are_scored(tmp_path: Path):
    later = other_trace(RUN, RUNS + 1)
    (tmp_path / "deadly.py").write_text(DEADLY.format(survives=(RUNS + 1).to_bytes(8).hex()))
    (tmp_path / "criteria.yaml").write_text("- {name: deadly, evaluator: ./deadly.py:Deadly}\n")
    settings = (f"criteria_files=[{tmp_path / 'criteria.yaml'}]", f"state.directory={tmp_path / 'state'}")
    with receiving() as destination:
        sends_to = to_grpc(destination.grpc_port)
        ends(tmp_path, sends_to, *settings, bodies=BODIES)
        for _ in range(2):
            ends(tmp_path, sends_to, *settings)
        with serving(tmp_path, sends_to, *settings) as toolgauge:
            until(lambda: arrived(destination) == RUNS * SPANS, "all spans")
            assert "go on unscored: the process ended 3 times in a row at the same run" in toolgauge.said()
            toolgauge.send(later, "http")
            until(lambda: len(destination.scorecards()) == 1, "the scorecard of the later run")
            toolgauge.assert_books_balance()
