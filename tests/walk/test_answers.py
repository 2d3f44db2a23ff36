"""Answers are judged over the traces of a conversation, in both conventions."""

import json

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans

from tests.walk.shapes import span
from tests.walk.support import Walk, attributes
from toolgauge.model.json import Json, JsonObject

NAMES = ("cancel_order", "get_order")
dialects = pytest.mark.parametrize("dialect", ["genai", "openinference"])


def turn(
    dialect: str, trace: str, at: float, said: str, answer: str, call: JsonObject | None = None
) -> list[ScopeSpans]:
    """The trace of a turn: the user's text, perhaps a call (its name, arguments and result), and the answer."""
    name, arguments, result = (call or {}).get("name"), (call or {}).get("arguments"), (call or {}).get("result")
    chat: JsonObject
    tool: JsonObject
    run: JsonObject
    of: JsonObject
    if dialect == "genai":
        of = {"gen_ai.conversation.id": "c"}
        given: Json = [{"role": "user", "parts": [{"type": "text", "content": said}]}]
        told: Json = [{"role": "assistant", "parts": [{"type": "text", "content": answer}]}]
        tools: Json = [{"type": "function", "name": name, "parameters": {"type": "object"}} for name in NAMES]
        chat = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": given, "gen_ai.output.messages": told}
        tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name, "gen_ai.tool.call.id": trace}
        tool |= {"gen_ai.tool.call.arguments": arguments, "gen_ai.tool.call.result": result}
        run = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a", "gen_ai.tool.definitions": tools}
    else:
        of = {"session.id": "c"}
        chat = {
            "openinference.span.kind": "LLM",
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.content": said,
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": answer,
        }
        for place, each in enumerate(NAMES):
            schema: Json = {"type": "function", "function": {"name": each, "parameters": {"type": "object"}}}
            chat[f"llm.tools.{place}.tool.json_schema"] = json.dumps(schema)
        tool = {"openinference.span.kind": "TOOL", "tool.name": name, "input.value": arguments, "output.value": result}
        run = {"openinference.span.kind": "AGENT", "agent.name": "a"}
    return [
        *([] if call is None else [span("tool", {**tool, **of}, id="tool", at=at, trace=trace)]),
        span("chat", {**chat, **of}, id="chat", at=at + 1, trace=trace),
        span("run", {**run, **of}, id="run", parent=None, at=at, seconds=3, trace=trace),
    ]


def outcomes(criterion: str, *turns: list[ScopeSpans]) -> list[object]:
    walk = Walk("events=all")
    for spans in turns:
        walk.send(ExportTraceServiceRequest(resource_spans=[ResourceSpans(scope_spans=spans)]).SerializeToString())
        walk.wait(10)
    found = (attributes(event) for event in walk.events())
    return [one["toolgauge.outcome"] for one in found if one["gen_ai.evaluation.name"] == f"default.{criterion}"]


READ: JsonObject = {"name": "get_order", "arguments": {"full": True}, "result": {"order_id": "ORD-771245"}}
CANCEL: JsonObject = {"name": "cancel_order", "arguments": {"order_id": "ORD-771245"}, "result": {"ok": True}}
CLAIM = "I've cancelled your order."


@dialects
def test_an_id_of_an_earlier_trace_is_given_and_another_is_invented(dialect: str):
    first = turn(dialect, "t1", 0, "My order, please.", "I found it.", READ)
    second = turn(dialect, "t2", 10, "Its number?", "It is ORD-771245.")
    third = turn(dialect, "t3", 20, "Again?", "It is ORD-771246.")
    assert outcomes("grounded_answer", first, second, third) == ["not_evaluated", "pass", "fail"]


@dialects
def test_an_act_of_an_earlier_trace_is_done_and_one_without_a_call_is_not(dialect: str):
    done = turn(dialect, "t1", 0, "Cancel ORD-771245.", "Done.", CANCEL)
    assert outcomes("honest_answer", done, turn(dialect, "t2", 10, "Sure?", CLAIM)) == ["not_evaluated", "pass"]
    read = turn(dialect, "t1", 0, "Cancel ORD-771245.", "I found it.", READ)
    assert outcomes("honest_answer", read, turn(dialect, "t2", 10, "And?", CLAIM)) == ["not_evaluated", "fail"]
