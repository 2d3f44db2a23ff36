"""What decided a result, in words that may leave."""

import json

from msgspec.structs import replace

from tests.export.scorecards import call_result, failed, passed, shadow, trajectory_result
from tests.rows import each_row
from tests.score.support import scored, tool_call, trajectory
from toolgauge.evaluators.arguments_schema import ArgumentsSchema
from toolgauge.export.redact import Redactor
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.outcomes import Difference, Errored, Result, Scored, Side
from toolgauge.report.explanations import (
    ShownDifference,
    brief_reason,
    comparison,
    deciding,
    shown_verdict,
    worst_result,
)

SHOWING, HIDING = Redactor(show_values=True), Redactor(show_values=False)
DIFFERS = "amount differs (number, exact)"


def differing(expected: Json, actual: Json, where: str = "issue_refund: amount") -> Result:
    difference = Difference(where=where, rule="exact", expected=Side(value=expected), actual=Side(value=actual))
    return call_result(Scored(0.5, DIFFERS, differences=(difference,), passed=False))


def sides(redactor: Redactor, result: Result) -> tuple[str | None, str | None]:
    (shown,) = shown_verdict(result, redactor, {}).differences
    return shown.expected, shown.actual


def test_verdict_has_what_decided():
    verdict = shown_verdict(differing(40.0, 42.5), SHOWING, {"9f86d081884c": 0.8})

    assert (verdict.word, verdict.value, verdict.reason) == ("fail", 0.5, None)
    assert verdict.requirement == "passes at 0.8"
    assert verdict.explanation == DIFFERS
    assert verdict.differences == (
        ShownDifference(where="issue_refund: amount", rule="exact", expected="40.0", actual="42.5"),
    )
    assert not verdict.hides_values


def test_hidden_values_leave_their_kinds():
    verdict = shown_verdict(differing(40.0, "forty"), HIDING, {})

    assert verdict.hides_values
    assert verdict.differences == (
        ShownDifference(where="issue_refund: amount", rule="exact", expected="a number", actual="text"),
    )
    assert sides(HIDING, differing(None, {"a": 1})) == ("null", "an object")
    assert sides(HIDING, differing(True, [])) == ("a boolean", "a list")


@each_row(
    ("schema", "actual", "expected", "got"),
    [
        ({"type": "integer"}, "two", "integer", "text"),
        ({"type": ["integer", "null"]}, "two", "integer or null", "text"),
        ({"enum": ["red", "blue", "grey"]}, "green", "one of the 3 allowed values", "text"),
        ({"const": "red"}, "green", "the only allowed value", "text"),
        ({"type": "integer", "maximum": 3}, 9, "a number not above the maximum", "a number"),
        ({"type": "integer", "minimum": 3}, 1, "a number not below the minimum", "a number"),
        ({"type": "string", "pattern": "^A"}, "B-1", "text that matches the pattern", "text"),
        ({"type": "array", "maxItems": 1}, [1, 2], "a list of fewer items", "a list"),
        ({"type": "number", "multipleOf": 5}, 12, "what `multipleOf` allows", "a number"),
    ],
)
def test_hidden_violations_of_a_schema_leave_their_rule(schema: JsonObject, actual: Json, expected: str, got: str):
    evaluator = ArgumentsSchema(schemas={"order": {"type": "object", "properties": {"qty": schema}}})
    outcome = scored(evaluator, trajectory(tool_call("order", {"qty": actual})))
    assert sides(HIDING, call_result(outcome)) == (expected, got)
    shown = sides(SHOWING, call_result(outcome))
    assert shown[1] == json.dumps(actual)


def test_secrets_are_masked_where_values_are_shown():
    assert sides(SHOWING, differing("hunter2", "hunter3", "log_in: password")) == ("[masked]", "[masked]")
    assert sides(SHOWING, differing("ann@example.org", {"token": "abc", "n": 4111111111111111})) == (
        '"[email]"',
        '{"token": [masked], "n": [card]}',
    )


def test_long_values_are_cut_to_where_they_begin_to_differ():
    same = "x" * 1000
    expected, actual = sides(SHOWING, differing(same + "yes", same + "no"))
    assert expected == "…" + "x" * 40 + 'yes"'
    assert actual == "…" + "x" * 40 + 'no"'
    expected, actual = sides(SHOWING, differing("short", "y" * 10_000_000))
    assert expected == '"short"'
    assert actual == '"' + "y" * 399 + "…"


def test_differences_beyond_fifty_are_counted():
    difference = Difference(where="t: a", rule="exact", expected=Side(value=1), actual=Side(value=2))
    verdict = shown_verdict(call_result(Scored(0.0, "x", differences=(difference,) * 60)), SHOWING, {})
    assert len(verdict.differences) == 50
    assert verdict.more == 10


def test_a_brief_reason_has_the_values_once_and_without_them_the_explanation():
    outcome = differing(40.0, 42.5).outcome
    assert brief_reason(outcome, SHOWING) == "issue_refund: amount: expected 40.0, got 42.5"
    assert brief_reason(outcome, HIDING) == DIFFERS


@each_row(
    ("causes", "consequence"),
    [
        (("arguments_schema", "known_tool", "one_effect", "grounded_arguments", "grounded_answer"), "tool_success"),
        (("honest_answer", "error_handling"), "tool_success"),
        (("tool_success", "repeated_calls"), "run_completed"),
        (("mine",), "arguments_schema"),
    ],
)
def test_the_failure_that_explains_the_others_is_shown_for_all(causes: tuple[str, ...], consequence: str):
    later = default_failure(consequence, 0.0)
    for cause in causes:
        first = default_failure(cause, 0.5)
        assert worst_result([later, first]) is first


def default_failure(evaluator: str, value: float) -> Result:
    name = evaluator if evaluator == "mine" else f"default.{evaluator}"
    result = trajectory_result(Scored(value, "x", passed=False))
    return replace(result, criterion=name, evaluator=evaluator, finding=None)


def test_the_worst_result_is_the_lowest_failure_of_those_that_decide():
    low, high, fine = call_result(Scored(0.1, "x", passed=False)), trajectory_result(failed()), call_result(passed())
    broken = trajectory_result(Errored(error_type="ValueError", message="x"))
    tried = shadow(call_result(Scored(0.0, "x", passed=False)))

    assert worst_result([fine, broken, high, low]) is low
    assert worst_result([fine, broken]) is broken
    assert worst_result([fine]) is fine
    assert worst_result([]) is None
    assert deciding([tried, fine]) == [fine]
    assert deciding([tried]) == [tried]


def other_arguments(expected: JsonObject, actual: JsonObject) -> Result:
    difference = Difference(
        where="book", rule="other arguments", expected=Side(value=expected), actual=Side(value=actual)
    )
    return call_result(Scored(0.0, "no call matches", differences=(difference,), passed=False))


@each_row(
    ("expected", "actual", "words"),
    [
        ({"nights": 2}, {"nights": 3}, "`nights` 3 instead of 2"),
        (
            {"nights": 2, "to": "Rome"},
            {"nights": 3, "to": "Oslo"},
            '`nights` 3 instead of 2, `to` "Oslo" instead of "Rome"',
        ),
        ({"nights": 2}, {}, "without `nights`"),
        ({}, {"x": 1}, "with `x` that was not expected"),
        ({"token": "abc"}, {"token": "abd"}, "`token` [masked] instead of [masked]"),
        ({"a\nb": 1}, {"a\nb": 2}, "`a b` 2 instead of 1"),
        (
            dict.fromkeys("abcdefg", 1),
            dict.fromkeys("abcdefg", 2),
            ", ".join(f"`{name}` 2 instead of 1" for name in "abcde") + ", 2 more",
        ),
    ],
)
def test_a_call_with_other_arguments_is_one_sentence(expected: JsonObject, actual: JsonObject, words: str):
    result = other_arguments(expected, actual)
    sentence = f"book: same tool, other arguments: {words}"
    (shown,) = shown_verdict(result, SHOWING, {}).differences
    assert comparison(shown) == sentence
    assert SHOWING.explain(result.outcome) == f"no call matches ({sentence})"
    assert brief_reason(result.outcome, SHOWING) == sentence
