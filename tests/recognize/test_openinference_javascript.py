"""OpenInference's instrumentations for JavaScript, read and joined: failures, hand-offs, and the AI SDK's own attributes.

The recordings are in `tests/corpus`; their truths name the versions.
"""

import json

from tests.assemble.support import joined
from tests.recognize.support import event, observations, recorded, span
from tests.rows import each_row
from toolgauge.dialects.openinference import OpenInference
from toolgauge.model.content import NOT_RECORDED, Recorded
from toolgauge.model.json import Value
from toolgauge.model.observations import CallAnswered, CallError, CallExecuted
from toolgauge.model.records import SpanEvent
from toolgauge.model.trajectory import Trajectory
from toolgauge.recognize.provider_messages import provider_answers


def trajectory(name: str) -> Trajectory:
    return joined(*recorded(OpenInference(), f"{name}.otlp.pb"))


def test_answers_of_anthropic_are_text_or_blocks():
    blocks = [
        {"type": "tool_result", "tool_use_id": "c1", "content": '{"a":1}'},
        {"type": "tool_result", "tool_use_id": "c2", "content": [{"type": "text", "text": "no"}], "is_error": True},
        {"type": "tool_result", "tool_use_id": "c3"},
        {"type": "tool_result"},
        {"type": "text", "text": "tool_result"},
    ]
    assert provider_answers(json.dumps({"messages": [{"role": "user", "content": blocks}]})) == [
        CallAnswered(call_id="c1", result=Recorded({"a": 1})),
        CallAnswered(call_id="c2", result=Recorded("no"), error=CallError(kind="_OTHER", message="no")),
        CallAnswered(call_id="c3", result=NOT_RECORDED),
    ]


def test_answers_of_bedrock_are_blocks_with_a_status():
    results = [
        {"toolUseId": "c1", "content": [{"json": {"a": 1}}], "status": "success"},
        {"toolUseId": "c2", "content": [{"text": "no"}], "status": "error"},
    ]
    content = [{"toolResult": result} for result in results]
    assert provider_answers(json.dumps({"messages": [{"role": "user", "content": content}]})) == [
        CallAnswered(call_id="c1", result=Recorded({"a": 1})),
        CallAnswered(call_id="c2", result=Recorded("no"), error=CallError(kind="_OTHER", message="no")),
    ]


@each_row("request_text", ["", '"tool_result"', '{"messages":["tool_result"]}', '{"messages":7,"toolResult"'])
def test_other_requests_have_no_answers(request_text: str):
    assert provider_answers(request_text) == []


def tool_span(output: str | None, *events: SpanEvent) -> list[CallError | None]:
    attributes: dict[str, Value] = {
        "openinference.span.kind": "TOOL",
        "tool.name": "add",
        "ai.operationId": "ai.toolCall",
    }
    if output is not None:
        attributes["output.value"] = output
    read = observations(OpenInference(), span(attributes, status="error", status_message="no answer", events=events))
    return [one.error for one in read if isinstance(one, CallExecuted)]


def test_a_failed_call_of_the_ai_sdk_has_the_exception_or_no_result():
    raised = event("exception", {"exception.type": "TimeoutError", "exception.message": "no answer"})
    assert tool_span(None) == [CallError(kind="_OTHER", message="no answer")]
    assert tool_span("no answer") == [CallError(kind="_OTHER", message="no answer")]
    assert tool_span('{"a":1}', raised) == [CallError(kind="TimeoutError", message="no answer")]
    assert tool_span('{"a":1}') == [None]
