"""The Gemini CLI's traces (0.61)."""

import json

from tests.recognize.support import observations, span
from toolgauge.dialects.coding_agents import GeminiCli
from toolgauge.model.content import NOT_RECORDED, Recorded
from toolgauge.model.json import Json, Value
from toolgauge.model.observations import (
    CallAnswered,
    CallError,
    CallExecuted,
    CallRequested,
    Observation,
)

REQUEST: Json = {"callId": "c1", "name": "add", "args": {"a": 1}}


def read(operation: str, **attributes: Json) -> list[Observation]:
    named: dict[str, Value] = {"gen_ai.operation.name": operation}
    for key, value in attributes.items():
        named["gen_ai." + key.replace("__", ".")] = value if isinstance(value, str) else json.dumps(value)
    return observations(GeminiCli(), span(named, name=operation, scope="gemini-cli"))


def completed(status: str, answer: Json, kind: str | None = None) -> Json:
    parts: Json = [{"functionResponse": {"name": "add", "response": answer}}]
    return {"status": status, "request": REQUEST, "response": {"responseParts": parts, "errorType": kind}}


def test_a_failed_tool_has_the_kind_of_its_error():
    (call,) = read("tool_call", tool__name="add", output__messages=completed("error", {"error": "no"}, "io"))
    assert call == CallExecuted(name="add", result=NOT_RECORDED, error=CallError(kind="io", message="no"))


def test_a_refused_call_is_in_its_batch_alone():
    refused = completed("error", {"error": "no such tool"}, "tool_not_registered")
    assert read("schedule_tool_calls", output__messages=[refused]) == [
        CallRequested(position=0, name="add", call_id="c1", arguments=Recorded({"a": 1})),
        CallAnswered(call_id="c1", name="add", error=CallError(kind="unknown_tool", message="no such tool")),
    ]


def test_a_batch_without_output_has_what_was_scheduled():
    assert read("schedule_tool_calls", input__messages=[REQUEST, "x"]) == [
        CallRequested(position=0, name="add", call_id="c1", arguments=Recorded({"a": 1}))
    ]
