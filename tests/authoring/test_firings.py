"""What fires on a run, and what labels make of it."""

from tests.score.support import trajectory
from toolgauge.authoring.firings import Backtest, Share
from toolgauge.authoring.labels import Labelled, LabelSet
from toolgauge.model.outcomes import Errored, NotEvaluated, Outcome, Result, Scorecard, Scored
from toolgauge.service.criteria_factory import default_criteria

PASS, FAIL = Scored(1.0, "fine", passed=True), Scored(0.0, "wrong", passed=False)
UNSEEN, BROKEN = NotEvaluated(reason="no_calls"), Errored(error_type="timeout", message="cut off")
CRITERIA = default_criteria()[:2]
FIRST, SECOND = (criterion.name for criterion in CRITERIA)


def trace(number: int) -> str:
    return f"{number:032x}"


def scorecard(
    number: int, *outcomes: tuple[str, Outcome], conversation: str | None = None, as_a_whole: bool = False
) -> Scorecard:
    judged = trajectory(
        trace_id=trace(number), conversation_id=conversation, scope="conversation" if as_a_whole else "trace"
    )
    results = tuple(
        Result(name, "0" * 12, "tool_success", "1", "call", "live", outcome, target=judged.root)
        for name, outcome in outcomes
    )
    return Scorecard(trajectory=judged, results=results, scored_at_ns=1)


def backtest(*scorecards: Scorecard) -> Backtest:
    counted = Backtest(CRITERIA)
    for each in scorecards:
        counted.add(each)
    return counted


def labels(**verdicts: bool) -> LabelSet:
    made = LabelSet("people")
    for name, passed in verdicts.items():
        made.add(Labelled(is_conversation=True, id=name), passed=passed)
    return made


def test_a_criterion_fires_once_on_a_conversation_of_many_traces():
    counted = backtest(
        scorecard(1, (FIRST, PASS), conversation="a"),
        scorecard(2, (FIRST, FAIL), (FIRST, FAIL), conversation="a"),
        scorecard(3, (FIRST, FAIL), conversation="a"),
        scorecard(4, (FIRST, PASS)),
    )
    assert counted.runs == 2
    assert counted.agreements()[0].passed == Share(1, 2)
    assert counted.agreements()[0].false_alarms == (trace(2),)
    assert dict(counted.results[FIRST].words) == {"pass": 2, "fail": 3}


def test_what_was_not_evaluated_or_broke_is_no_judged_run():
    counted = backtest(scorecard(1, (FIRST, UNSEEN)), scorecard(2, (FIRST, BROKEN)), scorecard(3, (FIRST, PASS)))
    assert counted.agreements()[0].passed == Share(0, 1)
    assert counted.results[FIRST].reasons == {"no_calls": 1}
    assert counted.results[FIRST].words["error"] == 1


def test_all_together_fire_where_any_criterion_does():
    counted = backtest(
        scorecard(1, (FIRST, FAIL), (SECOND, PASS)),
        scorecard(2, (FIRST, PASS), (SECOND, FAIL)),
        scorecard(3, (FIRST, PASS), (SECOND, PASS)),
    )
    assert [one.passed for one in counted.agreements()] == [Share(1, 3), Share(1, 3), Share(2, 3)]


def test_precision_recall_and_agreement_are_of_judged_runs():
    counted = backtest(
        *(scorecard(number, (FIRST, FAIL), conversation=f"bad{number}") for number in range(3)),
        scorecard(3, (FIRST, PASS), conversation="bad3"),
        scorecard(4, (FIRST, UNSEEN), conversation="bad4"),
        scorecard(5, (FIRST, FAIL), conversation="good0"),
        *(scorecard(number, (FIRST, PASS), conversation=f"good{number}") for number in range(6, 11)),
    )
    verdicts = {f"bad{number}": False for number in range(5)} | {f"good{number}": True for number in (0, *range(6, 11))}
    agreement = counted.agreements(labels(**verdicts))[0]
    assert (agreement.passed, agreement.failed, agreement.not_judged) == (Share(1, 6), Share(3, 4), 1)
    assert (agreement.precision, agreement.failed, agreement.agreement) == (Share(3, 4), Share(3, 4), Share(8, 10))
    assert (agreement.false_alarms, agreement.missed) == ((trace(5),), (trace(3),))


def test_a_label_of_a_trace_makes_the_trace_a_run_of_its_own():
    counted = backtest(scorecard(1, (FIRST, FAIL), conversation="a"), scorecard(2, (FIRST, PASS), conversation="a"))
    made = labels(a=False)
    made.add(Labelled(is_conversation=False, id=trace(2)), passed=True)
    agreement = counted.agreements(made)[0]
    assert (agreement.passed, agreement.failed) == (Share(0, 1), Share(1, 1))
