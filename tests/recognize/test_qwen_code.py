"""Qwen Code's log events and the spans of its hooks (0.20)."""

import json

from msgspec.structs import replace

from tests.recognize.support import log, observations, span
from toolgauge.dialects.coding_agents import QwenCode
from toolgauge.model.content import Recorded
from toolgauge.model.json import Value
from toolgauge.model.observations import CallError, CallExecuted, MessageSeen, Observation
from toolgauge.model.records import LogRecord, Scope

CALL: dict[str, Value] = {"call_id": "c1", "function_name": "find", "function_args": json.dumps({"city": "Oslo"})}


def event(name: str, **attributes: Value) -> LogRecord:
    record = log("", attributes={"event.name": f"qwen-code.{name}", **attributes})
    return replace(record, scope=Scope(name="qwen-code", version=""))


def read(name: str, **attributes: Value) -> list[Observation]:
    return observations(QwenCode(), event(name, **attributes))


def test_an_event_has_the_arguments_of_a_call():
    assert read("tool_call", **CALL, success=True) == [
        CallExecuted(name="find", call_id="c1", arguments=Recorded({"city": "Oslo"}))
    ]


def test_an_event_says_how_a_call_failed():
    failed = read("tool_call", **CALL, success=False, error="no such city", error_type="execution_failed")
    assert failed == [
        CallExecuted(
            name="find",
            call_id="c1",
            arguments=Recorded({"city": "Oslo"}),
            error=CallError(kind="execution_failed", message="no such city"),
        )
    ]


def test_events_have_the_texts_of_both_sides():
    assert read("user_prompt", prompt="How warm is Oslo?") == [MessageSeen(role="user", text="How warm is Oslo?")]
    assert read("api_response", response_text="4 degrees.") == [MessageSeen(role="assistant", text="4 degrees.")]
    assert read("api_response", response_text="") == []


def test_a_hook_is_no_call_and_its_failure_is_none_of_the_tool():
    hook: dict[str, Value] = {"hook_event": "PreToolUse", "tool.name": "find", "error": "no output"}
    assert QwenCode().claims(span(hook, scope="qwen-code"))
    assert observations(QwenCode(), span(hook, scope="qwen-code")) == []


def test_its_other_spans_and_other_producers_are_left_to_the_conventions():
    assert not QwenCode().claims(span({"gen_ai.operation.name": "execute_tool"}, scope="qwen-code"))
    assert not QwenCode().claims(span({"hook_event": "PreToolUse"}, scope="other"))
    assert not QwenCode().claims(log("", attributes={"event.name": "qwen-code.tool_call"}))
