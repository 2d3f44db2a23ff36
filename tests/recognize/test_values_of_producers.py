"""Values that producers write in forms of their own: errors, tools on offer, tools' spans of several names."""

import time

from tests.recognize.support import other_error, span
from tests.rows import each_row
from toolgauge.assemble.failures import rejection
from toolgauge.dialects.genai import OpenLit
from toolgauge.dialects.python_frameworks import LlamaIndex
from toolgauge.model.content import NOT_RECORDED, Recorded
from toolgauge.model.observations import CallError, CallExecuted
from toolgauge.recognize.conventions import own_message
from toolgauge.recognize.langchain import waiting_calls

CALL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "refund"}


@each_row(
    ("text", "message"),
    [
        ("Error running tool (non-fatal): {'tool_name': 'refund', 'error': 'card declined'}", "card declined"),
        (
            "{'message': 'Error running tool', 'data': {'tool_name': 'refund', 'error': 'card declined'}}",
            "card declined",
        ),
        ("Error running tool", "Error running tool"),
        ("card declined", "card declined"),
    ],
)
def test_notes_of_openais_agents_sdk_have_the_message_of_the_tool(text: str, message: str):
    assert own_message(text) == message


def test_a_sentence_is_no_kind_of_error():
    written = {**CALL, "error.type": "card declined: code 51"}
    seen = list(
        OpenLit().read(span(written, status="error", status_message="Tool execution failed", scope="openlit.x"))
    )
    assert [one.error for one in seen if isinstance(one, CallExecuted)] == [other_error("card declined: code 51")]


def test_a_list_of_validation_errors_rejects_the_call():
    error = CallError(
        kind="_OTHER", message='3 validation errors:\n```json\n[{"type": "missing", "loc": ["city"]}]\n```'
    )
    assert rejection("get_weather", Recorded({}), error, NOT_RECORDED) == "invalid_arguments"
    assert rejection("validate", Recorded({}), other_error("3 validation errors: none"), NOT_RECORDED) is None


def test_a_step_of_llama_index_that_is_cut_has_a_name_alone():
    step = {"llamaindex.step.input_summary": "ToolCall(tool_name='refund', tool_kwargs={'order_id': 'A-1..."}
    scope = "llamaindex.opentelemetry.tracer"
    assert list(LlamaIndex().read(span(step, name="FunctionTool.acall", scope=scope))) == [CallExecuted(name="refund")]


# -- what LangChain and LangGraph write under every dialect that reads them

ACTIONS = "'action_requests': [{'name': 'wire', 'args': {'n': 1}}, {'name': 'book', 'args': {}}], 'review_configs': []"


def test_the_calls_for_which_a_person_is_asked_are_read_from_the_text_of_the_interrupt():
    interrupt = f"(Interrupt(value={{{ACTIONS}}}, id='1'),)"
    assert [call.name for call in waiting_calls(span({}), interrupt)] == ["wire", "book"]


def test_many_beginnings_of_lists_of_actions_without_an_end_take_no_time():
    began = time.process_time()
    assert not list(waiting_calls(span({}), "'action_requests': [" * 10_000))
    assert time.process_time() - began < 0.5
