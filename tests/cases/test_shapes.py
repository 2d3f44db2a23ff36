"""What a case says was done and expected, in every documented shape."""

import re

import pytest

from tests.rows import each_row
from toolgauge.cases.actual import trajectory_of
from toolgauge.cases.case import CaseError, parse
from toolgauge.cases.expectations import expected_of
from toolgauge.model.content import NOT_RECORDED, Recorded, Unparsed
from toolgauge.model.expected import Expected, ExpectedCall, ExpectedOutput
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.observations import CallError
from toolgauge.model.trajectory import Message


@each_row(
    ("text", "problem"),
    [
        ("{", "not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ("[" * 10_000, "nested deeper than 100 levels"),
        ('{"id": "c", "evaluator": "e", "actual": ' + "[" * 100 + "]" * 100 + "}", "nested deeper than 100 levels"),
        ("[1]", "one JSON object a line, not an array: `jq -c '.[]' FILE` writes such lines"),
        ('{"evaluator": "e", "actual": {}}', "`id` must be a text"),
        ('{"id": "c", "evaluator": 5, "actual": {}}', "`evaluator` must be a text"),
        ('{"id": "c", "evaluator": "e"}', "case `c`: there is no `actual`"),
        ('{"id": "c", "evaluator": "e", "actual": [1]}', "case `c`: `actual` must be an object"),
        ('{"id": "c", "evaluator": "e", "actual": {}, "config": [1]}', "case `c`: `config` must be an object"),
        (
            '{"id": "c", "evaluator": "e", "actual": {}, "pass_at": true}',
            "case `c`: `pass_at` must be a number from 0 to 1",
        ),
        (
            '{"id": "c", "evaluator": "e", "actual": {}, "pass_at": 80}',
            "case `c`: `pass_at` must be a number from 0 to 1",
        ),
        (
            '{"id": "c", "evaluator": "e", "actual": {}, "pas_at": 0.8}',
            "case `c`: unknown key `pas_at`; did you mean `pass_at`?",
        ),
    ],
)
def test_a_line_that_is_no_case_says_why(text: str, problem: str):
    with pytest.raises(CaseError, match=f"^{re.escape(problem)}$"):
        parse("cases.jsonl:7", text.encode())


def test_spans_become_calls_with_what_they_recorded():
    spans: list[Json] = [
        {"name": "s", "attributes": {"tool.name": "a", "input.value": "{'x': 1}", "output.value": "fine"}},
        {"name": "s", "attributes": {"tool.name": "b", "tool.id": "u1", "input.value": "{x"}},
        {"name": "s", "attributes": {"tool.name": "c", "tool.synthesized": True}},
        {"name": "s", "attributes": {"input.value": "{}"}},
    ]
    first, second = trajectory_of({"spans": spans}).calls
    assert (first.name, first.arguments, first.result) == ("a", Recorded({"x": 1}), Recorded("fine"))
    assert (second.name, second.call_id, second.arguments) == ("b", "u1", Unparsed("{x"))
    assert second.result == NOT_RECORDED
    assert (first.turn, second.turn) == (0, 1)


def test_calls_of_one_message_are_one_turn_and_answers_find_their_calls():
    messages: list[Json] = [
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": "hello"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {"id": "1", "name": "a", "args": {"x": 1}},
                {"id": "2", "type": "function", "function": {"name": "b", "arguments": '{"y": 2}'}},
            ],
        },
        {"role": "tool", "tool_call_id": "2", "content": "second"},
        {"role": "tool", "content": "first"},
        {"role": "assistant", "content": None, "tool_calls": [{"name": "c", "arguments": "{broken"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "done"}]},
    ]
    story = trajectory_of({"messages": messages})
    assert [(call.name, call.turn, call.position, call.arguments, call.result) for call in story.calls] == [
        ("a", 0, 0, Recorded({"x": 1}), Recorded("first")),
        ("b", 0, 1, Recorded({"y": 2}), Recorded("second")),
        ("c", 1, 0, Unparsed("{broken"), NOT_RECORDED),
    ]
    assert story.messages == (
        Message(role="system", text="be kind", turn=0),
        Message(role="user", text="hello", turn=0),
        Message(role="assistant", text="done", turn=2),
    )


def test_invocations_are_user_turns_on_both_sides():
    turns: Json = [{"calls": [{"name": "a", "args": {}}, {"name": "b"}]}, {"calls": None}, {"calls": [{"name": "c"}]}]
    story = trajectory_of({"invocations": turns})
    assert [(message.role, message.turn) for message in story.messages] == [("user", 0), ("user", 2), ("user", 2)]
    assert [(call.name, call.turn) for call in story.calls] == [("a", 0), ("b", 1), ("c", 2)]
    assert expected_of({"invocations": turns}) == Expected(
        turns=((ExpectedCall(name="a", args={}), ExpectedCall(name="b")), (), (ExpectedCall(name="c"),)), per_turn=True
    )


def test_items_of_a_trajectory_are_names_calls_or_stand_for_themselves():
    story = trajectory_of({"trajectory": ["a", {"name": "b", "args": {"x": 1}}, 5, None]})
    assert [call.name for call in story.calls] == ["a", "b", "5", "null"]
    numbers = trajectory_of({"trajectory": [1, 1.0, True, {"n": [2.0]}]})
    assert [call.name for call in numbers.calls] == ["1", "1", "1", '{"n": [2]}']
    assert story.calls[1].arguments == Recorded({"x": 1})


def tool(span_id: str, start: float, end: float, parent: str = "root") -> JsonObject:
    times: JsonObject = {"start": start, "end": end}
    return {"type": "tool", "span_id": span_id, "parent_span_id": parent, "name": span_id, "args": {}, **times}


def test_a_call_of_a_trace_knows_what_had_ended_when_it_started():
    agent: JsonObject = {
        "type": "agent",
        "span_id": "root",
        "parent_span_id": None,
        "start": 0,
        "end": 9,
        "user": "hi",
        "response": "bye",
        "available_tools": [{"name": "a", "description": "does a", "parameters": {"type": "object"}}],
    }
    session = trajectory_of({"traces": [{"spans": [agent, tool("a", 1, 3), tool("b", 2, 4), tool("c", 4, 5)]}]})
    assert [(call.name, call.turn, call.result_turn) for call in session.calls] == [
        ("a", 0, 1),
        ("b", 0, 1),
        ("c", 1, 2),
    ]
    assert [(message.role, message.turn) for message in session.messages] == [("user", 0), ("assistant", 2)]
    assert [run.prompt for run in session.runs] == ["hi"]
    assert session.tools_offered is not None
    assert [offered.name for offered in session.tools_offered] == ["a"]
    assert session.calls[0].run == session.runs[0].span


SHAPELESS: list[tuple[JsonObject, str]] = [
    ({}, "`actual` has none of the known keys"),
    ({"calls": {}}, "`calls` must be a list of objects"),
    ({"calls": ["a"]}, "`calls` must be a list of objects"),
    ({"calls": [{"name": "a"}, {"args": {}}]}, "`actual.calls[1].name` must be a text"),
    ({"invocations": [{}, {"calls": [{}]}]}, "`actual.invocations[1].calls[0].name` must be a text"),
    (
        {"messages": [{"role": "ai", "tool_calls": [{"function": {"name": 5}}]}]},
        "`actual.messages[0].tool_calls[0].name` must be a text",
    ),
    ({"messages": [{"role": "robot"}]}, "`role` of a message must be"),
    ({"trajectory": {"a": 1}}, "`trajectory` must be a list"),
    ({"trajectory": None}, "`trajectory` must be a list"),
    ({"traces": [{"spans": [{"type": "x"}]}]}, "`type` of a span of a trace must be agent or tool"),
    ({"traces": [{"spans": [{"type": "tool", "start": "1", "end": 2}]}]}, "`start` of a span of a trace"),
    ({"traces": [{"spans": [{"type": "tool", "start": 1, "end": 1e999}]}]}, "`end` of a span of a trace"),
]


@each_row(("actual", "problem"), SHAPELESS)
def test_another_shape_is_named(actual: JsonObject, problem: str):
    with pytest.raises(CaseError) as raised:
        trajectory_of(actual)
    assert str(raised.value).startswith(problem)


SHAPES: list[tuple[JsonObject, Expected | None]] = [
    ({}, None),
    (
        {"tool_calls": [{"name": "a", "args": {"x": 1}, "id": "u1"}]},
        Expected(turns=((ExpectedCall(name="a", args={"x": 1}, call_id="u1"),),)),
    ),
    (
        {"tool_outputs": [{"name": "a", "output": None}]},
        Expected(turns=((ExpectedCall(name="a", output=ExpectedOutput(value=None)),),)),
    ),
    (
        {"tool_calls_count": {"a": ["=", 0], "b": [">", 1], "c": ["<", 3]}},
        Expected(
            turns=(
                (
                    ExpectedCall(name="a", optional=True, repeat=(0, 0)),
                    ExpectedCall(name="b", repeat=(2, 1_000_000)),
                    ExpectedCall(name="c", optional=True, repeat=(0, 2)),
                ),
            )
        ),
    ),
    ({"expected_output": {"x": 1}}, Expected(turns=(), answer=ExpectedOutput(value={"x": 1}))),
    (
        {"calls": [{"name": "a", "input_parameters": {"x": 1}, "type": "MCP", "reasoning": "r"}]},
        Expected(turns=((ExpectedCall(name="a", args={"x": 1}, tool_type="MCP"),),)),
    ),
    (
        {"messages": [{"tool_calls": [{"function": {"name": "a", "arguments": '{"x": 1}'}}, {"name": "b"}]}]},
        Expected(turns=((ExpectedCall(name="a", args={"x": 1}, group=0), ExpectedCall(name="b", group=0)),), texts=()),
    ),
    (
        {
            "messages": [
                {"role": "user", "content": "hi"},
                {"role": "assistant", "tool_calls": [{"name": "a", "args": {}}, {"name": "b", "args": {}}]},
                {"role": "assistant", "tool_calls": [{"name": "c", "args": {}}]},
            ]
        },
        Expected(
            turns=(
                (
                    ExpectedCall(name="a", args={}, group=1),
                    ExpectedCall(name="b", args={}, group=1),
                    ExpectedCall(name="c", args={}),
                ),
            ),
            texts=(("user", 0),),
        ),
    ),
]


@each_row(("written", "expected"), SHAPES)
def test_every_shape_is_what_evaluators_compare_with(written: JsonObject, expected: Expected | None):
    assert expected_of(written) == expected


@each_row(
    ("written", "problem"),
    [
        (
            {"tool_calls": [{"name": "a", "argss": {"x": 1}}]},
            "unknown key `argss` of expected call `a` (did you mean `args`?)",
        ),
        ({"tool_calls": ["a", {"name": "b"}]}, "`expected.tool_calls[0].name` must be a text"),
        ({"calls": [{"name": "a"}, [{"name": "b"}, {"id": "c"}]]}, "`expected.calls[1][1].name` must be a text"),
        ({"invocations": [{"calls": [{"id": "b"}]}]}, "`expected.invocations[0].calls[0].name` must be a text"),
        ({"messages": [{"tool_calls": [{"id": "b"}]}]}, "`expected.messages[0].tool_calls[0].name` must be a text"),
        ({"calls": [{"name": "a", "arguments": "{x"}]}, "the arguments of expected call `a` are no JSON object"),
        (
            {"trajectory": [{"name": "a", "args": {"x": 1}, "input": {"x": 1}}]},
            "expected call `a` has `args` and `input`, of which only one can hold",
        ),
        (
            {"calls": [], "expectd_output": "done"},
            "unknown key `expectd_output` of `expected` (did you mean `expected_output`?)",
        ),
        (
            {"invocations": [{"call": [{"name": "a"}]}]},
            "unknown key `call` of an expected invocation (did you mean `calls`?)",
        ),
        ({"calls": [], "invocations": []}, "`expected` has `calls` and `invocations`, of which only one can hold"),
    ],
)
def test_what_would_be_met_by_any_call_or_never_looked_at_is_refused(written: JsonObject, problem: str):
    with pytest.raises(CaseError) as raised:
        expected_of(written)
    assert str(raised.value) == problem


@each_row("key", ["args", "arguments", "input_parameters", "parameters", "input", "tool_args", "tool_input"])
def test_arguments_go_by_the_names_that_agents_and_packages_give_them(key: str):
    item: JsonObject = {"name": "a", key: {"x": 1}}
    assert expected_of({"calls": [item]}) == Expected(turns=((ExpectedCall(name="a", args={"x": 1}),),))
    (call,) = trajectory_of({"calls": [item]}).calls
    assert call.arguments == Recorded({"x": 1})


def test_a_call_may_be_nested_as_openai_does():
    item: JsonObject = {"id": "c1", "type": "function", "function": {"name": "a", "arguments": '{"x": 1}'}}
    call = ExpectedCall(name="a", args={"x": 1}, call_id="c1")
    for key in ("calls", "tool_calls"):
        assert expected_of({key: [item]}) == Expected(turns=((call,),))
    assert expected_of({"invocations": [{"calls": [item]}]}) == Expected(turns=((call,),), per_turn=True)
    (made,) = trajectory_of({"calls": [item]}).calls
    assert (made.name, made.arguments, made.call_id) == ("a", Recorded({"x": 1}), "c1")


def test_a_misspelt_error_of_a_call_is_refused():
    with pytest.raises(CaseError, match=r"unknown key `errors` of call `a` \(did you mean `error`\?\)"):
        trajectory_of({"calls": [{"name": "a", "errors": "too late"}]})


def test_a_call_may_have_failed():
    calls: Json = [{"name": "a", "error": "too late"}, {"name": "b", "error": True}, {"name": "c", "error": False}]
    errors = [call.error for call in trajectory_of({"calls": calls}).calls]
    assert errors == [CallError(kind="", message="too late"), CallError(kind="", message=""), None]


def test_an_error_of_another_kind_is_refused():
    with pytest.raises(CaseError, match="`error` of a call must be a text, or true"):
        trajectory_of({"calls": [{"name": "a", "error": {"type": "x"}}]})
