"""A fault of our own costs what it hit and nothing else: planted behind real sockets."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager

import pytest

from tests.wire.support import IN_TEST, LISTEN, SOON, post, recorded
from toolgauge.config.load import load
from toolgauge.model.delivery import Outgoing
from toolgauge.model.outcomes import Scorecard
from toolgauge.pipeline.stages import ScorecardSink
from toolgauge.service.criteria_factory import default_criteria
from toolgauge.service.service import Service


class FailsOnce:
    """A sink of scorecards that fails on the first one, in `record` or in `requests`."""

    def __init__(self, sink: ScorecardSink, where: str) -> None:
        self._sink = sink
        self._where = where
        self.recorded = 0

    def record(self, scorecard: Scorecard) -> None:
        self._fail_in("record")
        self._sink.record(scorecard)
        self.recorded += 1

    def requests(self, scorecards: Sequence[Scorecard]) -> Iterable[Outgoing]:
        self._fail_in("requests")
        return self._sink.requests(scorecards)

    def _fail_in(self, where: str) -> None:
        if where == self._where:
            self._where = ""
            raise KeyError("something secret from a span")


@asynccontextmanager
async def running(where: str) -> AsyncGenerator[tuple[Service, list[FailsOnce]]]:
    sinks: list[FailsOnce] = []

    def watch(sink: ScorecardSink) -> ScorecardSink:
        sinks.append(FailsOnce(sink, where))
        return sinks[0]

    config = load((), (*LISTEN, *SOON, *IN_TEST, "hold.timeout=1s"), {})
    service = Service(config, default_criteria(), observing=watch)
    await service.start()
    try:
        yield service, sinks
    finally:
        assert not await service.stop()


async def send(service: Service, framework: str, scenario: str) -> None:
    for body in recorded(framework, scenario):
        assert await asyncio.to_thread(post, service.receivers[1].port, body) == (200, b"")


async def until(wanted: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not wanted():
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("where", ["record", "requests"])
async def test_a_fault_in_scoring_is_counted_and_told_once_and_stops_nothing(
    where: str, caplog: pytest.LogCaptureFixture
):
    async with running(where) as (service, sinks):
        metrics = service.metrics
        await send(service, "pydantic-ai", "tool_error")
        await until(lambda: metrics.faults.value(("KeyError",)) == 1)
        await send(service, "pydantic-ai", "unknown_tool")
        await until(lambda: sinks[0].recorded == (1 if where == "record" else 2))
        await until(lambda: service.pipeline.admission.spans_held == 0)
        received = metrics.spans.value(("received", "", ""))
        assert metrics.spans.value(("consumed", "", "")) == received > 0
        # What is scored at the end is scored as before.
        await send(service, "pydantic-ai", "one_call")
    assert sinks[0].recorded == (2 if where == "record" else 3)
    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(told) == 1
    assert "KeyError in test_faults.py" in told[0]
    assert "secret" not in told[0]
