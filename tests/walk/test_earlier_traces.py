"""Conversations with a trace for each turn: later traces are judged by what earlier ones showed."""

from collections.abc import Sequence

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans

from tests.walk.shapes import answered, asked, request, span
from tests.walk.support import MemoryJournal, Walk, attributes
from toolgauge.model.json import Json, JsonObject


def turn(trace: str, said: str, order: str, at: float, *shown: str, history: Sequence[Json] = ()) -> list[ScopeSpans]:
    """The trace of a turn: the user's text after earlier messages, and one call of `cancel_order`, which shows texts."""
    arguments: Json = {"order_id": order}
    tool: JsonObject = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "cancel_order"}
    tool |= {"gen_ai.tool.call.id": trace, "gen_ai.tool.call.arguments": arguments}
    chat: JsonObject = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": [*history, message("user", said)],
        "gen_ai.output.messages": [{"role": "assistant", "parts": [asked(trace, "cancel_order", arguments)]}],
    }
    run: JsonObject = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}
    of: JsonObject = {"gen_ai.conversation.id": "c"}
    return [
        span("chat", {**chat, **of}, id="chat", at=at, trace=trace),
        span("tool", {**tool, **of, "gen_ai.tool.call.result": {"note": [*shown]}}, id="tool", at=at + 1, trace=trace),
        span("run", {**run, **of}, id="run", parent=None, at=at, seconds=3, trace=trace),
    ]


def message(role: str, text: str) -> Json:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def send(walk: Walk, *traces: list[ScopeSpans]) -> None:
    spans = [one for trace in traces for one in trace]
    walk.send(request(*spans).SerializeToString())


def outcomes(*walks: Walk) -> Sequence[object]:
    """The outcomes of `grounded_arguments`, in order."""
    found = (attributes(event) for walk in walks for event in walk.events())
    return [one["toolgauge.outcome"] for one in found if one["gen_ai.evaluation.name"] == "default.grounded_arguments"]


def test_a_trace_is_judged_by_the_traces_before_it():
    walk = Walk("events=all")
    send(walk, turn("t1", "Cancel ORD-771245, please.", "ORD-771245", 0, "see ORD-882211 as well"))
    walk.wait(10)
    send(walk, turn("t2", "And that one.", "ORD-882211", 10))
    send(walk, turn("t3", "And that one.", "ORD-771245", 20))
    walk.wait(10)
    send(walk, turn("t4", "And that one.", "ORD-990000", 30))
    walk.wait(10)
    assert outcomes(walk) == ["pass", "pass", "pass", "fail"]


def test_traces_that_arrive_together_are_judged_in_their_order():
    walk = Walk("events=all")
    turns = [turn(f"t{number}", "And more.", "ORD-771245", 10 * number) for number in range(1, 9)]
    send(walk, turn("t0", "Cancel ORD-771245, please.", "ORD-771245", 0), *turns)
    walk.wait(10)
    assert outcomes(walk) == ["pass"] * 9


def test_what_was_shown_is_known_after_a_restart():
    journal = MemoryJournal()
    first = Walk("events=all", journal=journal)
    send(first, turn("t1", "Cancel ORD-771245, please.", "ORD-771245", 0))
    first.wait(10)
    second = Walk("events=all", journal=journal)
    second.now_ns = first.now_ns
    second.recover()
    send(second, turn("t2", "And that one.", "ORD-771245", 20))
    second.wait(10)
    send(second, turn("t3", "And that one.", "ORD-990000", 30))
    second.wait(10)
    assert outcomes(second) == ["pass", "fail"]


def continued(order: str, *, with_result: bool = True) -> list[ScopeSpans]:
    """A trace whose input holds an earlier turn, with or without the result of its call."""
    earlier: list[Json] = [message("user", "Look at ORD-771245.")]
    earlier.append({"role": "assistant", "parts": [asked("early", "get_order")]})
    if with_result:
        earlier.append(answered("early", {"next": "ORD-882211"}))
    earlier.append(message("assistant", "There is ORD-990000, too."))
    return turn("t9", "And that one.", order, 0, history=earlier)


@pytest.mark.parametrize(
    ("order", "outcome"), [("ORD-771245", "pass"), ("ORD-882211", "pass"), ("ORD-990000", "fail"), ("ORD-1", "fail")]
)
def test_a_trace_is_judged_by_the_turns_that_its_input_holds(order: str, outcome: str):
    walk = Walk("events=all")
    send(walk, continued(order))
    walk.wait(10)
    assert outcomes(walk) == [outcome]


def test_a_trace_whose_input_lacks_results_of_earlier_turns_is_not_held_against_it():
    walk = Walk("events=all")
    send(walk, continued("ORD-882211", with_result=False))
    walk.wait(10)
    assert outcomes(walk) == ["not_evaluated"]
