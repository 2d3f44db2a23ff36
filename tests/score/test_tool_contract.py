"""`tool_contract` judges each call by the contract of its tool."""

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from tests.rows import each_row
from tests.score.support import tool_call, trajectory
from toolgauge.evaluators.tool_checks import ToolContract
from toolgauge.model.content import NOT_RECORDED, Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.observations import CallError
from toolgauge.model.outcomes import NotEvaluated, Outcome, Scored
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.contracts import Contract, ToolKinds
from toolgauge.score.error_texts import with_failures
from toolgauge.score.facts import Facts


def outcomes(contracts: Mapping[str, Any], *calls: ToolCall, of: Trajectory | None = None) -> list[Outcome]:
    kinds = ToolKinds({name: Contract.model_validate(one) for name, one in contracts.items()})
    judged = with_failures(of or trajectory(*calls), kinds)
    return [outcome for _, outcome in ToolContract().outcomes(Facts(judged, kinds))]


def values(contracts: Mapping[str, Any], *calls: ToolCall, of: Trajectory | None = None) -> list[float | str]:
    found = outcomes(contracts, *calls, of=of)
    return [round(one.value, 2) if isinstance(one, Scored) else getattr(one, "reason", "error") for one in found]


def explained(contracts: Mapping[str, Any], *calls: ToolCall) -> str:
    last = outcomes(contracts, *calls)[-1]
    assert isinstance(last, Scored | NotEvaluated)
    return last.explanation


def refund(**arguments: Json) -> ToolCall:
    return tool_call("refund", arguments or {"order_id": "A-17", "amount": 5}, turn=1)


def find(turn: int = 0, order: Json = "A-17", result: Json = None) -> ToolCall:
    return tool_call("find_order", {"order_id": order}, result=Recorded(result or {"total": 5}), turn=turn)


def test_without_a_contract_nothing_is_judged():
    assert values({}, refund()) == ["no_calls"]
    assert values({"refund": {"changes_state": True}}, refund()) == ["no_calls"]


REQUIRES: JsonObject = {"refund": {"requires": {"call": "find_order"}}}
SAME: JsonObject = {"refund": {"requires": {"call": "find_*", "same": "order_id"}}}


def test_a_required_call_has_to_work_in_an_earlier_turn():
    assert values(REQUIRES, find(), refund()) == [1]
    assert values(REQUIRES, refund()) == [0]
    assert values(REQUIRES, refund(), find(turn=2)) == [0]
    assert values(REQUIRES, find(turn=1), refund()) == [0]
    failed = replace(find(), error=CallError(kind="e", message="no"))
    assert values(REQUIRES, failed, refund()) == [0]
    assert "`requires`: no call of `find_order` worked before" in explained(REQUIRES, refund())


def test_the_required_call_has_to_have_the_same_value_in_arguments_or_result():
    assert values(SAME, find(), refund()) == [1]
    assert values(SAME, find(order="B-2"), refund()) == [0]
    assert values(SAME, find(order="B-2", result={"orders": ["A-17"]}), refund()) == [1]
    assert "`requires`: `order_id` is in no result of `find_*`" in explained(SAME, find(order="B-2"), refund())


def test_a_call_without_the_argument_requires_any_call():
    assert values(SAME, find(order="B-2"), refund(amount=5)) == [1]
    assert values(SAME, refund(amount=5)) == [0]


def test_a_call_of_both_sides_is_not_bound():
    assert values({"refund": {"requires": {"call": "*"}, "personal": "email"}}, refund()) == ["no_calls"]


ARGUMENTS: JsonObject = {"refund": {"arguments": {"amount": {"maximum": 640}}}}


@each_row(
    ("arguments", "value"),
    [({"amount": 640}, 1), ({"amount": 641}, 0), ({"other": 9000}, 1), ({"amount": "[REDACTED]"}, 1)],
)
def test_arguments_keep_to_their_schemas(arguments: JsonObject, value: float):
    assert values(ARGUMENTS, refund(**arguments)) == [value]


RESULT: JsonObject = {"find_order": {"result": {"type": "object", "required": ["total"]}}}


@each_row(
    ("result", "value"),
    [
        (Recorded({"total": 5}), 1),
        (Recorded({"sum": 5}), 0),
        (Recorded('{"total": 5}'), 1),
        (Recorded([{"type": "text", "text": '{"total": 5}'}]), 1),
        (Recorded("none"), 0),
        (Unparsed("none"), 0),
        (Unparsed('{"tot', "truncated"), "truncated"),
        (NOT_RECORDED, "results_not_recorded"),
        (NotRecorded("redacted"), "redacted"),
    ],
)
def test_results_keep_to_their_schema(result: Content, value: float | str):
    assert values(RESULT, tool_call("find_order", result=result)) == [value]


def test_the_result_of_a_call_that_failed_is_not_judged():
    failed = tool_call("find_order", result=Recorded({}), error=CallError(kind="e", message="no"))
    assert values(RESULT, failed) == ["no_calls"]


FAILS: JsonObject = {"pay": {"fails_when": {"status": ["declined"]}}}


def test_a_result_that_is_a_failure_breaks_the_contract_unless_it_was_made_good():
    declined = tool_call("pay", {"card": 1}, result=Recorded({"status": "declined"}), turn=0)
    paid = tool_call("pay", {"card": 2}, result=Recorded({"status": "paid"}), turn=1)
    assert values(FAILS, declined) == [0]
    assert values(FAILS, paid) == [1]
    assert values(FAILS, declined, paid) == [1]
    assert "`fails_when`: the result is a failure by its `status`" in explained(FAILS, declined)


PERSONAL: JsonObject = {"mail": {"personal": "to"}, "crm_*": {"personal": ["email"]}}


def test_personal_values_go_to_no_tool_without_personal_arguments():
    mail = tool_call("mail", {"to": "ann@example.org"})
    assert values(PERSONAL, mail, tool_call("crm_find", {"email": "ann@example.org"})) == [1, 1]
    assert values(PERSONAL, mail, tool_call("search", {"text": "who is ann@example.org"})) == [0]
    assert values(PERSONAL, mail, tool_call("search", {"text": "shoes"})) == [1]


def test_each_clause_is_that_of_the_most_exact_entry_that_has_it():
    contracts = {
        "*": {"fails_when": {"text": "Error*"}, "polls": True},
        "get_*": {"polls": False},
        "get_order": {"idempotent": True},
    }
    kinds = ToolKinds({name: Contract.model_validate(one) for name, one in contracts.items()})
    merged = kinds.of("get_order")
    assert (merged.idempotent, merged.polls, merged.fails_when) == (True, False, {"text": ("Error*",)})
    assert kinds.of("pay").polls is True


@each_row(
    "contract",
    [
        {"requires": {"call": []}},
        {"requires": {"same": ["a"]}},
        {"requires": {"call": "a", "same": ["a["]}},
        {"arguments": {"a": {"type": 3}}},
        {"result": {"type": 3}},
        {"personal": []},
        {"personal": ["a[b"]},
        {"polls": "yes"},
        {"changes": True},
    ],
)
def test_a_contract_that_cannot_hold_is_refused(contract: JsonObject):
    with pytest.raises(ValueError, match="Contract"):
        Contract.model_validate(contract)
