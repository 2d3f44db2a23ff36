"""The stub that captures are made with: it plays a script by any protocol and writes what really happened."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from tests.producers.stub import openai_api, other_apis
from tests.producers.stub.answers import Answer, Asked
from tests.producers.stub.exports import write
from tests.producers.stub.recording import Recording, begin
from tests.producers.stub.scenarios import SCENARIOS, Names, scenario, tools_of
from tests.rows import each_row


def _begun(name: str, **names: Any) -> Recording:
    return begin({"producer": "test", "scenario": name, "names": names})


def _answer(recording: Recording, asked: Asked, body: Mapping[str, Any]) -> Answer:
    answer = recording.model.answer(asked, json.dumps(body))
    recording.serve(answer)
    return answer


def _chat(recording: Recording, messages: list[dict[str, Any]]) -> dict[str, Any]:
    body = {"model": "m", "messages": messages}
    return openai_api.chat(_answer(recording, openai_api.chat_asked(body), body))["choices"][0]["message"]


def test_a_chat_goes_through_the_script_to_its_last_text():
    recording = _begun("sequence3")
    messages = [{"role": "user", "content": "Refund the last order of zoe@example.com."}]
    called: list[str] = []
    while (message := _chat(recording, messages)).get("tool_calls"):
        call = message["tool_calls"][0]
        called.append(call["function"]["name"])
        messages += [message, {"role": "tool", "tool_call_id": call["id"], "content": "{}"}]
    assert called == ["find_customer", "list_orders", "refund_order"]
    assert message["content"] == "Refund R-77 is done."


def test_a_protocol_without_ids_goes_on_by_the_models_turns():
    recording = _begun("retry")
    contents: list[dict[str, Any]] = [{"role": "user", "parts": [{"text": "Fetch the report 2026-Q3."}]}]
    turns: list[Any] = []
    for _ in range(3):
        body = {"contents": contents}
        answer = _answer(recording, other_apis.gemini_asked(body, model="m", stream=False), body)
        content = other_apis.gemini(answer)["candidates"][0]["content"]
        turns.append(content["parts"][0])
        contents += [content, {"role": "user", "parts": [{"functionResponse": {"name": "fetch_report"}}]}]
    call = {"functionCall": {"name": "fetch_report", "args": {"report_id": "2026-Q3"}}}
    assert turns == [call, call, {"text": "Revenue grew by 4 %."}]


def test_the_truth_has_what_ran_and_what_the_capture_shows(tmp_path: Path):
    recording = _begun("unknown_tool")
    recording.start_run()
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Will it rain in Lima?"}]
    for _ in range(2):
        message = _chat(recording, messages)
        messages += [message, {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "?"}]
    assert recording.execute("get_weather", {"city": "Lima", "unit": "celsius"}) == {
        "result": {"city": "Lima", "temp": 18.25}
    }
    recording.export("traces", _exported("Will it rain in Lima?", json.dumps(messages), recording.run_starts[0]))
    truth = write(recording, tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["unknown_tool.otlp.pb", "unknown_tool.truth.json"]
    first, second = truth["traces"][0]["tool_calls"]
    assert (first["name"], first["executed"], first["rejected"]) == ("get_forecast", False, True)
    assert first["in_capture"]["arguments"] is True
    assert (second["executed"], second["result"]) == (True, {"city": "Lima", "temp": 18.25})
    assert second["in_capture"]["result"] is False


def test_stack_traces_are_cut_and_folders_replaced(tmp_path: Path):
    recording = _begun("no_tool")
    recording.start_run()
    stack = "Error: no\n" + "".join(f"    at f{n} (/tmp/someone/app/index.js:{n}:1)\n" for n in range(9))
    recording.export("traces", _exported("Say hello.", stack, recording.run_starts[0]))
    truth = write(recording, tmp_path)
    written = (tmp_path / "no_tool.otlp.pb").read_bytes()
    assert truth["sanitized_files"] == ["no_tool.otlp.pb"]
    assert b"/app/index.js:2:1" in written
    assert b"someone" not in written
    assert b"index.js:3:1" not in written


@each_row("name", SCENARIOS, ids=str)
def test_every_scenario_offers_the_tools_that_it_calls(name: str):
    one = scenario(name, Names())
    called = {call.name for script in (*one.runs, *one.below) for step in script.steps for call in step}
    missing = called - set(tools_of(one))
    assert missing <= {"get_forecast", "read_file", "flight_agent", "transfer_to_refund_agent"}


def _exported(*texts: str | int) -> bytes:
    *shown, start = texts
    attributes = [KeyValue(key=f"k{at}", value=AnyValue(string_value=str(text))) for at, text in enumerate(shown)]
    span = Span(trace_id=b"t" * 16, span_id=b"s" * 8, name="s", start_time_unix_nano=int(start), attributes=attributes)
    scopes = [ScopeSpans(spans=[span])]
    return ExportTraceServiceRequest(resource_spans=[ResourceSpans(scope_spans=scopes)]).SerializeToString()
