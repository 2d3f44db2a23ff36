"""`tool_call_output`: outputs are equal as JSON, an error is no output, and what was not recorded is no score."""

from itertools import product

from tests.rows import each_row
from tests.score.support import expected, not_evaluated, scored, sides, tool_call, trajectory
from toolgauge.evaluators.outputs import ToolCallOutput
from toolgauge.model.content import NotRecorded, Recorded, Unparsed
from toolgauge.model.expected import ExpectedCall, ExpectedOutput
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.observations import CallError
from toolgauge.model.trajectory import ToolCall

USER: JsonObject = {"user_id": 123, "name": "John"}
STRICT = ToolCallOutput(strict=True)


def gave(name: str, output: Json, args: JsonObject | None = None, *, call_id: str | None = None) -> ToolCall:
    return tool_call(name, args, result=Recorded(output), call_id=call_id)


def want(name: str, output: Json, args: JsonObject | None = None, *, call_id: str | None = None) -> ExpectedCall:
    return ExpectedCall(name=name, args=args, call_id=call_id, output=ExpectedOutput(value=output))


def failed(name: str, kind: str = "TimeoutError", message: str = "took too long") -> ToolCall:
    return tool_call(name, error=CallError(kind=kind, message=message))


def test_an_output_is_the_same_in_every_form_on_both_sides():
    for wanted, found in product(FORMS, FORMS):
        assert scored(STRICT, trajectory(gave("a", found)), expected(want("a", wanted))).value == 1.0
    other = scored(ToolCallOutput(), trajectory(gave("a", {"secret": True})), expected(want("a", {"secret": 1})))
    assert (other.value, "output.secret is boolean" in other.explanation) == (0.0, True)


FORMS: list[Json] = [
    USER,
    {"name": "John", "user_id": 123.0},
    '{"user_id": 123, "name": "John"}',
    {"content": '{"user_id": 123, "name": "John"}'},
    '{"content": "{\\"user_id\\": 123, \\"name\\": \\"John\\"}"}',
]


FALSY: list[Json] = [None, False, 0, "", [], {}]


@each_row("value", FALSY)
def test_falsy_outputs_are_values_like_any_other(value: Json):
    for other in FALSY:
        is_same = (type(other), other) == (type(value), value)
        assert scored(ToolCallOutput(), trajectory(gave("a", other)), expected(want("a", value))).value == is_same


def test_arguments_say_which_call_is_meant():
    called = trajectory(gave("get", "B", {"id": 1}), gave("get", "A", {"id": 2}))
    reference = expected(want("get", "A", {"id": 1}), want("get", "B", {"id": 2}))
    assert scored(ToolCallOutput(), called, reference).value == 0.0
    outputs_alone = expected(want("get", "A"), want("get", "B"))
    assert scored(ToolCallOutput(), called, outputs_alone).value == 1.0


def test_a_call_that_failed_has_no_output():
    outcome = scored(ToolCallOutput(), trajectory(failed("a")), expected(want("a", "fine")))
    assert outcome.value == 0.0
    assert [(each.rule, sides(each)) for each in outcome.differences] == [
        ("error", ("fine", {"error": "took too long"}))
    ]
    assert scored(ToolCallOutput(), trajectory(failed("a")), expected(want("a", None))).value == 0.0
    rejected = trajectory(tool_call("a", state="rejected"))
    assert scored(ToolCallOutput(), rejected, expected(want("a", {"error": True}))).value == 1.0


def test_an_expected_error_is_written_as_one():
    for error in (True, "TimeoutError", "took too long"):
        reference = expected(want("a", {"error": error}))
        assert scored(STRICT, trajectory(failed("a")), reference).value == 1.0
        assert scored(STRICT, trajectory(gave("a", "fine")), reference).value == 0.0
        assert scored(STRICT, trajectory(gave("a", {"error": error})), reference).value == 1.0
    other = scored(STRICT, trajectory(failed("a")), expected(want("a", {"error": "ValueError"})))
    assert (other.value, "in another way" in other.explanation) == (0.0, True)


def test_calls_without_an_expected_output_are_paired_and_not_scored():
    reference = expected(ExpectedCall(name="a", args={"x": 1}), want("a", "A", {"x": 2}))
    outcome = scored(ToolCallOutput(), trajectory(gave("a", "A", {"x": 1})), reference)
    assert (outcome.value, outcome.parts["outputs"]) == (0.0, 1)
    any_two = expected(ExpectedCall(name="a"), want("a", "A"))
    assert scored(ToolCallOutput(), trajectory(gave("a", "A"), gave("a", "B")), any_two).value == 1.0
    assert scored(ToolCallOutput(), trajectory(gave("a", "A")), any_two).value == 1.0


def test_an_output_that_cannot_be_seen_is_no_score():
    for result, reason in (
        (NotRecorded(), "results_not_recorded"),
        (NotRecorded("redacted"), "redacted"),
        (Unparsed("{", "truncated"), "truncated"),
    ):
        unseen = tool_call("a", result=result)
        assert not_evaluated(ToolCallOutput(), trajectory(gave("a", 2), unseen), expected(want("a", 1))) == reason
    assert scored(ToolCallOutput(), trajectory(gave("a", 1), unseen), expected(want("a", 1))).value == 1.0
    assert scored(ToolCallOutput(), trajectory(gave("a", 2), tool_call("b")), expected(want("a", 1))).value == 0.0


def test_where_arguments_and_outputs_speak_equally_for_two_calls_the_order_of_calls_decides_nothing():
    # A third of the arguments is worth as much as the output.
    slot = ExpectedCall(name="a", args={"z": 1}, output=ExpectedOutput(value="wanted"))
    by_arguments = tool_call("a", {"z": 1, "x": 2, "y": 3}, result=Recorded("other"))
    by_output = tool_call("a", {"z": 9}, result=Recorded("wanted"))
    for calls in ((by_arguments, by_output), (by_output, by_arguments)):
        assert scored(ToolCallOutput(), trajectory(*calls), expected(slot)).value == 1.0


def test_one_wrong_output_of_three_scores_two_thirds():
    called = trajectory(gave("a", 1), gave("b", {"n": 100, "errors": 5}), gave("c", "x"))
    reference = expected(want("a", 1), want("b", {"n": 150, "errors": 5}), want("c", "x"))
    outcome = scored(ToolCallOutput(), called, reference)
    assert outcome.value == 2 / 3
    assert "b: output.n differs" in outcome.explanation
    (difference,) = outcome.differences
    assert (difference.where, sides(difference)) == ("b: output.n", (150, 100))
    assert scored(STRICT, called, reference).value == 0.0


def test_strict_is_all_or_nothing_and_says_so():
    calls, reference = trajectory(gave("a", 1), gave("b", 2)), expected(want("a", 1), want("b", 3))
    half, none = scored(ToolCallOutput(), calls, reference), scored(STRICT, calls, reference)
    assert (half.value, "strict" in half.explanation) == (0.5, False)
    assert (none.value, "strict" in none.explanation) == (0.0, True)
