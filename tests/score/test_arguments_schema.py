"""`arguments_schema` compares the arguments of calls with the schema of the tool on offer."""

import pytest
from msgspec.structs import replace
from pydantic import ValidationError

from tests.rows import each_row
from tests.score.support import TRACE, agent_run, judge, not_evaluated, scored, sides, tool_call, trajectory
from toolgauge.evaluators.arguments_schema import ArgumentsSchema
from toolgauge.model.content import Recorded, Unparsed
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.observations import CallError, ToolDefinition
from toolgauge.model.outcomes import NotEvaluated, Scored
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import ToolCall, Trajectory

REFUND: JsonObject = {
    "type": "object",
    "properties": {
        "order_id": {"type": "string"},
        "amount": {"type": "number", "minimum": 1},
        "reason": {"type": "string", "enum": ["damaged", "late"]},
    },
    "required": ["order_id", "amount"],
}
OUTER, INNER = SpanRef(TRACE, "00000000000000aa"), SpanRef(TRACE, "00000000000000bb")


def offering(schema: JsonObject | None, *calls: ToolCall, name: str = "refund") -> Trajectory:
    return replace(trajectory(*calls), tools_offered=(ToolDefinition(name=name, parameters=schema),))


def refund(arguments: Json, schema: JsonObject | None = REFUND) -> Trajectory:
    return offering(schema, tool_call("refund", arguments))


def outcome(arguments: Json, schema: JsonObject = REFUND) -> Scored:
    return scored(ArgumentsSchema(), refund(arguments, schema))


def properties(**schemas: Json) -> JsonObject:
    return {"type": "object", "properties": schemas}


def test_valid_arguments_score_1():
    found = outcome({"order_id": "A-17", "amount": 20, "reason": None})
    assert (found.value, found.parts) == (1.0, {})


@each_row(
    ("arguments", "value", "part", "complaint"),
    [
        ({"order_id": "A", "amount": "20"}, 0.5, "wrong_type", "`amount` has the wrong type"),
        ({"order_id": "A", "amount": True}, 0.5, "wrong_type", "`amount` has the wrong type"),
        ({"order_id": "A"}, 0.5, "missing_required", "`amount` is missing"),
        ({"order_id": "A", "amount": 0}, 0.5, "range", "`amount` is out of range"),
        ({"order_id": "A", "amount": 1, "note": "x"}, 2 / 3, "unknown_arguments", "`note` is not an argument"),
        ({"order_id": "A", "amount": 1, "reason": "x"}, 2 / 3, "enum", "`reason` is not among the allowed values"),
    ],
)
def test_each_way_of_being_wrong_is_a_part(arguments: JsonObject, value: float, part: str, complaint: str):
    found = outcome(arguments)
    assert found.value == pytest.approx(value)
    assert found.parts == {part: 1}
    assert found.explanation.startswith(f"the arguments of `refund` break its schema: {complaint}")


def test_values_stand_in_differences_and_nowhere_else():
    found = outcome({"order_id": "A", "amount": "secret", "reason": "hidden"})
    assert "secret" not in found.explanation
    assert "hidden" not in found.explanation
    amount, reason = found.differences
    assert (amount.where, amount.rule, sides(amount)) == ("refund: amount", "type", ("number", "secret"))
    assert (reason.where, reason.rule, sides(reason)) == ("refund: reason", "enum", (["damaged", "late"], "hidden"))


def test_places_inside_of_lists_and_objects_are_named():
    passenger: Json = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["name"]}
    schema = properties(passengers={"type": "array", "items": passenger})
    found = outcome({"passengers": [{"name": "Ann", "age": 4}, {"age": "four"}]}, schema)
    assert "`passengers[1].age` has the wrong type; `passengers[1].name` is missing" in found.explanation
    assert found.value == 0.5  # of `Ann`, 4, "four" and the name that is missing


B: JsonObject = {"properties": {"b": {}}}
NAMING: list[tuple[JsonObject, float]] = [
    ({"properties": {"a": {}}}, 0.5),
    ({"properties": {"a": {}}, "additionalProperties": False}, 0.5),
    ({"properties": {"a": {}}, "additionalProperties": True}, 1.0),
    ({"properties": {"a": {}}, "additionalProperties": {"type": "integer"}}, 0.5),
    ({"properties": {"a": {}}, "patternProperties": {"^b$": {}}}, 1.0),
    ({"properties": {}}, 0.0),
    ({"type": "object"}, 1.0),
    ({}, 1.0),
    ({"allOf": [{"properties": {"a": {}}}, {"$ref": "#/$defs/B"}], "$defs": {"B": B}}, 1.0),
]


@each_row(("schema", "value"), NAMING)
def test_an_argument_without_a_place_in_the_schema_is_invented(schema: JsonObject, value: float):
    assert outcome({"a": 1, "b": "x"}, schema).value == value


def test_unknown_arguments_can_be_allowed_where_the_schema_does_not_forbid_them():
    lenient = ArgumentsSchema(unknown_arguments="allow")
    assert scored(lenient, refund({"a": 1, "b": 2}, {"properties": {"a": {}}})).value == 1.0
    closed: JsonObject = {"properties": {"a": {}}, "additionalProperties": False}
    assert scored(lenient, refund({"a": 1, "b": 2}, closed)).value == 0.5


@each_row("text", ["order A-17, please", '["A-17"]', '{"a": ' + "[" * 100_001 + "]" * 100_001 + "}"])
def test_what_is_no_object_is_no_score(text: str):
    judged = offering(REFUND, tool_call("refund", arguments=Unparsed(text)))
    assert not_evaluated(ArgumentsSchema(), judged) == "unparsable"


def test_without_an_offer_there_is_no_schema():
    assert not_evaluated(ArgumentsSchema(), trajectory(tool_call("refund"))) == "no_tool_offer"
    assert not_evaluated(ArgumentsSchema(), refund({}, None)) == "no_schema"
    assert not_evaluated(ArgumentsSchema(), offering(REFUND, tool_call("invented"))) == "no_schema"


def test_a_call_is_judged_by_what_its_own_run_had_on_offer():
    text = ToolDefinition(name="find", parameters=properties(key={"type": "string"}))
    number = ToolDefinition(name="find", parameters=properties(key={"type": "integer"}))
    calls = [replace(tool_call("find", {"key": 1}), run=ref) for ref in (OUTER, INNER, None)]
    both = replace(
        trajectory(*calls),
        tools_offered=(text,),
        runs=(agent_run(OUTER, tools=(text,)), agent_run(INNER, tools=(number,))),
    )
    assert [found.value for found in judge(ArgumentsSchema(), both) if isinstance(found, Scored)] == [0.0, 1.0, 0.0]


def test_registered_tools_stand_in_where_no_schema_was_recorded():
    registered = {"refund": ToolDefinition(name="refund", parameters=REFUND)}
    calls = (tool_call("refund", {"order_id": "A", "amount": 1}), tool_call("refund", {}), tool_call("other"))
    found = judge(ArgumentsSchema(), replace(trajectory(*calls), registered_tools=registered))
    assert [getattr(one, "value", None) for one in found] == [1.0, 0.0, None]
    assert all("registered" in getattr(one, "explanation", "") for one in found)
    bare = replace(offering(None, *calls[:2]), registered_tools=registered)
    assert [outcome.value for outcome in judge(ArgumentsSchema(), bare) if isinstance(outcome, Scored)] == [1.0, 0.0]


@each_row(
    ("schema", "explanation"),
    [
        ({"type": "objekt"}, "/type names no type that JSON has"),
        ({"properties": ["a"]}, "/properties is no object"),
        ({"properties": {"a": {"minimum": "1"}}}, "/properties/a/minimum is no number"),
        ({"anyOf": []}, "/anyOf is no list of schemas"),
        ({"$ref": "https://example.com/schema.json"}, "/$ref leads out of the schema"),
        ({"$ref": "#/$defs/gone"}, "it refers to something that it does not hold"),
        ({"$ref": "#"}, "it is nested too deeply to check against"),
        ({"enum": ["x" * 300_000]}, "it is larger than 256 KiB"),
    ],
)
def test_a_schema_that_cannot_be_used_is_no_score(schema: JsonObject, explanation: str):
    (found,) = judge(ArgumentsSchema(), refund({"a": 1}, schema))
    assert isinstance(found, NotEvaluated)
    assert found.reason == "no_schema"
    assert found.explanation == f"the schema of `refund` cannot be used: {explanation}"


def test_a_schema_that_doubles_the_work_at_each_level_is_given_up():
    level: Json = {"anyOf": [{"$ref": "#/$defs/L"}, {"$ref": "#/$defs/L"}]}
    schema: JsonObject = {
        "properties": {"a": {"$ref": "#/$defs/L"}},
        "$defs": {"L": {"type": "object", "properties": {"a": level}, "required": ["b"]}},
    }
    arguments: JsonObject = {}
    for _ in range(30):
        arguments = {"a": arguments}
    (found,) = judge(ArgumentsSchema(), refund(arguments, schema))
    assert isinstance(found, NotEvaluated)
    assert found.explanation == "the schema of `refund` cannot be used: it takes too long to check against"


def test_empty_values_are_counted_before_a_heavy_check():
    schema = properties(a={"items": {"anyOf": [{"minimum": number} for number in range(2001)]}})
    (found,) = judge(ArgumentsSchema(), refund({"a": [{} for _ in range(100_000)]}, schema))
    assert isinstance(found, NotEvaluated)
    assert found.explanation == "the schema of `refund` cannot be used: it takes too long to check against"


def test_patterns_take_linear_time_and_those_with_look_around_are_skipped():
    schema = properties(a={"type": "string", "pattern": "^(a+)+$"}, b={"type": "string", "pattern": "^(?=x)"})
    found = outcome({"a": "a" * 5000 + "!", "b": "y"}, schema)
    assert found.value == 0.5
    assert "`a` breaks the rule `pattern`; 1 pattern could not be checked" in found.explanation


def test_more_violations_than_anyone_reads_make_a_0():
    numbers: list[Json] = ["x"] * 1001
    found = outcome({"numbers": numbers, "note": "x"}, properties(numbers={"items": {"type": "integer"}}, note={}))
    assert (found.value, found.parts, len(found.differences)) == (0.0, {"wrong_type": 1000}, 20)
    assert "`numbers[4]` has the wrong type; 995 more" in found.explanation


@each_row(
    ("schema", "value", "fits"),
    [
        ({"type": ["string", "null"]}, None, True),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, None, True),
        ({"type": "STRING"}, "x", True),
        ({"type": "number", "minimum": 1, "exclusiveMinimum": True}, 1, False),
        ({"type": "number", "minimum": 1, "exclusiveMinimum": False}, 1, True),
        ({"type": "number", "multipleOf": 0.1}, 0.3, True),
        ({"items": [{"type": "string"}], "additionalItems": {"type": "integer"}}, ["x", "y"], False),
        ({"type": "string", "enum": ["a", "b"], "default": "any"}, "any", True),
        ({"type": "object", "properties": {}, "additionalProperties": False}, {"any": 1}, True),
        ({"const": True}, 1, False),
        ({"uniqueItems": True}, [{"a": 1}, {"a": 1.0}], False),
        ({"oneOf": [{"type": "integer"}, {"minimum": 1}]}, 2, False),
        ({"if": {"type": "string"}, "then": {"minLength": 2}}, "x", False),
        ({"patternProperties": {"^n": {"type": "integer"}}, "additionalProperties": False}, {"n1": 1}, True),
        (False, 1, False),
        (None, 1, True),
    ],
)
def test_schemas_are_read_for_what_producers_mean(schema: Json, value: Json, fits: bool):  # noqa: FBT001 (the value under test)
    assert (outcome({"a": value}, {"properties": {"a": schema}, "required": ["a"]}).value == 1.0) is fits


def test_schemas_of_the_criterion_take_the_place_of_those_on_offer():
    evaluator = ArgumentsSchema.model_validate({"schemas": {"refund": {"properties": {"amount": {"maximum": 500}}}}})
    calls = [tool_call("refund", {"amount": amount}) for amount in (501, 5)]
    first, second, third = judge(evaluator, trajectory(*calls, tool_call("find"), offered=["find"]))
    assert isinstance(first, Scored)
    assert (first.value, first.is_exempt, "(of the criterion)" in first.explanation) == (0.0, False, True)
    assert isinstance(second, Scored)
    assert second.value == 1.0
    assert isinstance(third, NotEvaluated)
    assert third.reason == "no_schema"


def test_a_schema_of_the_criterion_that_cannot_be_used_is_refused():
    with pytest.raises(ValidationError, match="has a schema of `refund` that cannot be used"):
        ArgumentsSchema.model_validate({"schemas": {"refund": {"$ref": "https://example.com/schema"}}})


@each_row(
    ("mask", "schema"),
    [
        ("****", {"type": "number"}),
        ("<EMAIL_ADDRESS>", {"type": "string", "pattern": "@"}),
        ("j***@x.com", {"type": "string", "maxLength": 5}),
        ("XXXX", {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
    ],
)
def test_a_value_that_was_masked_breaks_no_rule(mask: str, schema: Json):
    judged = refund({"value": mask, "order_id": "A"}, properties(value=schema, order_id={}))
    (found,) = judge(ArgumentsSchema(), judged)
    assert isinstance(found, NotEvaluated)
    assert (found.reason, "`value`" in found.explanation) == ("redacted", True)


@each_row(
    "schema",
    [
        {"type": "integer"},
        {"type": "string", "pattern": "^[^@]+@[^@]+$"},
        {"type": "string", "pattern": r"^\+?\d{7,15}$"},
    ],
)
def test_a_digest_where_no_id_is_taken_is_a_mask(schema: Json):
    for digest in ("5f4dcc3b5aa765d61d8327deb882cf99", "11F6AD8EC52A2984ABAAFD7C3B516503785C2072"):
        assert not_evaluated(ArgumentsSchema(), refund({"value": digest}, properties(value=schema))) == "redacted"


def test_a_masked_name_may_be_the_one_that_is_missing():
    schema: JsonObject = {**properties(to={}, n={"type": "integer"}), "required": ["to"], "additionalProperties": False}
    assert not_evaluated(ArgumentsSchema(), refund({"****": "x", "n": 1}, schema)) == "redacted"
    assert outcome({"****": "x", "n": "1"}, schema).parts == {"wrong_type": 1}
    assert outcome({"of": "x", "n": 1}, schema).parts == {"missing_required": 1, "unknown_arguments": 1}
    nested = properties(to={"type": "array", "items": schema})
    assert not_evaluated(ArgumentsSchema(), refund({"to": [{"[REDACTED]": "x"}]}, nested)) == "redacted"


def test_masked_values_that_fit_are_valid_and_hide_no_other_violation():
    assert outcome({"order_id": "****", "amount": 20}).value == 1.0
    found = outcome({"order_id": 17, "amount": "****"})
    assert (found.value, found.parts) == (0.5, {"wrong_type": 1})
    assert outcome({"order_id": "A", "amount": 2, "note": "****"}).parts == {"unknown_arguments": 1}


def test_the_definition_on_the_tools_own_span_comes_first():
    described = ToolDefinition(name="refund", parameters=properties(answer={"type": "any"}))
    call = replace(tool_call("refund", {"answer": 185}), definition=described)
    assert scored(ArgumentsSchema(), offering(REFUND, call)).value == 1.0
    assert scored(ArgumentsSchema(), replace(trajectory(call), runs=())).value == 1.0


def test_only_a_tool_that_ran_without_an_error_accepts_a_violation():
    wrong: JsonObject = {"order_id": 1, "amount": 2}
    error = CallError(kind="ValueError", message="no")
    calls = (
        tool_call("refund", wrong),
        tool_call("refund", wrong, error=error),
        tool_call("refund", wrong, state="rejected", error=error),
        tool_call("refund", wrong, state="requested_only"),
        tool_call("refund", wrong, state="paused"),
        tool_call("refund", arguments=Unparsed('{"order_id": ')),
        replace(tool_call("refund", wrong), dialect="case"),
    )
    judged = offering(REFUND, *calls)
    exempt = [found.is_exempt for found in judge(ArgumentsSchema(), judged) if isinstance(found, Scored)]
    assert exempt == [True, False, False, False, False, False, False]
    strict = ArgumentsSchema(accepted_violations="fail")
    assert not any(found.is_exempt for found in judge(strict, judged) if isinstance(found, Scored))


@each_row(
    ("result", "is_accepted"),
    [
        ("Error: order_id must be a string", False),
        ({"error": "order_id must be a string"}, False),
        ({"error": None, "refunded": 2}, True),
    ],
)
def test_a_tool_that_answers_with_an_error_text_accepts_no_violation(result: Json, is_accepted: bool):  # noqa: FBT001 (the value under test)
    refused = tool_call("refund", {"order_id": 1, "amount": 2}, result=Recorded(result))
    assert scored(ArgumentsSchema(), offering(REFUND, refused)).is_exempt is is_accepted
