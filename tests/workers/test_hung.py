"""Workers that hang: stopped, in a call that holds the interpreter, or without an answer; the others take their requests."""

import asyncio
import os
import signal
import sys
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.wire.agent_runs import AgentRun
from tests.wire.destination import receiving
from tests.wire.support import post, serving, to_grpc, until, until_equal
from tests.workers.support import SPANS, TWO, runs, state, workers_of
from tests.workers.test_two_workers import cards, health, ids
from toolgauge.model.delivery import Refused
from toolgauge.otlp.request import Divider
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.service.process import SteadyClock
from toolgauge.service.workers.front import DividedIntake
from toolgauge.service.workers.merged_metrics import MergedRegistry
from toolgauge.service.workers.worker_process import WorkerProcess, Workers

# Requests are refused after two seconds of silence and not five, and at the end a worker is killed after three and not ten.
SOON_SILENT = {
    "service.workers.worker_process._REFUSED_AFTER": 4,
    "service.workers.worker_process._KILLED_AT_THE_END_AFTER": 6,
}
SOON_KILLED = {"service.workers.worker_process._KILLED_AFTER": 60}
HOLDS_THE_INTERPRETER = """
import ctypes

import toolgauge


class Stuck:
    version = "1"
    level = "trajectory"

    def evaluate(self, trajectory, expected):
        ctypes.PyDLL(None).sleep(600)
        yield None, toolgauge.Scored(value=1.0, explanation="never")
"""


@contextmanager
def stopped(process: int) -> Generator[None]:
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGCONT)


def of_worker(number: int) -> bytes:
    """Return a run that goes to this worker of two."""
    bodies = (runs(each, each) for each in range(1000, 2000))
    return next(body for body in bodies if Divider(2).divide("traces", body)[0].worker == number)


def calls(run: AgentRun) -> list[Span]:
    """Return its calls and then its root: no history shows what is missing."""
    return [span for span in run.spans() if not span.name.startswith("chat")]


def test_a_worker_that_responds_again_is_kept_and_takes_each_span_once(tmp_path: Path):
    with (
        receiving() as destination,
        serving(tmp_path, TWO, to_grpc(destination.grpc_port), patched=SOON_SILENT) as toolgauge,
        ThreadPoolExecutor(4) as pool,
    ):
        before = workers_of(toolgauge)
        with stopped(before[1]):
            # Under way when it stops, and for both.
            waiting = [pool.submit(toolgauge.send, runs(first, first + 4), "http") for first in (1, 6, 11, 16)]
            until(lambda: "worker 1 has not responded since" in toolgauge.said(), "the log line")
            assert post(toolgauge.http_port, of_worker(1))[0] == 503
            assert post(toolgauge.http_port, of_worker(0))[0] == 200
            assert "processor:worker/1" in health(toolgauge)
            assert toolgauge.total("toolgauge_workers_running") == 1
        for each in waiting:
            each.result()
        until(lambda: "worker 1 responds again" in toolgauge.said(), "the log line")
        until_equal(lambda: len(ids(destination)), 21 * SPANS, "all spans")
        assert set(ids(destination).values()) == {1}
        toolgauge.settled(21 * SPANS)
        assert workers_of(toolgauge) == before


@pytest.mark.long
def test_a_stopped_worker_is_replaced_and_the_other_goes_on(tmp_path: Path):
    with receiving() as destination:
        settings = (TWO, to_grpc(destination.grpc_port), state(tmp_path), "assemble.run_end_grace=2s")
        with serving(tmp_path, *settings, patched=SOON_KILLED) as toolgauge, ThreadPoolExecutor(1) as pool:
            toolgauge.send(runs(1, 20))
            toolgauge.settled(20 * SPANS)
            with stopped(workers_of(toolgauge)[0]):
                waiting = pool.submit(toolgauge.send, runs(21, 40), "http")
                until(lambda: "worker 0 runs again" in toolgauge.said(), "another process")
            waiting.result()
            until_equal(lambda: len(ids(destination)), 40 * SPANS, "all spans")
            until_equal(lambda: len(cards(destination)), 40, "a scorecard for each run")
            assert set(ids(destination).values()) == set(cards(destination).values()) == {1}
            assert toolgauge.settled(40 * SPANS)["dropped"] == 0
            assert 'toolgauge_workers_restarts_total{toolgauge_reason="hung"} 1.0' in toolgauge.exposition()
            assert "processor:worker/0" not in health(toolgauge)


def test_workers_that_hang_at_the_end_are_not_waited_for(tmp_path: Path):
    with receiving() as destination:
        settings = (TWO, to_grpc(destination.grpc_port), state(tmp_path), "assemble.idle_timeout=1h")
        open_ones = (*settings, "assemble.open_idle_timeout=1h", "assemble.run_end_grace=1h")
        with serving(tmp_path, *open_ones, patched=SOON_SILENT) as toolgauge:
            toolgauge.send(runs(1, 20))
            first, second = workers_of(toolgauge).values()
            with stopped(first), stopped(second):
                # A reload is under way.
                toolgauge.signal(signal.SIGHUP)
                toolgauge.signal()
                assert toolgauge.ended() == 0, toolgauge.said()
        with serving(tmp_path, *settings) as toolgauge:
            until_equal(lambda: len(cards(destination)), 20, "a scorecard for each run")


@pytest.mark.long
def test_a_worker_that_hangs_in_its_start_or_in_a_reload_is_replaced(tmp_path: Path):
    file = tmp_path / "toolgauge.yaml"
    file.write_text("defaults: {enabled: true}\n")
    with serving(tmp_path, TWO, options=("--config", str(file)), patched=SOON_KILLED) as toolgauge:
        first, second = workers_of(toolgauge)[0], workers_of(toolgauge)[1]
        os.kill(first, signal.SIGKILL)
        until(lambda: workers_of(toolgauge).get(0, first) != first, "another process")
        with stopped(workers_of(toolgauge)[0]), stopped(second):
            file.write_text("defaults: {enabled: false}\ncriteria: [{name: mine, evaluator: tool_success}]\n")
            toolgauge.signal(signal.SIGHUP)
            for number in (0, 1):
                until(lambda: f"worker {number} runs again" in toolgauge.said(), "another process")  # noqa: B023
        until(lambda: "the configuration was reloaded" in toolgauge.said(), "the reload")
        toolgauge.send(runs(1, 20))
        until_equal(lambda: toolgauge.total("toolgauge_trajectories_total"), 20, "all runs to be scored")
        assert "default.tool_use" not in toolgauge.exposition()
        assert "cannot start worker 0, trying again: worker 0 did not respond" in toolgauge.said()


def test_a_worker_that_hangs_does_not_outlive_a_front_that_is_killed(tmp_path: Path):
    (tmp_path / "checks.py").write_text(HOLDS_THE_INTERPRETER)
    file = tmp_path / "toolgauge.yaml"
    file.write_text("defaults: {enabled: false}\ncriteria: [{name: stuck, evaluator: './checks.py:Stuck'}]\n")
    with serving(tmp_path, TWO, options=("--config", str(file)), patched=SOON_SILENT) as toolgauge:
        left = workers_of(toolgauge)
        toolgauge.send(of_worker(0))
        until(lambda: "worker 0 has not responded since" in toolgauge.said(), "the log line")
        os.kill(left[1], signal.SIGSTOP)
        toolgauge.signal(signal.SIGKILL)
        toolgauge.ended()
        os.kill(left[1], signal.SIGCONT)
        until(lambda: not any(Path(f"/proc/{process}").exists() for process in left.values()), "their end")


# Reads and beats, and its event loop answers nothing once it is ready.
MUTE = """
import os, struct, sys, threading, time
descriptor, beats = (int(argument.partition("=")[2]) for argument in sys.argv[1:3])
os.write(descriptor, struct.pack("<IBI", 0, 32, 0))
threading.Thread(target=os.read, args=(descriptor, 1 << 20)).start()
while True:
    os.write(beats, b".")
    time.sleep(0.02)
"""


def test_a_worker_that_takes_requests_and_answers_nothing_is_replaced():
    async def work() -> None:
        clock = SteadyClock()
        registry = MergedRegistry(clock)
        workers = Workers(registry, SelfMetrics(registry), has_journal=False)
        command = (sys.executable, "-S", "-E", "-c", MUTE)
        process = WorkerProcess(0, command, max_bytes=1 << 20, on_workers=workers, clock=clock, tick_s=0.08)
        workers.processes = (process,)
        await process.start()
        first = process.pid
        divided = DividedIntake(
            Divider(1),
            workers.processes,
            has_memory=lambda _size: True,
            refused=workers.refused,
            on_accepted=lambda _signal, _body: None,
        )
        body = runs(1, 1)
        for _ in range(2):
            assert isinstance(await divided.consume("traces", body, None), Refused)
        assert process.down is not None
        async with asyncio.timeout(60):
            while process.pid in (None, first) or not process.is_ready:
                await asyncio.sleep(0.02)
        assert workers.restarts.cells["hung",] >= 1
        await process.end(0)

    asyncio.run(work())
