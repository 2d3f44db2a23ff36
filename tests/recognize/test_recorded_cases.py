"""Runs as real packages recorded them (`cases`, producer and version in the name): the calls that were made."""

import json
import re

from tests.recognize.support import CORPUS
from tests.recovery_table import trajectories
from tests.rows import each_row
from toolgauge.model.content import Recorded, Unparsed
from toolgauge.model.trajectory import ToolCall

CASES = CORPUS.parent / "recognize" / "cases"
SEQUENCE = [
    '0 find_order {"customer": "Ana"} call_1',
    '1 get_order {"order_id": "A-17"} call_2',
    '2 refund {"order_id": "A-17", "amount": 20.5} call_3',
]
PARALLEL = [
    '0 get_weather {"city": "Paris"} call_1',
    '0 get_weather {"city": "Rome"} call_2',
    '0 get_weather {"city": "Oslo"} call_3',
]
SHOPPING = [
    '0 list_orders {"customer_id": 7731, "limit": 1} call_1',
    '1 charge_card {"customer_id": 7731, "amount": 42.5} call_2 - ValueError: card declined: code 51',
    '2 get_weather {"city": "Zürich"} call_3',
    '2 note {"text": "20"} call_4',
]
# Turn, name, arguments and id of each call, its state where it was not executed, and its error.
RECORDED: dict[str, list[str]] = {
    "genai/google-genai-1.3b0-ids-used-again": [
        '0 refund {"order_id": "A-17", "amount": "forty"} refund_0',
        '1 refund {"order_id": "A-17", "amount": 40.0} refund_0',
    ],
    "genai/litellm-1.106.2-sequence": SEQUENCE,
    "genai/semantic-kernel-1.45.0-bad-type": [
        '0 shop-refund {"order_id": "A-17", "amount": "forty"} rejected call_1 - FunctionExecutionException: FunctionExecutionException: P',
        '1 shop-refund {"order_id": "A-17", "amount": 40.0} call_2',
    ],
    "google_adk/google-adk-2.13.0-streamed-parallel": PARALLEL,
    "langfuse/langchain-3.15.0-agent-executor-unknown-tool": [
        '0 book_flight {"to": "Rome"} rejected call_unk001428 - _OTHER: book_flight is not a valid tool, try one of [look',
        '1 lookup_order {"order_id": "E-1"} call_unk002428',
    ],
    "langfuse/langchain-3.15.0-bad-json": [
        '0 lookup_order {"order_id": "F-1 rejected call_bad001909 - invalid_arguments: the arguments cannot be parsed',
    ],
    "mlflow/mlflow-3.17.2-decorators": [
        '0 lookup_stock {"sku": "AB-1", "warehouse": "FRA2"}',
        '1 add {"a": 1, "b": 2.5} - TimeoutError: backend timed out',
    ],
    "mlflow/mlflow-3.17.2-genai-conventions": SHOPPING,
    "mlflow/mlflow-3.17.2-langgraph-bad-json": [
        '0 get_weather {"city": "Tokyo", "unit":  requested_only call_b1',
    ],
    "mlflow/mlflow-3.17.2-langgraph-handoff": [
        "0 transfer_to_refunds {} call_h1",
        '1 get_weather {"city": "Oslo"} call_h2',
    ],
    "mlflow/mlflow-3.17.2-langgraph-sequence": SHOPPING,
    "mlflow/mlflow-3.17.2-langgraph-unknown-tool": [
        '0 cancel_order {"order_id": "A-1001"} rejected call_u1 - unknown_tool: Error: cancel_order is not a valid tool, tr',
        '1 get_weather {"city": "Paris", "unit": "celsius"} call_u2',
    ],
    "mlflow/mlflow-3.17.2-llama-index-one-call": [
        '0 lookup_order {"order_id": "A-17"} call_one001121',
    ],
    "mlflow/mlflow-3.17.2-openai-stream-unknown-tool": [
        '0 book_flight {"to": "Rome"} rejected call_unk001662 - unknown_tool: Error: no tool book_flight',
        '1 lookup_order {"order_id": "E-1"} call_unk002662',
    ],
    "openinference/beeai-0.1.85-tool-error": [
        '0 refund {"order_id": "BAD", "amount": 1.5} call_1 - beeai_framework.tools.errors.ToolError: Tool Error',
        '1 final_answer {"response": "Could not refund."} finCou',
    ],
    "openinference/crewai-1.1.21-delegation": [
        '0 delegate_work_to_coworker {"task": "refund", "context": "c", "coworker": "Refund agent"} c1',
        '1 get_weather {"city": "Oslo"}',
    ],
    "openinference/crewai-1.1.21-parallel": PARALLEL,
    "openinference/crewai-1.1.21-unknown-tool": [
        '0 cancel {"a": 1} requested_only c2',
        '1 get_weather {"city": "Rome"} c1',
        '2 get_weather {"city": "Oslo"} c3',
    ],
    "openinference/dspy-0.1.48-tool-error": [
        '0 refund {"order_id": "BAD", "amount": 1.5} - ValueError: order BAD cannot be refunded',
        "1 finish {}",
    ],
    "openinference/google-adk-1.0.5-parallel": PARALLEL,
    "openinference/google-adk-1.0.5-sequence": SEQUENCE,
    "openinference/google-genai-1.4.14-automatic": [
        '0 get_weather {"city": "Paris"}',
        '0 get_weather {"city": "Rome"}',
        '0 get_weather {"city": "Oslo"}',
    ],
    "openinference/langchain-0.1.35-bad-json": [
        '0 get_weather {"city": "Par rejected call_1 - invalid_arguments: the arguments cannot be parsed',
    ],
    "openinference/langchain-0.1.35-unknown-tool": [
        '0 get_wether {"city": "Paris"} rejected call_1 - unknown_tool: get_wether is not a valid tool, try one of',
        '1 get_weather {"city": "Paris"} call_2',
    ],
    "openinference/langchain-0.1.80-bad-json": [
        '0 get_weather {"city": "Oslo"} c0',
        '0 get_weather {"city": "Tokyo", "unit":  rejected c1 - invalid_arguments: the arguments cannot be parsed',
        '1 get_weather {"city": "Tokyo"} c2',
    ],
    "openinference/langchain-0.1.80-bare-text": [
        '0 find_customer {"email": "zoe@example.com"} c1',
        '0 lookup {"number": "7731"} c2',
        '1 lookup {"a": 1} c3',
    ],
    "openinference/litellm-0.1.51-parallel": PARALLEL,
    "openinference/llama-index-4.6.1-parallel": [
        '0 get_weather {"city": "Paris"} c1',
        '0 get_weather {"city": "Tokyo"} c2',
        '0 find_customer {"email": "z@x"} c3',
    ],
    "openinference/llama-index-4.6.1-unknown-tool": [
        '0 cancel {"a": 1} rejected c1 - unknown_tool: Tool cancel not found. Please select a tool',
        '1 find_customer {"email": "z@x"} c2',
    ],
    "openinference/mistralai-2.2.2-single": [
        '0 get_weather {"city": "Paris"} call_1',
    ],
    "openinference/portkey-0.1.22-parallel": PARALLEL,
    "openinference/smolagents-0.1.43-managed-agent": [
        '0 refund_agent {"task": "refund A"}',
        '1 get_weather {"city": "Rome"} d1',
        '2 final_answer {"answer": "refunded"} df',
        '3 final_answer {"answer": "Here is the final answer from your managed agent \'refund_agent\':\\nrefunded"}',
    ],
    "openlit/langgraph-1.45.0-graph-failed": [
        '0 charge {"amount": 20.0} c1 - ValueError: card declined',
    ],
    "openlit/openai-1.45.0-bad-json": [
        '0 lookup_order {"order_id": "F-1 rejected call_bad001326 - invalid_arguments: Error: JSONDecodeError: Unterminated s',
        '1 lookup_order {"order_id": "F-1"} call_bad002326',
    ],
    "pydantic_ai/pydantic-ai-0.2.20-bad-type": [
        '0 refund {"order_id": "A-17", "amount": "forty"} rejected call_1 - invalid_arguments: 1 validation errors: [',
        '1 refund {"order_id": "A-17", "amount": 40.0} call_2',
    ],
    "qwen_code/tool_error": [
        '0 mcp__support__delete_file {"path": "/etc/shadow"} call_4d415b55a5 - tool_error: Tool execution failed',
    ],
    "traceloop/langchain-0.62.4-agent-as-tool": [
        '0 ask_research {"question": "who?"} c1',
        '1 find_customer {"email": "z@x"} s1',
        '2 get_weather {"city": "Rome"} c2',
    ],
    "traceloop/langchain-0.62.4-bad-json": [
        '0 get_weather {"city": "Oslo"} c0',
        '0 get_weather {"city": "Tokyo", "unit":  rejected c1 - invalid_arguments: the arguments cannot be parsed',
        '1 get_weather {"city": "Tokyo"} c2',
    ],
    "traceloop/langchain-0.62.4-hand-off": [
        "0 transfer_to_refunds {} h1",
        '1 refund {"order": "A", "amount": 4.5} h2',
    ],
    "traceloop/llamaindex-0.62.4-single": [
        '0 get_weather {"city": "Paris"} c1',
    ],
    "traceloop/openai-0.62.4-responses-parallel": [
        '0 lookup_order {"order_id": "C-1"} fc_call_par001965',
        '0 list_items {"customer": "Bob", "limit": 1} fc_call_par002965',
        '0 lookup_order {"order_id": "C-2"} fc_call_par003965',
    ],
}


def line(call: ToolCall) -> str:
    match call.arguments:
        case Recorded(value):
            arguments = json.dumps(value, ensure_ascii=False)
        case Unparsed(text):
            arguments = text
        case _:
            arguments = "-"
    words = [str(call.turn), call.name, arguments, "" if call.state == "executed" else call.state, call.call_id or ""]
    error = "" if call.error is None else f" - {call.error.kind}: {call.error.message}".splitlines()[0][:60].rstrip()
    return " ".join(filter(None, words)) + error


@each_row("name", RECORDED)
def test_recorded_calls_are_those_that_were_made(name: str):
    files = sorted(CASES.glob(f"{name}.*otlp.pb"))
    (trajectory,) = [one for found in trajectories(*files).values() for one in found]
    assert [line(call) for call in trajectory.calls] == RECORDED[name]


def test_every_recording_is_in_the_table():
    names = {
        re.sub(r"(\.\d\d)?(\.logs)?\.otlp\.pb$", "", str(file.relative_to(CASES))) for file in CASES.glob("*/*.otlp.pb")
    }
    # This one holds no request.
    assert names - {"genai/agent-framework-1.23.0-bad-type"} == RECORDED.keys()
