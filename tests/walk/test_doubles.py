"""Spans that are emitted twice, ids that stand for several calls, and views of a call that disagree about its arguments."""

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans

from tests.walk.shapes import answered, asked, chat, run, span, tool, trajectory_of
from toolgauge.model.content import Recorded
from toolgauge.model.json import Json

ROME: Json = {"city": "Rome"}
OSLO: Json = {"city": "Oslo"}


def openinference_model(*calls: tuple[str | None, Json], id: str) -> ScopeSpans:
    attributes: dict[str, Json] = {"openinference.span.kind": "LLM"}
    for number, (call_id, arguments) in enumerate(calls):
        prefix = f"llm.output_messages.0.message.tool_calls.{number}.tool_call."
        attributes.update({prefix + "function.name": "weather", prefix + "function.arguments": arguments})
        if call_id is not None:
            attributes[prefix + "id"] = call_id
    return span("llm", attributes, id=id, at=1, scope="openinference.instrumentation.openai")


@pytest.mark.parametrize(
    "twice",
    [
        (chat(asked("c1", "weather", ROME), id="m1"), chat(asked("c1", "weather", ROME), id="m2")),
        (openinference_model((None, ROME), id="m1"), openinference_model((None, ROME), id="m2")),
    ],
    ids=["conventions with ids", "openinference without ids"],
)
@pytest.mark.parametrize("with_tool_span", [False, True])
def test_a_model_span_that_was_emitted_twice_asks_once(twice: tuple[ScopeSpans, ...], with_tool_span: bool):  # noqa: FBT001 - the value under test
    ran = [tool("weather", ROME, call="c1", result="hot")] if with_tool_span else []
    (call,) = trajectory_of(run(), *twice, *ran).calls
    assert call.state == ("executed" if with_tool_span else "requested_only")


@pytest.mark.parametrize("call_id", [None, "c1"])
def test_a_tool_span_that_was_emitted_twice_is_one_call(call_id: str | None):
    copies = [tool("weather", ROME, call=call_id, result="hot", id=id) for id in ("a", "b")]
    assert len(trajectory_of(run(), *copies).calls) == 1


def test_equal_calls_of_one_output_that_ran_at_once_stay_apart():
    made = chat(asked("c1", "weather", ROME), asked("c2", "weather", ROME))
    copies = [tool("weather", ROME, result="hot", id=id) for id in ("a", "b")]
    assert [call.state for call in trajectory_of(run(), made, *copies).calls] == ["executed", "executed"]


@pytest.mark.parametrize("scope", ["my.agent", "openinference"])
def test_where_one_id_stands_for_several_calls_arguments_decide(scope: str):
    model = (
        openinference_model(("weather", ROME), ("weather", OSLO), id="m")
        if scope == "openinference"
        else chat(asked("weather", "weather", ROME), asked("weather", "weather", OSLO))
    )
    ran = (
        tool("weather", OSLO, call="weather", result="cold", at=2),
        tool("weather", ROME, call="weather", result="hot", at=3),
    )
    assert [(call.arguments, call.result) for call in trajectory_of(run(), model, *ran).calls] == [
        (Recorded(ROME), Recorded("hot")),
        (Recorded(OSLO), Recorded("cold")),
    ]


def test_without_arguments_the_results_decide():
    model = chat(asked("weather", "weather", ROME), asked("weather", "weather", OSLO))
    ran = (
        tool("weather", call="weather", result="cold", at=2),
        tool("weather", call="weather", result="hot", at=3),
    )
    told = chat(
        {"type": "text", "content": "ok"},
        given=[answered("weather", "hot"), answered("weather", "cold")],
        at=4,
        id="chat2",
    )
    calls = trajectory_of(run(), model, *ran, told).calls
    assert [(call.arguments, call.result) for call in calls] == [
        (Recorded(ROME), Recorded("hot")),
        (Recorded(OSLO), Recorded("cold")),
    ]


def test_answers_of_one_id_that_name_their_tools_go_by_name():
    model = chat(asked("0", "look", {"a": 1}), asked("0", "send", {"b": 2}))
    parts: list[Json] = [
        {"type": "tool_call_response", "id": "0", "name": name, "response": name[0]} for name in ("send", "look")
    ]
    told = chat({"type": "text", "content": "ok"}, given=[{"role": "tool", "parts": parts}], at=4, id="chat2")
    calls = trajectory_of(run(), model, told).calls
    assert {call.name: call.result for call in calls} == {"look": Recorded("l"), "send": Recorded("s")}
