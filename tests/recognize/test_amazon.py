"""Strands Agents, and Bedrock AgentCore: log records as AWS's OpenTelemetry distribution and the AgentCore SDK build them."""

import pytest

from tests.recognize.support import event, joined, log, observations, other_error, placed, said, span
from tests.rows import each_row
from toolgauge.dialects.cloud_vendors import AgentCore, Strands
from toolgauge.model.content import NOT_RECORDED, Recorded
from toolgauge.model.json import Json, Value
from toolgauge.model.observations import (
    CallAnswered,
    CallExecuted,
    CallRequested,
    ConversationSeen,
    MessageSeen,
    Observation,
)
from toolgauge.model.records import LogRecord, Record, Span
from toolgauge.testing.dialects import check_dialect

# -- Strands Agents

STRANDS = "strands.telemetry.tracer"
STRANDS_TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "f", "gen_ai.tool.call.id": "1"}


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
    assert observations(Strands(), span(STRANDS_TOOL, events=events, scope=STRANDS)) == [
        CallExecuted(name="f", call_id="1", result=result)  # pyright: ignore[reportArgumentType] - contents of all kinds
    ]


def test_spans_of_others_are_left_to_others():
    assert not Strands().claims(span(STRANDS_TOOL, scope="somebody.else"))
    assert Strands().claims(span({**STRANDS_TOOL, "gen_ai.system": "strands-agents"}, scope="wrapped"))


# -- Bedrock AgentCore

LANGCHAIN = "opentelemetry.instrumentation.langchain"
SESSION = ConversationSeen(conversation_id="s-1", rank=1)


def moved(given: list[Json], written: list[Json], scope: str = STRANDS) -> LogRecord:
    body: Value = {"input": {"messages": given}, "output": {"messages": written}}
    return log(scope, body=body, attributes={"event.name": scope, "session.id": "s-1"}, scope=scope)


def tool_record(arguments: str, result: str, call_id: str = "tooluse_1") -> LogRecord:
    given: Json = {"content": {"content": arguments, "role": "tool", "id": call_id}, "role": "tool"}
    written: Json = {"content": {"message": result, "id": call_id}, "role": "assistant"}
    return moved([given], [written])


def user(text: str) -> Json:
    return {"content": {"content": text}, "role": "user"}


def assistant(message: str, **more: Json) -> Json:
    return {"content": {"message": message, "finish_reason": "end_turn", **more}, "role": "assistant"}


def read(record: Record) -> list[Observation]:
    found = observations(AgentCore(), record)
    assert found[0] == SESSION
    return found[1:]


def test_a_tools_record_has_arguments_and_result_but_no_name():
    assert read(tool_record('{"city": "Lima"}', '[{"text": "{\\"temp\\": 18}"}]')) == [
        CallExecuted(name="", call_id="tooluse_1", arguments=Recorded({"city": "Lima"}), result=Recorded({"temp": 18}))
    ]


def test_a_models_record_has_requests_answers_and_texts():
    use = '[{"text": "Looking."}, {"toolUse": {"toolUseId": "u2", "name": "f", "input": {"a": 2}}}]'
    answer = '[{"toolResult": {"toolUseId": "u1", "status": "success", "content": [{"text": "one"}]}}]'
    given: list[Json] = [
        {"content": "Be brief.", "role": "system"},
        user('[{"text": "Weather in Lima?"}]'),
        {"content": {"content": answer}, "role": "tool"},
    ]
    assert read(moved(given, [assistant(use)])) == [
        MessageSeen(role="system", text="Be brief."),
        CallAnswered(call_id="u1", result=Recorded("one")),
        MessageSeen(role="user", text="Weather in Lima?"),
        CallRequested(position=0, name="f", call_id="u2", arguments=Recorded({"a": 2})),
        MessageSeen(role="assistant", text="Looking."),
    ]


def test_langchains_tool_messages_are_answers():
    message = '{"output": {"kwargs": {"content": "{\\"temp\\": 18}", "tool_call_id": "c1", "status": "success"}}}'
    failed = '{"type": "tool", "data": {"content": "no such city", "tool_call_id": "c2", "status": "error"}}'
    state: Json = {"content": '{"messages": []}', "role": "user"}
    written: list[Json] = [{"content": message, "role": "assistant"}, {"content": failed, "role": "assistant"}]
    found = read(moved([state, {"content": "Weather?", "role": "user"}], written, scope=LANGCHAIN))
    assert found == [
        CallAnswered(call_id="c1", result=Recorded({"temp": 18})),
        CallAnswered(call_id="c2", result=Recorded("no such city"), error=other_error("no such city")),
        MessageSeen(role="user", text="Weather?"),
    ]


@each_row("content", [{"content": '{"messages": []}'}, [{"text": "hi"}], '{"messages": []}'])
def test_the_state_of_a_graph_is_no_text_of_a_user(content: Json):
    assert read(moved([{"role": "user", "content": content}], [], scope=LANGCHAIN)) == []


def strands(attributes: dict[str, Value], name: str, parent: str | None, start: int, end: int) -> Span:
    return placed(span({"gen_ai.system": "strands-agents", **attributes}, scope=STRANDS), name, parent, start, end)


@pytest.mark.parametrize("with_model_records", [True, False])
@pytest.mark.parametrize("logs_first", [True, False])
def test_content_finds_its_spans_by_their_ids(*, with_model_records: bool, logs_first: bool):
    spans: list[Record] = [
        strands({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "guide"}, "run", None, 0, 100),
        strands({"gen_ai.operation.name": "execute_event_loop_cycle"}, "cycle", "run", 1, 50),
        strands({"gen_ai.operation.name": "chat"}, "chat", "cycle", 2, 10),
        strands(
            {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "weather", "gen_ai.tool.call.id": "u1"},
            "one",
            "cycle",
            11,
            20,
        ),
        strands(
            {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "weather", "gen_ai.tool.call.id": "u2"},
            "two",
            "cycle",
            12,
            21,
        ),
    ]
    uses = (
        '[{"toolUse": {"toolUseId": "u1", "name": "weather", "input": {"city": "Lima"}}},'
        ' {"toolUse": {"toolUseId": "u2", "name": "weather", "input": {"city": "Oslo"}}}]'
    )
    results = '[{"toolResult": {"toolUseId": "u1", "content": [{"text": "18"}]}}]'
    logs: list[Record] = [
        said(tool_record('{"city": "Lima"}', '[{"text": "18"}]', "u1"), "one"),
        said(tool_record('{"city": "Oslo"}', '[{"text": "3"}]', "u2"), "two"),
    ]
    if with_model_records:
        logs.append(said(moved([user("Weather?")], [assistant(uses)]), "chat"))
        logs.append(said(moved([user("Weather?")], [assistant(uses, **{"tool.result": results})]), "cycle"))
    trajectory = joined([AgentCore(), Strands()], *([*logs, *spans] if logs_first else [*spans, *logs]))
    shown = [(call.name, call.call_id, call.arguments, call.result, call.state) for call in trajectory.calls]
    assert shown == [
        ("weather", "u1", Recorded({"city": "Lima"}), Recorded(18), "executed"),
        ("weather", "u2", Recorded({"city": "Oslo"}), Recorded(3), "executed"),
    ]
    assert trajectory.conversation_id == "s-1"
    assert [call.agent_path for call in trajectory.calls] == [("guide",), ("guide",)]


@each_row(
    ("name", "scope", "body"),
    [
        (STRANDS, "other", {"input": {"messages": []}}),
        ("gen_ai.choice", STRANDS, {"input": {"messages": []}}),
        (STRANDS, STRANDS, "text"),
        (STRANDS, STRANDS, {"message": {}}),
        ("mine", "mine", {"input": {"messages": []}}),
    ],
)
def test_other_log_records_are_left_to_others(name: str, scope: str, body: Value):
    assert not AgentCore().claims(log(name, body=body, scope=scope))


def test_it_keeps_the_contract():
    records = [tool_record("{", "[[", "u1"), moved([user("x")], [assistant("y")]), moved([], [], scope=LANGCHAIN)]
    check_dialect(AgentCore(), records)
