"""Judges that come and go while questions are open."""

import asyncio

from tests.judge.support import NO, YES, RightTool, inquiry, run
from tests.judge.support import Bench as Stage
from toolgauge.model.judging import Answers
from toolgauge.model.metrics import MetricRegistry
from toolgauge.model.outcomes import NotEvaluated, Outcome, Scored
from toolgauge.selfmetrics import JudgeMetrics
from toolgauge.service.bench import Bench


def outcomes(answers: list[Answers]) -> list[Outcome]:
    return [outcome for one in answers for _, judged in one.answers for _, outcome in judged]


async def test_judges_that_go_answer_what_they_were_asked_and_others_are_asked_from_then_on():
    metrics = JudgeMetrics(MetricRegistry())
    first, second = Stage(YES), Stage(NO)
    bench = Bench(first.judges, metrics)
    await bench.start()
    one, two = inquiry(RightTool(), run("find")), inquiry(RightTool(), run("find"))
    bench.put(one.trajectory, (one,))
    await bench.replace(second.judges)
    bench.put(two.trajectory, (two,))
    assert metrics.queue.current() == {(): 2}
    await bench.drain(5)
    values = [outcome.value for outcome in outcomes(bench.take()) if isinstance(outcome, Scored)]
    assert sorted(values) == [0, 1]
    async with asyncio.timeout(5):
        while not first.client.is_closed:
            await asyncio.sleep(0)
    assert not second.client.is_closed
    await bench.close()
    assert second.client.is_closed
    assert bench.take() == []


async def test_without_judges_every_question_is_answered_all_the_same():
    metrics = JudgeMetrics(MetricRegistry())
    stage = Stage("hang")
    bench = Bench(stage.judges, metrics)
    await bench.start()
    one, two = inquiry(RightTool(), run("find")), inquiry(RightTool(), run("find"))
    bench.put(one.trajectory, (one,))
    await bench.replace(None)
    assert not bench.sits
    bench.put(two.trajectory, (two,))
    await bench.drain(0.05)
    await bench.close()
    reasons = [outcome.reason for outcome in outcomes(bench.take()) if isinstance(outcome, NotEvaluated)]
    assert sorted(reasons) == ["incomplete", "judge_budget"]
