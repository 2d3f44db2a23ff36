"""The worker does one thing after the other, in the order in which they came."""

import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import ClassVar

import pytest

from tests.walk.support import CORPUS, Walk
from toolgauge.model.delivery import Accepted
from toolgauge.model.expected import Expected
from toolgauge.model.outcomes import Errored, Level, NotEvaluated, Scorecard, Scored
from toolgauge.model.ports import Evaluation
from toolgauge.model.trajectory import Trajectory
from toolgauge.otlp.request import read_request
from toolgauge.score.criterion import Criterion
from toolgauge.service.criteria_factory import default_criteria
from toolgauge.service.inbox import Inbox
from toolgauge.service.process import Faults
from toolgauge.service.worker import EvaluationLimit, Worker


class ClockThatActs:
    """A clock that does something once, as soon as something holds: the worker looks at it between two steps."""

    def __init__(self, holds: Callable[[], bool], act: Callable[[], None]) -> None:
        self._holds = holds
        self._act = act
        self._has_acted = False

    def __call__(self) -> int:
        if not self._has_acted and self._holds():
            self._has_acted = True
            self._act()
        return time.monotonic_ns()


def test_work_that_comes_after_the_last_request_was_taken_finds_it_read():
    walk, inbox = Walk(), Inbox(1 << 20)
    seen: queue.SimpleQueue[int] = queue.SimpleQueue()
    body = (CORPUS / "pydantic-ai" / "tool_error.otlp.pb").read_bytes()
    request = read_request("traces", body, time.monotonic_ns())
    assert walk.pipeline.admission.admit(request) == Accepted()
    assert inbox.put(request)
    clock = ClockThatActs(
        holds=lambda: inbox.is_empty, act=lambda: worker.post(lambda: seen.put(walk.pipeline.trajectories_open))
    )
    worker = Worker(walk.pipeline, inbox, clock=clock, faults=Faults(walk.metrics))
    worker.start()
    try:
        assert seen.get(timeout=60) == 1
    finally:
        worker.end(60)


class Waits:
    """An evaluator that waits: for a lock, a socket, or a minute to pass."""

    version: ClassVar[str] = "1"
    level: ClassVar[Level] = "trajectory"

    def __init__(self) -> None:
        self.may_go = threading.Event()
        self.threads: list[threading.Thread] = []
        self.returned: queue.SimpleQueue[None] = queue.SimpleQueue()

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:
        del trajectory, expected
        self.threads.append(threading.current_thread())
        self.may_go.wait()
        self.returned.put(None)
        yield None, Scored(1.0, "waited")


def test_an_evaluator_that_waits_keeps_its_thread_and_nothing_else(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("toolgauge.service.worker._HUNG_AFTER_NS", 300_000_000)
    waits = Waits()
    criteria = (*default_criteria(), Criterion(name="waits", evaluator_name="waits", evaluator=waits, revision="1"))
    walk, inbox = Walk(criteria=criteria), Inbox(1 << 20)
    scored: list[Scorecard] = []
    clock = time.monotonic_ns
    worker = Worker(walk.pipeline, inbox, clock=clock, faults=Faults(walk.metrics))
    walk.pipeline.scorer._deadline = worker.deadline  # pyright: ignore[reportPrivateUsage]
    walk.pipeline.scoring._consumers = (scored.append,)  # pyright: ignore[reportPrivateUsage]
    worker.start()
    try:
        for scenario in ("tool_error", "no_tool"):
            request = read_request("traces", (CORPUS / "pydantic-ai" / f"{scenario}.otlp.pb").read_bytes(), clock())
            assert walk.pipeline.admission.admit(request) == Accepted()
            assert inbox.put(request)
        worker.post(lambda: walk.pipeline.close_open(clock()))
        until = time.monotonic() + 120
        while len(scored) < 2 and time.monotonic() < until:
            worker.watch()
            time.sleep(0.01)
        first, second = (
            {result.criterion: result.outcome for result in card.results if result.criterion == "waits"}
            for card in scored
        )
        assert isinstance(first["waits"], Errored)
        assert first["waits"].error_type == "timeout"
        assert isinstance(second["waits"], NotEvaluated)
        assert second["waits"].reason == "overload"
        assert all(len(card.criteria) > 1 for card in scored)
        assert worker.abandoned == 1
        (kept,) = waits.threads

        waits.may_go.set()
        waits.returned.get(timeout=60)
        time.sleep(0.1)
        assert kept.is_alive()
        assert len(scored) == 2
        assert walk.books()["balance"] == 0
    finally:
        worker.end(60)


def test_an_evaluator_that_computes_slowly_is_left_to_the_limit_of_its_cpu_time(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("toolgauge.service.worker._HUNG_AFTER_NS", 100_000_000)
    limit = EvaluationLimit()

    def computes() -> None:
        with limit:
            until = time.thread_time() + 0.3
            while time.thread_time() < until:
                pass

    thread = threading.Thread(target=computes, daemon=True)
    thread.start()
    while thread.is_alive():
        assert not limit.watch()
        time.sleep(0.01)


def test_a_process_that_was_stopped_for_long_is_no_fault_of_its_evaluator(monkeypatch: pytest.MonkeyPatch):
    limit, may_go = EvaluationLimit(), threading.Event()

    def waits() -> None:
        with limit:
            may_go.wait()

    thread = threading.Thread(target=waits, daemon=True)
    thread.start()
    now_ns = time.monotonic_ns()
    for hours in range(10):
        monkeypatch.setattr("time.monotonic_ns", lambda hours=hours: now_ns + hours * 3_600_000_000_000)
        assert not limit.watch()
    monkeypatch.undo()
    may_go.set()
    thread.join(60)
    assert not thread.is_alive()


def test_after_too_many_threads_were_kept_an_evaluation_that_computes_is_still_cut_off():
    worker = Worker(Walk().pipeline, Inbox(1 << 20), clock=time.monotonic_ns, faults=Faults(Walk().metrics))
    worker.abandoned, worker.evaluation_limit.limit_ns = 10, 50_000_000
    cut: list[bool] = []

    def computes() -> None:
        try:
            with worker.evaluation_limit:
                while True:
                    pass
        except TimeoutError:
            cut.append(True)

    thread = threading.Thread(target=computes, daemon=True)
    thread.start()
    until = time.monotonic() + 60
    while thread.is_alive() and time.monotonic() < until:
        worker.watch()
        thread.join(0.01)
    assert cut == [True]
    assert worker.abandoned == 10
