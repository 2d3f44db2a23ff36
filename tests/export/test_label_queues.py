"""Which runs are drawn for people to label, and with which probability."""

from collections import Counter

from msgspec.structs import replace

from tests.export.scorecards import call, call_result, failed, passed, scorecard, shadow, trajectory, trajectory_result
from toolgauge.export.label_queues import QUEUED, LabelQueues
from toolgauge.export.settings import LabelQueue
from toolgauge.model.outcomes import NotEvaluated, Result, Scorecard


def run(number: int, *results: Result, tool: str = "issue_refund") -> Scorecard:
    card = scorecard(*results, of=trajectory(call(tool)))
    return replace(card, trajectory=replace(card.trajectory, trace_id=f"{number:032x}"))


GOOD, BAD = trajectory_result(passed()), trajectory_result(failed())
EVERY = (
    LabelQueue(to="a", when="failed"),
    LabelQueue(to="a", when="uncertain"),
    LabelQueue(to="a", when="all", share=0.1),
)


def why(queues: LabelQueues, card: Scorecard) -> list[str]:
    return [mark.explanation.partition(",")[0].removeprefix("drawn for people (") for mark in queues.marks(card)]


def test_the_first_queue_that_takes_a_run_decides():
    queues = LabelQueues(EVERY)
    assert why(queues, run(1, BAD)) == ["failed"]
    assert why(queues, run(2, GOOD)) == ["all"] or why(queues, run(2, GOOD)) == []
    assert why(queues, run(3, GOOD, tool="another")) == ["uncertain"]
    assert why(queues, run(4, trajectory_result(NotEvaluated(reason="no_calls")))) == []
    assert why(queues, run(5, shadow(BAD), tool="yet another")) == []


def test_criteria_decide_what_failed_and_each_backend_has_its_own_queues():
    queues = LabelQueues((LabelQueue(to="a", criteria=("refund-*",)), LabelQueue(to="b", criteria=("order*",))))
    marks = [*queues.marks(run(1, call_result(failed(), criterion="order"), GOOD))]
    assert [mark.to for mark in marks] == ["b"]


def test_a_mark_says_the_probability_and_the_trace():
    (mark,) = LabelQueues((LabelQueue(to="a", queue="q-1"),)).marks(run(1, BAD))
    assert (mark.name, mark.value, mark.queue, mark.to) == (QUEUED, 1.0, "q-1", "a")
    assert mark.explanation == f"drawn for people (failed, probability 1); trace {1:032x}"
    assert mark.id == next(LabelQueues((LabelQueue(to="a"),)).marks(run(1, BAD, GOOD))).id


def test_a_share_of_runs_is_drawn_and_the_same_ones_each_time():
    queues = (LabelQueue(to="a", when="all", share=0.2),)

    def drawn() -> list[str]:
        one = LabelQueues(queues)
        return [mark.trace_id for number in range(500) for mark in one.marks(run(number, GOOD))]

    assert drawn() == drawn()
    assert 70 < len(drawn()) < 130


def test_a_run_that_judges_see_otherwise_is_uncertain_and_is_decided_on_once():
    queues = LabelQueues((LabelQueue(to="a", when="uncertain"), LabelQueue(to="a", when="all")))
    of_judges = {
        "agree": replace(run(2, GOOD), by_judges=True),
        "differ": replace(run(3, BAD), by_judges=True),
        "unknown": replace(run(4, BAD), by_judges=True),
    }
    assert why(queues, run(1, GOOD)) == ["uncertain"]
    for number in (2, 3):
        assert why(queues, replace(run(number, GOOD), awaits_judges=True)) == []
    assert {name: why(queues, card) for name, card in of_judges.items()} == {
        "agree": ["all"],
        "differ": ["uncertain"],
        "unknown": [],
    }
    assert why(queues, of_judges["differ"]) == []


def test_kinds_of_runs_are_told_apart_by_tools_and_release():
    queues = LabelQueues((LabelQueue(to="a", when="uncertain"),))
    cards = [run(number, GOOD, tool=tool) for number, tool in enumerate(("x", "x", "y", "x"))]
    newer = replace(cards[3], trajectory=replace(cards[3].trajectory, resource={"service.version": "2"}))
    counted = Counter(bool(why(queues, card)) for card in (*cards, newer))
    assert counted == {True: 3, False: 2}
