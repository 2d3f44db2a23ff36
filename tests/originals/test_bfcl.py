"""`bfcl.ast`: what the checker of bfcl-eval 2026.3.23 gave for these cases, and what a trajectory makes of them."""

from msgspec.structs import replace

from tests.originals.support import result
from tests.rows import each_row
from tests.score.support import expect, expected, judge, not_evaluated, scored, tool_call, trajectory
from toolgauge.model.content import NOT_RECORDED, NotRecorded, Unparsed
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.observations import ToolDefinition
from toolgauge.model.outcomes import Errored, Scored
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.originals.bfcl import AllowedCall, Ast


def function(name: str = "f", *, required: list[Json] | None = None, **types: Json) -> JsonObject:
    properties: JsonObject = {key: kind if isinstance(kind, dict) else {"type": kind} for key, kind in types.items()}
    return {"name": name, "parameters": {"type": "dict", "properties": properties, "required": required or []}}


def call(name: str = "f", **args: Json) -> JsonObject:
    return {"name": name, "args": args}


def error_type(
    calls: list[Json], allowed: list[Json], functions: list[Json], evaluator: Ast | None = None
) -> str | None:
    """Return the type of the error; `None` when the calls are accepted."""
    said = result(evaluator or Ast(), {"allowed": allowed}, {"calls": calls, "functions": functions})
    assert isinstance(said.outcome, Scored)
    details = said.original["details"]
    assert isinstance(details, dict)
    found = details["error_type"]
    assert said.outcome.value == (1.0 if found is None else 0.0)
    assert found is None or isinstance(found, str)
    return found


def fault(kind: Json, value: Json, *accepted: Json) -> str | None:
    return error_type([call(x=value)], [call(x=list(accepted))], [function(x=kind)])


TEXTS: JsonObject = {"type": "array", "items": {"type": "string"}}
OBJECTS: JsonObject = {"type": "array", "items": {"type": "dict"}}


VALUES: list[tuple[Json, Json, list[Json], str | None]] = [
    ("string", "New York", ["new-york"], None),
    ("string", "it's 5 p.m", ['IT"S 5PM'], None),
    ("string", "NewYork!", ["New York"], "value_error:string"),
    ("string", "New\tYork", ["New York"], "value_error:string"),
    ("string", "", ["", "x"], None),
    ("string", "", ["x"], "value_error:string"),
    ("string", None, ["x"], "type_error:simple"),
    ("integer", 5, [5, 6], None),
    ("integer", 5.0, [5], "type_error:simple"),
    ("integer", True, [1], "type_error:simple"),
    ("integer", "5", [5], "type_error:simple"),
    ("integer", 7, [5, 6], "value_error:others"),
    ("float", 5, [5.0], None),
    ("float", 5.0, [5], None),
    ("float", 0.30000000000000004, [0.3], "value_error:others"),
    ("boolean", True, [True], None),
    ("boolean", False, [True], "value_error:others"),
    ("boolean", 1, [True], "type_error:simple"),
    # The type of the accepted values will do as well, and then text is compared as it is.
    ("integer", "year_x", ["year_x"], None),
    ("integer", "Year_X", ["year_x"], "value_error:others"),
    ("any", 5, [5], None),
    (TEXTS, ["A b", "c"], [["ab", "C"]], None),
    (TEXTS, ["c", "ab"], [["ab", "C"]], "value_error:list/tuple"),
    (TEXTS, ["ab"], [["ab", "c"]], "value_error:list/tuple"),
    (TEXTS, [], ["", ["a"]], None),
    (TEXTS, [], [["a"]], "value_error:list/tuple"),
    (TEXTS, ["a", 1], [["a", "1"]], "type_error:nested"),
    (TEXTS, [1, 2], [[1, 2]], None),
    (TEXTS, "a", [["a"]], "type_error:simple"),
    ("dict", {"k": "A B"}, [{"k": ["ab", "c"]}], None),
    ("dict", {"k": "d"}, [{"k": ["ab", "c"]}], "value_error:dict_value"),
    ("dict", {"k": 1, "more": 1}, [{"k": [1]}], "value_error:dict_key"),
    ("dict", {}, [{"k": [1]}], "value_error:dict_key"),
    ("dict", {}, [{"k": [1, ""]}], None),
    ("dict", {"k": True}, [{"k": [1]}], None),
    ("dict", {"k": 2}, ["", {"k": [1]}, {"k": [2]}], None),
    ("dict", '{"k": 1}', [{"k": [1]}], "type_error:simple"),
    (OBJECTS, [{"k": 1}, {"k": 2}], [[{"k": [1]}, {"k": [2]}]], None),
    (OBJECTS, [{"k": 2}, {"k": 1}], [[{"k": [1]}, {"k": [2]}]], "value_error:dict_value"),
    (OBJECTS, [{"k": 1}], [[{"k": [1]}, {"k": [2]}]], "value_error:list_dict_count"),
    (OBJECTS, [], [[]], None),
]


@each_row(("kind", "value", "accepted", "found"), VALUES)
def test_an_argument_has_an_accepted_value_of_the_right_type(
    kind: Json, value: Json, accepted: list[Json], found: str | None
):
    assert fault(kind, value, *accepted) == found


def test_only_arguments_that_may_be_left_out_may_be_missing_and_no_others_be_there():
    one = function(required=["x"], x="integer", y="integer")
    allowed: list[Json] = [call(x=[1], y=["", 2])]
    assert error_type([call(x=1)], allowed, [one]) is None
    assert error_type([call(x=1, y=2)], allowed, [one]) is None
    assert error_type([call(y=2)], allowed, [one]) == "simple_function_checker:missing_required"
    assert error_type([call(x=1, z=1)], allowed, [one]) == "simple_function_checker:unexpected_param"
    assert error_type([call(x=1)], [call(x=[1], y=[2])], [one]) == "simple_function_checker:missing_optional"
    # Required is required, whatever the accepted values say.
    assert error_type([call()], [call(x=["", 1])], [one]) == "simple_function_checker:missing_required"


def test_names_are_the_same_letter_by_letter_but_for_dots_that_a_provider_forbids():
    allowed: list[Json] = [call("a.find")]
    wrong_name = "simple_function_checker:wrong_func_name"
    dots = Ast(name_rule="dot_to_underscore")
    assert error_type([call("a.find")], allowed, [function("a.find")]) is None
    assert error_type([call("a.Find")], allowed, [function("a.find")]) == wrong_name
    assert error_type([call("a_find")], allowed, [function("a.find")]) == wrong_name
    assert error_type([call("a_find")], allowed, [function("a.find")], dots) is None
    assert error_type([call("a.find")], allowed, [function("a.find")], dots) == wrong_name


def test_several_calls_take_each_the_first_that_fits_in_any_order():
    functions: list[Json] = [function("f", x="integer"), function("g", x="integer")]
    allowed: list[Json] = [call("f", x=[1, 2]), call("f", x=[1]), call("g", x=[3])]
    no_match = "parallel_function_checker_no_order:cannot_find_match"
    assert error_type([call("g", x=3), call("f", x=2), call("f", x=1)], allowed, functions) is None
    # The first expected call takes the one that the second needs.
    assert error_type([call("f", x=1), call("f", x=2), call("g", x=3)], allowed, functions) == no_match
    assert error_type([call("f", x=2), call("f", x=1), call("f", x=3)], allowed, functions) == no_match
    wrong_count = "parallel_function_checker_no_order:wrong_count"
    assert error_type([call("f", x=1)], allowed, functions) == wrong_count


def test_the_category_names_the_checker():
    functions: list[Json] = [function("f"), function("g")]
    twice: list[Json] = [call("g"), call("g")]
    assert error_type(twice, [call("g")], functions) == "multiple_function_checker:wrong_count"
    assert error_type(twice, [call("g")], functions[1:]) == "simple_function_checker:wrong_count"
    parallel = Ast(test_category="live_parallel")
    assert error_type(twice, [call("g")], functions, parallel) == "parallel_function_checker_no_order:wrong_count"
    assert error_type([call("f")], [call("g")], functions) == "simple_function_checker:wrong_func_name"


# -- live -----------------------------------------------------------------------------------------------------------

SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"anyOf": [{"type": "null"}, {"type": "integer"}]},
        "share": {"type": ["null", "number"]},
        "where": {"$ref": "#/$defs/Where"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "loose": {"type": "array"},
        "free": {},
    },
    "required": ["city"],
    "$defs": {"Where": {"type": "object"}, "Round": {"$ref": "#/$defs/Round"}},
}


def offering(*calls: ToolCall, name: str = "book", parameters: JsonObject | None = SCHEMA) -> Trajectory:
    return replace(trajectory(*calls), tools_offered=(ToolDefinition(name=name, parameters=parameters),))


@each_row(
    ("args", "is_accepted"),
    [
        ({"city": "new york"}, True),
        ({"city": "NEW YORK", "days": 2, "share": 1, "where": {"street": "high st"}}, True),
        ({"city": "New York", "tags": ["A b"], "loose": [1], "free": {"x": 1}}, True),
        ({"city": "New York", "days": 2.0}, False),
        ({"city": "New York", "where": {"street": "low st"}}, False),
        ({"city": "New York", "invented": 1}, False),
        ({"days": 2}, False),
    ],
)
def test_accepted_values_of_a_criterion_meet_the_schemas_of_the_tools_on_offer(args: JsonObject, is_accepted: bool):  # noqa: FBT001 (a parameter of the test)
    accepted = AllowedCall(
        name="book",
        args={
            "city": ["New York"],
            "days": ["", 2],
            "share": ["", 1.0],
            "where": ["", {"street": ["High St.", "High Street"]}],
            "tags": ["", ["ab"]],
            "loose": ["", [1]],
            "free": ["", {"x": 1}],
        },
    )
    assert scored(Ast(allowed=(accepted,)), offering(tool_call("book", args))).value == float(is_accepted)


def test_expected_calls_are_accepted_values_too():
    wanted = expected(expect("book", {"city": "New York", "where": {"street": "High St", "no": 1}, "free": [{"a": 1}]}))
    right: JsonObject = {"city": "newyork", "where": {"no": 1, "street": "high st"}, "free": [{"a": 1}]}
    assert scored(Ast(), offering(tool_call("book", right)), wanted).value == 1
    outcome = scored(Ast(), offering(tool_call("book", {**right, "city": "York"})), wanted)
    assert outcome.value == 0
    assert outcome.explanation == "value_error:string at `book: city`"
    assert outcome.differences[0].rule == "value_error:string"


def test_a_tool_on_offer_is_known_under_the_name_that_its_provider_allows():
    wanted = expected(expect("maps.book", {"city": "Rome"}))
    judged = offering(tool_call("maps_book", {"city": "Rome"}), name="maps_book")
    assert scored(Ast(name_rule="dot_to_underscore"), judged, wanted).value == 1
    assert not_evaluated(Ast(), judged, wanted) == "no_schema"


def test_what_was_not_recorded_is_not_evaluated():
    wanted = expected(expect("book", {"city": "Rome"}))
    made = tool_call("book", {"city": "Rome"})
    assert not_evaluated(Ast(), trajectory(made), wanted) == "no_tool_offer"
    assert not_evaluated(Ast(), offering(made, parameters=None), wanted) == "no_schema"
    assert not_evaluated(Ast(), offering(made)) == "no_reference"
    assert not_evaluated(Ast(), offering(made), expected()) == "nothing_expected"
    assert not_evaluated(Ast(), replace(offering(), hidden_turns=1), wanted) == "no_content"
    for arguments, reason in (
        (NOT_RECORDED, "arguments_not_recorded"),
        (NotRecorded("redacted"), "redacted"),
        (Unparsed("{", "truncated"), "truncated"),
    ):
        assert not_evaluated(Ast(), offering(tool_call("book", arguments=arguments)), wanted) == reason


def test_calls_that_cannot_be_read_or_are_not_there_are_not_accepted():
    wanted = expected(expect("book", {"city": "Rome"}))
    broken = scored(Ast(), offering(tool_call("book", arguments=Unparsed("{"))), wanted)
    assert (broken.value, broken.explanation) == (0, "ast_decoder:decoder_failed")
    assert scored(Ast(), offering(), wanted).explanation == "simple_function_checker:wrong_count"
    (outcome,) = judge(Ast(), offering(), expected(expect("book", optional=True)))
    assert isinstance(outcome, Errored)
