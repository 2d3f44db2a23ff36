"""`tool_parameter_match`: its modes, strategies and turns, and that unexpected calls stay visible."""

import pytest
from msgspec.structs import replace
from pydantic import ValidationError

from tests.rows import each_row
from tests.score.support import (
    expect,
    expected,
    expected_turns,
    scored,
    tool_call,
    trajectory,
    user,
)
from toolgauge.evaluators.expected_arguments import ToolParameterMatch
from toolgauge.model.content import NOT_RECORDED
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.observations import ToolDefinition
from toolgauge.model.trajectory import Trajectory

REFUND: JsonObject = {"order_id": "A-17", "amount": 20, "note": "late"}


def match(**parameters: object) -> ToolParameterMatch:
    return ToolParameterMatch.model_validate(parameters)


def offering(judged: Trajectory, **schemas: JsonObject) -> Trajectory:
    tools = tuple(ToolDefinition(name=name, parameters=schema) for name, schema in schemas.items())
    return replace(judged, tools_offered=tools)


def test_required_arguments_are_those_of_the_schema_and_without_one_all_expected():
    judged = trajectory(tool_call("refund", {**REFUND, "note": "other", "channel": "mail"}))
    reference, required = expected(expect("refund", REFUND)), match(match_mode="name_and_required_args")
    assert scored(required, judged, reference).value == 0.0
    schemas: list[tuple[JsonObject, float]] = [
        ({"required": ["order_id", "amount"]}, 1.0),
        ({"required": ["note"]}, 0.0),
        ({"required": "note"}, 0.0),
        ({"properties": {}}, 0.0),
    ]
    for schema, value in schemas:
        assert scored(required, offering(judged, refund=schema), reference).value == value
    assert scored(required, offering(judged, pay={"required": ["order_id"]}), reference).value == 0.0


@each_row(
    ("strategy", "wanted", "given", "value"),
    [
        ("exact", "Paris", "paris", 0.0),
        ("casefold_exact", "Paris", "pARIS", 1.0),
        ("numeric", 20, 20.5, 1.0),
        ("numeric", 20, 20.6, 0.0),
        ("numeric", 1, True, 0.0),
        ("numeric", "1", "1", 1.0),
        ("numeric", {"a": [1]}, {"a": [1.5]}, 1.0),
        ("contains", "par", "in paris", 1.0),
        ("contains", "in paris", "par", 0.0),
        ("contains", ["a"], ["b", "a"], 1.0),
    ],
)
def test_strategies_decide_what_matches(strategy: str, wanted: Json, given: Json, value: float):
    called, reference = trajectory(tool_call("a", {"x": given})), expected(expect("a", {"x": wanted}))
    assert scored(match(strategy=strategy, tolerance=0.5), called, reference).value == value
    assert scored(match(strategies={"x": strategy}, tolerance=0.5), called, reference).value == value
    assert scored(match(strategies={"a.x": strategy}, tolerance=0.5), called, reference).value == value
    assert scored(match(strategies={"y": strategy}), called, reference).value == float(wanted == given == "1")


def test_ordered_binds_calls_to_their_order_but_for_those_made_at_once():
    reference = expected(expect("a", {"x": 1}), expect("b", {"x": 1}), expect("c", {"x": 1}))
    a, b, c = (tool_call(name, {"x": 1}) for name in "abc")
    assert scored(match(), trajectory(b, a, c), reference).value == 1.0
    assert scored(match(ordered=True), trajectory(a, b, c), reference).value == 1.0
    assert scored(match(ordered=True), trajectory(b, a, c), reference).value == pytest.approx(2 / 3)
    at_once = (tool_call("b", {"x": 1}, turn=0), tool_call("a", {"x": 1}, turn=0), tool_call("c", {"x": 1}, turn=1))
    assert scored(match(ordered=True), trajectory(*at_once), reference).value == 1.0


def test_turns_are_means_over_those_with_expected_calls_and_no_call_gets_lost():
    reference = expected_turns((expect("a", {"x": 1}),), (), (expect("b", {"x": 1, "y": 1}),))
    first, last = tool_call("a", {"x": 1}, turn=0), tool_call("b", {"x": 1, "y": 2}, turn=2)
    messages = (user("one", 0), user("two", 1), user("three", 2))
    outcome = scored(match(), trajectory(first, tool_call("delete_all", turn=1), last, messages=messages), reference)
    assert (outcome.value, outcome.parts["turns_scored"], outcome.parts["unexpected"]) == (0.75, 2, 1)
    unseen = replace(last, arguments=NOT_RECORDED)
    outcome = scored(match(), trajectory(first, unseen, messages=messages), reference)
    assert (outcome.value, outcome.parts["turns_scored"], outcome.parts["unexpected"]) == (1.0, 1, 0)


@each_row(
    ("parameters", "words"),
    [
        ({"strategies": {"x": "fuzzy"}}, "'exact', 'casefold_exact', 'numeric' or 'contains'"),
        ({"strategies": {"a..x": "exact"}}, "cannot be read from `..x` on"),
        ({"match_mode": "args"}, "'name_only', 'name_and_args' or 'name_and_required_args'"),
        ({"tolerance": -1}, "greater than or equal to 0"),
        ({"arguments": {"x": "exact"}}, "a tool and an argument"),
    ],
)
def test_bad_parameters_are_one_clear_error(parameters: dict[str, object], words: str):
    with pytest.raises(ValidationError, match=words.replace(".", r"\.")):
        ToolParameterMatch.model_validate(parameters)
