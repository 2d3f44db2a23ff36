"""What the conventions' attributes say, in the forms in which producers write them."""

import json

import pytest

from tests.recognize.support import observations, other_error, self_metrics, span
from tests.rows import each_row
from toolgauge.dialects.coding_agents import ClaudeCode
from toolgauge.dialects.genai import GenAI
from toolgauge.dialects.javascript_and_java import Vercel
from toolgauge.dialects.openinference import OpenInference
from toolgauge.dialects.tracing_services import Langfuse, MLflow
from toolgauge.model.content import NOT_RECORDED, Content, Recorded
from toolgauge.model.json import Json, Value
from toolgauge.model.observations import CallError, CallExecuted, CallRequested, ModelCall
from toolgauge.model.ports import Dialect
from toolgauge.recognize import conventions
from toolgauge.recognize.conventions import token_count
from toolgauge.recognize.recognizer import Recognizer
from toolgauge.testing.dialects import check_dialect


@each_row(
    "reasons", [["tool_call"], ["tool_calls"], ["tool-calls"], ["stop", "tool_use"], '["function_call"]', "tool-calls"]
)
def test_a_finish_reason_of_tools_shows_that_the_model_called_some(reasons: Value):
    assert conventions.stopped_for_tools({"gen_ai.response.finish_reasons": reasons})


@each_row("reasons", [["stop"], [], '["length"]', "content-filter", None, 1])
def test_any_other_finish_reason_shows_no_call(reasons: Value):
    assert not conventions.stopped_for_tools({"gen_ai.response.finish_reasons": reasons})


@each_row(
    ("reasons", "ending"),
    [
        (["length"], "length"),
        (["stop", "max_tokens"], "length"),
        ('["content_filter"]', "content_filter"),
        ("content-filter", "content_filter"),
        ("FinishReason.MAX_TOKENS", "length"),
        ("SAFETY", "content_filter"),
        (["refusal"], "refusal"),
        (["length", "stop"], None),
        (["stop"], None),
        (["tool_calls"], None),
        ([], None),
        ("", None),
        (None, None),
        (1, None),
        ("length " * 100, None),
    ],
)
def test_the_last_finish_reason_may_say_that_the_answer_is_not_whole(reasons: Value, ending: str | None):
    assert conventions.model_call({"gen_ai.response.finish_reasons": reasons}).ending == ending


# -- how many tokens a model call took, as conventions write it and as nobody should

CHAT: dict[str, Value] = {"gen_ai.operation.name": "chat"}


def tokens(
    dialect: Dialect, attributes: dict[str, Value], *, name: str = "span", scope: str = "x"
) -> tuple[Value, Value]:
    found = [
        one for one in observations(dialect, span(attributes, name=name, scope=scope)) if isinstance(one, ModelCall)
    ]
    (call,) = found
    return call.input_tokens, call.output_tokens


def test_the_conventions_and_their_older_names():
    assert tokens(GenAI(), CHAT | {"gen_ai.usage.input_tokens": 42, "gen_ai.usage.output_tokens": 7}) == (42, 7)
    assert tokens(GenAI(), CHAT | {"gen_ai.usage.prompt_tokens": 42, "gen_ai.usage.completion_tokens": 7}) == (42, 7)
    assert tokens(GenAI(), CHAT | {"gen_ai.usage.output_tokens": 7}) == (None, 7)


def test_other_conventions():
    model: dict[str, Value] = {"openinference.span.kind": "LLM"}
    assert tokens(OpenInference(), model | {"llm.token_count.prompt": 4, "llm.token_count.completion": 2}) == (4, 2)
    assert tokens(OpenInference(), model | {"gen_ai.usage.input_tokens": 4}) == (4, None)
    generation: dict[str, Value] = {"langfuse.observation.type": "generation"}
    usage = '{"input": 40, "input_cached_tokens": 2, "output": 5, "total": 47}'
    assert tokens(Langfuse(), generation | {"langfuse.observation.usage_details": usage}) == (42, 5)
    chat: dict[str, Value] = {"mlflow.spanType": '"CHAT_MODEL"'}
    assert tokens(MLflow(), chat | {"mlflow.chat.tokenUsage": '{"input_tokens": 4, "output_tokens": 2}'}) == (4, 2)
    generate: dict[str, Value] = {"ai.operationId": "ai.generateText.doGenerate"}
    assert tokens(Vercel(), generate | {"ai.usage.promptTokens": 4, "ai.usage.completionTokens": 2.0}) == (4, 2)


def test_what_was_in_a_cache_counts_with_the_input():
    attributes: dict[str, Value] = {
        "span.type": "llm_request",
        "input_tokens": 3,
        "cache_read_tokens": 1000,
        "cache_creation_tokens": 20,
        "output_tokens": 7,
    }
    assert tokens(ClaudeCode(), attributes, name="claude_code.llm_request") == (1023, 7)


@each_row(
    "value",
    ["42", "", True, -1, -0.5, 1.5, 1e300, float("nan"), float("inf"), 10**13, None, [42], {"input": 42}, b"42"],
    ids=repr,
)
def test_what_is_no_count_is_not_recorded(value: Value):
    assert token_count(value) is None
    assert tokens(GenAI(), CHAT | {"gen_ai.usage.input_tokens": value, "gen_ai.usage.output_tokens": 7}) == (None, 7)


def test_spans_of_agents_have_no_tokens_of_their_own():
    run = span({"gen_ai.operation.name": "invoke_agent", "gen_ai.usage.input_tokens": 42})
    assert [one for one in observations(GenAI(), run) if isinstance(one, ModelCall)] == []


# -- operations that are not known as a model's: those with an output are model calls

ASKED: Json = [
    {"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "find", "arguments": {"q": 1}}]}
]
OUTPUT: dict[str, Value] = {"gen_ai.output.messages": json.dumps(ASKED)}
CALL = CallRequested(position=0, name="find", call_id="c1", arguments=Recorded({"q": 1}))


@each_row(
    "operation",
    [
        "plan",
        "fetch_response",
        "live",
        "realtime.session",
        "generate",
        "stream_message",
        "retrieve_response",
        "plan_task",
        "evaluatePlan",
        "chain_of_thought",
        "photograph",
    ],
)
def test_an_operation_with_an_output_is_a_model_call(operation: str):
    found = span(OUTPUT | {"gen_ai.operation.name": operation})
    genai = GenAI()
    assert observations(genai, found) == [ModelCall(may_repeat=True), CALL]
    check_dialect(genai, [found])


def test_a_span_without_an_operation_is_known_by_its_output_and_name():
    assert observations(GenAI(), span(OUTPUT, name="live session")) == [ModelCall(may_repeat=True), CALL]
    assert observations(GenAI(), span(OUTPUT, name="agent run")) == []


@each_row(
    "operation",
    [
        "create_agent",
        "invoke_workflow",
        "embeddings",
        "retrieval",
        "search_memory",
        "evaluation",
        "evaluate",
        "run_tool",
        "tool_call",
        "execute_event_loop_cycle",
        "execute_task",
        "chain",
        "handoff",
        "callAgent",
        "retrieve",
        "task",
        "runTask",
        "langgraph",
        "crewai.kickoff",
        "MultiAgent.step",
    ],
)
def test_operations_that_repeat_messages_of_models_are_none(operation: str):
    found = span(OUTPUT | {"gen_ai.operation.name": operation})
    assert observations(GenAI(), found) == []


def test_an_unknown_operation_without_an_output_is_not_read():
    assert observations(GenAI(), span({"gen_ai.operation.name": "plan"})) == []


# -- tool spans that deviate: an attribute for each argument, and MCP's own key for the tool

TOOL: dict[str, Value] = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find_issue"}
MCP: dict[str, Value] = {"mcp.method.name": "tools/call", "mcp.tool.name": "kiwi__search_flight"}
ARGUMENT = "gen_ai.tool.call.arguments."


def executed(attributes: dict[str, Value], name: str = "span") -> CallExecuted:
    (found,) = observations(GenAI(), span(attributes, name=name))
    assert isinstance(found, CallExecuted)
    return found


@each_row(
    ("written", "arguments"),
    [
        # Sentry's MCP server.
        ({"organizationSlug": "acme", "limit": "10"}, Recorded({"organizationSlug": "acme", "limit": "10"})),
        (
            {"n": 10, "on": True, "ids": ["a", "b"], "q": {"x": 1}},
            Recorded({"n": 10, "on": True, "ids": ["a", "b"], "q": {"x": 1}}),
        ),
        ({"filter.status": "open", "body": '{"x": 1}'}, Recorded({"filter.status": "open", "body": '{"x": 1}'})),
        ({"size": 4, "q": "a"}, Recorded({"size": 4, "q": "a"})),
        ({"size": "4"}, Recorded({"size": "4"})),
        # Measures of arguments that were kept back.
        ({"size": 120, "truncated": False}, NOT_RECORDED),
        ({}, NOT_RECORDED),
    ],
)
def test_an_attribute_for_each_argument_is_read(written: dict[str, Value], arguments: Content):
    assert executed(TOOL | {ARGUMENT + key: value for key, value in written.items()}).arguments == arguments


def test_the_mcp_integrations_of_sentry_write_json_text_for_each_argument():
    written: dict[str, Value] = {
        "mcp.request.argument.location": '"London"',
        "mcp.request.argument.days": "3",
        "mcp.request.argument.note": "no JSON",
    }
    assert executed(MCP | written).arguments == Recorded({"location": "London", "days": 3, "note": "no JSON"})


@each_row("whole", ["{}", "", {}])
def test_empty_arguments_in_one_attribute_hide_no_other(whole: Value):
    written: dict[str, Value] = {"gen_ai.tool.call.arguments": whole, "gen_ai.tool.call.result": "ok"}
    assert executed(TOOL | written).arguments == Recorded({})
    assert executed(TOOL | written | {ARGUMENT + "q": "one"}).arguments == Recorded({"q": "one"})
    assert executed(TOOL | written | {"mcp.request.argument.n": "3"}).arguments == Recorded({"n": 3})


def test_the_results_of_sentrys_mcp_integrations_are_read():
    # The Python SDK writes the blocks, the JavaScript SDK the text of one block, or of each under its number.
    result = "mcp.tool.result."
    blocks = '[{"type": "text", "text": "a"}]'
    assert executed(MCP | {result + "content": blocks}).result == Recorded([{"type": "text", "text": "a"}])
    assert executed(MCP | {result + "content": "found", result + "content_count": 1}).result == Recorded("found")
    numbered: dict[str, Value] = {result + "content_count": 2, result + "0.content": "a", result + "1.content": "b"}
    texts: Json = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert executed(MCP | numbered).result == Recorded(texts)
    assert executed(MCP | {result + "content_count": "0"}).result == NOT_RECORDED
    assert executed(MCP | {result + "content": "x", "gen_ai.tool.call.result": "y"}).result == Recorded("y")


@pytest.mark.parametrize("name", ["gen_ai.tool.name", "mcp.tool.name"])
def test_mcps_failure_flag_has_an_attribute_of_its_own(name: str):
    tool: dict[str, Value] = {"gen_ai.operation.name": "execute_tool", name: "find"}
    flag = "mcp.tool.result.is_error"
    assert executed(tool | {flag: True}).error == other_error("")
    assert executed(tool | {flag: "true"}).error == other_error("")
    assert executed(tool | {flag: False}).error is None
    assert executed(tool | {flag: True, "error.type": "timeout"}).error == CallError(kind="timeout", message="")


def test_a_span_that_names_an_mcp_tool_alone_is_a_call():
    found = span({"mcp.tool.name": "find", "mcp.session.id": "1"}, name="CallTool")
    assert GenAI().claims(found)
    assert observations(GenAI(), found) == [CallExecuted(name="find", protocol="mcp")]
    assert Recognizer([GenAI()], metrics=self_metrics()).read(found) is not None
    embedded = span({"mcp.tool.name": "find", "gen_ai.operation.name": "embeddings"})
    assert observations(GenAI(), embedded) == []
