"""The Codex CLI's log events (0.169)."""

from msgspec.structs import replace

from tests.recognize.support import log, observations
from toolgauge.dialects.coding_agents import Codex
from toolgauge.model.content import Recorded, Unparsed
from toolgauge.model.json import Value
from toolgauge.model.observations import (
    CallAnswered,
    CallError,
    CallExecuted,
    CallRequested,
    ConversationSeen,
    MessageSeen,
    Observation,
)
from toolgauge.model.records import LogRecord, Scope

CALL: dict[str, Value] = {"tool_name": "exec_command", "call_id": "c1", "arguments": '{"cmd": "ls"}'}


def event(name: str, **attributes: Value) -> LogRecord:
    record = log("event otel/src/tool_result.rs:54", attributes={"event.name": f"codex.{name}", **attributes})
    return replace(record, scope=Scope(name="codex_otel.log_only", version=""))


def read(name: str, **attributes: Value) -> list[Observation]:
    return observations(Codex(), event(name, **attributes))


def test_a_result_that_was_cut_is_marked():
    (call,) = read("tool_result", **CALL, success="true", output="a.txt", output_truncated=True)
    assert isinstance(call, CallExecuted)
    assert call.result == Unparsed("a.txt", "truncated")


def test_a_tool_that_failed_has_its_error():
    (call,) = read("tool_result", **CALL, success="false", output="timed out")
    assert isinstance(call, CallExecuted)
    assert call.error == CallError(kind="_OTHER", message="timed out")


def test_a_call_that_codex_did_not_run_is_a_refused_request():
    output = "unsupported call: exec_command"
    assert read("tool_result", **CALL, success="false", output=output) == [
        CallRequested(position=0, name="exec_command", call_id="c1", arguments=Recorded({"cmd": "ls"})),
        CallAnswered(call_id="c1", name="exec_command", error=CallError(kind="unknown_tool", message=output)),
    ]


def test_a_prompt_is_the_text_of_the_user_unless_it_is_hidden():
    assert read("user_prompt", prompt="Sum up.") == [MessageSeen(role="user", text="Sum up.")]
    assert read("user_prompt", prompt="[REDACTED]") == []


def test_events_of_one_session_have_one_conversation():
    assert read("api_request", **{"conversation.id": "s1"}) == [ConversationSeen(conversation_id="s1", rank=2)]


def test_other_events_and_scopes_are_not_claimed():
    assert not Codex().claims(log("x", attributes={"event.name": "codex.tool_result"}))
    assert not Codex().claims(replace(event("x"), attributes={"event.name": "other.tool_result"}))
