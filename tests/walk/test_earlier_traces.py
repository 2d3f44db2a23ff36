"""Conversations with a trace for each turn: later traces are judged by what earlier ones showed, in both conventions."""

import json
from collections.abc import Sequence

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans

from tests.walk.shapes import answered, span
from tests.walk.support import MemoryJournal, Walk, attributes, key_value
from toolgauge.model.json import Json, JsonObject

DIALECTS = ("genai", "openinference")


def turn(dialect: str, trace: str, said: str, order: str, at: float, result: str = "done") -> list[ScopeSpans]:
    """The trace of a turn: the user's text, and one call of `cancel_order`."""
    arguments: Json = {"order_id": order}
    shown: Json = {"note": result}
    chat: JsonObject
    tool: JsonObject
    run: JsonObject
    of: JsonObject
    if dialect == "genai":
        of = {"gen_ai.conversation.id": "c"}
        given: Json = [{"role": "user", "parts": [{"type": "text", "content": said}]}]
        call: Json = {"type": "tool_call", "id": trace, "name": "cancel_order", "arguments": arguments}
        chat = {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": given,
            "gen_ai.output.messages": [{"role": "assistant", "parts": [call]}],
        }
        tool = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "cancel_order",
            "gen_ai.tool.call.id": trace,
        }
        tool |= {"gen_ai.tool.call.arguments": arguments, "gen_ai.tool.call.result": shown}
        run = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}
    else:
        of = {"session.id": "c"}
        written = "llm.output_messages.0.message."
        chat = {
            "openinference.span.kind": "LLM",
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.content": said,
        }
        chat |= {f"{written}role": "assistant", f"{written}tool_calls.0.tool_call.function.name": "cancel_order"}
        chat |= {f"{written}tool_calls.0.tool_call.function.arguments": arguments}
        tool = {
            "openinference.span.kind": "TOOL",
            "tool.name": "cancel_order",
            "input.value": arguments,
            "output.value": shown,
        }
        run = {"openinference.span.kind": "AGENT", "agent.name": "a", "input.value": said}
    return [
        span("chat", {**chat, **of}, id="chat", at=at, trace=trace),
        span("tool", {**tool, **of}, id="tool", at=at + 1, trace=trace),
        span("run", {**run, **of}, id="run", parent=None, at=at, seconds=3, trace=trace),
    ]


def send(walk: Walk, *traces: list[ScopeSpans]) -> None:
    spans = [one for trace in traces for one in trace]
    walk.send(ExportTraceServiceRequest(resource_spans=[ResourceSpans(scope_spans=spans)]).SerializeToString())


def outcomes(*walks: Walk) -> Sequence[object]:
    """The outcomes of `grounded_arguments`, in order."""
    found = (attributes(event) for walk in walks for event in walk.events())
    return [one["toolgauge.outcome"] for one in found if one["gen_ai.evaluation.name"] == "default.grounded_arguments"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_trace_is_judged_by_the_traces_before_it(dialect: str):
    walk = Walk("events=all")
    send(walk, turn(dialect, "t1", "Cancel ORD-771245, please.", "ORD-771245", 0, "see ORD-882211 as well"))
    walk.wait(10)
    send(walk, turn(dialect, "t2", "And that one.", "ORD-882211", 10))
    send(walk, turn(dialect, "t3", "And that one.", "ORD-771245", 20))
    walk.wait(10)
    send(walk, turn(dialect, "t4", "And that one.", "ORD-990000", 30))
    walk.wait(10)
    assert outcomes(walk) == ["pass", "pass", "pass", "fail"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_traces_that_arrive_together_are_judged_in_their_order(dialect: str):
    walk = Walk("events=all")
    turns = [turn(dialect, f"t{number}", "And more.", "ORD-771245", 10 * number) for number in range(1, 9)]
    send(walk, turn(dialect, "t0", "Cancel ORD-771245, please.", "ORD-771245", 0), *turns)
    walk.wait(10)
    assert outcomes(walk) == ["pass"] * 9


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_was_shown_is_known_after_a_restart(dialect: str):
    journal = MemoryJournal()
    first = Walk("events=all", journal=journal)
    send(first, turn(dialect, "t1", "Cancel ORD-771245, please.", "ORD-771245", 0))
    first.wait(10)
    second = Walk("events=all", journal=journal)
    second.now_ns = first.now_ns
    second.recover()
    send(second, turn(dialect, "t2", "And that one.", "ORD-771245", 20))
    second.wait(10)
    send(second, turn(dialect, "t3", "And that one.", "ORD-990000", 30))
    second.wait(10)
    assert outcomes(second) == ["pass", "fail"]


def continued(dialect: str, order: str, *, with_result: bool = True) -> list[ScopeSpans]:
    """A trace whose input holds an earlier turn, with or without the result of its call."""
    spans = turn(dialect, "t9", "And that one.", order, 0)
    (chat,) = spans[0].spans
    inputs = {attribute.key: attribute for attribute in chat.attributes if "input" in attribute.key}
    earlier: Json = {"type": "tool_call", "id": "early", "name": "get_order", "arguments": {}}
    if dialect == "genai":
        results: list[Json] = [answered("early", {"next": "ORD-882211"})] if with_result else []
        history: Json = [
            {"role": "user", "parts": [{"type": "text", "content": "Look at ORD-771245."}]},
            {"role": "assistant", "parts": [earlier]},
            *results,
            {"role": "assistant", "parts": [{"type": "text", "content": "There is ORD-990000, too."}]},
            {"role": "user", "parts": [{"type": "text", "content": "And that one."}]},
        ]
        inputs["gen_ai.input.messages"].value.string_value = json.dumps(history)
        return spans
    for attribute in inputs.values():
        chat.attributes.remove(attribute)
    messages: list[dict[str, str]] = [
        {"role": "user", "content": "Look at ORD-771245."},
        {
            "role": "assistant",
            "tool_calls.0.tool_call.id": "early",
            "tool_calls.0.tool_call.function.name": "get_order",
        },
        *([{"role": "tool", "tool_call_id": "early", "content": '{"next": "ORD-882211"}'}] if with_result else []),
        {"role": "assistant", "content": "There is ORD-990000, too."},
        {"role": "user", "content": "And that one."},
    ]
    for place, message in enumerate(messages):
        for key, value in message.items():
            chat.attributes.append(key_value(f"llm.input_messages.{place}.message.{key}", value))
    return spans


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("order", "outcome"), [("ORD-771245", "pass"), ("ORD-882211", "pass"), ("ORD-990000", "fail"), ("ORD-1", "fail")]
)
def test_a_trace_is_judged_by_the_turns_that_its_input_holds(dialect: str, order: str, outcome: str):
    walk = Walk("events=all")
    send(walk, continued(dialect, order))
    walk.wait(10)
    assert outcomes(walk) == [outcome]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_trace_whose_input_lacks_results_of_earlier_turns_is_not_held_against_it(dialect: str):
    walk = Walk("events=all")
    send(walk, continued(dialect, "ORD-882211", with_result=False))
    walk.wait(10)
    assert outcomes(walk) == ["not_evaluated"]
