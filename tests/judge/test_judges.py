"""The stage with a scripted client: every bound, every fault, and exactly one set of outcomes for every inquiry."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import ClassVar

import pytest

from tests.judge.support import MAYBE, NO, YES, Bench, RightTool, Script, WholeRun, inquiry, run, said
from tests.score.support import tool_call, trajectory
from toolgauge.judge.inquiry import Reply, Request
from toolgauge.judge.judges import weight
from toolgauge.judge.settings import JudgeSettings
from toolgauge.model.errors import JudgeCallError
from toolgauge.model.expected import Expected
from toolgauge.model.json import Json
from toolgauge.model.judging import Asking
from toolgauge.model.outcomes import Errored, Level, NotEvaluated, Outcome, Scored
from toolgauge.model.trajectory import Trajectory
from toolgauge.settings import SECOND, Prices

SETTINGS = JudgeSettings(model="openai:any", timeout=60 * SECOND)
YES_SCORE = Scored(value=1.0, explanation="the judge said Yes")
NO_SCORE = Scored(value=0.0, explanation="the judge said No")
ENDED = NotEvaluated(reason="incomplete", explanation="judging was ended before it was done")
FULL = NotEvaluated(reason="overload", explanation="the queue of the judges was full")
BUDGET = NotEvaluated(reason="judge_budget", explanation="the money for judges is spent for this hour")


async def test_each_call_is_asked_about_and_answered_in_order():
    bench = Bench(YES, NO)
    assert await bench.judged(inquiry(RightTool(), run("find", "buy"))) == [YES_SCORE, NO_SCORE]
    assert bench.client.is_closed


async def test_a_bad_verdict_is_asked_for_again_with_what_was_wrong():
    bench = Bench(MAYBE, Reply(verdict=None, problem="give the verdict"), YES)
    assert await bench.judged(inquiry(RightTool(), run("find"))) == [YES_SCORE]
    first, _, third = bench.client.requests
    assert first.exchanges == ()
    assert ['"Maybe"' in third.exchanges[0].problem, third.exchanges[1].problem] == [True, "give the verdict"]
    assert (bench.metrics.reasked.value(), bench.metrics.calls.value(("unusable",))) == (2, 1)
    stubborn = Bench(MAYBE)
    (outcome,) = await stubborn.judged(inquiry(RightTool(), run("find")))
    assert isinstance(outcome, Errored)
    assert (outcome.error_type, len(stubborn.client.requests)) == ("invalid_verdict", 3)


async def test_what_needs_no_judge_is_counted_as_saved():
    bench = Bench(YES)
    outcomes = await bench.judged(inquiry(RightTool(clear=("find",)), run("find", "buy")))
    assert [outcome.value for outcome in outcomes if isinstance(outcome, Scored)] == [1.0, 1.0]
    assert len(bench.client.requests) == 1
    assert bench.metrics.saved.value() == 1


async def test_no_more_calls_are_in_flight_than_allowed():
    bench = Bench(YES, settings=SETTINGS.model_copy(update={"max_concurrent": 2}))
    # Long enough for the thread that builds the next question.
    bench.client.step_s = 0.005
    outcomes = await bench.judged(inquiry(RightTool(), run(*["find"] * 20)))
    assert outcomes == [YES_SCORE] * 20
    assert bench.client.most_in_flight == 2


async def test_a_judge_that_hangs_is_an_error_and_the_others_go_on():
    bench = Bench("hang", YES, settings=SETTINGS.model_copy(update={"timeout": SECOND // 2}))
    hung, fine = await bench.judged(inquiry(RightTool(), run("find", "buy")))
    assert hung == Errored(error_type="timeout", message="the judge did not answer in time")
    assert fine == YES_SCORE
    assert bench.metrics.failures.value(("timeout",)) == 1


async def test_what_a_client_raises_is_plainly_claimed_by_its_type_alone():
    bench = Bench(KeyError("the key sk-secret"))
    (outcome,) = await bench.judged(inquiry(RightTool(), run("find")))
    assert outcome == Errored(error_type="KeyError", message="the client of the judge raised an exception")


async def test_a_client_that_cancels_itself_costs_its_question():
    class Cancels(Script):
        async def ask(self, request: Request) -> Reply:
            raise asyncio.CancelledError(request)

    bench = Bench(YES)
    bench.asker._client = Cancels(YES)  # pyright: ignore[reportPrivateUsage]
    outcomes = await bench.judged(inquiry(RightTool(), run("find", "buy")))
    assert outcomes == [Errored(error_type="cancelled", message="the call to the judge was cancelled")] * 2


async def test_a_provider_that_is_down_is_asked_once_a_question():
    bench = Bench(JudgeCallError("connection", "the provider could not be reached"))
    outcomes = await bench.judged(inquiry(RightTool(), run("find", "buy")))
    assert outcomes == [Errored(error_type="connection", message="the provider could not be reached")] * 2
    assert len(bench.client.requests) == 2


async def test_a_provider_that_says_when_to_come_back_is_asked_again_then():
    bench = Bench(JudgeCallError("rate_limited", "too many", retry_after_s=7.0), YES)
    assert await bench.judged(inquiry(RightTool(), run("find"))) == [YES_SCORE]
    assert bench.time.slept == [7.0]


async def test_a_provider_that_says_tomorrow_is_not_waited_for_and_none_for_ever():
    for seconds, asked in ((86_400.0, 1), (7.0, 3)):
        bench = Bench(JudgeCallError("rate_limited", "too many", retry_after_s=seconds))
        (outcome,) = await bench.judged(inquiry(RightTool(), run("find")))
        assert outcome == Errored(error_type="rate_limited", message="too many")
        assert (len(bench.client.requests), bench.time.slept) == (asked, [7.0] * (asked - 1))


async def test_when_the_money_is_spent_nobody_is_asked():
    settings = JudgeSettings(
        model="openai:any",
        timeout=60 * SECOND,
        prices=Prices(input_per_million=1000.0, output_per_million=1000.0),
        max_output_tokens=10,
        max_cost_per_hour=0.2,
    )
    bench = Bench(said(YES, 140, 10), settings=settings.model_copy(update={"max_concurrent": 1}))
    outcomes = await bench.judged(inquiry(RightTool(), run("a", "b", "c", "d")))
    assert outcomes == [YES_SCORE, YES_SCORE, BUDGET, BUDGET]
    assert bench.metrics.cost.value() == pytest.approx(0.3)
    assert bench.metrics.calls.value(("over_budget",)) == 2
    assert bench.metrics.tokens.value(("input",)) == 280
    assert bench.metrics.tokens.value(("output",)) == 20


async def test_a_full_queue_says_so_and_takes_no_more():
    bench = Bench("hang", settings=SETTINGS.model_copy(update={"max_queue": 2}))
    await bench.judges.start()
    for _ in range(5):
        of = run("find")
        bench.judges.put(of, (inquiry(RightTool(), of), inquiry(WholeRun(), of)))
    assert bench.judges.open_count == 2
    refused = [judged for answers in bench.judges.take() for _, judged in answers.answers]
    assert refused == [((None, FULL),)] * 6
    await bench.judges.close()
    ended = [[outcome for _, outcome in judged] for answers in bench.judges.take() for _, judged in answers.answers]
    assert len(ended) == 4
    assert {outcome for outcomes in ended for outcome in outcomes} == {ENDED}


def test_the_weight_of_a_trajectory_is_that_of_its_texts_and_values():
    assert 1_000 < weight(trajectory(tool_call("find", {"id": 1}))) < 2_000
    deep: Json = "x"
    for _ in range(20_000):
        deep = [deep]
    assert weight(trajectory(tool_call("find", deep))) < 1_000_000
    wide: list[Json] = ["x" * 100 for _ in range(10_000)]
    assert 1_000_000 < weight(trajectory(tool_call("find", wide))) < 2_000_000


async def test_at_the_end_what_is_open_is_incomplete_and_what_was_answered_stays():
    bench = Bench(YES, "hang", settings=SETTINGS.model_copy(update={"max_concurrent": 2}))
    of = run("a", "b", "c")
    sampled_out = NotEvaluated(reason="sampled_out")
    await bench.judges.start()
    bench.judges.put(of, (inquiry(RightTool(), of), inquiry(WholeRun(), of), inquiry(RightTool(), of, sampled_out)))
    await bench.judges.drain(0.5)
    await bench.judges.close()
    await bench.judges.close()
    (answers,) = bench.judges.take()
    by_call, whole, settled = ([outcome for _, outcome in judged] for _, judged in answers.answers)
    assert by_call[0] == YES_SCORE
    assert set(by_call[1:]) == {ENDED}
    assert whole == [ENDED]
    assert settled == [sampled_out]
    assert bench.client.in_flight == 0
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_secrets_are_masked_before_they_leave():
    bench = Bench(YES, redact=lambda text: text.replace("sk-secret", "[key]"))
    await bench.judged(inquiry(RightTool(), run("sk-secret")))
    assert bench.client.requests[0].question.prompt == "Was `[key]` right?"


async def test_what_cannot_be_masked_does_not_leave():
    def broken(text: str) -> str:
        raise ValueError(text)

    bench = Bench(YES, redact=broken)
    (outcome,) = await bench.judged(inquiry(RightTool(), run("find")))
    assert outcome == Errored(error_type="ValueError", message="the question could not be masked")
    assert bench.client.requests == []


async def test_questions_are_built_only_when_a_call_is_free():
    built: list[str] = []

    class Greedy(RightTool):
        def questions(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Asking]:
            for asking in super().questions(trajectory, expected):
                if asking is not None:
                    built.append("one")
                yield asking

    bench = Bench("hang", settings=SETTINGS.model_copy(update={"max_concurrent": 3}))
    of = run(*["find"] * 50)
    await bench.judges.start()
    bench.judges.put(of, (inquiry(Greedy(), of),))
    await bench.judges.drain(0.5)
    assert len(built) == 3
    await bench.judges.close()


async def test_what_an_evaluator_breaks_is_an_outcome_and_judging_goes_on():
    class Broken(RightTool):
        def joined(self, outcomes: Sequence[Outcome]) -> Outcome:
            raise KeyError("secret", outcomes)

    class Whole(Broken):
        level: ClassVar[Level] = "trajectory"

    bench = Bench(YES)
    of = run("find")
    outcomes = await bench.judged(inquiry(Whole(), of), inquiry(RightTool(), of))
    assert outcomes == [Errored(error_type="KeyError", message="the evaluator raised an exception"), YES_SCORE]
