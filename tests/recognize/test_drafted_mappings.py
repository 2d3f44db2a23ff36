"""Producers that no dialect knows, in the forms in which they write: each is read by the mapping that its spans suggest."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from toolgauge.config.model import Config
from toolgauge.model.content import Content, Recorded
from toolgauge.model.json import Json
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.recordings.doctor import Doctor, diagnosis_object
from toolgauge.recordings.producer_counts import Tally
from toolgauge.recordings.recorded_requests import find_files, read, scorecards
from toolgauge.service.pipeline_factory import offline_pipeline

TRACE = "5b8aa5a2d2c872e8321cf37308d69df2"
ARGUMENTS: Json = {"city": "Bonn", "days": 2}
RESULT: Json = {"sky": "clear"}
QUESTION = "What is the weather in Bonn?"
HISTORY = [{"role": "user", "content": QUESTION}]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather of a city.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
        },
    }
]
CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": json.dumps(ARGUMENTS)}}
ANSWER = {"role": "assistant", "content": None, "tool_calls": [CALL]}


@dataclass(frozen=True)
class Made:
    """A span as its producer makes it."""

    name: str
    attributes: Mapping[str, object]
    events: Sequence[tuple[str, Mapping[str, object]]] = ()
    failed: bool = False


@dataclass(frozen=True)
class Shape:
    """Spans of one producer, children of a span that it does not describe, and what is read of them."""

    scope: str
    spans: Sequence[Made]
    arguments: Json = field(default_factory=lambda: ARGUMENTS)
    result: Json = field(default_factory=lambda: RESULT)
    call_id: str | None = None
    failed: bool = False
    conversation: str | None = None
    agent: str | None = None
    question: bool = False
    offers: bool = False
    dialects: frozenset[str] = frozenset({"generic"})


def text(value: object) -> str:
    return json.dumps(value)


SHAPES = {
    "monocle": Shape(
        "monocle_apptrace",
        [
            Made("langgraph.invoke", {"span.type": "agentic.invocation", "entity.1.name": "shop", "entity.1.type": "agent.langgraph",
                                      "scope.agentic.session": "s-1"}),
            Made("langchain.tool", {"span.type": "agentic.tool.invocation", "entity.1.name": "weather",
                                    "entity.1.type": "tool.langgraph", "scope.agentic.session": "s-1"},
                 [("data.input", {"input": str(ARGUMENTS)}), ("data.output", {"response": str(RESULT)})]),
        ],
        conversation="s-1", agent="shop",
    ),
    "pipecat": Shape(
        "pipecat",
        [
            Made("conversation", {"conversation.id": "c-1", "conversation.type": "voice"}),
            Made("llm", {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.system_instructions": "Be kind.",
                         "input": text(HISTORY), "output": "Let me see.", "tools": text(TOOLS), "stream": True}),
            Made("weather", {"tool.function_name": "weather", "tool.call_id": "call_1", "tool.arguments": text(ARGUMENTS),
                             "tool.result": text(RESULT), "tool.result_status": "success"}),
        ],
        conversation="c-1", call_id="call_1", question=True, offers=True, dialects=frozenset({"generic", "genai"}),
    ),
    "openhands": Shape(
        "lmnr",
        [Made("weather", {"lmnr.span.type": "TOOL", "lmnr.association.properties.metadata.tool_call_id": "call_1",
                          "lmnr.span.input": text({"action": {"city": "Bonn", "days": 2, "kind": "WeatherAction"}}),
                          "lmnr.span.output": text(RESULT)})],
        call_id="call_1", dialects=frozenset({"laminar"}),
    ),
    "opencode": Shape(
        "opencode",
        [Made("Tool.execute", {"tool.name": "weather", "session.id": "ses-1", "message.id": "m-1", "tool.call_id": "call_1"})],
        call_id="call_1", conversation="ses-1", arguments=None, result=None,
    ),
    "any-agent": Shape(
        "any_agent",
        [
            Made("call_llm m", {"gen_ai.operation.name": "call_llm", "gen_ai.input.messages": text(HISTORY), "gen_ai.request.model": "m",
                                "gen_ai.output": text([{"tool.name": "weather", "tool.args": text(ARGUMENTS)}])}),
            Made("execute_tool weather", {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "weather",
                                          "gen_ai.tool.args": text(ARGUMENTS), "gen_ai.output": text(RESULT),
                                          "gen_ai.output.type": "json"}),
        ],
        question=True, dialects=frozenset({"generic"}),
    ),
    "agentops": Shape(
        "agentops",
        [
            Made("shop.agent", {"agentops.span.kind": "agent", "operation.name": "shop"}),
            Made("openai.chat.completion", {"agentops.span.kind": "llm", "gen_ai.system": "OpenAI",
                                            "gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": QUESTION}),
            Made("tool_call.weather", {"agentops.span.kind": "tool", "tool.name": "weather", "tool.parameters": text(ARGUMENTS)}),
            Made("weather.tool", {"agentops.span.kind": "tool", "operation.name": "weather",
                                  "agentops.tool.input": text({"args": [], "kwargs": ARGUMENTS}),
                                  "agentops.tool.output": text(RESULT)}),
        ],
        agent="shop", question=True, dialects=frozenset({"generic", "traceloop"}),
    ),
    "honeyhive": Shape(
        "honeyhive",
        [Made("weather", {"honeyhive_event_type": "tool", "honeyhive_event_name": "weather", "honeyhive.session_id": "s-1",
                          "honeyhive_inputs.city": "Bonn", "honeyhive_inputs.days": 2, "honeyhive_outputs.result": text(RESULT)})],
        conversation="s-1",
    ),
    "judgeval": Shape(
        "judgeval",
        [
            Made("chat", {"judgment.span_kind": "llm", "judgment.session_id": "s-1", "judgment.input": text(HISTORY),
                          "judgment.output": text([ANSWER])}),
            Made("weather", {"judgment.span_kind": "tool", "judgment.session_id": "s-1", "judgment.input": text(ARGUMENTS),
                             "judgment.output": text(RESULT)}),
        ],
        conversation="s-1", question=True,
    ),
    "agentscope": Shape(
        "agentscope",
        [Made("execute_tool weather", {
            "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "weather", "gen_ai.tool.call.id": "call_1",
            "gen_ai.tool.call.arguments": text(ARGUMENTS),
            "gen_ai.tool.call.result": text({"content": [{"type": "text", "text": text(RESULT)}], "state": "success", "id": "x"}),
        })],
        call_id="call_1", dialects=frozenset({"genai"}),
    ),
    "langchain azure": Shape(
        "langchain_azure_ai",
        [Made("execute_tool weather", {
            "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "weather", "gen_ai.tool.call.arguments": text(ARGUMENTS),
            "gen_ai.tool.call.result": text({"name": "weather", "tool_call_id": "call_1", "content": text(RESULT)}),
        })],
        call_id="call_1", dialects=frozenset({"genai"}),
    ),
    "loongsuite": Shape(
        "opentelemetry.instrumentation.agno",
        [Made("execute_tool weather", {
            "gen_ai.span.kind": "TOOL", "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "weather",
            "gen_ai.tool.call.arguments": text(ARGUMENTS), "gen_ai.tool.call.result": text(RESULT), "gen_ai.session.id": "s-1",
        })],
        dialects=frozenset({"genai"}),
    ),
    "openinference behind gen_ai_normalizer": Shape(
        "openinference.instrumentation.langchain",
        [
            Made("ChatOpenAI", {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.input.messages": text(HISTORY),
                                "gen_ai.output.messages": text([ANSWER])}),
            Made("weather", {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "weather", "input.value": text(ARGUMENTS),
                             "output.value": text({"content": text(RESULT), "type": "tool", "tool_call_id": "call_1"}),
                             "input.mime_type": "application/json", "gen_ai.conversation.id": "s-1"}),
        ],
        call_id="call_1", conversation="s-1", question=True, dialects=frozenset({"genai", "generic"}),
    ),
    "openinference beside gen_ai_normalizer's attributes": Shape(
        "openinference.instrumentation.pydantic_ai",
        [Made("running tool", {"openinference.span.kind": "TOOL", "tool.name": "weather", "tool_call.id": "call_1",
                               "gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.arguments": text(ARGUMENTS),
                               "gen_ai.tool.call.result": text(RESULT)})],
        call_id="call_1", dialects=frozenset({"openinference"}),
    ),
    "openllmetry behind gen_ai_normalizer": Shape(
        "opentelemetry.instrumentation.langchain",
        [Made("weather.tool", {"gen_ai.operation.name": "execute_tool", "gen_ai.agent.name": "weather",
                               "gen_ai.input.messages": text({"args": [], "kwargs": ARGUMENTS}),
                               "gen_ai.output.messages": text(RESULT)})],
        agent="weather", dialects=frozenset({"generic", "traceloop"}),
    ),
    "openclaw": Shape(
        "openclaw",
        [Made("openclaw.tool.execution", {"gen_ai.tool.name": "weather", "openclaw.toolName": "weather",
                                          "openclaw.tool.params.kind": "object"}, failed=True)],
        failed=True, arguments=None, result=None,
    ),
    "a form of its own": Shape(
        "bridge-4711",
        [
            Made("think", {"bridge.step.kind": "bridge.llm", "bridge.functions.0.name": "weather",
                           "bridge.functions.0.parameters": text(TOOLS[0]["function"]["parameters"]),  # pyright: ignore[reportArgumentType, reportIndexIssue]
                           "bridge.conversation": text(HISTORY)}),
            Made("act", {"bridge.span.kind": "bridge.tool_call", "bridge.tool.name": "weather", "bridge.tool.args": str(ARGUMENTS),
                         "bridge.tool.result": text(RESULT), "bridge.call_id": "call_1"}),
        ],
        call_id="call_1", question=True, offers=True,
    ),
}  # fmt: skip


def value(given: object) -> Json:
    if isinstance(given, bool):
        return {"boolValue": given}
    return {"intValue": str(given)} if isinstance(given, int) else {"stringValue": str(given)}


def pairs(attributes: Mapping[str, object]) -> Json:
    return [{"key": key, "value": value(given)} for key, given in attributes.items()]


def recording(folder: Path, shape: Shape) -> Path:
    root: dict[str, Json] = {"traceId": TRACE, "spanId": "00f067aa0ba902b0", "name": "main", "kind": "SPAN_KIND_INTERNAL",
            "startTimeUnixNano": "1000000000", "endTimeUnixNano": "9000000000"}  # fmt: skip
    spans: list[Json] = [root]
    for number, made in enumerate(shape.spans, 1):
        begin = 1_000_000_000 + number * 100_000_000
        spans.append({
            "traceId": TRACE, "spanId": f"00f067aa0ba902b{number}", "parentSpanId": "00f067aa0ba902b0", "name": made.name, "kind": 1,
            "startTimeUnixNano": str(begin), "endTimeUnixNano": str(begin + 50_000_000), "attributes": pairs(made.attributes),
            "events": [{"name": name, "timeUnixNano": str(begin), "attributes": pairs(found)} for name, found in made.events],
            "status": {"code": 2 if made.failed else 0},
        })  # fmt: skip
    resource = {"attributes": pairs({"service.name": "shop", "telemetry.sdk.language": "python"})}
    body = {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": shape.scope}, "spans": spans}]}]}
    path = folder / "input.otlp.json"
    path.write_text(json.dumps(body))
    return path


def trajectories(path: Path, config: Config, make: Callable[..., Any] | None = None) -> Iterator[Trajectory]:
    found = read(find_files([str(path)]), lambda _size: None)
    pipeline = offline_pipeline(config, ()) if make is None else offline_pipeline(config, (), make)
    for scorecard in scorecards(found, pipeline):
        yield scorecard.trajectory


def recorded(content: Content) -> Json:
    return content.value if isinstance(content, Recorded) else None


def only(calls: Sequence[ToolCall]) -> ToolCall:
    assert [call.name for call in calls] == ["weather"]
    return calls[0]


@pytest.mark.parametrize("name", SHAPES)
def test_the_spans_of_a_producer_are_read_by_what_they_suggest(name: str, tmp_path: Path):
    shape, tally = SHAPES[name], Tally()
    found = list(trajectories(recording(tmp_path, shape), Config(), tally.recognizer))
    assert len(found) == 1
    check(shape, found[0])
    read_by = {dialect for counts in tally.producers.values() for dialect in counts.dialects}
    assert read_by <= shape.dialects | {"generic"}


def check(shape: Shape, trajectory: Trajectory):
    call = only(trajectory.calls)
    assert call.state == "executed"
    assert call.call_id == shape.call_id or call.requested_by is not None
    assert recorded(call.arguments) == shape.arguments
    assert (call.error is not None) is shape.failed
    if not shape.failed or shape.result is not None:
        assert recorded(call.result) == shape.result
    assert trajectory.conversation_id == shape.conversation
    if shape.agent is not None:
        assert shape.agent in trajectory.agents
    assert any(message.role == "user" and message.text == QUESTION for message in trajectory.messages) is shape.question
    assert ([tool.name for tool in trajectory.tools_offered or ()] == ["weather"]) is shape.offers


@pytest.mark.parametrize("name", [name for name, shape in SHAPES.items() if shape.dialects == frozenset({"generic"})])
def test_what_doctor_prints_reads_the_same_at_the_next_start(name: str, tmp_path: Path):
    shape, tally = SHAPES[name], Tally()
    path = recording(tmp_path, shape)
    doctor = Doctor(tally)
    for trajectory in trajectories(path, Config(), tally.recognizer):
        doctor.add(trajectory)
    printed = [diagnosis_object(one).get("dialects_to_paste") for one in doctor.diagnoses()]
    settings = yaml.safe_load(yaml.safe_dump(next(filter(None, printed))))
    assert "4711" not in yaml.safe_dump(settings)
    (trajectory,) = trajectories(path, Config.model_validate(settings))
    call = only(trajectory.calls)
    assert (recorded(call.arguments), call.error is not None) == (shape.arguments, shape.failed)
