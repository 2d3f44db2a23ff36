"""Strands Agents 1.62.0: what its tracer writes by default and with the latest conventions."""

from tests.recognize.support import event, observations, span
from tests.rows import each_row
from toolgauge.dialects.amazon import Strands
from toolgauge.model.content import NOT_RECORDED, Recorded, Unparsed
from toolgauge.model.observations import (
    CallError,
    CallExecuted,
)

SCOPE = "strands.telemetry.tracer"
TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "f", "gen_ai.tool.call.id": "1"}


@each_row(
    ("blocks", "result"),
    [
        ('[{"text": "20"}]', Recorded(20)),
        ('[{"text": "plain"}]', Recorded("plain")),
        ('[{"json": {"a": 1}}]', Recorded({"a": 1})),
        ('[{"text": "one"}, {"text": "two"}]', Recorded(["one", "two"])),
        ('[{"document": {"name": "x"}}]', Recorded([{"document": {"name": "x"}}])),
        ('[{"text": "cut of', Recorded('[{"text": "cut of')),
        ("[]", Recorded([])),
        (None, NOT_RECORDED),
    ],
)
def test_results_are_taken_out_of_their_blocks(blocks: str | None, result: object):
    events = [event("gen_ai.choice", {"message": blocks, "id": "1"})]
    assert observations(Strands(), span(TOOL, events=events, scope=SCOPE)) == [
        CallExecuted(name="f", call_id="1", result=result)  # pyright: ignore[reportArgumentType] - contents of all kinds
    ]


def test_broken_arguments_stay_text():
    events = [event("gen_ai.tool.message", {"role": "tool", "content": '{"city": ', "id": "1"})]
    assert observations(Strands(), span(TOOL, events=events, scope=SCOPE)) == [
        CallExecuted(name="f", call_id="1", arguments=Unparsed('{"city": '))
    ]


def test_a_tool_that_answers_with_an_error_has_failed_though_its_span_went_well():
    events = [event("gen_ai.choice", {"message": '[{"text": "no such city"}]'})]
    told = span({**TOOL, "gen_ai.tool.status": "error"}, events=events, scope=SCOPE, status="ok")
    assert observations(Strands(), told) == [
        CallExecuted(
            name="f",
            call_id="1",
            result=Recorded("no such city"),
            error=CallError(kind="_OTHER", message="no such city"),
        )
    ]


def test_spans_of_others_are_left_to_others():
    assert not Strands().claims(span(TOOL, scope="somebody.else"))
    assert Strands().claims(span({**TOOL, "gen_ai.system": "strands-agents"}, scope="wrapped"))
