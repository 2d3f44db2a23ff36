"""Producers of the conventions as real packages wrote them: `cases/<dialect>`, producer and version in the name."""

from pathlib import Path

from tests.recognize.support import log, observations, recorded, seen, span
from toolgauge.dialects.genai import GenAI
from toolgauge.dialects.google import GoogleAdk
from toolgauge.dialects.python_frameworks import PydanticAI
from toolgauge.model.content import NOT_RECORDED, Recorded, Unparsed
from toolgauge.model.json import Json, Value
from toolgauge.model.observations import (
    CallAnswered,
    CallError,
    CallExecuted,
    CallRequested,
    MessageSeen,
    Reading,
    ToolsOffered,
)
from toolgauge.model.ports import Dialect
from toolgauge.recognize import conventions
from toolgauge.recognize.messages import read_messages

CASES = Path(__file__).parent / "cases"


def case(dialect: Dialect, name: str) -> list[Reading]:
    return recorded(dialect, str(CASES / name))


def requested(name: str, call_id: str | None, arguments: Json, position: int = 0) -> CallRequested:
    return CallRequested(position=position, name=name, call_id=call_id, arguments=Recorded(arguments))


def written(messages: str) -> list[object]:
    return list(conventions.written(read_messages(messages, "assistant"), None))


# -- one output told in pieces


def test_adk_call_of_a_streamed_output_is_plainly_claimed_in_pieces_and_counts_once():
    readings = case(GoogleAdk(), "google_adk/google-adk-2.13.0-streamed-parallel.logs.otlp.pb")
    asked = [call for call in seen(readings, CallRequested) if isinstance(call, CallRequested)]
    assert [(call.position, call.name, call.call_id, call.arguments) for call in asked] == [
        (0, "get_weather", "call_1", Recorded({"city": "Paris"})),
        (1, "get_weather", "call_2", Recorded({"city": "Rome"})),
        (2, "get_weather", "call_3", Recorded({"city": "Oslo"})),
    ]


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


def test_old_pydantic_ai_tells_a_refused_call_in_its_answer_alone():
    readings = case(PydanticAI(), "pydantic_ai/pydantic-ai-0.2.20-bad-type.otlp.pb")
    assert [call.error for call in seen(readings, CallExecuted) if isinstance(call, CallExecuted)] == [None, None]
    answers = [one for one in seen(readings, CallAnswered) if isinstance(one, CallAnswered)]
    kinds = [(one.call_id, one.error.kind if one.error else None) for one in answers]
    assert kinds == [
        ("call_1", "invalid_arguments"),
        ("call_1", "invalid_arguments"),
        ("call_2", None),
    ]


# -- LiteLLM


def test_litellm_calls_are_read_from_the_raw_request():
    readings = case(GenAI(), "genai/litellm-1.106.2-sequence.otlp.pb")
    asked = [call for call in seen(readings, CallRequested) if isinstance(call, CallRequested) and call.call_id]
    assert asked == [
        requested("find_order", "call_1", {"customer": "Ana"}),
        requested("get_order", "call_2", {"order_id": "A-17"}),
        requested("refund", "call_3", {"order_id": "A-17", "amount": 20.5}),
    ]
    assert CallAnswered(call_id="call_2", result=Recorded({"order_id": "A-17", "amount": 20.5})) in seen(
        readings, CallAnswered
    )
    offered = next(one for one in seen(readings, ToolsOffered) if isinstance(one, ToolsOffered))
    assert [tool.name for tool in offered.tools] == ["get_weather", "find_order", "get_order", "refund", "book"]


def test_litellm_calls_in_flat_keys_are_read():
    flat = span(
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.output.messages": '[{"role": "assistant", "parts": [], "finish_reason": "tool_calls"}]',
            "gen_ai.completion.0.function_call.name": "f",
            "gen_ai.completion.0.function_call.arguments": '{"a": 1}',
            "gen_ai.completion.1.function_call.name": "g",
            "gen_ai.completion.1.function_call.arguments": '{"a": ',
        },
        scope="litellm",
    )
    assert [one for one in observations(GenAI(), flat) if isinstance(one, CallRequested)] == [
        requested("f", None, {"a": 1}),
        CallRequested(position=1, name="g", arguments=Unparsed('{"a": ')),
    ]


# -- what others wrote


def test_google_genai_numbers_calls_anew_in_each_output():
    asked = seen(case(GenAI(), "genai/google-genai-1.3b0-ids-used-again.otlp.pb"), CallRequested)
    assert asked == [
        requested("refund", "refund_0", {"order_id": "A-17", "amount": "forty"}),
        requested("refund", "refund_0", {"order_id": "A-17", "amount": 40}),
    ]


def test_old_pydantic_ai_tells_a_refused_call_in_a_log_record_too():
    text = "1 validation errors: [\n  {}\n]\n\nFix the errors and try again."
    body: dict[str, Value] = {"role": "tool", "id": "call_1", "name": "f", "content": text}
    assert observations(PydanticAI(), log("gen_ai.tool.message", body=body, scope="pydantic-ai")) == [
        CallAnswered(
            call_id="call_1",
            name="f",
            result=Recorded(text),
            error=CallError(kind="invalid_arguments", message=text),
        )
    ]
