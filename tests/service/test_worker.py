"""The worker does one thing after the other, in the order in which they came."""

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import ClassVar

from tests.rows import each_row
from tests.walk.support import CORPUS, Walk
from toolgauge.model.delivery import Accepted
from toolgauge.model.expected import Expected
from toolgauge.model.outcomes import Errored, Level, NotEvaluated, Scorecard, Scored
from toolgauge.model.ports import Evaluation
from toolgauge.model.trajectory import Trajectory
from toolgauge.otlp.request import read_request
from toolgauge.score.criterion import Criterion
from toolgauge.service.criteria_factory import default_criteria
from toolgauge.service.plug_in_evaluators import plug_ins
from toolgauge.service.process import Faults
from toolgauge.service.worker import Inbox, Worker


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

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:
        del trajectory, expected
        threading.Event().wait()
        yield None, Scored(1.0, "waited")


def sent(walk: Walk, inbox: Inbox, *scenarios: str) -> None:
    """Put recorded runs into the inbox, as a receiver does."""
    for scenario in scenarios:
        body = (CORPUS / "pydantic-ai" / f"{scenario}.otlp.pb").read_bytes()
        request = read_request("traces", body, time.monotonic_ns())
        assert walk.pipeline.admission.admit(request) == Accepted()
        assert inbox.put(request)


def holds(wanted: Callable[[], bool]) -> bool:
    """Wait until something holds."""
    until = time.monotonic() + 60
    while not wanted() and time.monotonic() < until:
        time.sleep(0.01)
    return wanted()


def test_an_evaluator_that_waits_keeps_a_spare_thread_and_nothing_else():
    criterion = Criterion(name="waits", evaluator_name="waits", evaluator=Waits(), revision="1")
    walk, inbox = Walk(criteria=(*default_criteria(), criterion)), Inbox(1 << 20)
    scored: list[Scorecard] = []
    worker = Worker(walk.pipeline, inbox, clock=time.monotonic_ns, faults=Faults(walk.metrics))
    ((_, evaluator),) = plug_ins(walk.pipeline.scorer.criteria)
    evaluator._limit_s = 0.2  # pyright: ignore[reportPrivateUsage]
    walk.pipeline.scoring._consumers = (scored.append,)  # pyright: ignore[reportPrivateUsage]
    worker.start()
    try:
        sent(walk, inbox, "tool_error", "no_tool", "one_call", "unknown_tool")
        worker.post(lambda: walk.pipeline.close_open(time.monotonic_ns()))
        assert holds(lambda: len(scored) == 4)
        found = [one.outcome for card in scored for one in card.results if one.criterion == "waits"]
        assert [one.error_type for one in found if isinstance(one, Errored)] == ["timeout"] * 3
        assert [one.reason for one in found if isinstance(one, NotEvaluated)] == ["overload"]
        assert all(len(card.criteria) > 1 for card in scored)
        assert evaluator.off_since_ns is not None
        assert walk.metrics.criteria_switched_off.value(("waits",)) == 1
        assert walk.books()["balance"] == 0
    finally:
        worker.end(60)


@each_row("error", [SystemExit(), GeneratorExit(), BaseException(), ValueError()])
def test_nothing_that_a_piece_of_work_raises_ends_the_thread(error: BaseException):
    walk = Walk()
    worker = Worker(walk.pipeline, Inbox(1 << 20), clock=time.monotonic_ns, faults=Faults(walk.metrics))
    seen: queue.SimpleQueue[str] = queue.SimpleQueue()

    def fail() -> None:
        raise error

    worker.start()
    try:
        worker.post(fail)
        worker.post(lambda: seen.put("done"))
        assert seen.get(timeout=60) == "done"
    finally:
        worker.end(60)


async def test_work_for_a_worker_that_was_given_up_is_done_at_once():
    walk = Walk()
    worker = Worker(walk.pipeline, Inbox(1 << 20), clock=time.monotonic_ns, faults=Faults(walk.metrics))
    worker.start()
    worker.give_up()
    try:
        async with asyncio.timeout(10):
            assert await worker.run(lambda: "done") == "done"
    finally:
        worker.end(60)


def test_a_thread_that_comes_back_after_it_was_given_up_ends_before_it_touches_anything():
    walk, inbox = (
        Walk(criteria=(Criterion(name="c", evaluator_name="c", evaluator=Waits(), revision="1"),)),
        Inbox(1 << 20),
    )
    scored: list[Scorecard] = []
    worker = Worker(walk.pipeline, inbox, clock=time.monotonic_ns, faults=Faults(walk.metrics))
    walk.pipeline.scoring._consumers = (scored.append,)  # pyright: ignore[reportPrivateUsage]
    worker.start()
    sent(walk, inbox, "tool_error")
    worker.post(lambda: walk.pipeline.close_open(time.monotonic_ns()))
    assert holds(lambda: any(one.name == "plug-in" for one in threading.enumerate()))
    worker.give_up()
    for _, evaluator in plug_ins(walk.pipeline.scorer.criteria):
        evaluator.cut_off()
    (thread,) = [one for one in threading.enumerate() if one.name == "toolgauge-worker"]
    thread.join(60)
    assert not thread.is_alive()
    assert scored == []
