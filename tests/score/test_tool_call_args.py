"""`tool_call_args`: partial credit by argument, one to one, and what cannot be seen is no score."""

from tests.score.support import (
    expect,
    expected,
    expected_turns,
    not_evaluated,
    scored,
    tool_call,
    trajectory,
    user,
)
from toolgauge.evaluators.expected_arguments import ToolCallArgs
from toolgauge.model.content import NOT_RECORDED, NotRecorded
from toolgauge.model.json import JsonObject

BOOKING: JsonObject = {"flight": "LH1", "date": "2025-01-01", "seats": 2}


def test_extra_arguments_cost_and_are_free_with_subset():
    called, reference = trajectory(tool_call("book", {**BOOKING, "meal": "soup"})), expected(expect("book", BOOKING))
    outcome = scored(ToolCallArgs(), called, reference)
    assert outcome.value == 0.75
    assert "book: meal is not expected" in outcome.explanation
    free = scored(ToolCallArgs(subset=True), called, reference)
    assert (free.value, free.parts["recall"], free.parts["precision"]) == (1.0, 1.0, 0.75)


def test_unseen_arguments_of_tools_that_nobody_expects_do_not_matter():
    called = trajectory(tool_call("b", arguments=NotRecorded()), tool_call("a", {"x": 1}))
    assert scored(ToolCallArgs(), called, expected(expect("a", {"x": 1}))).value == 1.0


def test_repeats_within_the_range_are_expected():
    reference = expected(expect("poll", {"job": 1}, repeat=(1, 3)))
    poll = tool_call("poll", {"job": 1})
    assert scored(ToolCallArgs(), trajectory(poll, poll, poll), reference).parts["unexpected"] == 0
    assert scored(ToolCallArgs(), trajectory(poll, poll, poll, poll), reference).parts["repeated"] == 1
    twice = expected(expect("poll", {"job": 1}, repeat=(2, 3)))
    assert scored(ToolCallArgs(), trajectory(poll), twice).value == 0.5


def test_user_turns_are_scored_apart_and_those_with_nothing_expected_stay_out():
    reference = expected_turns((expect("a", {"x": 1}),), (), (expect("b", {"y": 1}),))
    messages = (user("first", 0), user("second", 1), user("third", 3))
    calls = (tool_call("a", {"x": 1}, turn=0), tool_call("b", {"y": 2}, turn=3))
    outcome = scored(ToolCallArgs(), trajectory(*calls, messages=messages), reference)
    assert (outcome.value, outcome.parts["turns"], outcome.parts["turns_scored"]) == (0.5, 3, 2)
    swapped = (tool_call("b", {"y": 1}, turn=0), tool_call("a", {"x": 1}, turn=3))
    assert scored(ToolCallArgs(), trajectory(*swapped, messages=messages), reference).value == 0.0
    # Calls of other turns are told, and those that cannot be read are not among them.
    unseen = (calls[0], tool_call("delete_all", {}, turn=1), tool_call("b", arguments=NOT_RECORDED, turn=3))
    outcome = scored(ToolCallArgs(), trajectory(*unseen, messages=messages), reference)
    assert (outcome.value, outcome.parts["turns_scored"], outcome.parts["unexpected"]) == (1.0, 1, 1)
    nothing = expected_turns((), (), ())
    assert not_evaluated(ToolCallArgs(), trajectory(*unseen[:2], messages=messages), nothing) == "nothing_expected"


def test_user_turns_that_cannot_be_told_apart_are_no_score():
    reference = expected_turns((expect("a", {}),), (expect("b", {}),))
    called = trajectory(tool_call("a"), tool_call("b"), messages=(user("only one", 0),))
    assert not_evaluated(ToolCallArgs(), called, reference) == "incomplete"


def test_an_evaluator_says_the_same_of_a_run_whatever_runs_it_has_seen_before():
    wanted = expected(expect("book", BOOKING), expect("pay", {"amount": 1, "on": [1, 2]}), expect("note"))
    book, pay = tool_call("book", {**BOOKING, "seats": 3}), tool_call("pay", {"amount": 5, "on": [1, 3]})
    good = tool_call("pay", {"amount": 1, "on": [1, 2]})
    runs = [trajectory(book, pay), trajectory(tool_call("book", BOOKING), good), trajectory(pay, book), trajectory()]
    seasoned = ToolCallArgs()
    for run in (*runs, *reversed(runs)):
        assert scored(seasoned, run, wanted) == scored(ToolCallArgs(), run, wanted)
