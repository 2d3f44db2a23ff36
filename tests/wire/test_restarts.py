"""Deploying while agents run: no result of a run that was received in part, and none twice that is not marked."""

import threading
import time
from collections import Counter
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.wire.agent_runs import CRITERIA, JUDGING_THE_WHOLE, AgentRun, request
from tests.wire.destination import Destination, attributes, receiving
from tests.wire.support import free_port, send_grpc, serving, to_grpc, until

SECOND = 1_000_000_000
SHORT_NS, LONG_NS = SECOND, 120 * SECOND
SENDERS = 6
START_EVERY_S, EXPORT_EVERY_S = 0.1, 0.2
# Whatever a slow machine does, only the end of a run or of the process closes one.
SETTINGS = ("assemble.idle_timeout=5m", "assemble.open_idle_timeout=10m", "events=scored")


class Traffic:
    """Agents that run, and go on running, until they are stopped; every fifth run began two minutes ago."""

    def __init__(self, port: int) -> None:
        self.ports = [port] * SENDERS
        self.runs: dict[bytes, AgentRun] = {}
        self._stopping = threading.Event()
        self._thread: Future[None] | None = None

    def begin(self, pool: ThreadPoolExecutor) -> None:
        self._thread = pool.submit(self._work)

    def stop(self) -> None:
        """Finish the request under way, and send no more."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.result()

    def _work(self) -> None:
        waiting = [list[AgentRun]() for _ in self.ports]
        exported = dict[bytes, int]()
        started_s = exported_s = 0.0
        while not self._stopping.is_set():
            if time.monotonic() - started_s >= START_EVERY_S:
                started_s = time.monotonic()
                run = self._started()
                waiting[run.number % SENDERS].append(run)
            if time.monotonic() - exported_s >= EXPORT_EVERY_S:
                exported_s = time.monotonic()
                for sender, runs in enumerate(waiting):
                    self._export(sender, runs, exported)
            self._stopping.wait(0.02)

    def _started(self) -> AgentRun:
        number = len(self.runs)
        now_ns = time.time_ns()
        length_ns = LONG_NS if number % 5 == 0 else SHORT_NS
        end_ns = now_ns + SHORT_NS
        run = AgentRun(number, end_ns - length_ns, end_ns)
        self.runs[run.trace_id] = run
        return run

    def _export(self, sender: int, runs: list[AgentRun], exported: dict[bytes, int]) -> None:
        now_ns = time.time_ns()
        batch: list[Span] = []
        for run in [*runs]:
            spans = run.spans()
            ended = [span for span in spans if span.end_time_unix_nano <= now_ns]
            batch += ended[exported.get(run.trace_id, 0) :]
            exported[run.trace_id] = len(ended)
            if len(ended) == len(spans):
                runs.remove(run)
        if batch:
            send_grpc(self.ports[sender], request(batch))


@contextmanager
def traffic_to(port: int) -> Generator[Traffic]:
    """Run agents in the background."""
    traffic = Traffic(port)
    with ThreadPoolExecutor(1) as pool:
        traffic.begin(pool)
        try:
            yield traffic
        finally:
            traffic.stop()


class Results:
    """What arrived at the destination of the toolgauges, against what is true of the runs."""

    def __init__(self, destination: Destination, traffic: Traffic) -> None:
        self._destination = destination
        self._runs = traffic.runs

    def judged(self) -> Counter[bytes]:
        """Return how often each run was judged as a whole."""
        return Counter(trace for trace, criterion, _ in self._outcomes() if criterion == JUDGING_THE_WHOLE[0])

    def false(self) -> list[tuple[int, str, str]]:
        """Return the results that are not as they would be of the whole run."""
        return [
            (self._runs[trace].number, criterion, outcome)
            for trace, criterion, outcome in self._outcomes()
            # No default criterion finds anything wrong with these runs.
            if outcome != (self._runs[trace].truth if criterion in JUDGING_THE_WHOLE else "pass")
        ]

    def scorecards(self, *, marked: bool) -> Counter[bytes]:
        """Return how many scorecards each run has: those that say that it may lack spans, or those that do not."""
        return Counter(
            card.trace_id
            for card in self._destination.scorecards()
            if (attributes(card).get("toolgauge.incomplete") is True) is marked
        )

    def _outcomes(self) -> Iterator[tuple[bytes, str, str]]:
        for event in self._destination.events():
            values = attributes(event)
            yield event.trace_id, str(values["gen_ai.evaluation.name"]), str(values["toolgauge.outcome"])


def twice(counted: Counter[bytes]) -> list[bytes]:
    return [trace for trace, count in counted.items() if count > 1]


@pytest.fixture
def criteria(tmp_path: Path) -> str:
    path = tmp_path / "criteria.yaml"
    path.write_text(CRITERIA)
    return f"criteria_files=[{path}]"


def test_a_rolling_restart_gives_no_false_result(tmp_path: Path, criteria: str):
    with receiving() as destination:
        settings = (*SETTINGS, criteria, to_grpc(destination.grpc_port))
        with serving(tmp_path, *settings) as old, traffic_to(old.grpc_port) as traffic:
            results = Results(destination, traffic)
            until(lambda: len(results.judged()) >= 5, "runs that the old side judged")
            with serving(tmp_path, *settings) as new:
                for sender in range(SENDERS):
                    traffic.ports[sender] = new.grpc_port
                    begun = len(traffic.runs)
                    until(lambda begun=begun: len(traffic.runs) > begun + 3, "runs to begin meanwhile")
                old.signal()
                assert old.ended() == 0
                before = set(results.judged())
                until(lambda: len(set(results.judged()) - before) >= 5, "runs that the new side judged")
                traffic.stop()
                new.signal()
                new.ended()
        assert results.false() == []
        assert twice(results.judged()) == []
        assert twice(results.scorecards(marked=False)) == []
        assert results.scorecards(marked=True)


@pytest.mark.parametrize(
    "has_state", [pytest.param(False, marks=pytest.mark.long), True], ids=["without state", "with state"]
)
def test_a_restart_in_place_gives_no_false_result(tmp_path: Path, criteria: str, *, has_state: bool):
    with receiving() as destination:
        port = free_port()
        settings = [
            *SETTINGS,
            criteria,
            to_grpc(destination.grpc_port),
            f"receivers.otlp.protocols.grpc.endpoint=127.0.0.1:{port}",
        ]
        if has_state:
            settings.append(f"state.directory={tmp_path / 'state'}")
        with traffic_to(port) as traffic:
            results = Results(destination, traffic)
            with serving(tmp_path, *settings) as old:
                until(lambda: len(results.judged()) >= 5, "runs that were judged before")
                old.signal()
                assert old.ended() == 0
            before = set(results.judged())
            with serving(tmp_path, *settings) as new:
                began_ns = time.time_ns()
                until(
                    lambda: (
                        len([one for one in set(results.judged()) - before if traffic.runs[one].start_ns > began_ns])
                        >= 5
                    ),
                    "runs that were judged after",
                )
                traffic.stop()
                new.signal()
                new.ended()
        assert results.false() == []
        assert twice(results.judged()) == []
        assert twice(results.scorecards(marked=False)) == []
        if has_state:
            assert twice(results.scorecards(marked=True) + results.scorecards(marked=False)) == []
        else:
            assert results.scorecards(marked=True)
