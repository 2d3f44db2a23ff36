"""`data_flow` follows values from results to arguments."""

import re

import pytest
from msgspec.structs import replace
from pydantic import ValidationError

from tests.rows import each_row
from tests.score.support import judge, not_evaluated, scored, sides, tool_call, trajectory
from toolgauge.evaluators.data_flow import DataFlow
from toolgauge.model.content import NOT_RECORDED, Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.json import Json
from toolgauge.model.observations import CallError
from toolgauge.model.outcomes import Scored
from toolgauge.model.trajectory import ToolCall, Trajectory


def flow(**rules: object) -> DataFlow:
    """Rules for places; `__` stands for the dot of a place."""
    return DataFlow.model_validate({"rules": {place.replace("__", "."): rule for place, rule in rules.items()}})


FROM_ORDER = flow(refund__order_id={"from": {"tool": "get_order", "path": "order.id"}})
FROM_ANYWHERE = flow(refund__order_id={"from": {"tool": "get_order"}})


def get_order(result: Json | Content, **more: object) -> ToolCall:
    content = result if isinstance(result, Recorded | Unparsed | NotRecorded) else Recorded(result)
    return replace(tool_call("get_order", {"email": "ann@example.com"}, result=content), **more)


def refund(order_id: Json) -> ToolCall:
    return tool_call("refund", {"order_id": order_id})


ORDER: Json = {"order": {"id": "A-17", "total": 20.5, "lines": [{"sku": 4, "note": "for B-99"}]}, "by_id": {"C-3": {}}}


def test_a_value_from_the_path_of_an_earlier_result_holds():
    outcome = scored(FROM_ORDER, trajectory(get_order(ORDER), refund("A-17")))
    assert (outcome.value, outcome.parts) == (1.0, {"rules": 1, "held": 1})
    assert (
        scored(FROM_ORDER, trajectory(get_order({"order": {"id": "A-1"}}), get_order(ORDER), refund("A-1"))).value
        == 1.0
    )


@each_row(
    ("value", "score"),
    [
        ("A-17", 1.0),
        (4, 1.0),
        ("C-3", 1.0),
        ("4", 0.0),
        (True, 0.0),
        ("B-99", 0.0),
        ("a-17", 0.0),
    ],
)
def test_without_a_path_every_single_value_and_key_counts(value: Json, score: float):
    assert scored(FROM_ANYWHERE, trajectory(get_order(ORDER), refund(value))).value == score


@each_row(
    ("path", "score"),
    [
        ("order.id", 1.0),
        ("order", 1.0),
        ('["order"].id', 1.0),
        ("order.total", 0.0),
        ("orders[*].id", 0.0),
    ],
)
def test_a_path_names_a_place_and_all_that_is_in_it(path: str, score: float):
    rules = flow(refund__order_id={"from": {"tool": "get_order", "path": path}})
    assert scored(rules, trajectory(get_order(ORDER), refund("A-17"))).value == score


def test_a_result_counts_from_the_turn_on_that_knew_it():
    slow = get_order(ORDER, turn=0, result_turn=2)
    asked = trajectory(slow, replace(refund("A-17"), turn=1), replace(refund("A-17"), turn=2))
    assert [outcome.value for outcome in judge(FROM_ORDER, asked) if isinstance(outcome, Scored)] == [0.0, 1.0]


def test_a_call_that_failed_is_no_source():
    failed = get_order({"order": {"id": "A-17"}}, error=CallError(kind="NotFound", message=""))
    assert scored(FROM_ORDER, trajectory(failed, refund("A-17"))).value == 0.0


@each_row(
    ("result", "reason"),
    [
        (NOT_RECORDED, "results_not_recorded"),
        (NotRecorded("redacted"), "redacted"),
        (Unparsed('{"order": {"id": "A-1', "truncated"), "truncated"),
        (Recorded("order A-17, paid"), "unparsable"),
        (Unparsed("Order(id='A-17')"), "unparsable"),
    ],
)
def test_what_could_not_be_seen_of_a_result_is_no_zero(result: Content, reason: str):
    assert not_evaluated(FROM_ORDER, trajectory(get_order(result), refund("A-17"))) == reason


def test_what_was_seen_counts_even_where_another_result_was_not():
    calls = (get_order(NOT_RECORDED), get_order(ORDER), refund("A-17"))
    assert scored(FROM_ORDER, trajectory(*calls)).value == 1.0


@each_row(
    ("text", "value", "score"),
    [
        ("Order A-17 was paid.", "A-17", 1.0),
        ("AA-17 and A-171", "A-17", 0.0),
        ("total 20.5 EUR", 20.5, 1.0),
        ("total 20.5 EUR", 20, 0.0),
        ("total 2048 EUR", 20, 0.0),
        ("by Ann\n Lee", "Ann Lee", 1.0),
        ("mail joann.lee@example.com!", "ann.lee@example.com", 0.0),
        ("so " + "one two three " * 9, "one two three " * 9, 1.0),
        ("so " + "one two three " * 9, "two one three " * 9, 0.0),
    ],
)
def test_in_a_text_a_value_stands_between_other_words(text: str, value: Json, score: float):
    assert scored(FROM_ANYWHERE, trajectory(get_order(text), refund(value))).value == score


def test_calls_of_other_agents_that_are_left_out_may_have_been_the_source():
    whole = trajectory(get_order(ORDER), refund("A-17"))
    assert not_evaluated(FROM_ORDER, replace(whole, calls=whole.calls[1:])) == "incomplete"


OWN = flow(**{"*__user_id": {"equals_attribute": "user.id"}})


def customer(user_id: Json, **attributes: str | int) -> Trajectory:
    return trajectory(tool_call("find_orders", {"user_id": user_id}), attributes=attributes)


def test_a_value_has_to_equal_the_attribute():
    known: dict[str, str | int] = {"user.id": "u-1"}
    assert scored(OWN, customer("u-1", **known)).value == 1.0
    outcome = scored(OWN, customer("u-2", **known))
    assert "`*.user_id` differs from the attribute `user.id`" in outcome.explanation
    assert [sides(difference) for difference in outcome.differences] == [("u-1", "u-2")]
    assert "number instead of text" in scored(OWN, customer(7, **{"user.id": "7"})).explanation
    assert not_evaluated(OWN, customer("u-1")) == "no_reference"


def verify(ssn: str) -> ToolCall:
    return tool_call("verify", {"ssn": ssn})


@each_row(
    ("rule", "other", "score"),
    [
        ({"only_in": []}, tool_call("mail", {"body": "078-05-1120"}), 0.0),
        ({"only_in": []}, tool_call("mail", {"body": "078-05-11209"}), 1.0),
        ({"only_in": []}, tool_call("mail", arguments=Unparsed("{body: 078-05-1120")), 0.0),
        ({"only_in": ["mail"]}, tool_call("mail", {"body": "078-05-1120"}), 1.0),
        ({"only_in": []}, tool_call("verify", {"again": "078-05-1120"}), 1.0),
        ({"not_in": ["ma*"]}, tool_call("mail", {"body": "078-05-1120"}), 0.0),
        ({"not_in": ["ma*"]}, tool_call("print", {"body": "078-05-1120"}), 1.0),
    ],
)
def test_a_value_stays_out_of_other_tools(rule: object, other: ToolCall, score: float):
    rules = flow(verify__ssn=rule)
    assert scored(rules, trajectory(verify("078-05-1120"), other)).value == score


def test_a_value_in_another_tool_is_named_by_call():
    leak = trajectory(verify("078-05-1120"), tool_call("mail", {"body": "078-05-1120"}))
    assert "call 2, of `mail`" in scored(flow(verify__ssn={"only_in": []}), leak).explanation


@each_row(
    ("rules", "problem"),
    [
        ({}, "at least 1 item"),
        ({"refund": {"equals_attribute": "user.id"}}, "a key is `*`, or a tool and an argument"),
        ({"refund.id": {}}, "must have `from`, `equals_attribute`, `only_in` or `not_in`"),
        ({"refund.id": {"from": {"tool": "get_order", "path": "a..b"}}}, "cannot be read from `..b` on"),
        ({"refund.id": {"equals_attribute": "user.id", "by": "similarity"}}, "must be `exact`, `casefold`"),
        ({"refund.id": {"source": {"tool": "get_order"}}}, "Extra inputs are not permitted"),
    ],
)
def test_rules_that_cannot_be_read_are_refused(rules: object, problem: str):
    with pytest.raises(ValidationError, match=re.escape(problem)):
        DataFlow.model_validate({"rules": rules})
