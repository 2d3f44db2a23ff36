"""The chat messages of a case are read in the forms of every provider, or refused by their place: never a silent 0."""

import json

import pytest

from tests.rows import each_row
from toolgauge.cases.actual import trajectory_of
from toolgauge.cases.case import Case, CaseError
from toolgauge.cases.expectations import expected_of
from toolgauge.cases.scoring import Cases
from toolgauge.model.content import Recorded
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.outcomes import Outcome, Scored

ARGS: JsonObject = {"q": "a"}
USER: JsonObject = {"role": "user", "content": "find it"}
FORMS: dict[str, list[Json]] = {
    "OpenAI chat": [
        USER,
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "1", "type": "function", "function": {"name": "s", "arguments": '{"q": "a"}'}}],
        },
        {"role": "tool", "tool_call_id": "1", "content": "found"},
    ],
    "OpenAI functions": [
        USER,
        {"role": "assistant", "content": None, "function_call": {"name": "s", "arguments": '{"q": "a"}'}},
        {"role": "function", "name": "s", "content": "found"},
    ],
    "OpenAI responses": [
        {"role": "user", "content": [{"type": "input_text", "text": "find it"}]},
        {"type": "reasoning", "summary": []},
        {"type": "function_call", "call_id": "1", "name": "s", "arguments": '{"q": "a"}'},
        {"type": "function_call_output", "call_id": "1", "output": "found"},
    ],
    "Anthropic": [
        USER,
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "..."},
                {"type": "tool_use", "id": "1", "name": "s", "input": ARGS},
            ],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "found"}]}],
        },
    ],
    "Gemini": [
        {"role": "user", "parts": [{"text": "find it"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "s", "args": ARGS}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "s", "response": {"result": "found"}}}]},
    ],
    "Bedrock": [
        {"role": "user", "content": [{"text": "find it"}]},
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "1", "name": "s", "input": ARGS}}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "1", "content": [{"text": "found"}]}}]},
    ],
    "AI SDK": [
        USER,
        {"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "1", "toolName": "s", "input": ARGS}]},
        {
            "role": "tool",
            "content": [
                {
                    "type": "tool-result",
                    "toolCallId": "1",
                    "toolName": "s",
                    "output": {"type": "text", "value": "found"},
                }
            ],
        },
    ],
    "LangChain": [
        {"type": "human", "content": "find it"},
        {
            "type": "ai",
            "content": [{"type": "tool_use", "id": "1", "name": "s", "input": ARGS}],
            "tool_calls": [{"id": "1", "name": "s", "args": ARGS}],
        },
        {"type": "tool", "tool_call_id": "1", "content": "found"},
    ],
}


def scored(evaluator: str, expected: JsonObject, actual: JsonObject) -> Outcome:
    case = Case(
        place="c:1",
        name="c",
        evaluator=evaluator,
        config={},
        expected=expected,
        actual=actual,
        pass_at=1.0,
        verdicts=(),
    )
    return Cases().score(case).outcome


@each_row("form", FORMS)
def test_calls_answers_and_texts_are_read_in_every_form(form: str):
    read = trajectory_of({"messages": FORMS[form]})
    assert [(call.name, call.arguments, call.result) for call in read.calls] == [
        ("s", Recorded(ARGS), Recorded("found"))
    ]
    assert [message.text for message in read.messages] == ["find it"]


@each_row("form", FORMS)
def test_what_is_expected_may_have_every_form(form: str):
    expected = expected_of({"messages": FORMS[form]})
    assert expected is not None
    assert [(call.name, call.args) for call in expected.calls] == [("s", ARGS)]


def test_calls_of_one_response_are_one_turn():
    calls: list[Json] = [{"type": "function_call", "call_id": name, "name": name, "arguments": "{}"} for name in "ab"]
    answers: list[Json] = [{"type": "function_call_output", "call_id": name, "output": name} for name in "ab"]
    read = trajectory_of({"messages": [USER, *calls, *answers, calls[0]]})
    assert [(call.name, call.turn) for call in read.calls] == [("a", 0), ("b", 0), ("a", 1)]
    expected = expected_of({"messages": [USER, *calls, *answers, calls[0]]})
    assert expected is not None
    assert [call.group for call in expected.calls] == [1, 1, None]


def test_an_answer_that_is_marked_as_an_error_fails_the_call():
    asked = FORMS["Anthropic"][1]
    failed: JsonObject = {"type": "tool_result", "tool_use_id": "1", "is_error": True, "content": "no such row"}
    (call,) = trajectory_of({"messages": [asked, {"role": "user", "content": [failed]}]}).calls
    assert call.error is not None
    assert call.error.message == "no such row"


def test_an_mcp_result_with_is_error_fails_the_call():
    result = json.dumps({"isError": True, "content": [{"type": "text", "text": "no such row"}]})
    (call,) = trajectory_of({"messages": [FORMS["Anthropic"][1], {"role": "tool", "content": result}]}).calls
    assert call.error is not None


@each_row(
    ("message", "place"),
    [
        ({"role": "assistant", "content": [{"type": "tool_use", "input": ARGS}]}, "messages[1].content[0]"),
        (
            {"role": "assistant", "content": [{"type": "text", "text": "x"}, {"type": "tool-s"}]},
            "messages[1].content[1]",
        ),
        ({"role": "model", "parts": [{"functionCalls": [{"name": "s"}]}]}, "messages[1].parts[0]"),
        ({"role": "assistant", "content": {"type": "tool_uses"}}, "messages[1].content"),
        ({"type": "function_calls", "name": "s"}, "messages[1]"),
    ],
)
def test_a_part_that_cannot_be_read_is_named_by_its_place(message: JsonObject, place: str):
    with pytest.raises(CaseError, match=r"neither text nor a call") as raised:
        trajectory_of({"messages": [USER, message]})
    assert f"`actual.{place}`" in str(raised.value)
    with pytest.raises(CaseError, match=r"neither text nor a call") as raised:
        expected_of({"messages": [USER, message]})
    assert f"`expected.{place}`" in str(raised.value)


def test_agentevals_reads_every_form():
    for form in FORMS:
        outcome = scored("agentevals.trajectory_match", {"messages": FORMS["OpenAI chat"]}, {"messages": FORMS[form]})
        assert isinstance(outcome, Scored)
        assert outcome.value == 1.0
