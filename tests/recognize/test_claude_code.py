"""Claude Code, from its documentation (monitoring, 2.1.2xx): spans, and log events with the attributes it names."""

import json

import pytest
from msgspec.structs import replace

from tests.recognize.support import event, joined, log, observations, other_error, placed, said, span
from tests.rows import each_row
from toolgauge.dialects.coding_agents import ClaudeCode
from toolgauge.model.content import Recorded
from toolgauge.model.json import Json, Value
from toolgauge.model.observations import (
    AgentRun,
    CallAnswered,
    CallError,
    CallExecuted,
    CallRequested,
    ConversationSeen,
    MessageSeen,
    ModelCall,
    Observation,
    ToolDefinition,
    ToolsOffered,
)
from toolgauge.model.records import LogRecord, Record, Span
from toolgauge.testing.dialects import check_dialect

TRACES = "com.anthropic.claude_code.tracing"
EVENTS = "com.anthropic.claude_code.events"


def of(kind: str, **attributes: Value) -> Span:
    return span({"span.type": kind, **attributes}, name="claude_code." + kind, scope=TRACES)


def told(name: str, **attributes: Value) -> LogRecord:
    given: dict[str, Value] = {"event.name": name, "session.id": "s-1", **attributes}
    return log(name, body="claude_code." + name, attributes=given, scope=EVENTS)


def read(record: Record) -> list[Observation]:
    return [found for found in observations(ClaudeCode(), record) if not isinstance(found, ConversationSeen)]


def test_an_interaction_is_a_run_and_an_llm_request_a_model_call():
    interaction = of("interaction", **{"session.id": "s-1", "user_prompt": "Fix it."})
    assert observations(ClaudeCode(), interaction) == [
        ConversationSeen(conversation_id="s-1", rank=1),
        AgentRun(agent=None),
        MessageSeen(role="user", text="Fix it."),
    ]
    assert read(of("interaction", user_prompt="<REDACTED>")) == [AgentRun(agent=None)]
    assert read(of("llm_request", query_source="repl_main_thread")) == [ModelCall(agent=None)]
    assert read(of("llm_request", query_source="Explore", agent_id="a7")) == [ModelCall(agent="Explore")]


def test_a_tool_span_has_name_and_id_alone_by_default():
    found = read(of("tool", tool_name="Read", tool_use_id="toolu_1", file_path="/a.py"))
    assert found == [CallExecuted(name="Read", call_id="toolu_1")]
    assert read(of("tool", **{"tool_name": "Read", "gen_ai.tool.call.id": "toolu_1"})) == found


def test_content_of_a_tool_is_on_its_event_or_its_input():
    events = [event("tool.output", {"tool_input": '{"command":"ls"}', "output": "a.py"})]
    record = replace(of("tool", tool_name="Bash", tool_use_id="t"), events=events)
    assert read(record) == [
        CallExecuted(name="Bash", call_id="t", arguments=Recorded({"command": "ls"}), result=Recorded("a.py"))
    ]
    assert read(of("tool", tool_name="Bash", tool_input='{"command":"ls"}')) == [
        CallExecuted(name="Bash", arguments=Recorded({"command": "ls"}))
    ]


@pytest.mark.parametrize("success", ["false", False])
def test_the_outcome_is_on_the_span_of_the_execution(success: Value):
    record = replace(of("tool.execution", success=success, error="Error:ENOENT", tool_use_id="t"), status="error")
    error = CallError(kind="Error:ENOENT", message="Error:ENOENT")
    assert read(record) == [CallExecuted(name="", call_id="t", error=error)]
    assert read(of("tool.execution", success="true")) == []


def test_a_person_who_was_asked_may_refuse():
    refused = CallExecuted(name="", error=CallError(kind="refused", message=""))
    assert read(of("tool.blocked_on_user", decision="reject", source="user_reject")) == [refused]
    assert read(of("tool.blocked_on_user", decision="accept", source="user_temporary")) == []
    assert read(of("tool.blocked_on_user", decision="reject", source="hook")) == []


def test_a_result_event_is_a_call():
    record = told(
        "tool_result",
        tool_name="Bash",
        tool_use_id="toolu_1",
        success="false",
        error_type="ShellError",
        error="exit 1",
        tool_input='{"command":"make"}',
        tool_parameters='{"full_command":"make"}',
    )
    assert observations(ClaudeCode(), record) == [
        ConversationSeen(conversation_id="s-1", rank=1),
        CallExecuted(
            name="Bash",
            call_id="toolu_1",
            arguments=Recorded({"command": "make"}),
            error=CallError(kind="ShellError", message="exit 1"),
        ),
    ]


def test_a_users_own_mcp_tool_has_its_name_among_the_parameters():
    parameters = '{"mcp_server_name":"shop","mcp_tool_name":"refund"}'
    assert read(told("tool_result", tool_name="mcp_tool", success="true", tool_parameters=parameters)) == [
        CallExecuted(name="mcp__shop__refund")
    ]
    assert read(told("tool_result", tool_name="mcp_tool", success="true")) == [CallExecuted(name="mcp_tool")]


@each_row(("source", "kind"), [("user_reject", "refused"), ("user_abort", "refused"), ("config", "permission_denied")])
def test_a_call_that_was_not_permitted_did_not_run(source: str, kind: str):
    record = told("tool_decision", tool_name="Bash", tool_use_id="t", decision="reject", source=source)
    error = CallError(kind=kind, message=f"permission denied ({source})")
    assert read(record) == [CallExecuted(name="Bash", call_id="t", error=error)]
    assert read(told("tool_decision", tool_name="Bash", tool_use_id="t", decision="accept")) == []


def test_bodies_tell_requests_tools_and_answers():
    blocks: Json = [
        {"type": "text", "text": "Looking."},
        {"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "/a"}},
        {"type": "tool_use", "id": "t2", "name": "Read", "input": {"file_path": "/b"}},
    ]
    answer = told(
        "api_response_body", body=json.dumps({"role": "assistant", "content": blocks}), **{"event.sequence": "3"}
    )
    assert read(answer) == [
        CallRequested(position=3000, name="Read", call_id="t1", arguments=Recorded({"file_path": "/a"})),
        CallRequested(position=3001, name="Read", call_id="t2", arguments=Recorded({"file_path": "/b"})),
        MessageSeen(role="assistant", text="Looking."),
    ]
    asked: Json = {
        "system": [{"type": "text", "text": "Be brief."}],
        "tools": [{"name": "Read", "description": "Reads.", "input_schema": {"type": "object"}}],
        "messages": [
            {"role": "user", "content": "Look."},
            {"role": "assistant", "content": blocks},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "text of a"}]},
        ],
    }
    assert read(told("api_request_body", body=json.dumps(asked))) == [
        ToolsOffered(tools=(ToolDefinition(name="Read", description="Reads.", parameters={"type": "object"}),)),
        MessageSeen(role="system", text="Be brief."),
        CallAnswered(call_id="t1", result=Recorded("text of a")),
        MessageSeen(role="user", text="Look."),
    ]
    assert read(told("api_request_body", body='{"messages": [... [TRUNCATED')) == []


def test_prompts_and_responses_are_messages_unless_redacted():
    assert read(told("user_prompt", prompt="Fix it.")) == [MessageSeen(role="user", text="Fix it.")]
    assert read(told("assistant_response", response="Done.")) == [MessageSeen(role="assistant", text="Done.")]
    assert read(told("user_prompt", prompt="<REDACTED>")) == []
    assert read(told("assistant_response", response="<REDACTED>")) == []


def test_span_and_event_of_one_call_are_one_call():
    trajectory = joined(
        [ClaudeCode()],
        placed(of("interaction"), "run", None, 0, 100),
        placed(of("llm_request"), "ask", "run", 1, 9),
        placed(of("tool", tool_name="Read", tool_use_id="t1"), "one", "run", 10, 20),
        placed(of("tool.execution", success="true", tool_use_id="t1"), "one-x", "one", 11, 19),
        placed(of("tool", tool_name="Read", tool_use_id="t2"), "two", "run", 30, 40),
        placed(of("tool.execution", success="false", error="Error:ENOENT", tool_use_id="t2"), "two-x", "two", 31, 39),
        said(told("tool_result", tool_name="Read", tool_use_id="t1", success="true", tool_input='{"p":1}'), "run", 20),
        said(told("tool_result", tool_name="Read", tool_use_id="t2", success="false", tool_input='{"p":1}'), "run", 40),
    )
    shown = [(call.name, call.call_id, call.arguments, call.state, call.error) for call in trajectory.calls]
    assert shown == [
        ("Read", "t1", Recorded({"p": 1}), "executed", None),
        ("Read", "t2", Recorded({"p": 1}), "executed", other_error("")),
    ]
    assert [call.span.span_id for call in trajectory.calls] == ["6f6e65".rjust(16, "0"), "74776f".rjust(16, "0")]


def test_a_subagents_calls_are_calls_of_their_own():
    trajectory = joined(
        [ClaudeCode()],
        placed(of("interaction"), "run", None, 0, 100),
        placed(of("tool", tool_name="Agent", tool_use_id="t1"), "out", "run", 10, 50),
        placed(of("tool", tool_name="Read", tool_use_id="t2", agent_id="a"), "in", "out", 20, 30),
        placed(of("tool", tool_name="Agent", tool_use_id="t3", agent_id="a"), "deep", "out", 32, 40),
    )
    assert [(call.name, call.call_id) for call in trajectory.calls] == [
        ("Agent", "t1"),
        ("Read", "t2"),
        ("Agent", "t3"),
    ]


@pytest.mark.parametrize("ids", [True, False])
def test_events_alone_give_the_calls_in_order(*, ids: bool):
    def result(name: str, call_id: str, time: int) -> LogRecord:
        given: dict[str, Value] = {"tool_use_id": call_id} if ids else {}
        return said(told("tool_result", tool_name=name, success="true", **given), "run", time)

    trajectory = joined([ClaudeCode()], result("Edit", "t3", 30), result("Read", "t1", 10), result("Read", "t2", 20))
    assert [(call.name, call.turn, call.state) for call in trajectory.calls] == [
        ("Read", 0, "executed"),
        ("Read", 1, "executed"),
        ("Edit", 2, "executed"),
    ]
    assert trajectory.conversation_id == "s-1"


def test_spans_of_others_are_left_to_others():
    assert not ClaudeCode().claims(span({}, name="claude_code.tool", scope="other"))
    assert not ClaudeCode().claims(span({"span.type": "web"}, name="GET /", scope=TRACES))


def test_it_keeps_the_contract():
    check_dialect(
        ClaudeCode(),
        [
            of("interaction", user_prompt="x"),
            of("tool", tool_name="Read", tool_use_id="1"),
            of("tool.execution", tool_use_id="1", success="false"),
            told("tool_result", tool_name="Read", success="maybe", tool_input="{"),
            told("tool_decision", tool_name="Read", decision="reject"),
            told("api_response_body", body="[]", **{"event.sequence": -1}),
        ],
    )
