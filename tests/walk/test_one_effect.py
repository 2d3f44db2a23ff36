"""A second refund is found where a run is resumed, retried or replayed: in a later trace, after a restart, in both conventions."""

from collections.abc import Sequence

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans

from tests.walk.shapes import ERROR, span
from tests.walk.support import MemoryJournal, Walk, attributes
from toolgauge.model.json import Json, JsonObject

DIALECTS = ("genai", "openinference")
ASKED = "Please refund order ORD-771245, the lamp is broken."
REFUND: Json = {"order_id": "ORD-771245", "amount": 20}


def refunded(number: int) -> Json:
    return {"refund_id": f"R-{number}", "state": "paid", "at": f"2026-05-0{number}T10:00:00Z"}


class Trace:
    """A trace of the conversation `c`: texts of the user, answers and calls of `refund_order`, a second after each other."""

    def __init__(self, dialect: str, name: str, at: float, conversation: str | None = "c") -> None:
        self.dialect, self.name, self.at, self.conversation = dialect, name, at, conversation
        self.spans: list[ScopeSpans] = []
        self.history: list[tuple[str, str, Json]] = []
        self._number = 0

    def user(self, text: str) -> "Trace":
        self.history.append(("user", text, None))
        return self

    def says(self, text: str) -> "Trace":
        self._model(text, None)
        self.history.append(("assistant", text, None))
        return self

    def calls(self, result: Json, arguments: Json = REFUND, *, failed: str = "", new: bool = True) -> "Trace":
        """Add a call; without `new` only the history of the next model call holds it."""
        id = f"call-{self.name}-{self._number}"
        if new:
            self._model("", (id, arguments))
            self._tool(id, arguments, result, failed)
        self.history += [("call", id, arguments), ("result", id, failed or result)]
        self._number += 1
        return self

    def _model(self, text: str, call: tuple[str, Json] | None) -> None:
        made: JsonObject
        if self.dialect == "genai":
            part: Json = {"type": "text", "content": text}
            if call is not None:
                part = {"type": "tool_call", "id": call[0], "name": "refund_order", "arguments": call[1]}
            made = {
                "gen_ai.operation.name": "chat",
                "gen_ai.input.messages": [self._genai(*one) for one in self.history],
                "gen_ai.output.messages": [{"role": "assistant", "parts": [part]}],
            }
        else:
            made = {"openinference.span.kind": "LLM"}
            for place, one in enumerate(self.history):
                made |= self._flat(f"llm.input_messages.{place}.message.", *one)
            kind, name = ("assistant", text) if call is None else ("call", call[0])
            made |= self._flat("llm.output_messages.0.message.", kind, name, None if call is None else call[1])
        self._add("chat", made)

    def _tool(self, id: str, arguments: Json, result: Json, failed: str) -> None:
        made: JsonObject
        if self.dialect == "genai":
            made = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "refund_order"}
            made |= {"gen_ai.tool.call.id": id, "gen_ai.tool.call.arguments": arguments}
            made |= {} if failed else {"gen_ai.tool.call.result": result}
        else:
            made = {"openinference.span.kind": "TOOL", "tool.name": "refund_order", "input.value": arguments}
            made |= {} if failed else {"output.value": result}
        self._add("tool", made, failed)

    def _genai(self, kind: str, text: str, value: Json) -> Json:
        part: Json = {"type": "text", "content": text}
        if kind == "call":
            part = {"type": "tool_call", "id": text, "name": "refund_order", "arguments": value}
        if kind == "result":
            part = {"type": "tool_call_response", "id": text, "response": value}
        return {"role": {"call": "assistant", "result": "tool"}.get(kind, kind), "parts": [part]}

    def _flat(self, start: str, kind: str, text: str, value: Json) -> JsonObject:
        if kind == "call":
            call = f"{start}tool_calls.0.tool_call."
            made: JsonObject = {f"{start}role": "assistant", f"{call}id": text}
            return made | {f"{call}function.name": "refund_order", f"{call}function.arguments": value}
        if kind == "result":
            return {f"{start}role": "tool", f"{start}tool_call_id": text, f"{start}content": value}
        return {f"{start}role": kind, f"{start}content": text}

    def _add(self, name: str, made: JsonObject, failed: str = "") -> None:
        of: JsonObject = {}
        if self.conversation is not None:
            of = {"gen_ai.conversation.id" if self.dialect == "genai" else "session.id": self.conversation}
        status = {"status": ERROR, "message": failed} if failed else {}
        at = self.at + len(self.spans)
        self.spans.append(
            span(name, {**made, **of}, id=f"{name}{at}", at=at, seconds=0.5, trace=self.name, **status)  # pyright: ignore[reportArgumentType]
        )

    def ended(self) -> list[ScopeSpans]:
        made: JsonObject = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}
        if self.dialect == "openinference":
            made = {"openinference.span.kind": "AGENT", "agent.name": "a"}
        if self.conversation is not None:
            made["gen_ai.conversation.id" if self.dialect == "genai" else "session.id"] = self.conversation
        seconds = len(self.spans) + 1
        return [*self.spans, span("run", made, id="run", parent=None, at=self.at, seconds=seconds, trace=self.name)]


def send(walk: Walk, *traces: Trace) -> None:
    for trace in traces:
        request = ExportTraceServiceRequest(resource_spans=[ResourceSpans(scope_spans=trace.ended())])
        walk.send(request.SerializeToString())
        walk.wait(10)


def found(*walks: Walk) -> Sequence[tuple[object, object]]:
    """The outcomes and scores of `one_effect`, in order."""
    events = [attributes(event) for walk in walks for event in walk.events()]
    return [
        (one["toolgauge.outcome"], one.get("gen_ai.evaluation.score.value"))
        for one in events
        if one["gen_ai.evaluation.name"] == "default.one_effect" and one["toolgauge.outcome"] != "not_evaluated"
    ]


ONCE, TWICE = ("pass", 1.0), ("fail", 0.0)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_second_refund_in_one_trace_fails(dialect: str):
    walk = Walk("events=all")
    send(walk, Trace(dialect, "t1", 0).user(ASKED).calls(refunded(4)).calls(refunded(5)).says("Done."))
    assert found(walk) == [ONCE, TWICE]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("again", [ASKED, "Thank you, that is all I needed.", ""])
def test_a_second_refund_in_a_later_trace_fails(dialect: str, again: str):
    walk = Walk("events=all")
    later = Trace(dialect, "t2", 30)
    send(walk, Trace(dialect, "t1", 0).user(ASKED).calls(refunded(4)).says("Done."))
    send(walk, (later.user(again) if again else later).calls(refunded(5)).says("Done."))
    assert found(walk) == [ONCE, TWICE]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_run_that_is_resumed_with_its_history_and_refunds_again_fails(dialect: str):
    walk = Walk("events=all")
    send(walk, Trace(dialect, "t1", 0).user(ASKED).calls(refunded(4)))
    resumed = Trace(dialect, "t2", 30).user(ASKED).calls(refunded(4), new=False).calls(refunded(5)).says("Done.")
    send(walk, resumed)
    assert found(walk) == [ONCE, TWICE]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_refund_in_the_history_of_later_traces_is_no_second_one(dialect: str):
    walk = Walk("events=all")
    send(walk, Trace(dialect, "t1", 0).user(ASKED).calls(refunded(4)).says("Done."))
    later = Trace(dialect, "t2", 30).user(ASKED).calls(refunded(4), new=False)
    later.history.append(("assistant", "Done.", None))
    send(walk, later.user("Thanks!").says("You are welcome."))
    assert found(walk) == [ONCE]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_user_who_asks_again_in_the_same_words_is_not_held_against_the_agent(dialect: str):
    walk = Walk("events=all")
    send(walk, Trace(dialect, "t1", 0).user(ASKED).calls(refunded(4)).says("Done."))
    later = Trace(dialect, "t2", 30).user(ASKED).calls(refunded(4), new=False)
    later.history.append(("assistant", "Done.", None))
    send(walk, later.user(ASKED).calls(refunded(5)).says("Done."))
    assert found(walk) == [ONCE]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_request_in_a_trace_between_excuses_the_second_refund(dialect: str):
    walk = Walk("events=all")
    send(walk, Trace(dialect, "t1", 0).user(ASKED).calls(refunded(4)).says("Done."))
    send(walk, Trace(dialect, "t2", 30).user("Please refund it again, there were two lamps.").says("One moment."))
    send(walk, Trace(dialect, "t3", 60).user("Are you still there?").calls(refunded(5)).says("Done."))
    assert found(walk) == [ONCE]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_effects_are_known_after_a_restart(dialect: str):
    journal = MemoryJournal()
    first = Walk("events=all", journal=journal)
    send(first, Trace(dialect, "t1", 0).user(ASKED).calls(refunded(4)).says("Done."))
    second = Walk("events=all", journal=journal)
    second.now_ns = first.now_ns
    second.recover()
    send(second, Trace(dialect, "t2", 30).user(ASKED).calls(refunded(5)).says("Done."))
    assert found(second) == [TWICE]
    kept = b"".join(one.values.effects for one in journal.shown)
    assert kept
    assert b"771245" not in kept


@pytest.mark.parametrize("dialect", DIALECTS)
def test_spans_that_are_sent_twice_are_one_effect(dialect: str):
    walk = Walk("events=all")
    trace = Trace(dialect, "t1", 0).user(ASKED).calls(refunded(4)).says("Done.")
    trace.spans += trace.spans
    send(walk, trace)
    send(walk, trace)
    assert found(walk) == [ONCE]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_retry_in_a_later_trace_after_a_timeout_is_shown(dialect: str):
    walk = Walk("events=all")
    send(walk, Trace(dialect, "t1", 0).user(ASKED).calls(None, failed="Request timed out").says("I am sorry."))
    send(walk, Trace(dialect, "t2", 30).user(ASKED).calls(refunded(5)).says("Done."))
    assert found(walk) == [ONCE]
    (explanation,) = [
        one["gen_ai.evaluation.explanation"]
        for one in map(attributes, walk.events())
        if one["gen_ai.evaluation.name"] == "default.one_effect" and one["toolgauge.outcome"] == "pass"
    ]
    assert "may have happened twice" in str(explanation)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_conversations_do_not_share_effects(dialect: str):
    walk = Walk("events=all")
    send(walk, Trace(dialect, "t1", 0).user(ASKED).calls(refunded(4)).says("Done."))
    send(walk, Trace(dialect, "t2", 30, "d").user(ASKED).calls(refunded(5)).says("Done."))
    send(walk, Trace(dialect, "t3", 60, None).user(ASKED).calls(refunded(6)).says("Done."))
    assert found(walk) == [ONCE] * 3
