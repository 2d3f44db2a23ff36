"""`tool_call_args`: partial credit by argument, one to one, and what cannot be seen is no score."""

import pytest

from tests.rows import each_row
from tests.score.support import (
    expect,
    expected,
    expected_turns,
    not_evaluated,
    scored,
    sides,
    tool_call,
    trajectory,
    user,
)
from toolgauge.evaluators.tool_call_args import ToolCallArgs
from toolgauge.model.content import NOT_RECORDED, NotRecorded, Recorded, Unparsed
from toolgauge.model.json import Json, JsonObject

BOOKING: JsonObject = {"flight": "LH1", "date": "2025-01-01", "seats": 2}


def test_one_wrong_argument_of_three_scores_two_thirds():
    called = trajectory(tool_call("book", {**BOOKING, "flight": "LH2"}))
    outcome = scored(ToolCallArgs(), called, expected(expect("book", BOOKING)))
    assert outcome.value == pytest.approx(2 / 3)
    assert "book: flight differs" in outcome.explanation
    assert "LH" not in outcome.explanation
    (difference,) = outcome.differences
    assert (difference.where, sides(difference)) == ("book: flight", ("LH1", "LH2"))
    assert scored(ToolCallArgs(), trajectory(tool_call("book", {})), expected(expect("book", {"x": None}))).value == 0.0


def test_extra_arguments_cost_and_are_free_with_subset():
    called, reference = trajectory(tool_call("book", {**BOOKING, "meal": "soup"})), expected(expect("book", BOOKING))
    outcome = scored(ToolCallArgs(), called, reference)
    assert outcome.value == 0.75
    assert "book: meal is not expected" in outcome.explanation
    free = scored(ToolCallArgs(subset=True), called, reference)
    assert (free.value, free.parts["recall"], free.parts["precision"]) == (1.0, 1.0, 0.75)


def test_strict_is_all_or_nothing():
    reference = expected(expect("book", BOOKING), expect("pay", {"amount": 3}))
    half = trajectory(tool_call("book", BOOKING), tool_call("pay", {"amount": 4}))
    assert scored(ToolCallArgs(), half, reference).value == 0.5
    assert scored(ToolCallArgs(strict=True), half, reference).value == 0.0
    whole = trajectory(tool_call("book", BOOKING), tool_call("pay", {"amount": 3}))
    assert scored(ToolCallArgs(strict=True), whole, reference).value == 1.0


def test_json_similarity_gives_credit_for_what_is_alike():
    called, reference = trajectory(tool_call("greet", {"name": "Anna"})), expected(expect("greet", {"name": "Anne"}))
    assert scored(ToolCallArgs(), called, reference).value == 0.0
    assert scored(ToolCallArgs(similarity="json"), called, reference).value == 0.75


def test_missing_calls_are_zeros_and_unexpected_ones_are_counted():
    called = trajectory(tool_call("a", {"x": 1}), tool_call("b"), tool_call("a", {"x": 1}))
    outcome = scored(ToolCallArgs(), called, expected(expect("a", {"x": 1}), expect("c", {"z": 1})))
    assert outcome.value == 0.5
    assert outcome.parts["recall"] == 0.5
    assert (outcome.parts["missing"], outcome.parts["unexpected"], outcome.parts["repeated"]) == (1, 2, 1)
    assert "missing: `c`; unexpected: `b`; repeated: `a`" in outcome.explanation


def test_a_call_expected_by_name_matches_whatever_its_arguments():
    unparsed = tool_call("a", arguments=Unparsed("{x: "))
    unrecorded = tool_call("b", arguments=NotRecorded())
    assert scored(ToolCallArgs(), trajectory(unparsed, unrecorded), expected(expect("a"), expect("b"))).value == 1.0


def test_unparsable_arguments_are_a_mismatch_that_says_so():
    outcome = scored(ToolCallArgs(), trajectory(tool_call("a", arguments=Unparsed("{x: 1"))), expected(expect("a", {})))
    assert (outcome.value, "a: arguments are unparsable" in outcome.explanation) == (0.0, True)
    no_object = trajectory(tool_call("a", arguments=Recorded([1, 2])))
    assert scored(ToolCallArgs(), no_object, expected(expect("a", {"x": 1}))).value == 0.0


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


def test_an_echoed_user_message_begins_no_turn_of_its_own():
    reference = expected_turns((expect("a", {}),), (expect("b", {}),))
    messages = (user("do a", 0), user("do a", 1), user("do b", 2))
    called = trajectory(tool_call("a", turn=1), tool_call("b", turn=2), messages=messages)
    assert scored(ToolCallArgs(), called, reference).value == 1.0


def test_without_messages_each_trace_of_a_conversation_is_a_turn():
    reference = expected_turns((expect("a", {}),), (expect("b", {}),))
    calls = (tool_call("a", trace_id="1" * 32), tool_call("b", trace_id="2" * 32))
    assert scored(ToolCallArgs(), trajectory(*calls, scope="conversation"), reference).value == 1.0


def test_an_evaluator_says_the_same_of_a_run_whatever_runs_it_has_seen_before():
    wanted = expected(expect("book", BOOKING), expect("pay", {"amount": 1, "on": [1, 2]}), expect("note"))
    book, pay = tool_call("book", {**BOOKING, "seats": 3}), tool_call("pay", {"amount": 5, "on": [1, 3]})
    good = tool_call("pay", {"amount": 1, "on": [1, 2]})
    runs = [trajectory(book, pay), trajectory(tool_call("book", BOOKING), good), trajectory(pay, book), trajectory()]
    seasoned = ToolCallArgs()
    for run in (*runs, *reversed(runs)):
        assert scored(seasoned, run, wanted) == scored(ToolCallArgs(), run, wanted)


@each_row(("wanted", "found"), [(1, True), (0, False), (True, 1), (False, 0), (True, 1.0)])
def test_a_boolean_is_no_number_in_a_call_that_stands_where_it_should(wanted: Json, found: Json):
    run, reference = trajectory(tool_call("book", {"seats": found})), expected(expect("book", {"seats": wanted}))
    assert scored(ToolCallArgs(), run, reference).value == 0.0
