"""Spans that say that their producer dropped attributes or events beyond a limit: nothing is blamed on the model for it."""

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from tests.recognize.support import self_metrics, span
from toolgauge.dialects.genai import GenAI
from toolgauge.dialects.openinference import OpenInference
from toolgauge.model.content import NotRecorded, Recorded, Unparsed
from toolgauge.model.json import Value
from toolgauge.model.observations import CallExecuted, CallRequested, ModelCall, Reading, ToolsOffered
from toolgauge.recognize.recognizer import Recognizer

TOOL: dict[str, Value] = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find"}
MODEL: dict[str, Value] = {"openinference.span.kind": "LLM", "llm.output_messages.0.message.role": "assistant"}
OFFER: dict[str, Value] = {"llm.tools.0.tool.json_schema": '{"function": {"name": "find", "parameters": {}}}'}
CALL = "llm.output_messages.0.message.tool_calls.0.tool_call."


def read(attributes: Mapping[str, Value], *, is_cut: bool) -> Reading:
    recognizer = Recognizer([GenAI(), OpenInference()], metrics=self_metrics())
    reading = recognizer.read(replace(span(attributes), is_cut=is_cut))
    assert reading is not None
    assert reading.is_cut is is_cut
    return reading


@pytest.mark.parametrize("is_cut", [False, True])
def test_an_offer_that_may_lack_tools_is_no_offer(*, is_cut: bool):
    offers = [seen for seen in read({**MODEL, **OFFER}, is_cut=is_cut).observations if isinstance(seen, ToolsOffered)]
    assert len(offers) == (0 if is_cut else 1)


@pytest.mark.parametrize("is_cut", [False, True])
def test_an_answer_that_may_have_been_dropped_is_not_empty(*, is_cut: bool):
    empty = {**MODEL, "llm.output_messages.0.message.content": "", "output.value": ""}
    endings = [seen.ending for seen in read(empty, is_cut=is_cut).observations if isinstance(seen, ModelCall)]
    assert endings == [None if is_cut else "empty"]


def test_arguments_of_one_attribute_each_are_cut_off():
    each: dict[str, Value] = {"gen_ai.tool.call.arguments.city": "Ulm"}
    for is_cut, wanted in ((False, Recorded({"city": "Ulm"})), (True, Unparsed('{"city": "Ulm"}', "truncated"))):
        seen = read({**TOOL, **each}, is_cut=is_cut).observations
        assert [one.arguments for one in seen if isinstance(one, CallExecuted)] == [wanted]


def test_arguments_of_a_single_attribute_are_whole():
    seen = read({**TOOL, "gen_ai.tool.call.arguments": '{"city": "Ulm"}'}, is_cut=True).observations
    assert [one.arguments for one in seen if isinstance(one, CallExecuted)] == [Recorded({"city": "Ulm"})]
    asked = {**MODEL, f"{CALL}function.name": "find", f"{CALL}function.arguments": '{"city": "Ulm"}'}
    requests = [one for one in read(asked, is_cut=True).observations if isinstance(one, CallRequested)]
    assert [one.arguments for one in requests] == [Recorded({"city": "Ulm"})]


def test_arguments_that_were_dropped_are_not_recorded():
    seen = read({**MODEL, f"{CALL}function.name": "find"}, is_cut=True).observations
    assert [type(one.arguments) for one in seen if isinstance(one, CallRequested)] == [NotRecorded]
