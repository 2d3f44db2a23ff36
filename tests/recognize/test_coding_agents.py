"""Command line agents by their own spans and events: the Gemini CLI (0.61), the Codex CLI (0.169), Qwen Code (0.20)."""

import json

from msgspec.structs import replace

from tests.recognize.support import log, observations, other_error, span
from toolgauge.dialects.coding_agents import Codex, GeminiCli, QwenCode
from toolgauge.model.content import Recorded, Unparsed
from toolgauge.model.json import Json, Value
from toolgauge.model.observations import (
    CallError,
    CallExecuted,
    CallRequested,
    MessageSeen,
    Observation,
)
from toolgauge.model.records import LogRecord, Scope

# -- the Gemini CLI's traces

REQUEST: Json = {"callId": "c1", "name": "add", "args": {"a": 1}}


def gemini(operation: str, **attributes: Json) -> list[Observation]:
    named: dict[str, Value] = {"gen_ai.operation.name": operation}
    for key, value in attributes.items():
        named["gen_ai." + key.replace("__", ".")] = value if isinstance(value, str) else json.dumps(value)
    return observations(GeminiCli(), span(named, name=operation, scope="gemini-cli"))


def test_a_batch_without_output_has_what_was_scheduled():
    assert gemini("schedule_tool_calls", input__messages=[REQUEST, "x"]) == [
        CallRequested(position=0, name="add", call_id="c1", arguments=Recorded({"a": 1}))
    ]


# -- the Codex CLI's log events

CODEX_CALL: dict[str, Value] = {"tool_name": "exec_command", "call_id": "c1", "arguments": '{"cmd": "ls"}'}


def codex_event(name: str, **attributes: Value) -> LogRecord:
    record = log("event otel/src/tool_result.rs:54", attributes={"event.name": f"codex.{name}", **attributes})
    return replace(record, scope=Scope(name="codex_otel.log_only", version=""))


def codex(name: str, **attributes: Value) -> list[Observation]:
    return observations(Codex(), codex_event(name, **attributes))


def test_a_result_that_was_cut_is_marked():
    (call,) = codex("tool_result", **CODEX_CALL, success="true", output="a.txt", output_truncated=True)
    assert isinstance(call, CallExecuted)
    assert call.result == Unparsed("a.txt", "truncated")


def test_a_tool_that_failed_has_its_error():
    (call,) = codex("tool_result", **CODEX_CALL, success="false", output="timed out")
    assert isinstance(call, CallExecuted)
    assert call.error == other_error("timed out")


def test_a_prompt_is_the_text_of_the_user_unless_it_is_hidden():
    assert codex("user_prompt", prompt="Sum up.") == [MessageSeen(role="user", text="Sum up.")]
    assert codex("user_prompt", prompt="[REDACTED]") == []


def test_other_events_and_scopes_are_not_claimed():
    assert not Codex().claims(log("x", attributes={"event.name": "codex.tool_result"}))
    assert not Codex().claims(replace(codex_event("x"), attributes={"event.name": "other.tool_result"}))


# -- Qwen Code's log events and the spans of its hooks

QWEN_CALL: dict[str, Value] = {"call_id": "c1", "function_name": "find", "function_args": json.dumps({"city": "Oslo"})}


def qwen_event(name: str, **attributes: Value) -> LogRecord:
    record = log("", attributes={"event.name": f"qwen-code.{name}", **attributes})
    return replace(record, scope=Scope(name="qwen-code", version=""))


def qwen(name: str, **attributes: Value) -> list[Observation]:
    return observations(QwenCode(), qwen_event(name, **attributes))


def test_an_event_has_the_arguments_of_a_call():
    assert qwen("tool_call", **QWEN_CALL, success=True) == [
        CallExecuted(name="find", call_id="c1", arguments=Recorded({"city": "Oslo"}))
    ]


def test_an_event_says_how_a_call_failed():
    failed = qwen("tool_call", **QWEN_CALL, success=False, error="no such city", error_type="execution_failed")
    assert failed == [
        CallExecuted(
            name="find",
            call_id="c1",
            arguments=Recorded({"city": "Oslo"}),
            error=CallError(kind="execution_failed", message="no such city"),
        )
    ]


def test_events_have_the_texts_of_both_sides():
    assert qwen("user_prompt", prompt="How warm is Oslo?") == [MessageSeen(role="user", text="How warm is Oslo?")]
    assert qwen("api_response", response_text="4 degrees.") == [MessageSeen(role="assistant", text="4 degrees.")]
    assert qwen("api_response", response_text="") == []


def test_a_hook_is_no_call_and_its_failure_is_none_of_the_tool():
    hook: dict[str, Value] = {"hook_event": "PreToolUse", "tool.name": "find", "error": "no output"}
    assert QwenCode().claims(span(hook, scope="qwen-code"))
    assert observations(QwenCode(), span(hook, scope="qwen-code")) == []


def test_its_other_spans_and_other_producers_are_left_to_the_conventions():
    assert not QwenCode().claims(span({"gen_ai.operation.name": "execute_tool"}, scope="qwen-code"))
    assert not QwenCode().claims(span({"hook_event": "PreToolUse"}, scope="other"))
    assert not QwenCode().claims(log("", attributes={"event.name": "qwen-code.tool_call"}))
