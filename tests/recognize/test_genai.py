"""The GenAI conventions: forms by hand, and producers as real packages wrote them (`cases/<dialect>`)."""

import json
import time

import pytest
from msgspec.structs import replace

from tests.recognize.support import event, log, observations, other_error, span
from tests.rows import each_row
from toolgauge.dialects.genai import GenAI
from toolgauge.dialects.python_frameworks import PydanticAI
from toolgauge.model.content import NOT_RECORDED, Recorded, Unparsed
from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.model.observations import (
    CallAnswered,
    CallError,
    CallExecuted,
    CallRequested,
    ConversationSeen,
    MessageSeen,
    ModelCall,
    Observation,
)
from toolgauge.model.records import Record
from toolgauge.recognize import conventions
from toolgauge.recognize.messages import read_messages

CHAT = {"gen_ai.operation.name": "chat"}
DETAILS = "gen_ai.client.inference.operation.details"


def read(record: Record) -> list[Observation]:
    return observations(GenAI(), record)


def chat(output: Value = None, received: Value = None, **attributes: Value) -> list[Observation]:
    found: dict[str, Value] = {**CHAT, **attributes}
    if output is not None:
        found["gen_ai.output.messages"] = output
    if received is not None:
        found["gen_ai.input.messages"] = received
    return read(span(found))[1:]


def message(role: str, *parts: Json) -> Json:
    return {"role": role, "parts": list(parts)}


def call(name: str, **more: Json) -> Json:
    return {"type": "tool_call", "name": name, **more}


def answer(call_id: str, response: Json) -> Json:
    return {"type": "tool_call_response", "id": call_id, "response": response}


# -- tool spans ---------------------------------------------------------------------------------------------------


EXCEPTION = event("exception", {"exception.type": "TimeoutError", "exception.message": "too slow"})


@each_row(
    ("record", "expected"),
    [
        (span({}, status="error", status_message="boom"), other_error("boom")),
        (span({}, status="error", events=[EXCEPTION]), CallError(kind="TimeoutError", message="too slow")),
        (span({}, events=[EXCEPTION, EXCEPTION]), CallError(kind="TimeoutError", message="too slow")),
        (span({"error.type": "504"}, events=[EXCEPTION]), CallError(kind="504", message="too slow")),
        (span({"error.type": "tool_error"}, status="ok"), CallError(kind="tool_error", message="")),
        (span({}, status="ok", events=[EXCEPTION]), None),
        (span({}, events=[event("note", {})]), None),
    ],
)
def test_errors_come_from_status_error_type_or_exception(record: Record, expected: CallError | None):
    named = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search", **record.attributes}
    record = replace(record, attributes=named)

    assert read(record) == [CallExecuted(name="search", error=expected)]


# -- model calls --------------------------------------------------------------------------------------------------


def test_a_call_without_arguments_is_plainly_claimed_from_one_whose_arguments_are_not_known():
    output = [message("assistant", call("a", id="1", arguments={}), call("b", id="2"), call("c", arguments=None))]

    assert chat(json.dumps(output)) == [
        CallRequested(position=0, name="a", call_id="1", arguments=Recorded({})),
        CallRequested(position=1, name="b", call_id="2"),
        CallRequested(position=2, name="c"),
    ]


SEARCH = CallRequested(position=0, name="search", call_id="c1", arguments=Recorded({"q": "a"}))
OPENAI_CALL: Json = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q": "a"}'}}


@pytest.mark.parametrize(
    "output",
    [
        [message("assistant", call("search", id="c1", arguments={"q": "a"}))],
        [message("assistant", call("search", id="c1", arguments='{"q": "a"}'))],
        [message("assistant", call("search", id="c1", arguments='"{\\"q\\": \\"a\\"}"'))],
        [message("assistant", {"type": "reasoning", "content": "hm"}, call("search", id="c1", arguments={"q": "a"}))],
        message("assistant", call("search", id="c1", arguments={"q": "a"})),
        [{"role": "assistant", "content": None, "tool_calls": [OPENAI_CALL]}],
        [{"role": "assistant", "tool_calls": json.dumps([OPENAI_CALL])}],
        [{"message": {"role": "assistant", "tool_calls": [OPENAI_CALL]}, "finish_reason": "tool_calls"}],
        [{"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "search", "input": {"q": "a"}}]}],
        [{"type": "function_call", "id": "fc_9", "call_id": "c1", "name": "search", "arguments": '{"q": "a"}'}],
        [json.dumps(message("assistant", call("search", id="c1", arguments={"q": "a"})))],
        [{"role": "assistant", "parts": json.dumps([call("search", id="c1", arguments={"q": "a"})])}],
    ],
)
@pytest.mark.parametrize("as_text", [True, False])
def test_requested_calls_are_read_in_every_shape_producers_write(output: Json, *, as_text: bool):
    assert chat(json.dumps(output) if as_text else output) == [SEARCH]


RAIN = CallAnswered(call_id="c1", result=Recorded({"rain": True}))


@each_row(
    "picture",
    [
        {"type": "blob", "mime_type": "image/png", "content": "iVBO"},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
        {"type": "input_file", "file_id": "f1"},
        {"inline_data": {"mime_type": "image/png", "data": "iVBO"}},
    ],
)
def test_a_message_of_the_user_may_hold_more_than_text(picture: JsonObject):
    received = [message("user", {"type": "text", "content": "Pay this."}, picture)]
    assert chat(received=json.dumps(received)) == [MessageSeen(role="user", text="Pay this.", has_media=True)]
    assert chat(received=json.dumps([message("user"), *received, message("assistant", picture)])) == [
        MessageSeen(role="user", text="Pay this.", follows=True, has_media=True)
    ]


def test_history_is_read_for_answers_and_the_newest_user_text():
    received = [
        {"role": "system", "content": "Be brief."},
        message("user", {"type": "text", "content": "First?"}),
        message("assistant", {"type": "text", "content": "Looking."}, call("search", id="c1", arguments={})),
        message("tool", {"type": "tool_call_response", "id": "c1", "response": "done"}),
        message("user", {"type": "text", "content": "Second"}, {"type": "text", "content": "and third?"}),
        message("user", {"type": "tool_call_response", "id": "c2", "response": ""}),
    ]

    assert chat(received=json.dumps(received)) == [
        MessageSeen(role="system", text="Be brief."),
        CallAnswered(call_id="c1", result=Recorded("done")),
        CallAnswered(call_id="c2", result=Recorded("")),
        MessageSeen(role="user", text="Second\nand third?", follows=True),
    ]


def test_a_session_stands_in_for_a_conversation():
    assert read(span(CHAT | {"session.id": "s-1"}))[0] == ConversationSeen(conversation_id="s-1", rank=1)
    assert read(span({"gen_ai.conversation.id": 42})) == [ConversationSeen(conversation_id="42", rank=0)]
    assert read(span(CHAT | {"gen_ai.conversation.id": ""})) == [ModelCall()]


@each_row(
    "value", ["Be brief.", '[{"type": "text", "content": "Be brief."}]', [{"type": "text", "content": "Be brief."}]]
)
def test_system_instructions_are_text_or_parts(value: Value):
    assert chat(**{"gen_ai.system_instructions": value}) == [MessageSeen(role="system", text="Be brief.")]


# -- events -------------------------------------------------------------------------------------------------------

CHOICE: Json = {
    "index": 0,
    "finish_reason": "tool_calls",
    "message": {"role": "assistant", "tool_calls": [OPENAI_CALL]},
}


@pytest.mark.parametrize("body", [CHOICE, json.dumps(CHOICE)])
def test_a_choice_is_read_from_a_log_record_and_from_a_span_event(body: Value):
    on_span = event("gen_ai.choice", {"gen_ai.event.content": body})

    assert read(log("gen_ai.choice", body=body)) == [SEARCH]
    assert read(log("gen_ai.choice", attributes={"gen_ai.event.content": body})) == [SEARCH]
    assert read(span(CHAT, events=[on_span])) == [ModelCall(), SEARCH]


def test_further_choices_do_not_take_the_positions_of_the_first():
    body: Json = {"index": 1, "message": {"tool_calls": [OPENAI_CALL]}}

    (only,) = read(log("gen_ai.choice", body=body))

    assert isinstance(only, CallRequested)
    assert only.position > 100


def test_span_events_with_flat_attributes_are_read():
    events = [
        event("gen_ai.system.message", {"content": "Be brief."}),
        event("gen_ai.user.message", {"content": '[{"text": "Rain?"}]'}),
        event("gen_ai.assistant.message", {"content": "earlier"}),
        event("gen_ai.tool.message", {"content": '{"rain": true}', "id": "c1"}),
        event("gen_ai.choice", {"index": 0, "message": '{"role": "assistant", "content": "Yes."}'}),
        event("something.else", {"content": "x"}),
    ]

    assert read(span(CHAT, events=events)) == [
        ModelCall(),
        MessageSeen(role="system", text="Be brief."),
        MessageSeen(role="user", text="Rain?"),
        RAIN,
        MessageSeen(role="assistant", text="Yes."),
    ]


def test_events_that_repeat_the_spans_own_content_are_not_read_twice():
    attributes = CHAT | {"gen_ai.output.messages": json.dumps([message("assistant", call("search", id="c1"))])}
    repeated = event("gen_ai.choice", {"gen_ai.event.content": json.dumps(CHOICE)})

    assert read(span(attributes, events=[repeated])) == [
        ModelCall(),
        CallRequested(position=0, name="search", call_id="c1"),
    ]


def test_details_of_an_agents_run_are_read_for_text_alone():
    attributes: dict[str, Value] = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.output.messages": [message("assistant", call("search"), {"type": "text", "content": "Done."})],
    }

    assert read(log(DETAILS, attributes=attributes)) == [MessageSeen(role="assistant", text="Done.")]


@each_row("name", ["gen_ai.evaluation.result", "gen_ai.assistant.message", "other", ""])
def test_scores_history_and_strange_events_are_not_claimed(name: str):
    assert not GenAI().claims(log(name, body=CHOICE))


def test_a_text_body_is_the_messages_content():
    assert read(log("gen_ai.user.message", body="Rain?")) == [MessageSeen(role="user", text="Rain?")]


# -- hostile values -----------------------------------------------------------------------------------------------


STRANGE: list[Value] = [
    b"\xff\xfe",
    [None, 1, "x", [], [[]], {}],
    {"role": 1, "parts": "x"},
    [{"role": [], "parts": [None, 1, "x", {"type": {}}, {"type": []}]}],
    [{"parts": [{"type": "tool_call", "name": {"a": 1}}, {"type": "tool_call"}, {"type": "tool_call", "name": ""}]}],
    [{"tool_calls": 7, "content": {"a": 1}}],
    [{"tool_calls": [7, None, "x", {"function": 3}, {"function": {"name": 3}}]}],
    [{"message": 5}, {"message": [{}]}],
    [{"function": "x", "name": ["a"]}],
]


@each_row("value", STRANGE)
def test_strange_values_invent_no_calls(value: Value):
    assert not any(isinstance(seen, CallRequested) for seen in chat(value, value))
    assert not any(isinstance(seen, CallRequested) for seen in read(log("gen_ai.choice", body=value)))


@each_row("text", ["[" + "{}," * 100_000 + "{}]", '[{"parts": [' + '{"type":"tool_call_response"},' * 90_000 + "{}]}]"])
def test_huge_messages_are_read_for_a_bounded_time(text: str):
    started = time.process_time()

    chat(text, text)

    assert time.process_time() - started < 1


def test_an_answer_that_is_nested_too_deep_stays_text_and_costs_the_others_nothing():
    deep: Json = json.loads("[" * 150 + "]" * 150)
    history = message("tool", answer("1", deep), answer("2", [[1]]))

    results = [one.result for one in chat(received=json.dumps([history])) if isinstance(one, CallAnswered)]

    assert isinstance(results[0], Unparsed)
    assert results[1:] == [Recorded([[1]])]


def test_of_an_endless_history_the_newest_messages_count():
    received = (
        '[{"role": "user", "content": "old"},' + '{"role": "system"},' * 20_000 + '{"role": "user", "content": "new"}]'
    )

    assert chat(received=received) == [MessageSeen(role="user", text="new")]


@pytest.mark.parametrize("name", ["DynamicStructuredTool", "(merged tools)"])
def test_what_stands_for_any_tool_is_no_tools_name(name: str):
    attributes: dict[str, Value] = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
    assert read(span(attributes)) == []


def seen_calls(attributes: dict[str, Value]) -> list[ModelCall]:
    return [one for one in read(span({**CHAT, **attributes})) if isinstance(one, ModelCall)]


@pytest.mark.parametrize(
    ("output", "ending"),
    [  # pyright: ignore[reportUnknownArgumentType] - JSON of many shapes
        ([{"role": "assistant", "parts": [], "finish_reason": "stop"}], "empty"),
        ([message("assistant", {"type": "text", "content": " "})], "empty"),
        ([message("assistant", {"type": "reasoning", "content": "hm"}, {"type": "text", "content": ""})], "empty"),
        ([{"role": "assistant", "content": ""}], "empty"),
        ([{"role": "assistant", "parts": [{"type": "text", "content": "Yes"}], "finish_reason": "length"}], "length"),
        ([message("assistant", {"type": "text", "content": "Yes"})], None),
        ([message("assistant", {"type": "text", "content": "[REDACTED]"})], None),
        ([message("assistant", {"type": "image", "uri": "x"})], None),
        ([message("assistant", call("find", arguments={}))], None),
        # A producer that leaves content out.
        ([message("assistant", {"type": "text"})], None),
        ([{"role": "assistant"}], None),
        ([{"role": "assistant", "content": None, "refusal": "no"}], None),
        ([{"role": "assistant", "parts": [], "finish_reason": "tool_call"}], None),
        ([], None),
    ],
)
@pytest.mark.parametrize("as_text", [True, False])
def test_an_output_that_was_recorded_and_holds_nothing_is_an_empty_answer(
    output: Json, ending: str | None, *, as_text: bool
):
    written = json.dumps(output) if as_text else output
    (found,) = seen_calls({"gen_ai.output.messages": written})
    assert found.ending == ending


# -- recordings, and outputs in pieces


def requested(name: str, call_id: str | None, arguments: Json, position: int = 0) -> CallRequested:
    return CallRequested(position=position, name=name, call_id=call_id, arguments=Recorded(arguments))


def written(messages: str) -> list[object]:
    return list(conventions.written(read_messages(messages, "assistant"), None))


# -- one output told in pieces


def test_pieces_of_a_text_are_left_out_where_the_whole_follows():
    told = '[{"role": "assistant", "content": "It is"}, {"content": " 21."}, {"content": "It is 21."}]'
    assert written(told) == [MessageSeen(role="assistant", text="It is 21.")]


def test_calls_of_one_id_with_other_arguments_stay_two():
    told = (
        '[{"parts": [{"type": "tool_call", "id": "f_0", "name": "f", "arguments": {"a": 1}}]},'
        ' {"parts": [{"type": "tool_call", "id": "f_0", "name": "f", "arguments": {"a": 2}}]}]'
    )
    assert written(told) == [requested("f", "f_0", {"a": 1}), requested("f", "f_0", {"a": 2}, position=1)]


def test_piece_of_arguments_gives_way_to_the_whole():
    told = (
        '[{"parts": [{"type": "tool_call", "id": "c", "name": "f", "arguments": "{\\"a\\""}]},'
        ' {"parts": [{"type": "tool_call", "id": "c", "name": "f", "arguments": "{\\"a\\": 1}"}]}]'
    )
    assert written(told) == [requested("f", "c", {"a": 1})]


def test_equal_calls_without_ids_stay_two():
    told = '[{"parts": [{"type": "tool_call", "name": "f"}, {"type": "tool_call", "name": "f"}]}]'
    assert written(told) == [
        CallRequested(position=0, name="f", arguments=NOT_RECORDED),
        CallRequested(position=1, name="f", arguments=NOT_RECORDED),
    ]


# -- Pydantic AI


# -- LiteLLM


# -- what others wrote


def test_old_pydantic_ai_tells_a_refused_call_in_a_log_record_too():
    text = "1 validation errors: [\n  {}\n]\n\nFix the errors and try again."
    body: dict[str, Value] = {"role": "tool", "id": "call_1", "name": "f", "content": text}
    assert observations(PydanticAI(), log("gen_ai.tool.message", body=body, scope="pydantic-ai")) == [
        CallAnswered(
            call_id="call_1", name="f", result=Recorded(text), error=CallError(kind="invalid_arguments", message=text)
        )
    ]
