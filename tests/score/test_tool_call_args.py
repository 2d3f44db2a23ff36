"""`tool_call_args`: partial credit by argument, one to one, and what cannot be seen is no score."""

import pytest
from msgspec.structs import replace

from tests.rows import each_row
from tests.score.support import (
    expect,
    expected,
    expected_turns,
    judge,
    not_evaluated,
    scored,
    sides,
    tool_call,
    trajectory,
    user,
)
from toolgauge.evaluators.tool_call_args import ToolCallArgs
from toolgauge.model.content import NOT_RECORDED, NotRecorded, Recorded, Unparsed
from toolgauge.model.expected import Expected, ExpectedCall
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.outcomes import NotEvaluated

BOOKING: JsonObject = {"flight": "LH1", "date": "2025-01-01", "seats": 2}


def test_equal_arguments_score_one():
    outcome = scored(ToolCallArgs(), trajectory(tool_call("book", BOOKING)), expected(expect("book", BOOKING)))
    assert outcome.value == 1.0
    assert outcome.explanation == "arguments are as expected in 1 of 1 expected calls"
    assert outcome.parts == {
        "recall": 1.0, "precision": 1.0, "matched": 1, "missing": 0, "unexpected": 0, "repeated": 0
    }  # fmt: skip


def test_one_wrong_argument_of_three_scores_two_thirds():
    called = trajectory(tool_call("book", {**BOOKING, "flight": "LH2"}))
    outcome = scored(ToolCallArgs(), called, expected(expect("book", BOOKING)))
    assert outcome.value == pytest.approx(2 / 3)
    assert "book: flight differs (text, exact)" in outcome.explanation
    assert "LH" not in outcome.explanation
    (difference,) = outcome.differences
    assert (difference.where, sides(difference)) == ("book: flight", ("LH1", "LH2"))


def test_extra_arguments_cost_and_are_free_with_subset():
    called, reference = trajectory(tool_call("book", {**BOOKING, "meal": "soup"})), expected(expect("book", BOOKING))
    outcome = scored(ToolCallArgs(), called, reference)
    assert outcome.value == 0.75
    assert "book: meal is not expected" in outcome.explanation
    free = scored(ToolCallArgs(subset=True), called, reference)
    assert (free.value, free.parts["recall"], free.parts["precision"]) == (1.0, 1.0, 0.75)


def test_a_missing_argument_costs_and_says_so():
    called = trajectory(tool_call("book", {"flight": "LH1", "date": "2025-01-01"}))
    outcome = scored(ToolCallArgs(subset=True), called, expected(expect("book", BOOKING)))
    assert outcome.value == pytest.approx(2 / 3)
    assert "book: seats is missing" in outcome.explanation


def test_null_is_not_the_same_as_absent():
    called = trajectory(tool_call("book", {"flight": None}))
    assert scored(ToolCallArgs(), called, expected(expect("book", {}))).value == 0.0
    assert scored(ToolCallArgs(), trajectory(tool_call("book", {})), expected(expect("book", {"x": None}))).value == 0.0


@each_row(("wanted", "given", "value"), [(1, 1.0, 1.0), (1, True, 0.0), (1, "1", 0.0), ([1, 2], [2, 1], 0)])
def test_booleans_are_not_numbers_and_whole_floats_are(wanted: Json, given: Json, value: float):
    called = trajectory(tool_call("book", {"seats": given}))
    assert scored(ToolCallArgs(), called, expected(expect("book", {"seats": wanted}))).value == value


def test_strict_is_all_or_nothing():
    reference = expected(expect("book", BOOKING), expect("pay", {"amount": 3}))
    half = trajectory(tool_call("book", BOOKING), tool_call("pay", {"amount": 4}))
    assert scored(ToolCallArgs(), half, reference).value == 0.5
    assert scored(ToolCallArgs(strict=True), half, reference).value == 0.0
    whole = trajectory(tool_call("book", BOOKING), tool_call("pay", {"amount": 3}))
    assert scored(ToolCallArgs(strict=True), whole, reference).value == 1.0


def test_json_similarity_gives_credit_for_what_is_alike():
    called = trajectory(tool_call("greet", {"name": "Anna"}))
    reference = expected(expect("greet", {"name": "Anne"}))
    assert scored(ToolCallArgs(), called, reference).value == 0.0
    outcome = scored(ToolCallArgs(similarity="json"), called, reference)
    assert outcome.value == 0.75
    assert outcome.explanation == (
        "arguments are as expected in 0 of 1 expected calls; greet: name differs (text, similarity)"
    )


def test_differences_name_the_path_within_an_argument():
    passengers: list[Json] = [{"last_name": "A"}, {"last_name": "B"}, {"last_name": "C"}]
    wanted: JsonObject = {"passengers": [*passengers[:2], {"last_name": "D"}]}
    called = trajectory(tool_call("book", {"passengers": passengers}))
    outcome = scored(ToolCallArgs(), called, expected(expect("book", wanted)))
    assert [difference.where for difference in outcome.differences] == ["book: passengers[2].last_name"]


def test_calls_are_paired_for_the_greatest_sum_and_not_first_come_first_served():
    reference = expected(expect("a", {"x": 1}), expect("a", {"x": 1, "y": 2}))
    called = trajectory(tool_call("a", {"x": 1, "y": 2}), tool_call("a", {"x": 1}))
    assert scored(ToolCallArgs(subset=True), called, reference).value == 1.0
    assert scored(ToolCallArgs(), called, reference).value == 1.0


def test_missing_calls_are_zeros_and_unexpected_ones_are_counted():
    called = trajectory(tool_call("a", {"x": 1}), tool_call("b"), tool_call("a", {"x": 1}))
    outcome = scored(ToolCallArgs(), called, expected(expect("a", {"x": 1}), expect("c", {"z": 1})))
    assert outcome.value == 0.5
    assert outcome.parts["recall"] == 0.5
    assert (outcome.parts["missing"], outcome.parts["unexpected"], outcome.parts["repeated"]) == (1, 2, 1)
    assert "missing: `c`; unexpected: `b`; repeated: `a`" in outcome.explanation


def test_without_any_call_the_expected_ones_are_missing():
    assert scored(ToolCallArgs(), trajectory(), expected(expect("a", {"x": 1}))).value == 0.0


def test_a_call_expected_by_name_matches_whatever_its_arguments():
    unparsed = tool_call("a", arguments=Unparsed("{x: "))
    unrecorded = tool_call("b", arguments=NotRecorded())
    assert scored(ToolCallArgs(), trajectory(unparsed, unrecorded), expected(expect("a"), expect("b"))).value == 1.0


def test_unparsable_arguments_are_a_mismatch_that_says_so():
    called = trajectory(tool_call("a", arguments=Unparsed("{x: 1")))
    outcome = scored(ToolCallArgs(), called, expected(expect("a", {})))
    assert outcome.value == 0.0
    assert "a: arguments are unparsable" in outcome.explanation


def test_arguments_that_are_no_object_are_a_mismatch():
    called = trajectory(tool_call("a", arguments=Recorded([1, 2])))
    assert scored(ToolCallArgs(), called, expected(expect("a", {"x": 1}))).value == 0.0


@each_row(
    ("arguments", "reason"),
    [
        (NotRecorded(), "arguments_not_recorded"),
        (NotRecorded("redacted"), "redacted"),
        (Unparsed("{", "truncated"), "truncated"),
    ],
)
def test_arguments_that_nobody_saw_are_no_score(arguments: NotRecorded | Unparsed, reason: str):
    called = trajectory(tool_call("a", arguments=arguments))
    assert not_evaluated(ToolCallArgs(), called, expected(expect("a", {"x": 1}))) == reason


def test_unseen_arguments_of_tools_that_nobody_expects_do_not_matter():
    called = trajectory(tool_call("b", arguments=NotRecorded()), tool_call("a", {"x": 1}))
    assert scored(ToolCallArgs(), called, expected(expect("a", {"x": 1}))).value == 1.0


def test_no_reference_and_nothing_expected_are_no_scores():
    assert not_evaluated(ToolCallArgs(), trajectory(), None) == "no_reference"
    assert not_evaluated(ToolCallArgs(), trajectory(tool_call("a")), expected()) == "nothing_expected"


def test_optional_calls_count_only_when_made():
    reference = expected(expect("a", {"x": 1}), expect("log", {"level": 1}, optional=True))
    assert scored(ToolCallArgs(), trajectory(tool_call("a", {"x": 1})), reference).value == 1.0
    wrong = trajectory(tool_call("a", {"x": 1}), tool_call("log", {"level": 2}))
    assert scored(ToolCallArgs(), wrong, reference).value == 0.5
    only_optional = expected(expect("log", {}, optional=True))
    assert not_evaluated(ToolCallArgs(), trajectory(), only_optional) == "nothing_expected"


def test_repeats_within_the_range_are_expected():
    reference = expected(expect("poll", {"job": 1}, repeat=(1, 3)))
    poll = tool_call("poll", {"job": 1})
    assert scored(ToolCallArgs(), trajectory(poll, poll, poll), reference).parts["unexpected"] == 0
    assert scored(ToolCallArgs(), trajectory(poll, poll, poll, poll), reference).parts["repeated"] == 1
    twice = expected(expect("poll", {"job": 1}, repeat=(2, 3)))
    assert scored(ToolCallArgs(), trajectory(poll), twice).value == 0.5


def test_call_ids_decide_only_where_both_sides_have_one():
    wanted = ExpectedCall(name="a", args={"x": 1}, call_id="c1")
    reference = Expected(turns=((wanted,),))
    assert scored(ToolCallArgs(), trajectory(tool_call("a", {"x": 1}, call_id="c1")), reference).value == 1.0
    assert scored(ToolCallArgs(), trajectory(tool_call("a", {"x": 1})), reference).value == 1.0
    assert scored(ToolCallArgs(), trajectory(tool_call("a", {"x": 1}, call_id="c2")), reference).value == 0.0


def test_only_the_tools_that_count_are_compared_on_both_sides():
    reference = expected(expect("get_order", {"id": 1}), expect("refund", {"id": 1}))
    called = trajectory(tool_call("refund", {"id": 1}), writing_tools=["refund"])
    assert scored(ToolCallArgs(), called, reference).value == 0.5
    assert scored(ToolCallArgs(tools="writes"), called, reference).value == 1.0
    assert scored(ToolCallArgs(tools=("ref*",)), called, reference).value == 1.0


def test_user_turns_are_scored_apart_and_those_with_nothing_expected_stay_out():
    reference = expected_turns((expect("a", {"x": 1}),), (), (expect("b", {"y": 1}),))
    calls = (tool_call("a", {"x": 1}, turn=0), tool_call("b", {"y": 2}, turn=3))
    messages = (user("first", 0), user("second", 1), user("third", 3))
    outcome = scored(ToolCallArgs(), trajectory(*calls, messages=messages), reference)
    assert outcome.value == 0.5
    assert (outcome.parts["turns"], outcome.parts["turns_scored"]) == (3, 2)
    assert outcome.explanation.startswith("mean over 2 of 3 user turns; turn 3: ")


def test_calls_of_user_turns_with_nothing_expected_are_told_and_those_that_cannot_be_read_are_not_among_them():
    reference = expected_turns((expect("a", {"x": 1}),), (), (expect("b", {"y": 1}),))
    calls = (
        tool_call("a", {"x": 1}, turn=0),
        tool_call("delete_all", {}, turn=1),
        tool_call("b", None, turn=2),
    )  # fmt: skip
    calls = (*calls[:2], replace(calls[2], arguments=NOT_RECORDED))
    messages = (user("first", 0), user("second", 1), user("third", 2))
    outcome = scored(ToolCallArgs(), trajectory(*calls, messages=messages), reference)
    assert (outcome.value, outcome.parts["turns_scored"], outcome.parts["unexpected"]) == (1.0, 1, 1)
    assert outcome.explanation == "mean over 1 of 3 user turns; 1 calls in user turns without expected ones"


def test_calls_are_told_where_no_user_turn_has_expected_ones():
    called = trajectory(tool_call("delete_all", {}, turn=1), messages=(user("first", 0), user("second", 1)))
    (outcome,) = judge(ToolCallArgs(), called, expected_turns((), ()))
    assert isinstance(outcome, NotEvaluated)
    assert outcome.reason == "nothing_expected"
    assert outcome.explanation == ("no call was expected; none was made; 1 calls in user turns without expected ones")


def test_a_call_in_the_wrong_user_turn_does_not_count():
    reference = expected_turns((expect("a", {"x": 1}),), (expect("b", {"y": 1}),))
    calls = (tool_call("b", {"y": 1}, turn=0), tool_call("a", {"x": 1}, turn=1))
    messages = (user("first", 0), user("second", 1))
    assert scored(ToolCallArgs(), trajectory(*calls, messages=messages), reference).value == 0.0


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
    runs = [
        trajectory(tool_call("book", {**BOOKING, "seats": 3}), tool_call("pay", {"amount": 5, "on": [1, 3]})),
        trajectory(
            tool_call("book", BOOKING), tool_call("pay", {"amount": 1, "on": [1, 2]}), tool_call("note", {"a": 1})
        ),
        trajectory(tool_call("pay", {"amount": 5, "on": [1, 3]}), tool_call("book", {**BOOKING, "seats": 3})),
        trajectory(),
    ]
    seasoned = ToolCallArgs()
    for run in (*runs, *reversed(runs)):
        assert scored(seasoned, run, wanted) == scored(ToolCallArgs(), run, wanted)


@each_row(("wanted", "found"), [(1, True), (0, False), (True, 1), (False, 0), (True, 1.0)])
def test_a_boolean_is_no_number_in_a_call_that_stands_where_it_should(wanted: Json, found: Json):
    run, reference = trajectory(tool_call("book", {"seats": found})), expected(expect("book", {"seats": wanted}))
    assert scored(ToolCallArgs(), run, reference).value == 0.0


def test_what_an_evaluator_keeps_does_not_grow_with_the_references_it_has_seen():
    evaluator, run = ToolCallArgs(), trajectory(tool_call("book", {"seats": 7}))
    for seats in range(1000):
        reference = expected(expect("book", {"seats": seats}))
        assert scored(evaluator, run, reference).value == float(seats == 7)
