"""Dialects that are written in the configuration: what their mappings read, and what of them is refused."""

from collections.abc import Mapping

import pytest
from pydantic import ValidationError

from tests.recognize.support import event, observations, other_error, span
from tests.rows import each_row
from toolgauge.model.content import NOT_RECORDED, Recorded, Unparsed
from toolgauge.model.json import Value
from toolgauge.model.observations import (
    AgentRun,
    CallAnswered,
    CallError,
    CallExecuted,
    CallRequested,
    ConversationSeen,
    MessageSeen,
    ModelCall,
    ToolDefinition,
    ToolsOffered,
)
from toolgauge.recognize.mapped_dialect import MappedDialect, MappedDialectSettings
from toolgauge.testing.dialects import check_dialect

TOOL: Mapping[str, object] = {
    "match": {"acme.kind": "tool"},
    "reads": "tool_call",
    "tool_name": "acme.tool",
    "arguments": {"attribute": "acme.in", "path": ["args"]},
    "result": {"attribute": "acme.out", "path": ["output"]},
    "call_id": "acme.call",
    "error": "acme.problem",
    "failed": {"acme.state": ["error", "refused"]},
    "agent": "acme.agent",
    "conversation": "acme.thread",
}
MODEL: Mapping[str, object] = {
    "match": {"acme.kind": "model"},
    "reads": "model_call",
    "input": "acme.in",
    "tools": {"attribute": "acme.in", "path": ["tools"]},
    "requests": {
        "attribute": "acme.out",
        "path": ["message", "content", "*", "toolRequest"],
        "tool_name": ["name"],
        "call_id": ["ref"],
        "arguments": ["input"],
    },
    "answers": {
        "attribute": "acme.in",
        "path": ["messages", "*", "content", "*", "toolResponse"],
        "call_id": ["ref"],
        "result": ["output"],
    },
    "input_tokens": {"attribute": "acme.out", "path": ["usage", "in"]},
}


def dialect(*mappings: Mapping[str, object], **more: object) -> MappedDialect:
    return MappedDialect("acme", MappedDialectSettings.model_validate({"spans": mappings, **more}))


def executed(attributes: Mapping[str, Value], mapping: Mapping[str, object] = TOOL, name: str = "span") -> CallExecuted:
    (found,) = observations(dialect(mapping), span(attributes, name=name))
    assert isinstance(found, CallExecuted)
    return found


def refusal(**settings: object) -> str:
    with pytest.raises(ValidationError) as refused:
        MappedDialectSettings.model_validate(settings)
    return str(refused.value)


def test_a_tool_call_is_read_from_attributes_and_from_inside_their_json():
    found = observations(
        dialect(TOOL),
        span(
            {
                "acme.kind": "tool",
                "acme.tool": "refund",
                "acme.in": '{"args": {"amount": 20}}',
                "acme.out": '{"output": {"ok": true}}',
                "acme.call": 7,
                "acme.agent": "clerk",
                "acme.thread": "t-1",
            }
        ),
    )
    assert found == [
        ConversationSeen(conversation_id="t-1", rank=2),
        CallExecuted(
            name="refund", call_id="7", arguments=Recorded({"amount": 20}), result=Recorded({"ok": True}), agent="clerk"
        ),
    ]


@each_row(
    ("written", "arguments"),
    [
        (None, NOT_RECORDED),
        ("{}", NOT_RECORDED),
        ('{"args": null}', NOT_RECORDED),
        ('{"args": {}}', Recorded({})),
        ('{"args": "{\\"a\\": 1}"}', Recorded({"a": 1})),
        ({"args": {"a": 1}}, Recorded({"a": 1})),
        ('{"args": [1]}', Unparsed("[1]")),
        ("no JSON", Unparsed("no JSON")),
        ('{"args": {"text": "' + "x" * 100 + "...", Unparsed('{"args": {"text": "' + "x" * 100 + "...", "truncated")),
    ],
)
def test_arguments_that_are_not_there_are_not_recorded_and_never_empty(written: Value, arguments: object):
    attributes: dict[str, Value] = {"acme.kind": "tool", "acme.tool": "refund"}
    if written is not None:
        attributes["acme.in"] = written
    assert executed(attributes).arguments == arguments


@each_row(
    ("more", "error"),
    [
        ({}, None),
        ({"acme.state": "success"}, None),
        ({"acme.state": "refused"}, other_error("")),
        ({"acme.problem": "no such order"}, other_error("no such order")),
        ({"error.type": "TimeoutError"}, CallError(kind="TimeoutError", message="")),
        ({"error.type": "TimeoutError", "acme.problem": "slow"}, CallError(kind="TimeoutError", message="slow")),
    ],
)
def test_a_call_failed_where_the_span_or_a_mapped_attribute_shows_it(
    more: Mapping[str, Value], error: CallError | None
):
    assert executed({"acme.kind": "tool", "acme.tool": "refund", **more}).error == error


def test_the_tool_may_stand_in_the_name_of_the_span():
    mapping = {"match": {"acme.kind": "tool"}, "reads": "tool_call", "tool_name": {"span_name": "tool_call "}}
    assert executed({"acme.kind": "tool"}, mapping, "tool_call refund").name == "refund"
    assert observations(dialect(mapping), span({"acme.kind": "tool"}, name="something else")) == []


@each_row(
    ("place", "expected"),
    [
        ({"event": "done", "attribute": "value"}, [1, 2]),
        ({"event": "start", "attribute": "value"}, 7),
        ({"event": "start", "attribute": "value.in", "path": ["a"]}, 8),
        ({"event": "start"}, [{"value": "7", "value.in": '{"a": 8}'}]),
    ],
)
def test_a_value_may_stand_in_events(place: Mapping[str, object], expected: object):
    events = [
        event("start", {"value": "7", "value.in": '{"a": 8}'}),
        event("done", {"value": "1"}),
        event("done", {"value": "2"}),
    ]
    mapping: dict[str, object] = {**TOOL, "match": {}, "event": "done", "result": place}
    mapped = MappedDialect("acme", MappedDialectSettings.model_validate({"spans": [mapping], "scopes": ["test"]}))
    [call] = observations(mapped, span({"acme.tool": "find"}, events=events))
    assert isinstance(call, CallExecuted)
    assert isinstance(call.result, Recorded)
    assert call.result.value == expected
    assert not mapped.claims(span({"acme.tool": "find"}, events=events[:1]))


def test_a_result_that_is_text_is_not_opened_where_the_mapping_says_so():
    mapping = {**TOOL, "result": {"attribute": "acme.out", "envelope": "text"}}
    read = executed({"acme.kind": "tool", "acme.tool": "read", "acme.out": '{"a": 1}'}, mapping)
    assert read.result == Recorded('{"a": 1}')


def test_requests_and_answers_are_found_along_their_paths_in_order():
    out = '{"message": {"content": [{"text": "hm"}, {"toolRequest": {"name": "find", "ref": "1", "input": {"q": "x"}}},\
 {"toolRequest": {"name": "refund", "input": {}}}, {"toolRequest": {"input": {}}}]}, "usage": {"in": 12}}'
    given = '{"messages": [{"role": "user", "content": [{"text": "hello"}]},\
 {"role": "tool", "content": [{"toolResponse": {"ref": "0", "output": [1]}}, {"toolResponse": {"output": 2}}]}],\
 "tools": [{"name": "find", "inputSchema": {"type": "object"}}]}'
    found = observations(dialect(MODEL), span({"acme.kind": "model", "acme.in": given, "acme.out": out}))
    assert [seen for seen in found if not isinstance(seen, ToolsOffered)] == [
        ModelCall(input_tokens=12),
        MessageSeen(role="user", text="hello"),
        CallAnswered(call_id="0", result=Recorded([1])),
        CallRequested(position=0, name="find", call_id="1", arguments=Recorded({"q": "x"})),
        CallRequested(position=1, name="refund", arguments=Recorded({})),
    ]
    assert ToolsOffered(tools=(ToolDefinition(name="find", parameters={"type": "object"}),)) in found


def test_an_agent_repeats_no_calls_of_its_models():
    mapping = {"match": {"acme.kind": "agent"}, "reads": "agent_run", "agent": "acme.agent", "output": "acme.out"}
    out = '{"role": "assistant", "content": "done", "tool_calls": [{"id": "1", "name": "find", "arguments": {}}]}'
    found = observations(dialect(mapping), span({"acme.kind": "agent", "acme.agent": "clerk", "acme.out": out}))
    assert found == [AgentRun(agent="clerk"), MessageSeen(role="assistant", text="done")]


@each_row(
    ("attributes", "scope", "name", "claimed"),
    [
        ({"kind": "tool", "size": 3}, "acme.tools", "call x", True),
        ({"kind": "tool", "size": 4}, "acme.tools", "call x", True),
        ({"kind": "tool", "size": 5}, "acme.tools", "call x", False),
        ({"kind": "tools", "size": 3}, "acme.tools", "call x", False),
        ({"size": 3}, "acme.tools", "call x", False),
        ({"kind": "tool", "size": 3}, "other.tools", "call x", False),
        ({"kind": "tool", "size": 3}, "acme.tools", "recall x", False),
    ],
)
def test_all_conditions_must_hold(attributes: Mapping[str, Value], scope: str, name: str, claimed: object):
    mapping = {**TOOL, "match": {"kind": "tool", "size": [3, 4]}, "span_name": "call "}
    found = dialect(mapping, scopes=["acme."]).claims(span(attributes, scope=scope, name=name))
    assert found is claimed


def test_true_asks_for_no_value_false_for_none_and_a_flag_is_no_number():
    present = dialect({**TOOL, "match": {"kind": True}})
    assert present.claims(span({"kind": 0}))
    assert not present.claims(span({}))
    without = dialect({**TOOL, "match": {"kind": True, "other": False}})
    assert without.claims(span({"kind": 0}))
    assert not without.claims(span({"kind": 0, "other": ""}))
    assert not dialect({**TOOL, "match": {"kind": 1}}).claims(span({"kind": True}))
    assert dialect({**TOOL, "match": {"kind": "true"}}).claims(span({"kind": True}))


def test_the_first_mapping_that_matches_reads_the_span():
    both = dialect({**TOOL, "match": {"acme.kind": True}, "tool_name": "acme.first"}, TOOL)
    (found,) = observations(both, span({"acme.kind": "tool", "acme.tool": "second", "acme.first": "first"}))
    assert isinstance(found, CallExecuted)
    assert found.name == "first"


@each_row(
    ("settings", "scope"),
    [
        ({"spans": [TOOL, MODEL]}, "any"),
        ({"spans": [{**TOOL, "match": {"acme.kind": ["tool", "function"]}}]}, "any"),
        ({"spans": [{**TOOL, "match": {}, "span_name": "sp"}], "scopes": ["acme"]}, "acme.tools"),
        ({"spans": [{**TOOL, "match": {"acme.flag": "true"}}]}, "any"),
    ],
)
def test_a_mapped_dialect_keeps_the_contract_of_dialects(settings: Mapping[str, object], scope: str):
    mapped = MappedDialect("acme", MappedDialectSettings.model_validate(settings))
    spans = [
        span({"acme.kind": "tool", "acme.tool": "refund", "acme.in": '{"args": {}}'}, scope=scope),
        span({"acme.kind": "model", "acme.out": "[" * 5000}, scope=scope),
        span({"acme.kind": "tool", "acme.tool": "refund", "acme.flag": True}, scope=scope),
        span({"acme.kind": "tool", "acme.tool": 3, "acme.in": [{"a": [1.5, None]}]}, scope=scope),
    ]
    check_dialect(mapped, spans)


@each_row(
    ("mapping", "problem"),
    [
        ({**TOOL, "match": {}}, "it would match every span"),
        ({**TOOL, "match": {}, "span_name": "tool"}, "needs `scopes`"),
        ({**TOOL, "tool_name": None}, "a `tool_call` needs `tool_name`"),
        ({**TOOL, "input": "acme.in"}, "`input` is not read from a span that is a `tool_call`"),
        ({**MODEL, "failed": {"a": "b"}}, "`failed` is not read from a span that is a `model_call`"),
        ({**TOOL, "result": {"path": ["a"]}}, "needs one of `attribute`, `prefix` and `span_name`"),
        ({**TOOL, "result": {"attribute": "a", "envelope": "xml"}}, "'json' or 'text'"),
        ({**TOOL, "match": {"kind": False}}, "needs `scopes`"),
        ({**TOOL, "match": {"kind": 1.5}}, "match.kind"),
        ({**TOOL, "match": {"": "x"}}, "match"),
        ({**MODEL, "answers": {"attribute": "a", "result": ["b"]}}, "belongs to no call"),
        ({**TOOL, "toolname": "x"}, "toolname"),
    ],
)
def test_what_cannot_be_meant_is_refused(mapping: Mapping[str, object], problem: str):
    assert problem in refusal(spans=[mapping])


def test_a_dialect_needs_a_mapping():
    assert "`spans` needs at least one mapping" in refusal(spans=[])
