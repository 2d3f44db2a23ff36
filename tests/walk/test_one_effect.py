"""A second refund is found where a run is resumed, retried or replayed: in a later trace, after a restart."""

from collections.abc import Sequence

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans, Status

from tests.walk.shapes import ERROR, answered, asked, request, span
from tests.walk.support import MemoryJournal, Walk, attributes
from toolgauge.model.json import Json, JsonObject

ASKED = "Please refund order ORD-771245, the lamp is broken."
REFUND: Json = {"order_id": "ORD-771245", "amount": 20}


def refunded(number: int) -> Json:
    return {"refund_id": f"R-{number}", "state": "paid", "at": f"2026-05-0{number}T10:00:00Z"}


class Trace:
    """A trace of the conversation `c`: texts of the user, answers and calls of `refund_order`, a second after each other."""

    def __init__(self, name: str, at: float, conversation: str | None = "c") -> None:
        self.name, self.at, self.conversation = name, at, conversation
        self.spans: list[ScopeSpans] = []
        self.history: list[Json] = []
        self._number = 0

    def user(self, text: str) -> "Trace":
        self.history.append({"role": "user", "parts": [{"type": "text", "content": text}]})
        return self

    def says(self, text: str, *, new: bool = True) -> "Trace":
        message: Json = {"role": "assistant", "parts": [{"type": "text", "content": text}]}
        if new:
            self._model(message)
        self.history.append(message)
        return self

    def calls(self, result: Json, *, failed: str = "", new: bool = True) -> "Trace":
        """Add a call; without `new` only the history of the next model call holds it."""
        id = f"call-{self.name}-{self._number}"
        message: Json = {"role": "assistant", "parts": [asked(id, "refund_order", REFUND)]}
        if new:
            self._model(message)
            made: JsonObject = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "refund_order"}
            made |= {"gen_ai.tool.call.id": id, "gen_ai.tool.call.arguments": REFUND}
            self._add("tool", made if failed else {**made, "gen_ai.tool.call.result": result}, failed)
        self.history += [message, answered(id, failed or result)]
        self._number += 1
        return self

    def _model(self, message: Json) -> None:
        made: JsonObject = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": [*self.history]}
        self._add("chat", {**made, "gen_ai.output.messages": [message]})

    def _of(self) -> JsonObject:
        return {} if self.conversation is None else {"gen_ai.conversation.id": self.conversation}

    def _add(self, name: str, made: JsonObject, failed: str = "") -> None:
        at, status = self.at + len(self.spans), ERROR if failed else Status.STATUS_CODE_UNSET
        attributes = {**made, **self._of()}
        self.spans.append(
            span(name, attributes, id=f"{name}{at}", at=at, seconds=0.5, trace=self.name, status=status, message=failed)
        )

    def ended(self) -> list[ScopeSpans]:
        made: JsonObject = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a", **self._of()}
        seconds = len(self.spans) + 1
        return [*self.spans, span("run", made, id="run", parent=None, at=self.at, seconds=seconds, trace=self.name)]


def send(walk: Walk, *traces: Trace) -> None:
    for trace in traces:
        walk.send(request(*trace.ended()).SerializeToString())
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


@pytest.mark.parametrize("again", [ASKED, "Thank you, that is all I needed.", ""])
def test_a_second_refund_in_a_later_trace_fails(again: str):
    walk = Walk("events=all")
    later = Trace("t2", 30)
    send(walk, Trace("t1", 0).user(ASKED).calls(refunded(4)).says("Done."))
    send(walk, (later.user(again) if again else later).calls(refunded(5)).says("Done."))
    assert found(walk) == [ONCE, TWICE]


def test_a_run_that_is_resumed_with_its_history_and_refunds_again_fails():
    walk = Walk("events=all")
    send(walk, Trace("t1", 0).user(ASKED).calls(refunded(4)))
    resumed = Trace("t2", 30).user(ASKED).calls(refunded(4), new=False).calls(refunded(5)).says("Done.")
    send(walk, resumed)
    assert found(walk) == [ONCE, TWICE]


def test_a_refund_in_the_history_of_later_traces_is_no_second_one():
    walk = Walk("events=all")
    send(walk, Trace("t1", 0).user(ASKED).calls(refunded(4)).says("Done."))
    later = Trace("t2", 30).user(ASKED).calls(refunded(4), new=False)
    later.says("Done.", new=False)
    send(walk, later.user("Thanks!").says("You are welcome."))
    assert found(walk) == [ONCE]


def test_effects_are_known_after_a_restart():
    journal = MemoryJournal()
    first = Walk("events=all", journal=journal)
    send(first, Trace("t1", 0).user(ASKED).calls(refunded(4)).says("Done."))
    second = Walk("events=all", journal=journal)
    second.now_ns = first.now_ns
    second.recover()
    send(second, Trace("t2", 30).user(ASKED).calls(refunded(5)).says("Done."))
    assert found(second) == [TWICE]
    kept = b"".join(one.values.effects for one in journal.shown)
    assert kept
    assert b"771245" not in kept


def test_a_retry_in_a_later_trace_after_a_timeout_is_shown():
    walk = Walk("events=all")
    send(walk, Trace("t1", 0).user(ASKED).calls(None, failed="Request timed out").says("I am sorry."))
    send(walk, Trace("t2", 30).user(ASKED).calls(refunded(5)).says("Done."))
    assert found(walk) == [ONCE]
    (explanation,) = [
        one["gen_ai.evaluation.explanation"]
        for one in map(attributes, walk.events())
        if one["gen_ai.evaluation.name"] == "default.one_effect" and one["toolgauge.outcome"] == "pass"
    ]
    assert "may have happened twice" in str(explanation)


def test_conversations_do_not_share_effects():
    walk = Walk("events=all")
    send(walk, Trace("t1", 0).user(ASKED).calls(refunded(4)).says("Done."))
    send(walk, Trace("t2", 30, "d").user(ASKED).calls(refunded(5)).says("Done."))
    send(walk, Trace("t3", 60, None).user(ASKED).calls(refunded(6)).says("Done."))
    assert found(walk) == [ONCE] * 3
