"""The worker does one thing after the other, in the order in which they came."""

import queue
import time
from collections.abc import Callable

from tests.walk.support import CORPUS, Walk
from toolgauge.model.delivery import Accepted
from toolgauge.otlp.request import read_request
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
    worker = Worker(walk.pipeline, inbox, clock=clock, faults=Faults(walk.metrics), evaluation_limit=EvaluationLimit())
    worker.start()
    try:
        assert seen.get(timeout=60) == 1
    finally:
        worker.end(60)
