"""Patterns of calls: names, agents, conditions on arguments, and what cannot be seen."""

import pytest
from pydantic import BaseModel, ValidationError

from tests.rows import each_row
from tests.score.support import tool_call, trajectory
from toolgauge.model.content import NotRecorded, Unparsed
from toolgauge.model.json import Json
from toolgauge.model.trajectory import ToolCall
from toolgauge.score.call_patterns import CallPattern, Match, Sight


class Holder(BaseModel):
    pattern: CallPattern


def pattern(written: object) -> CallPattern:
    return Holder.model_validate({"pattern": written}).pattern


def match(written: object, call: ToolCall, agents: tuple[str, ...] = ("clerk",)) -> Match:
    return sight(written, call, agents).match


def sight(written: object, call: ToolCall, agents: tuple[str, ...] = ("clerk",)) -> Sight:
    return pattern(written).sight(call, trajectory(call, agents=agents))


def refuses(written: object) -> str:
    with pytest.raises(ValidationError) as caught:
        pattern(written)
    return str(caught.value)


def holds(condition: object, value: Json) -> bool:
    return match({"arguments": {"a": condition}}, tool_call("t", {"a": value})) is Match.YES


def test_agents_are_those_of_the_call_or_the_only_one():
    billing = {"agent": ["bill*", "x"]}
    assert match(billing, tool_call("refund", agent="billing")) is Match.YES
    assert match(billing, tool_call("refund", agent="clerk"), ("billing", "clerk")) is Match.NO
    assert match(billing, tool_call("refund"), ("billing",)) is Match.YES
    assert match(billing, tool_call("refund"), ("billing", "clerk")) is Match.NO


@each_row(
    ("condition", "value"),
    [
        ("D?", "DE"),
        (5, 5.0),
        ([1, True], True),
        (None, None),
        ({"at_least": 100}, 100),
        ({"above": 1, "at_most": 2.5}, 2.5),
        ({"below": 0}, -0.5),
        ({"at_least": 100}, " 250.75 "),
        ({"matches": "(?i)fraud.*"}, "Fraud,\nagain"),
        ({"none_of": ["DE", "AT"]}, "US"),
        ({"present": True}, None),
        ({"one_of": ["a*"], "none_of": ["ab"]}, "ac"),
    ],
)
def test_a_value_meets_its_condition(condition: object, value: Json):
    assert holds(condition, value)


def test_an_argument_that_is_missing_meets_only_its_absence():
    call = tool_call("t", {"b": 1})
    for condition in ("*", {"none_of": ["x"]}, {"present": True}, None):
        assert match({"arguments": {"a": condition}}, call) is Match.NO
    assert match({"arguments": {"a": {"present": False}}}, call) is Match.YES
    assert match({"arguments": {"b": 1, "a": {"present": False}}}, call) is Match.YES


def test_a_path_past_the_end_or_through_a_single_value_leads_nowhere():
    call = tool_call("t", {"items": ["X-1"], "name": "X-1", "a.b": 1})
    for path in ("items[1]", "items[7].sku", "name.sku", "name[*]", "items.sku", "a.b"):
        assert match({"arguments": {path: "*"}}, call) is Match.NO
    assert match({"arguments": {'["a.b"]': 1}}, call) is Match.YES


def test_arguments_that_cannot_be_read_leave_the_match_open():
    asked = {"tool": "refund", "arguments": {"amount": 1}}
    for content, reason in ((NotRecorded("redacted"), "redacted"), (Unparsed("{"), "unparsable")):
        call = tool_call("refund", arguments=content)
        assert sight(asked, call).match is Match.UNSEEN
        assert getattr(sight(asked, call).doubt, "reason", None) == reason
        assert match("refund", call) is Match.YES
        assert match({**asked, "tool": "pay"}, call) is Match.NO
    assert match({"arguments": {"a": 1}}, tool_call("t", [1])) is Match.UNSEEN
    assert match({"arguments": {"a": {"present": False}}}, tool_call("t", None)) is Match.YES


def test_paths_that_are_not_met_are_named():
    rule = pattern({"tool": "t", "arguments": {"items[*].sku": "X-*", "country": ["DE"], "n": {"at_least": 1}}})
    call = tool_call("t", {"items": [{"sku": "X-1"}, {"sku": "Y-1"}], "country": "DE"})
    assert sight(rule, call).unmet == ("n",)
    assert rule.admission(call, trajectory(call)).unmet == ("items[*].sku", "n")
    assert rule.conditions == ("items[*].sku", "country", "n")


@each_row(
    ("written", "complaint"),
    [
        ({"tools": "x"}, "tools"),
        ([], "is empty"),
        ({"arguments": {"a..b": 1}}, "cannot be read from"),
        ({"arguments": {"[0]": 1}}, "begins with an argument"),
        ({"arguments": {"a" * 501: 1}}, "1 to 500 characters"),
        ({"arguments": {"a": {}}}, "has no condition: give one, such as `one_of`"),
        ({"arguments": {"a": {"at_leest": 1}}}, "at_leest"),
        ({"arguments": {"a": {"at_least": "1"}}}, "at_least"),
        ({"arguments": {"a": {"at_least": float("nan")}}}, "at_least"),
        ({"arguments": {"a": {"matches": "(?=x)"}}}, "no regular expression"),
        ({"arguments": {"a": {"present": False, "at_least": 1}}}, "no other condition"),
        ({"arguments": {"a": "x" * 10_001}}, "at most 10000 characters"),
    ],
)
def test_a_pattern_that_means_nothing_is_refused(written: object, complaint: str):
    assert complaint in refuses(written)
