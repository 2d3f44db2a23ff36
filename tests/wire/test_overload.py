"""A worker that cannot keep up costs scores, never spans, and never a false score."""

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar

import pytest

from tests.state.support import opened
from tests.wire.agent_runs import request, run_of
from tests.wire.destination import receiving
from tests.wire.support import IN_TEST, LISTEN, SOON, get, post, to_http
from toolgauge.config.load import load
from toolgauge.model.expected import Expected
from toolgauge.model.journal import JournalChange
from toolgauge.model.outcomes import Level, Scored
from toolgauge.model.ports import Evaluation
from toolgauge.model.trajectory import Trajectory
from toolgauge.recognize.recognizer import Recognizer
from toolgauge.score.criterion import Criterion
from toolgauge.service.service import Service


class Waits:
    """Waits inside `evaluate` while `gate` is closed, as a library without an end would."""

    version: ClassVar[str] = "1"
    level: ClassVar[Level] = "trajectory"

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.began = threading.Event()

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:
        del trajectory, expected
        self.began.set()
        self.gate.wait()
        yield None, Scored(value=1.0, explanation="at last")


def run_of_an_agent(number: int) -> bytes:
    """One whole run of an agent with one tool call, and 2 KB of something else."""
    return request(run_of(number, "look", call={"other": "x" * 2000}))


@asynccontextmanager
async def running(evaluator: Waits, *settings: str) -> AsyncGenerator[Service]:
    criterion = Criterion(name="waits", evaluator_name="waits", evaluator=evaluator, revision="0" * 12)
    config = load((), (*LISTEN, *SOON, *IN_TEST, "inbox.max_bytes=16KiB", "hold.timeout=1s", *settings), {})
    service = Service(config, (criterion,))
    await service.start()
    try:
        yield service
    finally:
        evaluator.gate.set()
        await service.stop()


@pytest.fixture
def short_deadlines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait at the end, for what is stuck, for half a second and not for eight."""
    for deadline in ("_READING_DEADLINE_S", "_SCORING_DEADLINE_S", "_CLOSING_DEADLINE_S"):
        monkeypatch.setattr(f"toolgauge.service.service.{deadline}", 0.2)


async def send(service: Service, *numbers: int) -> None:
    """Send runs at once, each of which must be taken."""
    answers = await asyncio.gather(
        *(asyncio.to_thread(post, service.receivers[1].port, run_of_an_agent(number)) for number in numbers)
    )
    assert {status for status, _ in answers} == {200}


def results(service: Service) -> dict[tuple[str, str], float]:
    """Evaluations by outcome and reason."""
    (metric,) = (metric for metric in service.emitter.snapshot() if metric.name == "toolgauge.evaluations")
    counted: dict[tuple[str, str], float] = {}
    for labels, value in metric.cells.items():
        if isinstance(value, int | float) and value:
            counted[labels[-2:][0], labels[-1]] = counted.get((labels[-2:][0], labels[-1]), 0) + value
    return counted


async def until(service: Service, wanted: dict[tuple[str, str], float]) -> None:
    deadline = time.monotonic() + 120
    while results(service) != wanted:
        assert time.monotonic() < deadline, results(service)
        await asyncio.sleep(0.02)


async def stuck(service: Service, evaluator: Waits) -> None:
    await send(service, 1)
    assert await asyncio.to_thread(evaluator.began.wait, 60)


async def test_while_the_worker_is_stuck_every_request_is_taken_and_goes_on_unread():
    evaluator = Waits()
    with receiving() as destination:
        async with running(evaluator, to_http(destination.http_port, "queue: {max_bytes: 64KiB}")) as service:
            await stuck(service, evaluator)
            for first in range(2, 62, 4):
                await send(service, *range(first, first + 4))
            assert service.metrics.spans_unread.value() > 60
            assert service.metrics.spans.value(("refused", "queue_full", "")) == 0
            evaluator.gate.set()
        assert len(destination.spans()) == 61 * 2


async def test_what_was_open_meanwhile_is_not_scored_and_scoring_comes_back_by_itself():
    evaluator = Waits()
    async with running(evaluator) as service:
        await stuck(service, evaluator)
        await send(service, *range(2, 42))
        evaluator.gate.set()
        read = 40 - service.metrics.requests_unread.value(("traces",))
        await until(service, {("pass", ""): 1, ("not_evaluated", "overload"): read})
        # What begins within `run_end_grace` may lack what passed unread.
        await asyncio.sleep(0.5)
        await send(service, 100)
        await until(service, {("pass", ""): 2, ("not_evaluated", "overload"): read})


async def test_health_and_metrics_answer_while_the_worker_is_stuck_and_say_so():
    evaluator = Waits()
    async with running(evaluator) as service:
        service.worker.stuck_after_ns = 200_000_000
        await stuck(service, evaluator)
        async with asyncio.timeout(60):
            while "the worker is stuck" not in str(service.health.detailed(verbose=True)[1].get("error")):
                await asyncio.sleep(0.02)
        assert await asyncio.to_thread(get, service.endpoint.port if service.endpoint else 0, "/metrics")
        evaluator.gate.set()


async def test_a_stuck_worker_does_not_keep_the_process_from_its_end_and_no_span_is_lost(short_deadlines: None):
    del short_deadlines
    evaluator = Waits()
    service_ = None
    async with running(evaluator) as service:
        service_ = service
        await stuck(service, evaluator)
        await send(service, 2, 3, 4)
        await service.stop()
        assert service.pipeline.admission.spans_held == 0
        assert service.metrics.spans.value(("consumed", "", "")) == 8
    assert service_.pipeline.admission.spans_held == 0


def journal_left(directory: Path) -> list[tuple[bool, bool]]:
    """What a process left in its journal: whether each request is our own, and whether it was delivered."""
    with opened(directory, start=False) as found:
        return [(entry.own, entry.delivered) for entry in found.journal.entries() if entry.signal == "traces"]


async def test_what_was_being_scored_when_the_process_ended_is_left_to_the_next_one(
    tmp_path: Path, short_deadlines: None
):
    del short_deadlines
    evaluator = Waits()
    async with running(evaluator, f"state.directory={tmp_path}") as service:
        await stuck(service, evaluator)
        await service.stop()
        assert journal_left(tmp_path) == [(False, True)]


async def test_a_fault_in_reading_what_an_earlier_process_left_keeps_no_process_from_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with opened(tmp_path) as earlier:
        for number in (1, 2):
            earlier.journal.submit(JournalChange(appended=(earlier.entry(run_of_an_agent(number)),)))

    def fails(*_: object) -> None:
        raise RuntimeError

    evaluator = Waits()
    evaluator.gate.set()
    monkeypatch.setattr(Recognizer, "read", fails)
    async with running(evaluator, f"state.directory={tmp_path}") as service:
        assert service.metrics.spans_recovered.value() == 4
        assert service.metrics.faults.value(("RuntimeError",)) == 2
        assert service.metrics.spans.value(("consumed", "", "")) + service.pipeline.admission.spans_held == 4
