"""Expressions in CEL: what they see, what they answer, and that nothing about them is unbounded."""

import pytest

from tests.rows import each_row
from tests.score.support import tool_call, trajectory
from toolgauge.evaluators.policy import Policy
from toolgauge.model.errors import ExpressionError
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.trajectory import ToolCall
from toolgauge.score import call_patterns
from toolgauge.score.call_patterns import CallExpression

pytestmark = pytest.mark.needs("cel")

ARGUMENTS: JsonObject = {"amount": 150, "share": 0.5, "note": None, "ids": ["A-1", "B-2"], "to": {"country": "DE"}}


def answer(text: str, arguments: JsonObject | None = None, call: ToolCall | None = None) -> bool:
    given = ARGUMENTS if arguments is None else arguments
    judged = trajectory(
        tool_call("find"),
        call or tool_call("refund_order", given, agent="billing"),
        attributes={"user.id": "u1", "tier": 3},
    )
    return CallExpression(text).holds(judged.calls[1], given, judged)


@each_row(
    "text",
    [
        "arguments.amount > 100 && call.tool.startsWith('refund')",
        "arguments.share < 1",
        "arguments.note == null",
        "has(arguments.to) && arguments.to.country in ['DE', 'AT']",
        "!has(arguments.other)",
        "arguments.ids.exists(id, id.matches('B-[0-9]'))",
        "arguments.ids.all(id, size(id) == 3)",
        "call.agent == 'billing' && call.order == 1 && call.turn == 1 && !call.failed && call.state == 'executed'",
        "attributes['user.id'] == 'u1' && attributes.tier >= 3",
        "'tier' in attributes && !('other' in attributes)",
        "arguments.other > 1 || true",
    ],
)
def test_an_expression_sees_arguments_call_and_attributes(text: str):
    assert answer(text)


@each_row(
    ("text", "complaint"),
    [
        ("arguments.other > 1", "it asks for a key that is not there"),
        ("arguments.ids > 1", "it has an operator or function that does not take such values"),
        ("arguments.amount", "it gives neither true nor false"),
        ("arguments.to.country.matches('(?=x)')", "it cannot be evaluated"),
    ],
)
def test_an_expression_without_an_answer_is_an_error_without_values(text: str, complaint: str):
    with pytest.raises(ExpressionError) as caught:
        answer(text)
    assert str(caught.value) == complaint


@each_row(
    ("text", "complaint"),
    [
        ("1 +", "Syntax error"),
        ("amount > 1", "undeclared reference to 'amount'"),
        ("1 + 1", "gives a value of type"),
        ("(" * 100 + "true" + ")" * 100, "recursion limit"),
        ("arguments.a.all(x, (arguments.s + arguments.s + arguments.s).size() > x)", "more than 1 of `+`"),
        ("arguments.a.all(x, arguments.b.all(y, arguments.s.matches('a+')))", "has `matches()` beside several"),
    ],
)
def test_what_is_no_expression_or_could_take_too_long_is_refused(text: str, complaint: str):
    with pytest.raises(ValueError, match="is no expression") as caught:
        CallExpression(text)
    assert complaint in str(caught.value)


def test_signs_in_literals_and_comments_do_not_count():
    text = r"""arguments.ids.exists(i, i == "+1+1" || i == 'a\'+b' || i == 'x') // + + +"""
    assert not answer(text)


def test_more_than_an_expression_can_take_is_an_error():
    deep: Json = 1
    for _ in range(1_000):
        deep = {"a": deep}
    wide: list[Json] = [1] * 1000
    values: tuple[Json, ...] = (deep, wide, "a" * 10_000, {"b" * 10_000: 1})
    for value in values:
        with pytest.raises(ExpressionError, match="more than 300 values, 5000 characters or 20 levels"):
            answer("has(arguments.x)", {"x": value})
        # What the expression does not name may be of any size.
        assert answer("arguments.amount == 1 && 'amount' in arguments", {"amount": 1, "x": value})
    assert answer("arguments.large > 100.0 && arguments.text == 'a?'", {"large": 2**70, "text": "a\ud800"})
    with pytest.raises(ValueError, match="at most 1000 characters"):
        policy(forbid=[{"expression": "true" + " " * 1000}])


def test_steps_are_bounded():
    with pytest.raises(ExpressionError, match="more than 10,000 steps"):
        answer("arguments.l.all(x, arguments.l.all(y, true))", {"l": list(range(250))})


def policy(**parameters: object) -> Policy:
    return Policy.model_validate(parameters)


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(call_patterns, "_EXTRA", "not_installed_anywhere")
    with pytest.raises(ValueError, match=r"needs the extra `toolgauge\[cel\]`.*pip --python .* install '.*\[cel\]'`"):
        policy(forbid=[{"expression": "true"}])
    assert policy(forbid=["x"]).forbid is not None
