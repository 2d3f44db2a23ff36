"""Judges beside a running service: whatever they do, spans and other scores are as without them, and books balance."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager

import pytest

from tests.judge.stub import Manner, stub
from tests.judge.support import NO, YES, RightTool
from tests.wire.destination import attributes, receiving
from tests.wire.support import IN_TEST, LISTEN, SOON, post, recorded, to_http
from toolgauge.config.load import load
from toolgauge.model.delivery import Outgoing
from toolgauge.model.outcomes import Errored, NotEvaluated, Result, Scorecard, Scored
from toolgauge.pipeline.stages import ScorecardSink
from toolgauge.score.criterion import Criterion
from toolgauge.service.criteria_factory import default_criteria
from toolgauge.service.service import Service

SCENARIOS = ("tool_error", "unknown_tool", "one_call")


class Seen:
    """A sink that also keeps what passes."""

    def __init__(self, sink: ScorecardSink) -> None:
        self._sink = sink
        self.scorecards: list[Scorecard] = []

    def record(self, scorecard: Scorecard) -> None:
        self.scorecards.append(scorecard)
        self._sink.record(scorecard)

    def requests(self, scorecards: Sequence[Scorecard]) -> Iterable[Outgoing]:
        return self._sink.requests(scorecards)

    @property
    def first(self) -> list[Scorecard]:
        return [scorecard for scorecard in self.scorecards if not scorecard.by_judges]

    @property
    def by_judges(self) -> list[Scorecard]:
        return [scorecard for scorecard in self.scorecards if scorecard.by_judges]

    def results(self, criterion: str) -> list[Result]:
        return [result for scorecard in self.by_judges for result in scorecard.results if result.criterion == criterion]


RIGHT = Criterion(name="right", evaluator_name="right_tool", evaluator=RightTool(), revision="r1", pass_at=0.5)


@asynccontextmanager
async def running(
    url: str, *settings: str, criteria: Sequence[Criterion] = (RIGHT,)
) -> AsyncGenerator[tuple[Service, Seen]]:
    sinks: list[Seen] = []

    def watch(sink: ScorecardSink) -> ScorecardSink:
        sinks.append(Seen(sink))
        return sinks[0]

    judge = f'judge={{model: stub, base_url: "{url}", api_key: sk-key}}'
    config = load((), (*LISTEN, *SOON, *IN_TEST, "hold.timeout=1s", judge, *settings), {})
    service = Service(config, (*default_criteria(), *criteria), observing=watch)
    await service.start()
    try:
        yield service, sinks[0]
    finally:
        assert not await service.stop()


async def send(service: Service, *scenarios: str) -> None:
    for scenario in scenarios:
        for body in recorded("pydantic-ai", scenario):
            assert await asyncio.to_thread(post, service.receivers[1].port, body) == (200, b"")


async def until(*wanted: object, seconds: float = 120) -> None:
    async with asyncio.timeout(seconds):
        while not all(one() for one in wanted if callable(one)):
            await asyncio.sleep(0.02)


def assert_judged_once(seen: Seen, criterion: str = "right") -> None:
    """Every call of every trajectory has exactly one result of the criterion."""
    assert len(seen.by_judges) == len(seen.first)
    for scorecard in seen.by_judges:
        judged = [result.call for result in scorecard.results if result.criterion == criterion]
        assert [id(call) for call in judged] == [id(call) for call in scorecard.trajectory.calls]


def books_balance(service: Service) -> bool:
    spans = service.metrics.spans
    return spans.value(("consumed", "", "")) == spans.value(("received", "", "")) > 0


async def test_judges_write_a_second_scorecard_that_counts_nothing_twice():
    with receiving() as destination:
        async with stub(YES, NO) as serving, running(serving.url, to_http(destination.http_port)) as (service, seen):
            await send(service, "one_call")
            await until(lambda: seen.by_judges)
            calls = len(seen.by_judges[0].trajectory.calls)
        first, second = destination.scorecards()
        assert first.trace_id == second.trace_id
        assert first.parent_span_id == second.parent_span_id
        assert first.span_id != second.span_id
        assert {key: count for key, count in attributes(second).items() if ".calls." in key} == {
            "toolgauge.eval.right.calls.passed": 1,
            "toolgauge.eval.right.calls.failed": 0,
            "toolgauge.eval.right.calls.not_evaluated": 0,
            "toolgauge.eval.right.calls.error": 0,
        }
        assert len(second.links) == 1
        events = [attributes(event) for event in destination.events()]
        assert [e["gen_ai.evaluation.score.value"] for e in events if e["gen_ai.evaluation.name"] == "right"] == [1.0]
        assert not any(
            key.startswith("toolgauge.eval.right") for span in destination.spans() for key in attributes(span)
        )
        (point,) = (each for each in destination.metrics()["toolgauge.trajectories"].sum.data_points if each.as_int)
        assert point.as_int == 1
        (count,) = (each for each in destination.metrics()["toolgauge.tool_calls"].sum.data_points if each.as_int)
        assert count.as_int == calls == 1
    assert service.metrics.judge.calls.value(("answered",)) == 1
    assert service.metrics.judge.tokens.value(("input",)) == 120


@pytest.mark.parametrize(("manner", "error"), [("hang", "timeout"), ("broken", "http_500")])
async def test_a_broken_judge_costs_its_own_results_and_nothing_else(manner: Manner, error: str):
    judge = ("judge.timeout=500ms", "judge.max_concurrent=20")
    async with stub(YES, manner=manner) as serving, running(serving.url, *judge) as (service, seen):
        await send(service, *SCENARIOS)
        await until(lambda: len(seen.by_judges) == len(SCENARIOS))
    assert {result.outcome.error_type for result in seen.results("right") if isinstance(result.outcome, Errored)} == {
        error
    }
    assert all(isinstance(result.outcome, Errored) for result in seen.results("right"))
    assert_judged_once(seen)
    assert books_balance(service)
    assert not service.metrics.faults.cells


async def test_a_judge_that_hangs_delays_no_span_and_no_other_score(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("toolgauge.service.service._JUDGING_DEADLINE_S", 0.2)
    async with stub(YES, manner="hang") as serving, running(serving.url, "judge.max_queue=2") as (service, seen):
        await send(service, *SCENARIOS, "bad_args", "sequence3")
        await until(lambda: len(seen.first) == 5)
        await until(lambda: service.pipeline.admission.spans_held == 0)
        assert books_balance(service)
        # Two are still being asked about; there was no room for the others.
        await until(lambda: len(seen.by_judges) == 3)
    assert len(seen.by_judges) == 5
    reasons = [result.outcome.reason for result in seen.results("right") if isinstance(result.outcome, NotEvaluated)]
    assert set(reasons) == {"overload", "incomplete"}
    assert reasons.count("overload") == 3
    for scorecard in seen.first:
        assert {type(result.outcome) for result in scorecard.results} <= {Scored, NotEvaluated}
