"""`tool_call_output`: outputs are equal as JSON, an error is no output, and what was not recorded is no score."""

import json

import pytest

from tests.rows import each_row
from tests.score.support import expected, expected_turns, not_evaluated, scored, sides, tool_call, trajectory, user
from toolgauge.evaluators.outputs import ToolCallOutput
from toolgauge.model.content import NotRecorded, Recorded, Unparsed
from toolgauge.model.expected import ExpectedCall, ExpectedOutput
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.observations import CallError
from toolgauge.model.trajectory import ToolCall

USER: JsonObject = {"user_id": 123, "name": "John"}
STRICT = ToolCallOutput(strict=True)
ALIKE = ToolCallOutput(similarity="json")


def gave(name: str, output: Json, args: JsonObject | None = None, *, call_id: str | None = None) -> ToolCall:
    return tool_call(name, args, result=Recorded(output), call_id=call_id)


def want(name: str, output: Json, args: JsonObject | None = None, *, call_id: str | None = None) -> ExpectedCall:
    return ExpectedCall(name=name, args=args, call_id=call_id, output=ExpectedOutput(value=output))


def failed(name: str, kind: str = "TimeoutError", message: str = "took too long") -> ToolCall:
    return tool_call(name, error=CallError(kind=kind, message=message))


def test_the_expected_output_scores_one():
    outcome = scored(ToolCallOutput(), trajectory(gave("get_user", USER)), expected(want("get_user", USER)))
    assert (outcome.value, outcome.explanation) == (1.0, "1 of 1 outputs are as expected")
    assert outcome.parts == {
        "outputs": 1, "outputs_met": 1, "matched": 1, "missing": 0, "unexpected": 0, "repeated": 0
    }  # fmt: skip


FORMS: list[Json] = [
    USER,
    {"name": "John", "user_id": 123.0},
    '{"user_id": 123, "name": "John"}',
    '{"name":"John","user_id":123}',
    {"content": USER},
    {"content": '{"user_id": 123, "name": "John"}'},
    '{"content": "{\\"user_id\\": 123, \\"name\\": \\"John\\"}"}',
]


@pytest.mark.parametrize("wanted", FORMS)
@pytest.mark.parametrize("found", FORMS)
def test_an_output_is_the_same_in_every_form_on_both_sides(wanted: Json, found: Json):
    assert scored(STRICT, trajectory(gave("a", found)), expected(want("a", wanted))).value == 1.0


FALSY: list[Json] = [None, False, 0, "", [], {}]


@each_row("value", FALSY)
def test_falsy_outputs_are_values_like_any_other(value: Json):
    reference = expected(want("a", value))
    assert scored(STRICT, trajectory(gave("a", value)), reference).value == 1.0
    assert scored(STRICT, trajectory(gave("a", {"content": value})), reference).value == 1.0
    for other in FALSY:
        if (type(other), other) != (type(value), value):
            assert scored(ToolCallOutput(), trajectory(gave("a", other)), reference).value == 0.0


def test_one_wrong_output_of_three_scores_two_thirds():
    called = trajectory(gave("a", 1), gave("b", {"n": 100, "errors": 5}), gave("c", "x"))
    reference = expected(want("a", 1), want("b", {"n": 150, "errors": 5}), want("c", "x"))
    outcome = scored(ToolCallOutput(), called, reference)
    assert outcome.value == pytest.approx(2 / 3)
    assert outcome.explanation == "2 of 3 outputs are as expected; b: output.n differs (number, exact)"
    (difference,) = outcome.differences
    assert (difference.where, sides(difference)) == ("b: output.n", (150, 100))
    strict = scored(STRICT, called, reference)
    assert strict.value == 0.0
    assert strict.explanation.endswith("strict: all of them have to be")


def test_similar_outputs_score_how_alike_they_are():
    called = trajectory(gave("a", {"n": 80, "t": "same"}))
    reference = expected(want("a", {"n": 100, "t": "same"}))
    assert scored(ToolCallOutput(), called, reference).value == 0.0
    assert scored(ALIKE, called, reference).value == pytest.approx(0.9)
    assert scored(ALIKE, trajectory(gave("a", "It rains.")), expected(want("a", "It rained."))).value == 0.8


def test_the_order_of_calls_does_not_matter_and_strict_finds_the_pairs():
    called = trajectory(gave("a", "w"), gave("a", "v"))
    assert scored(STRICT, called, expected(want("a", "v"), want("a", "w"))).value == 1.0


def test_arguments_say_which_call_is_meant():
    called = trajectory(gave("get", "B", {"id": 1}), gave("get", "A", {"id": 2}))
    reference = expected(want("get", "A", {"id": 1}), want("get", "B", {"id": 2}))
    assert scored(ToolCallOutput(), called, reference).value == 0.0
    outputs_alone = expected(want("get", "A"), want("get", "B"))
    assert scored(ToolCallOutput(), called, outputs_alone).value == 1.0


def test_ids_bind_where_both_sides_have_one():
    called = trajectory(gave("a", 1, call_id="x"), gave("a", 2, call_id="y"))
    assert scored(STRICT, called, expected(want("a", 1, call_id="x"), want("a", 2, call_id="y"))).value == 1.0
    assert scored(ToolCallOutput(), called, expected(want("a", 2, call_id="x"), want("a", 1, call_id="y"))).value == 0.0


def test_a_call_that_failed_has_no_output():
    outcome = scored(ToolCallOutput(), trajectory(failed("a")), expected(want("a", "fine")))
    assert outcome.value == 0.0
    assert outcome.explanation == "0 of 1 outputs are as expected; `a` failed and has an error instead of an output"
    assert [(each.rule, sides(each)) for each in outcome.differences] == [
        ("error", ("fine", {"error": "took too long"}))
    ]
    null = scored(ToolCallOutput(), trajectory(failed("a")), expected(want("a", None)))
    assert null.value == 0.0


def test_an_expected_error_is_written_as_one():
    for error in (True, "TimeoutError", "took too long"):
        reference = expected(want("a", {"error": error}))
        assert scored(STRICT, trajectory(failed("a")), reference).value == 1.0
        assert scored(STRICT, trajectory(gave("a", "fine")), reference).value == 0.0
        assert scored(STRICT, trajectory(gave("a", {"error": error})), reference).value == 1.0
    assert scored(STRICT, trajectory(gave("a", {"error": "no such city"})), expected(want("a", {"error": True}))).value
    other = scored(STRICT, trajectory(failed("a")), expected(want("a", {"error": "ValueError"})))
    assert (other.value, other.explanation.split("; ")[1]) == (0.0, "`a` failed in another way")


def test_a_rejected_call_failed_too():
    called = trajectory(tool_call("a", state="rejected"))
    assert scored(ToolCallOutput(), called, expected(want("a", {"error": True}))).value == 1.0
    assert scored(ToolCallOutput(), called, expected(want("a", 1))).value == 0.0


def test_a_call_that_was_not_made_scores_nothing():
    outcome = scored(ToolCallOutput(), trajectory(gave("b", 1)), expected(want("a", 1), want("b", 1)))
    assert (outcome.value, outcome.parts["missing"]) == (0.5, 1)
    assert outcome.explanation == "1 of 2 outputs are as expected; missing: `a`"
    assert scored(ToolCallOutput(), trajectory(), expected(want("a", 1))).value == 0.0


def test_calls_without_an_expected_output_are_paired_and_not_scored():
    reference = expected(ExpectedCall(name="a", args={"x": 1}), want("a", "A", {"x": 2}))
    outcome = scored(ToolCallOutput(), trajectory(gave("a", "A", {"x": 1})), reference)
    assert (outcome.value, outcome.parts["outputs"]) == (0.0, 1)
    any_two = expected(ExpectedCall(name="a"), want("a", "A"))
    assert scored(ToolCallOutput(), trajectory(gave("a", "A"), gave("a", "B")), any_two).value == 1.0
    assert scored(ToolCallOutput(), trajectory(gave("a", "A")), any_two).value == 1.0


def test_calls_that_may_be_missing_count_where_they_were_made():
    maybe = ExpectedCall(name="a", output=ExpectedOutput(value=1), optional=True)
    assert not_evaluated(ToolCallOutput(), trajectory(gave("b", 1)), expected(maybe)) == "nothing_expected"
    assert scored(ToolCallOutput(), trajectory(gave("a", 2), gave("b", 1)), expected(maybe, want("b", 1))).value == 0.5
    assert scored(ToolCallOutput(), trajectory(gave("b", 1)), expected(maybe, want("b", 1))).value == 1.0
    often = ExpectedCall(name="a", output=ExpectedOutput(value=1), repeat=(1, 3))
    assert scored(ToolCallOutput(), trajectory(gave("a", 1), gave("a", 1)), expected(often)).value == 1.0


def test_an_output_that_cannot_be_seen_is_no_score():
    reference = expected(want("a", 1))
    assert not_evaluated(ToolCallOutput(), trajectory(tool_call("a")), reference) == "results_not_recorded"
    redacted = trajectory(tool_call("a", result=NotRecorded("redacted")))
    assert not_evaluated(ToolCallOutput(), redacted, reference) == "redacted"
    cut = trajectory(tool_call("a", result=Unparsed("{", "truncated")))
    assert not_evaluated(ToolCallOutput(), cut, reference) == "truncated"
    assert (
        not_evaluated(ToolCallOutput(), trajectory(gave("a", 2), tool_call("a")), reference) == "results_not_recorded"
    )


def test_an_output_that_nothing_hangs_on_need_not_be_seen():
    assert scored(ToolCallOutput(), trajectory(gave("a", 1), tool_call("a")), expected(want("a", 1))).value == 1.0
    assert scored(ToolCallOutput(), trajectory(gave("a", 2), tool_call("b")), expected(want("a", 1))).value == 0.0


def test_without_an_expected_output_nothing_is_expected():
    assert not_evaluated(ToolCallOutput(), trajectory(gave("a", 1)), expected()) == "nothing_expected"
    assert not_evaluated(ToolCallOutput(), trajectory(gave("a", 1)), expected(ExpectedCall(name="a"))) == (
        "nothing_expected"
    )
    assert not_evaluated(ToolCallOutput(), trajectory(gave("a", 1))) == "no_reference"


def test_each_user_turn_has_its_own_outputs():
    called = trajectory(gave("a", 1), gave("a", 2), messages=(user("first", 0), user("second", 1)))
    assert scored(ToolCallOutput(), called, expected_turns((want("a", 1),), (want("a", 1),))).value == 0.5
    some = scored(ToolCallOutput(), called, expected_turns((want("a", 1),), ()))
    assert (some.value, some.parts["turns_scored"]) == (1.0, 1)


def test_true_is_not_one_and_values_stay_out_of_the_explanation():
    outcome = scored(ToolCallOutput(), trajectory(gave("a", {"secret": True})), expected(want("a", {"secret": 1})))
    assert (outcome.value, outcome.explanation) == (
        0.0,
        "0 of 1 outputs are as expected; a: output.secret is boolean instead of number",
    )


def test_ten_thousand_outputs_are_compared_in_slices():
    calls = [gave("a", json.dumps({"content": json.dumps({"n": number})})) for number in range(10_000)]
    reference = expected(*[want("a", {"n": number}) for number in reversed(range(10_000))])
    assert scored(STRICT, trajectory(*calls), reference).value == 1.0
    hostile = trajectory(gave("a\n" * 1000, "[" * 200_000), gave("\udcff", '"' * 1000))
    outcome = scored(ToolCallOutput(), hostile, expected(want("a\n" * 1000, 1), want("\udcff", 1)))
    assert (outcome.value, "\n" in outcome.explanation) == (0.0, False)


def test_where_arguments_and_outputs_speak_equally_for_two_calls_the_order_of_calls_decides_nothing():
    # A third of the arguments is worth as much as the output.
    slot = ExpectedCall(name="a", args={"z": 1}, output=ExpectedOutput(value="wanted"))
    by_arguments = tool_call("a", {"z": 1, "x": 2, "y": 3}, result=Recorded("other"))
    by_output = tool_call("a", {"z": 9}, result=Recorded("wanted"))
    for calls in ((by_arguments, by_output), (by_output, by_arguments)):
        assert scored(ToolCallOutput(), trajectory(*calls), expected(slot)).value == 1.0
