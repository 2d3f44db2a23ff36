"""Records with JSON that lacks its end are measured as a whole, all others not at all."""

from collections.abc import Mapping

import pytest

from tests.recognize.support import event, log, self_metrics, span
from toolgauge.dialects.google_adk import GoogleAdk
from toolgauge.dialects.openinference import OpenInference
from toolgauge.dialects.traceloop import Traceloop
from toolgauge.dialects.vercel import Vercel
from toolgauge.model.json import Value
from toolgauge.model.records import Record
from toolgauge.recognize.recognizer import Recognizer

CUT = '{"messages": [{"role": "user", "content": "' + "x" * 734
WHOLE = '{"messages": [{"role": "user", "content": "' + "x" * 734 + '"}]}'
CHAIN = {"openinference.span.kind": "CHAIN"}


def lengths(record: Record) -> list[int]:
    dialects = [OpenInference(), GoogleAdk(), Vercel(), Traceloop()]
    reading = Recognizer(dialects, metrics=self_metrics()).read(record)
    assert reading is not None
    return sorted(size.lengths[0] for size in reading.text_sizes)


@pytest.mark.parametrize(
    "attributes",
    [
        {"ai.operationId": "ai.generateText", "ai.prompt": CUT},
        {"ai.operationId": "ai.toolCall", "ai.toolCall.name": "ask", "ai.toolCall.args": CUT},
        {"gcp.vertex.agent.llm_request": CUT, "gen_ai.operation.name": "call_llm"},
        {**CHAIN, "input.value": CUT},
        {"openinference.span.kind": "LLM", "input.value": CUT},
        {"traceloop.span.kind": "workflow", "traceloop.entity.name": "run", "traceloop.entity.input": CUT},
    ],
)
def test_a_record_with_json_that_lacks_its_end_is_measured(attributes: Mapping[str, Value]):
    assert lengths(span(attributes)) == [777]


def test_all_long_texts_of_such_a_record_are_measured():
    raised = event("exception", {"exception.type": "ValueError", "exception.stacktrace": "t" * 300})
    attributes = {
        "openinference.span.kind": "TOOL",
        "tool.name": "ask",
        "input.value": CUT,
        "tags": ["short", "s" * 99],
    }
    assert lengths(span(attributes, events=[raised])) == [99, 300, 777]


@pytest.mark.parametrize(
    "attributes",
    [
        {**CHAIN, "input.value": WHOLE},
        {"openinference.span.kind": "TOOL", "tool.name": "ask", "input.value": WHOLE, "output.value": "[INFO] " * 30},
        {"openinference.span.kind": "TOOL", "tool.name": "ask", "input.value": "{note: 'n" + "n" * 90},
    ],
)
def test_no_other_record_is_measured(attributes: Mapping[str, Value]):
    assert lengths(span(attributes)) == []


def test_the_body_of_a_log_record_counts():
    assert lengths(log("gen_ai.user.message", body=CUT, scope="gcp.vertex.agent")) == [777]
