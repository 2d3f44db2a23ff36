"""OpenInference rules that no recording here shows: told by the specification, or read in an instrumentation's source."""

import json
from collections.abc import Mapping

from tests.assemble.support import joined
from tests.recognize.support import event, observations, other_error, recorded, span
from tests.rows import each_row
from toolgauge.dialects.openinference import OpenInference
from toolgauge.model.content import NOT_RECORDED, Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.model.observations import (
    AgentRun,
    CallAnswered,
    CallError,
    CallExecuted,
    CallRequested,
    CodeExecuted,
    ConversationSeen,
    ModelCall,
    Observation,
    ToolDescribed,
)
from toolgauge.model.records import Span, SpanEvent
from toolgauge.model.trajectory import Trajectory
from toolgauge.recognize.openinference_spans import model_name
from toolgauge.recognize.provider_messages import provider_answers

OI = "openinference.instrumentation."
KIND = "openinference.span.kind"
OUT = "llm.output_messages."
IN = "llm.input_messages."


def read(record: Span) -> list[Observation]:
    return observations(OpenInference(), record)


def tool(attributes: Mapping[str, Value], *, producer: str = "unknown", kind: str = "TOOL") -> CallExecuted:
    found = read(span({KIND: kind, "tool.name": "add", **attributes}, scope=OI + producer, status="ok"))
    assert isinstance(found[0], CallExecuted)
    assert all(isinstance(one, ToolDescribed) for one in found[1:])
    return found[0]


def described(parameters: Value, *, producer: str = "llama_index", given: Value = '{"a": 1}') -> JsonObject | None:
    attributes = {KIND: "TOOL", "tool.name": "add", "input.value": given, "tool.parameters": parameters}
    found = [one.tool for one in read(span(attributes, scope=OI + producer)) if isinstance(one, ToolDescribed)]
    assert [tool.name for tool in found] in ([], ["add"])
    return found[0].parameters if found else None


A_TEXT: JsonObject = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}


@each_row(
    ("parameters", "producer", "schema"),
    [
        (A_TEXT, "llama_index", A_TEXT),
        ({"type": "OBJECT", "properties": {"a": {"type": "STRING"}}, "required": ["a"]}, "crewai", A_TEXT),
        ({"a": {"type": "string"}}, "llama_index", A_TEXT),
        ({"a": {"type": "string"}}, "smolagents", A_TEXT),
        (A_TEXT, "smolagents", A_TEXT),
        ({"a": {"type": "string", "nullable": True}}, "smolagents", {**A_TEXT, "properties": {"a": {"type": "string", "nullable": True}}, "required": []}),
        ({"a": {"type": "any"}}, "smolagents", {**A_TEXT, "properties": {"a": {}}}),
        ({"a": {"type": "image"}}, "smolagents", {**A_TEXT, "properties": {"a": {}}}),
        ({"type": {"type": "string"}}, "smolagents", {"type": "object", "properties": {"type": {"type": "string"}}, "required": ["type"]}),
        ({}, "smolagents", {"type": "object", "properties": {}, "required": []}),
        ({}, "llama_index", None),
        ({"a": 1}, "autogen_agentchat", None),
        ({"type": "refund", "amount": 3}, "agno", None),
        ({"type": "object", "amount": 3}, "agno", None),
        ({"type": "object"}, "agno", {"type": "object"}),
        ("no JSON", "smolagents", None),
    ],
)  # fmt: skip
def test_the_schema_on_a_tools_own_span_is_plainly_claimed_from_arguments(
    parameters: Json, producer: str, schema: JsonObject | None
):
    written = parameters if isinstance(parameters, str) else json.dumps(parameters)
    assert described(written, producer=producer) == schema


def test_arguments_that_look_like_a_schema_are_arguments():
    text = '{"field": {"type": "string"}}'
    assert described(text, producer="agno", given=text) is None


def model(attributes: Mapping[str, Value], *, producer: str = "openai") -> list[Observation]:
    found = read(span({KIND: "LLM", **attributes}, scope=OI + producer))
    assert found[0] == ModelCall()
    return found[1:]


def call_keys(message: int, place: str, *, name: str, call_id: str, arguments: str) -> dict[str, Value]:
    prefix = f"{OUT}{message}.message.{place}.tool_call."
    return {prefix + "function.arguments": arguments, prefix + "function.name": name, prefix + "id": call_id}


def run(name: str, attributes: Mapping[str, Value], *, producer: str, kind: str = "AGENT") -> list[Observation]:
    return read(span({KIND: kind, **attributes}, name=name, scope=OI + producer))


# -- which spans


@each_row(
    ("attributes", "scope", "claimed"),
    [
        ({KIND: "TOOL"}, "any", True),
        ({KIND: "CHAIN", "gen_ai.operation.name": "execute_tool"}, "any", True),
        ({"tool.name": "add", "input.value": "{'a': 1}"}, "any", False),
        ({"input.value": "{}"}, OI + "langchain", False),
    ],
)
def test_claims(attributes: dict[str, Value], scope: str, claimed: bool):  # noqa: FBT001 - a column of the table
    assert OpenInference().claims(span(attributes, scope=scope)) is claimed


def test_synthesized_tool_span_is_not_a_call():
    assert read(span({KIND: "TOOL", "tool.name": "add", "tool.synthesized": True})) == []


def test_tool_span_without_a_tool_name_goes_by_the_spans_name():
    assert read(span({KIND: "tool"}, name="add")) == [CallExecuted(name="add")]


# -- arguments


@each_row(
    ("attributes", "producer", "expected"),
    [
        ({}, "agno", NOT_RECORDED),
        ({"tool.parameters": '{"a": 1}'}, "agno", Recorded({"a": 1})),
        ({"tool.parameters": '{"type": "object", "properties": {}}'}, "openai_agents", NOT_RECORDED),
        ({"tool.parameters": '{"a": {"type": "string"}}'}, "smolagents", NOT_RECORDED),
        ({"input.value": "{}", "tool.parameters": '{"a": 1}'}, "ag2", Recorded({})),
        ({"input.value": "__REDACTED__"}, "openai_agents", NotRecorded("redacted")),
        ({"input.value": '{"kwargs": {"a": 1}}'}, "llama_index", Recorded({"a": 1})),
        ({"input.value": '{"kwargs": {}}'}, "llama_index", Recorded({})),
        # A tool of another framework may have an argument of that name.
        ({"input.value": '{"kwargs": {"a": 1}}'}, "openai_agents", Recorded({"kwargs": {"a": 1}})),
        ({"input.value": '{"a": 1}'}, "llama_index", Recorded({"a": 1})),
        (
            {
                "input.value": '{"args": [1, 2], "kwargs": {"c": 3}}',
                "tool.parameters": '{"type": "object", "properties": {"a": {}, "b": {}, "c": {}}}',
            },
            "llama_index",
            Recorded({"a": 1, "b": 2, "c": 3}),
        ),
        # Nobody tells what the second positional argument is called.
        (
            {
                "input.value": '{"args": [1, 2], "sanitize_inputs_outputs": true, "kwargs": {}}',
                "tool.parameters": '{"a": {"type": "integer"}}',
            },
            "smolagents",
            Unparsed('{"args": [1, 2], "sanitize_inputs_outputs": true, "kwargs": {}}'),
        ),
    ],
)
def test_arguments(attributes: dict[str, Value], producer: str, expected: Content):
    assert tool(attributes, producer=producer).arguments == expected


# -- results


@each_row(
    ("output", "producer", "expected"),
    [
        ("18 degrees", "agno", Recorded("18 degrees")),
        ('{"content": "x", "tool_name": "y"}', "agno", Recorded({"content": "x", "tool_name": "y"})),
        ("content='18 °' name='add' tool_call_id='call_1'", "langchain", Recorded("18 °")),
        ("content=[{'type': 'text'}] tool_call_id='call_1'", "langchain", Recorded([{"type": "text"}])),
        ('{"output": "no message"}', "langchain", Recorded("no message")),
        ('{"output": "x", "other": 1}', "langchain", Recorded({"output": "x", "other": 1})),
        ('{"id": "call_1", "name": "add", "response": {"result": "3"}}', "google_adk", Recorded(3)),
        ('{"name": "add", "response": {"sum": 3, "ok": true}}', "google_adk", Recorded({"sum": 3, "ok": True})),
        ('{"content": "x", "tool_name": "add", "raw_input": {}}', "llama_index", Recorded("x")),
        (
            '{"blocks": [{"text": "a"}, {"text": "b"}], "tool_name": "add", "raw_input": {}, "raw_output": null}',
            "llama_index",
            Recorded(None),
        ),
        ("__REDACTED__", "langchain", NotRecorded("redacted")),
    ],
)
def test_results(output: str, producer: str, expected: Content):
    executed = tool({"output.value": output}, producer=producer)
    assert executed.result == expected
    assert executed.error is None


@each_row("key", ["tool.id", "tool_call.id", "gen_ai.tool.call.id"])
def test_call_id_on_the_span_wins(key: str):
    output = '{"type": "tool", "data": {"content": "x", "tool_call_id": "other"}}'
    assert tool({key: "call_1", "output.value": output}, producer="langchain").call_id == "call_1"


# -- failures


@each_row(
    ("status", "kind", "expected"),
    [
        ("error", "ValueError", CallError(kind="ValueError", message="bad")),
        ("ok", "ValueError", None),
        ("unset", "ValueError", None),
        ("error", "langgraph.errors.ParentCommand", None),
        ("error", "langgraph.errors.GraphInterrupt", CallError(kind="langgraph.errors.GraphInterrupt", message="bad")),
        ("ok", "langgraph.errors.GraphInterrupt", CallError(kind="paused", message="bad")),
    ],
)
def test_status_and_exception_tell_together(status: str, kind: str, expected: CallError | None):
    events = (event("exception", {"exception.type": kind, "exception.message": "bad"}),)
    status_code = "error" if status == "error" else "ok" if status == "ok" else "unset"
    found = read(span({KIND: "TOOL", "tool.name": "add"}, status=status_code, events=events, scope=OI + "langchain"))
    assert found == [CallExecuted(name="add", error=expected)]


def test_status_error_without_an_exception_is_a_failure():
    found = read(span({KIND: "TOOL", "tool.name": "add"}, status="error", status_message="Abandoned"))
    assert found == [CallExecuted(name="add", error=other_error("Abandoned"))]


# -- special tools


@each_row(
    ("attributes", "name"),
    [
        ({"tool.name": "Delegate work to coworker"}, "delegate_work_to_coworker"),
        ({"tool.name": "Search", "tool.description": "Tool Name: search_web\nTool Arguments: {}"}, "search_web"),
        # An older release lets the model call the title.
        ({"tool.name": "Search it", "tool.description": "Tool Name: Search it\nTool Arguments: {}"}, "Search it"),
        ({"tool.name": "GetWeather"}, "GetWeather"),
    ],
)
def test_crewai_title_becomes_the_name_that_a_model_calls(attributes: dict[str, Value], name: str):
    assert tool(attributes, producer="crewai").name == name


def test_crewai_names_for_models_follow_its_own_rule():
    assert model_name("Delegate work to coworker") == "delegate_work_to_coworker"
    assert model_name("HTTPClient getURL's  Évent-2") == "http_client_get_urls_event_2"


def test_llama_index_puts_a_tools_name_on_an_agents_step_that_is_no_call():
    assert run("AgentRunner._run_step", {"tool.name": "add"}, producer="llama_index") == [AgentRun(agent=None)]


# -- model spans


def test_calls_are_in_order_of_their_indices_across_messages():
    keys: dict[str, Value] = {}
    for place in (10, 2, 1):
        keys |= call_keys(0, f"tool_calls.{place}", name=f"t{place}", call_id=f"c{place}", arguments="{}")
    keys |= call_keys(1, "tool_calls.0", name="last", call_id="c99", arguments='{"a": 1}')
    assert model(keys) == [
        CallRequested(position=0, name="t1", call_id="c1", arguments=Recorded({})),
        CallRequested(position=1, name="t2", call_id="c2", arguments=Recorded({})),
        CallRequested(position=2, name="t10", call_id="c10", arguments=Recorded({})),
        CallRequested(position=3, name="last", call_id="c99", arguments=Recorded({"a": 1})),
    ]


def test_a_call_without_arguments_in_the_response_alone_has_none():
    response = {"choices": [{"message": {"tool_calls": [{"id": "c1", "function": {"name": "now"}}]}}]}
    (call,) = [one for one in model({"output.value": json.dumps(response)}) if isinstance(one, CallRequested)]
    assert (call.name, call.call_id, call.arguments) == ("now", "c1", Recorded({}))


def test_deprecated_function_call_is_read():
    found = model(
        {OUT + "0.message.function_call_name": "add", OUT + "0.message.function_call_arguments_json": '{"a": 1}'}
    )
    assert found == [CallRequested(position=0, name="add", arguments=Recorded({"a": 1}))]


def test_keys_that_are_no_messages_are_passed_over():
    huge = "9" * 5000
    assert (
        model(
            {OUT + f"{huge}.message.role": "assistant", OUT + "x.message.role": "user", OUT + "٣.message.role": "user"}
        )
        == []
    )


@each_row(
    ("content", "producer", "result"),
    [
        ('{"result": {"sum": 3}}', "google_genai", {"sum": 3}),
        ('{"result": null}', "google_genai", None),
        ('{"output": "done"}', "google_genai", "done"),
        ('{"result": 3, "unit": "kg"}', "google_genai", {"result": 3, "unit": "kg"}),
        ('{"error": "no"}', "google_genai", {"error": "no"}),
        ('{"result": {"sum": 3}}', "openai", {"result": {"sum": 3}}),
    ],
)
def test_the_object_that_google_wants_around_an_answer_is_opened(content: str, producer: str, result: Json):
    keys = {IN + "0.message.role": "tool", IN + "0.message.name": "add", IN + "0.message.content": content}
    found = read(span({KIND: "LLM", **keys}, scope=OI + producer))
    assert [one for one in found if isinstance(one, CallAnswered)] == [
        CallAnswered(name="add", result=Recorded(result))
    ]


# -- tools on offer


# -- runs, conversations, attributes


@each_row(
    ("name", "attributes", "producer", "agent"),
    [
        ("triage", {"agent.name": "Triage"}, "openai_agents", "Triage"),
        ("x.on_messages_stream", {"graph.node.id": "x"}, "autogen_agentchat", "x"),
        ("Shop agent._execute_core", {}, "crewai", "Shop agent"),
        ("shop.run", {}, "smolagents", "shop"),
        ("agent_run [shop]", {}, "google_adk", "shop"),
        ("invoke_agent shop", {}, "google_adk", "shop"),
        ("ClaudeAgentSDK.query", {}, "claude_agent_sdk", None),
        ("handle_request", {}, "nobody", "handle_request"),
    ],
)
def test_agents_have_names(name: str, attributes: dict[str, Value], producer: str, agent: str | None):
    assert run(name, attributes, producer=producer) == [AgentRun(agent=agent)]


@each_row(
    ("name", "kind", "metadata", "expected"),
    [
        # A graph named without the word "agent" is labelled as a chain.
        ("shop", "CHAIN", {"lc_agent_name": "shop", "ls_integration": "langchain_create_agent"}, ["shop"]),
        ("LangGraph", "CHAIN", {}, [None]),
        ("call_agent", "AGENT", {"lc_agent_name": "shop", "langgraph_node": "call_agent"}, []),
        ("agent", "AGENT", {"langgraph_node": "agent"}, []),
        (
            "refund_agent",
            "AGENT",
            {"langgraph_node": "refund_agent", "checkpoint_ns": "refund_agent:1"},
            ["refund_agent"],
        ),
        ("RunnableSequence", "CHAIN", {"langgraph_node": "agent", "checkpoint_ns": "agent:1"}, []),
        ("tools", "CHAIN", {"lc_agent_name": "shop", "langgraph_node": "tools"}, []),
        ("RunnableSequence", "CHAIN", {}, []),
    ],
)
def test_langchain_runs_are_told_from_nodes(name: str, kind: str, metadata: Json, expected: list[str | None]):
    found = run(name, {"metadata": json.dumps(metadata)}, producer="langchain", kind=kind)
    assert found == [AgentRun(agent=agent) for agent in expected]


@each_row("key", ["session_id", "conversation_id", "thread_id"])
def test_conversation_named_in_metadata_is_a_frameworks(key: str):
    found = read(span({KIND: "CHAIN", "metadata": json.dumps({key: "t-1"})}))
    assert found == [ConversationSeen(conversation_id="t-1", rank=2)]


def test_attributes_are_looked_up_in_the_metadata_too():
    record = span({KIND: "CHAIN", "user.id": "u", "metadata": '{"eval.case.id": "refund-1", "user.id": "other"}'})
    dialect = OpenInference()
    assert dialect.attribute(record, "user.id") == "u"
    assert dialect.attribute(record, "eval.case.id") == "refund-1"
    assert dialect.attribute(record, "missing") is None
    assert dialect.attribute(span({KIND: "CHAIN", "metadata": "not json"}), "missing") is None


# -- hostile values


def test_endless_haystack_conversation_is_read_in_part():
    message = "ChatMessage(_role=<ChatRole.ASSISTANT: 'assistant'>, _content=[ToolCall(tool_name='add', arguments={})])"
    padding = f"ChatMessage(_content=[TextContent(text='{'x' * 90_000}')])"
    attributes: dict[str, Value] = {"output.value": json.dumps({"messages": [message, *[padding] * 20, message]})}
    found = run("Agent.run", attributes, producer="haystack", kind="CHAIN")
    assert [observation for observation in found if isinstance(observation, CallRequested)] == [
        CallRequested(position=0, name="add", arguments=Recorded({}), output=0),
        CallRequested(position=1, name="add", arguments=Recorded({}), output=3),
    ]


# -- smolagents' code agents


def step_of(*, status: str = "", output: str | None = None, name: str = "Step 3") -> list[Observation]:
    attributes: dict[str, Value] = {KIND: "CHAIN"} if output is None else {KIND: "CHAIN", "output.value": output}
    state = "error" if status else "ok"
    record = span(attributes, name=name, status=state, status_message=status, scope=OI + "smolagents")
    return [seen for seen in read(record) if isinstance(seen, CodeExecuted)]


@each_row(
    "message",
    [
        "AgentExecutionError: Code execution failed at line 'x' due to: InterpreterError: no variable `x`",
        "AgentExecutionError: Code parsing failed on line 1 due to: SyntaxError",
        "AgentExecutionError: Code execution exceeded the maximum execution time of 30 seconds",
        "AgentParsingError: Error in code parsing:\nYour code snippet is invalid",
        "AgentError: a line of a log\nExecuting code yielded an error:\nZeroDivisionError",
    ],
)
def test_a_step_whose_code_failed_ran_code(message: str):
    error = other_error(message)
    assert step_of(status=message) == [CodeExecuted(name="python_interpreter", error=error)]


@each_row(
    ("status", "output", "name"),
    [
        ("AgentExecutionError: Error when executing tool `pay`", None, "Step 3"),
        ("AgentGenerationError: Error in generating model output", None, "Step 3"),
        ("", "Address: https://example.org", "Step 3"),
        ("", None, "Step 3"),
        ("", "Execution logs:\n1", "Retrieve"),
    ],
)
def test_other_steps_ran_no_code(status: str, output: str | None, name: str):
    assert step_of(status=status, output=output, name=name) == []


ROLE, CONTENT = "llm.output_messages.0.message.role", "llm.output_messages.0.message.content"


@each_row(
    ("attributes", "ending"),
    [
        ({ROLE: "assistant"}, "empty"),
        ({ROLE: "assistant", CONTENT: ""}, "empty"),
        ({ROLE: "assistant", "output.value": '{"content": ""}'}, "empty"),
        ({ROLE: "assistant", "llm.output_messages.0.message.contents.0.message_content.text": ""}, "empty"),
        ({ROLE: "assistant", CONTENT: "Yes", "llm.finish_reason": "length"}, "length"),
        ({ROLE: "assistant", CONTENT: "Yes", "llm.output_messages.0.message.finish_reason": "max_tokens"}, "length"),
        ({ROLE: "assistant", CONTENT: "Yes"}, None),
        ({ROLE: "assistant", CONTENT: "__REDACTED__"}, None),
        ({ROLE: "assistant", "output.value": "Yes"}, None),
        ({ROLE: "assistant", "llm.finish_reason": "tool_calls"}, None),
        ({ROLE: "assistant", "llm.output_messages.0.message.contents.0.message_content.type": "image"}, None),
        (call_keys(0, "tool_calls.0.tool_call", name="find", call_id="1", arguments="{}") | {ROLE: "assistant"}, None),
        ({}, None),
    ],
)
def test_an_output_that_was_recorded_and_holds_nothing_is_an_empty_answer(
    attributes: dict[str, Value], ending: str | None
):
    found = read(span({"openinference.span.kind": "LLM", **attributes}, scope="openinference.instrumentation.openai"))
    assert [one.ending for one in found if isinstance(one, ModelCall)] == [ending]


# -- answers of providers, and the AI SDK's own attributes


def trajectory(name: str) -> Trajectory:
    return joined(*recorded(OpenInference(), f"{name}.otlp.pb"))


def test_answers_of_anthropic_are_text_or_blocks():
    blocks = [
        {"type": "tool_result", "tool_use_id": "c1", "content": '{"a":1}'},
        {"type": "tool_result", "tool_use_id": "c2", "content": [{"type": "text", "text": "no"}], "is_error": True},
        {"type": "tool_result", "tool_use_id": "c3"},
        {"type": "tool_result"},
        {"type": "text", "text": "tool_result"},
    ]
    assert provider_answers(json.dumps({"messages": [{"role": "user", "content": blocks}]})) == [
        CallAnswered(call_id="c1", result=Recorded({"a": 1})),
        CallAnswered(call_id="c2", result=Recorded("no"), error=other_error("no")),
        CallAnswered(call_id="c3", result=NOT_RECORDED),
    ]


@each_row("request_text", ["", '"tool_result"', '{"messages":["tool_result"]}', '{"messages":7,"toolResult"'])
def test_other_requests_have_no_answers(request_text: str):
    assert provider_answers(request_text) == []


def tool_span(output: str | None, *events: SpanEvent) -> list[CallError | None]:
    attributes: dict[str, Value] = {
        "openinference.span.kind": "TOOL",
        "tool.name": "add",
        "ai.operationId": "ai.toolCall",
    }
    if output is not None:
        attributes["output.value"] = output
    read = observations(OpenInference(), span(attributes, status="error", status_message="no answer", events=events))
    return [one.error for one in read if isinstance(one, CallExecuted)]


def test_a_failed_call_of_the_ai_sdk_has_the_exception_or_no_result():
    raised = event("exception", {"exception.type": "TimeoutError", "exception.message": "no answer"})
    assert tool_span(None) == [other_error("no answer")]
    assert tool_span("no answer") == [other_error("no answer")]
    assert tool_span('{"a":1}', raised) == [CallError(kind="TimeoutError", message="no answer")]
    assert tool_span('{"a":1}') == [None]
