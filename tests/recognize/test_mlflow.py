"""MLflow 3.17.2 as it left through its own OTLP export (`cases/mlflow`), and its other integrations by hand."""

import json
from pathlib import Path

from tests.recognize.support import event, log, observations, other_error, recorded, span
from toolgauge.dialects.tracing_services import MLflow
from toolgauge.model.content import Recorded
from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.model.observations import (
    CallAnswered,
    CallExecuted,
    CallRequested,
    MessageSeen,
    ModelCall,
    Observation,
    Reading,
)
from toolgauge.model.records import SpanEvent

CASES = Path(__file__).parent / "cases" / "mlflow"


def case(name: str) -> list[Reading]:
    return recorded(MLflow(), str(CASES / f"mlflow-3.17.2-{name}.otlp.pb"))


def read(kind: str, name: str = "add", inputs: Json = None, outputs: Json = None, **more: Value) -> list[Observation]:
    attributes: dict[str, Value] = {"mlflow.spanType": json.dumps(kind), **more}
    if inputs is not None:
        attributes["mlflow.spanInputs"] = json.dumps(inputs)
    if outputs is not None:
        attributes["mlflow.spanOutputs"] = json.dumps(outputs)
    return observations(MLflow(), span(attributes, name=name))


def executed(name: str, call_id: str | None, arguments: Json, result: Json, agent: str | None = None) -> CallExecuted:
    return CallExecuted(name=name, call_id=call_id, arguments=Recorded(arguments), result=Recorded(result), agent=agent)


def requested(name: str, call_id: str | None, arguments: Json, position: int = 0) -> CallRequested:
    return CallRequested(position=position, name=name, call_id=call_id, arguments=Recorded(arguments))


# -- recorded traffic


# -- by hand


def test_log_records_and_other_spans_are_nobodys():
    assert MLflow().claims(log("mlflow.spanType")) is False
    assert MLflow().claims(span({"gen_ai.operation.name": "chat"}, scope="other")) is False
    assert MLflow().claims(span({"gen_ai.operation.name": "chat"}, scope="mlflow.tracing.provider")) is True


def test_crewai_wraps_name_and_arguments():
    assert read("TOOL", inputs={"tool_name": "add", "tool_args": {"a": 1}}, outputs={"result": "3 apples"}) == [
        executed("add", None, {"a": 1}, "3 apples")
    ]


def test_a_tool_may_have_arguments_called_like_an_envelope():
    inputs: Json = {"tool_name": "other", "tool_args": {"a": 1}}
    assert read("TOOL", inputs=inputs, outputs={"result": 3}) == [executed("add", None, inputs, {"result": 3})]


def test_pydantic_ai_calls_go_through_a_manager():
    call: Json = {"tool_name": "add", "args": '{"a": 1}', "tool_call_id": "call_1"}
    forms: list[Json] = [{"call": call}, {"validated": {"call": call}}]
    for inputs in forms:
        assert read("TOOL", "ToolManager.execute_tool_call", inputs, 3) == [executed("add", "call_1", {"a": 1}, 3)]


def test_components_of_haystack_are_not_tools():
    assert read("TOOL", "PromptBuilder", {"a": 1}, **{"haystack.component.name": "prompt"}) == []


def test_a_tool_that_hands_over_has_not_failed():
    command = event("exception", {"exception.type": "ParentCommand"})
    record = span({"mlflow.spanType": '"TOOL"'}, name="ask", status="error", events=[command])
    assert observations(MLflow(), record) == [CallExecuted(name="ask")]


def test_answers_of_providers_are_read_in_their_own_form():
    call: Json = {"name": "add", "args": {"a": 1}}
    anthropic: Json = {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "1", "name": "add", "input": {"a": 1}}],
    }
    gemini: Json = {"candidates": [{"content": {"role": "model", "parts": [{"function_call": call}]}}]}
    responses: Json = {"output": [{"type": "function_call", "call_id": "1", "name": "add", "arguments": '{"a": 1}'}]}
    pydantic: Json = {"parts": [{"part_kind": "tool-call", "tool_name": "add", "args": {"a": 1}, "tool_call_id": "1"}]}
    for outputs, call_id in ((anthropic, "1"), (gemini, None), (responses, "1"), (pydantic, "1")):
        assert read("LLM", outputs=outputs) == [ModelCall(), requested("add", call_id, {"a": 1})]


def test_questions_to_providers_are_read_in_their_own_form():
    answered: Json = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "3"}]}
    anthropic: Json = {"system": "Add.", "messages": [{"role": "user", "content": "1 + 2?"}, answered]}
    assert read("CHAT_MODEL", inputs=anthropic) == [
        ModelCall(),
        MessageSeen(role="system", text="Add."),
        CallAnswered(call_id="1", result=Recorded(3)),
        MessageSeen(role="user", text="1 + 2?"),
    ]
    assert read("CHAT_MODEL", inputs={"input": "1 + 2?", "model": "m"}) == [
        ModelCall(),
        MessageSeen(role="user", text="1 + 2?"),
    ]


def test_a_wanted_attribute_has_no_quotes_and_may_be_in_the_metadata():
    record = span({"mlflow.spanType": '"CHAIN"', "case": '"c-1"', "metadata": '{"eval.case.id": "c-2"}'})
    assert MLflow().attribute(record, "case") == "c-1"
    assert MLflow().attribute(record, "eval.case.id") == "c-2"
    assert MLflow().attribute(record, "other") is None


# -- streamed calls


def chunk(*pieces: JsonObject, index: int = 0) -> SpanEvent:
    value: Json = {"choices": [{"index": index, "delta": {"tool_calls": [*pieces]}}]}
    return event("mlflow.chunk.item.1", {"mlflow.chunk.value": json.dumps(value)})


def streamed(*events: SpanEvent) -> list[Observation]:
    outputs = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "", "tool_calls": None}}]}
    attributes: dict[str, Value] = {"mlflow.spanType": '"CHAT_MODEL"', "mlflow.spanOutputs": json.dumps(outputs)}
    found = observations(MLflow(), span(attributes, events=events))
    return [one for one in found if isinstance(one, CallRequested)]


def test_pieces_of_streamed_calls_are_put_together_by_index():
    events = (
        chunk({"index": 1, "id": "c2", "function": {"name": "add", "arguments": ""}}),
        chunk({"index": 0, "id": "c1", "function": {"name": "sub", "arguments": '{"a"'}}),
        chunk({"index": 1, "function": {"arguments": '{"b": 2}'}}, {"index": 0, "function": {"arguments": ": 1}"}}),
    )
    assert streamed(*events) == [requested("sub", "c1", {"a": 1}), requested("add", "c2", {"b": 2}, position=1)]


def test_chunks_of_other_choices_and_of_other_shapes_are_left_out():
    events = (
        chunk({"index": 0, "id": "c1", "function": {"name": "sub", "arguments": "{}"}}, index=1),
        chunk({"index": "0", "function": {"name": "sub"}}),
        event("mlflow.chunk.item.2", {"mlflow.chunk.value": '{"choices": ["function"'}),
        event("mlflow.chunk.item.3", {"mlflow.chunk.value": '{"choices": "function"}'}),
        event("other", {"mlflow.chunk.value": '{"function": 1}'}),
    )
    assert streamed(*events) == []


# -- LlamaIndex 0.14


def test_llama_index_tool_that_raised_leaves_its_name_to_its_step():
    attributes: dict[str, Value] = {"mlflow.spanType": '"TOOL"', "mlflow.spanInputs": '{"kwargs": {"card": "x"}}'}
    (inner,) = observations(MLflow(), span(attributes, name="FunctionTool.acall", status="error"))
    assert isinstance(inner, CallExecuted)
    assert (inner.name, inner.arguments) == ("", Recorded({"card": "x"}))
    output: Json = {"blocks": [{"text": "declined"}], "tool_name": "charge", "is_error": True}
    (step,) = read(
        "CHAIN",
        "BaseWorkflowAgent.call_tool",
        {"ev": {"tool_name": "charge", "tool_id": "c1", "tool_kwargs": {"card": "x"}}},
        {"tool_output": output},
    )
    assert step == CallExecuted(
        name="charge",
        call_id="c1",
        arguments=Recorded({"card": "x"}),
        result=Recorded("declined"),
        error=other_error("declined"),
    )
