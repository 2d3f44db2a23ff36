"""Judges that come and go while questions are open."""

import asyncio

import pytest

from tests.judge.support import NO, YES, RightTool, inquiry, run
from tests.judge.support import Bench as Stage
from toolgauge.model.errors import JudgeCallError
from toolgauge.model.judging import Answers
from toolgauge.model.metrics import MetricRegistry
from toolgauge.model.outcomes import NotEvaluated, Outcome, Scored
from toolgauge.selfmetrics import JudgeMetrics
from toolgauge.service.judge_pool import JudgePool


def outcomes(answers: list[Answers]) -> list[Outcome]:
    return [outcome for one in answers for _, judged in one.answers for _, outcome in judged]


async def test_judges_that_go_answer_what_they_were_asked_and_others_are_asked_from_then_on():
    metrics = JudgeMetrics(MetricRegistry())
    first, second = Stage(YES), Stage(NO)
    pool = JudgePool(first.judges, metrics)
    await pool.start()
    one, two = inquiry(RightTool(), run("find")), inquiry(RightTool(), run("find"))
    pool.put(one.trajectory, (one,))
    await asyncio.sleep(0)
    await pool.replace(second.judges)
    pool.put(two.trajectory, (two,))
    await asyncio.sleep(0)
    assert metrics.queue.current() == {(): 2}
    await pool.drain(5)
    values = [outcome.value for outcome in outcomes(pool.take()) if isinstance(outcome, Scored)]
    assert sorted(values) == [0, 1]
    async with asyncio.timeout(60):
        while not first.client.is_closed:
            await asyncio.sleep(0)
    assert not second.client.is_closed
    await pool.close()
    assert second.client.is_closed
    assert pool.take() == []


async def test_a_judge_that_fails_is_logged_and_shown_until_it_answers(caplog: pytest.LogCaptureFixture):
    refused = JudgeCallError("authentication", "the provider does not accept the key")
    stage = Stage(refused, refused, YES)
    pool = JudgePool(stage.judges, JudgeMetrics(MetricRegistry()))
    await pool.start()
    troubles: list[tuple[str, float] | None] = [pool.trouble]
    with caplog.at_level("INFO", "toolgauge.judge"):
        for _ in range(3):
            asked = inquiry(RightTool(), run("find"))
            pool.put(asked.trajectory, (asked,))
            await pool.drain(5)
            stage.time.now_s += 10
            troubles.append(pool.trouble)
    await pool.close()
    error = "authentication: the provider does not accept the key"
    assert troubles == [None, (error, 10.0), (error, 20.0), None]
    assert caplog.messages == [
        "the judge failed (authentication): the provider does not accept the key: check `judge.api_key`",
        "the judge answers again",
    ]


async def test_without_judges_every_question_is_answered_all_the_same():
    metrics = JudgeMetrics(MetricRegistry())
    stage = Stage("hang")
    pool = JudgePool(stage.judges, metrics)
    await pool.start()
    one, two = inquiry(RightTool(), run("find")), inquiry(RightTool(), run("find"))
    pool.put(one.trajectory, (one,))
    await asyncio.sleep(0)
    await pool.replace(None)
    assert not pool.has_judges
    pool.put(two.trajectory, (two,))
    await asyncio.sleep(0)
    await pool.drain(0.05)
    await pool.close()
    reasons = [outcome.reason for outcome in outcomes(pool.take()) if isinstance(outcome, NotEvaluated)]
    assert sorted(reasons) == ["incomplete", "judge_budget"]
