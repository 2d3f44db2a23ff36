"""Answers are judged over the traces of a conversation."""

from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans

from tests.walk.shapes import request, span, tool
from tests.walk.support import Walk, attributes
from toolgauge.model.json import Json, JsonObject

NAMES = ("cancel_order", "get_order")


def turn(trace: str, at: float, said: str, answer: str, call: JsonObject | None = None) -> list[ScopeSpans]:
    """The trace of a turn: the user's text, perhaps a call (its name, arguments and result), and the answer."""
    of: JsonObject = {"gen_ai.conversation.id": "c"}
    tools: Json = [{"type": "function", "name": name, "parameters": {"type": "object"}} for name in NAMES]
    chat: JsonObject = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": [{"role": "user", "parts": [{"type": "text", "content": said}]}],
        "gen_ai.output.messages": [{"role": "assistant", "parts": [{"type": "text", "content": answer}]}],
    }
    run: JsonObject = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "a",
        "gen_ai.tool.definitions": tools,
    }
    spans = [
        span("chat", {**chat, **of}, id="chat", at=at + 1, trace=trace),
        span("run", {**run, **of}, id="run", parent=None, at=at, seconds=3, trace=trace),
    ]
    if call is not None:
        made = tool(
            str(call["name"]), call["arguments"], call=trace, result=call["result"], at=at, trace=trace, more=of
        )
        spans.append(made)
    return spans


def outcomes(criterion: str, *turns: list[ScopeSpans]) -> list[object]:
    walk = Walk("events=all")
    for spans in turns:
        walk.send(request(*spans).SerializeToString())
        walk.wait(10)
    found = (attributes(event) for event in walk.events())
    return [one["toolgauge.outcome"] for one in found if one["gen_ai.evaluation.name"] == f"default.{criterion}"]


READ: JsonObject = {"name": "get_order", "arguments": {"full": True}, "result": {"order_id": "ORD-771245"}}
CANCEL: JsonObject = {"name": "cancel_order", "arguments": {"order_id": "ORD-771245"}, "result": {"ok": True}}
CLAIM = "I've cancelled your order."


def test_an_id_of_an_earlier_trace_is_given_and_another_is_invented():
    first = turn("t1", 0, "My order, please.", "I found it.", READ)
    second = turn("t2", 10, "Its number?", "It is ORD-771245.")
    third = turn("t3", 20, "Again?", "It is ORD-771246.")
    assert outcomes("grounded_answer", first, second, third) == ["not_evaluated", "pass", "fail"]


def test_an_act_of_an_earlier_trace_is_done_and_one_without_a_call_is_not():
    done = turn("t1", 0, "Cancel ORD-771245.", "Done.", CANCEL)
    assert outcomes("honest_answer", done, turn("t2", 10, "Sure?", CLAIM)) == ["not_evaluated", "pass"]
    read = turn("t1", 0, "Cancel ORD-771245.", "I found it.", READ)
    assert outcomes("honest_answer", read, turn("t2", 10, "And?", CLAIM)) == ["not_evaluated", "fail"]
