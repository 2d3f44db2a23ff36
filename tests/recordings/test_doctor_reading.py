"""Doctor's advice over all captures is true of them, and says what makes calls doubtful."""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.captures import CORPUS, Captured, switches
from tests.corpus_values import is_defined
from tests.recognize.support import span
from tests.recordings.corpus import diagnosed, recordings
from toolgauge.dialects.generic import draft
from toolgauge.model.records import StatusCode
from toolgauge.recognize.shortfalls import Fact, Producer
from toolgauge.recordings.doctor import Diagnosis, diagnosis_lines
from toolgauge.recordings.producer_counts import ProducerCounts

CONTENT = ("calls", "arguments", "results", "user_text", "tool_definitions")
# What is in a capture and not read there, which the line says.
ELSEWHERE = {
    ("autogen-native", "arguments"): "messages between the agents of AutoGen's runtime",
    ("autogen-native", "results"): "messages between the agents of AutoGen's runtime",
    ("autogen-native", "user_text"): "messages between the agents of AutoGen's runtime",
    ("uipath", "user_text"): "an argument of the agent's function",
    ("litellm", "call_ids"): "the history of the next request",
    ("mirascope", "tool_spans"): "spans of functions that may be no tools",
    ("logfire-openai", "tool_spans"): "spans of functions that may be no tools",
}
# Advice that is no switch: to record an attribute by hand, or to take a newer release.
OTHER_ADVICE = ("record ", "upgrade ", "newer releases ")


def test_each_line_of_advice_is_true_of_its_capture(captured: Captured):
    assert captured.failures(assert_advice_is_true) == {}


def assert_advice_is_true(folder: str, scenario: str) -> None:
    truth = json.loads((CORPUS / folder / f"{scenario}.truth.json").read_text())
    bodies = [Path(file).read_bytes() for file in recordings(folder, scenario) if ".logs." not in file]
    spans = [
        one
        for body in bodies
        for group in ExportTraceServiceRequest.FromString(body).resource_spans
        for one in group.scope_spans
    ]
    names = {one.name for group in spans for one in group.spans}
    raw = b"".join(Path(file).read_bytes() for file in recordings(folder, scenario)).decode(errors="replace")
    set_up = switches(folder)
    has_many_traces = len(truth["traces"]) + sum(len(trace.get("other_trace_ids", ())) for trace in truth["traces"]) > 1
    off = {*set_up.off.get(scenario, ())}
    for one in diagnosed(recordings(folder, scenario)):
        for missing in one.missing:
            line = f"{one.producer.scope}: {missing.what}: {missing.remedy.how}"
            is_other = (folder, missing.fact) in ELSEWHERE or missing.remedy.how.startswith(
                "other traces of this producer"
            )
            assert is_other or is_missing(missing.fact, truth, raw, names), line
            assert not {*missing.remedy.switches} & {*set_up.on} - off, line
            if missing.fact in CONTENT and missing.remedy.switches and not missing.remedy.how.startswith(OTHER_ADVICE):
                assert {*missing.remedy.switches} & off, line
        calls = [call["name"] for trace in truth["traces"] for call in trace["tool_calls"]]
        assert one.shared_name is None or one.shared_name not in calls
        assert not one.may_hold_calls or not calls, one.sent.unread
        assert not one.lone_calls or has_many_traces, one.lone_calls


def is_missing(fact: Fact, truth: Mapping[str, Any], raw: str, span_names: Collection[str]) -> bool:
    """Whether the capture really lacks the fact for one call or trace at least."""
    calls = [call for trace in truth["traces"] for call in trace["tool_calls"]]

    def lacks(*texts: str | None) -> bool:
        return any(text is None or not (text in raw or json.dumps(text)[1:-1] in raw) for text in texts)

    match fact:
        case "calls" | "arguments":
            return any(call["in_capture"]["arguments"] is False for call in calls)
        case "results":
            shown = (call["in_capture"] for call in calls)
            return any(one.get("result", one["arguments"]) is False for one in shown)
        case "call_ids":
            return lacks(*(call["call_id"] for call in calls))
        case "tool_spans":
            return not any(call["name"] in name for call in calls for name in span_names)
        case "user_text":
            return lacks(*(trace["user_message"] for trace in truth["traces"]))
        case "tool_definitions":
            return not calls or not all(is_defined(call["name"], raw) for call in calls)
        case "conversation_id":
            return lacks(truth.get("session_id") or truth.get("conversation_id"))
        case "failures":
            return lacks("status.code", "error.type")
        case "agent_name":
            return lacks(*truth.get("agents", [None]))


def diagnosis(sent: ProducerCounts, shared_name: str | None = None, lone_calls: int = 0) -> Diagnosis:
    producer = Producer(service="shop", scope="acme-agents", version="2", language="python")
    return Diagnosis(producer=producer, sent=sent, calls=2, missing=(), shared_name=shared_name, lone_calls=lone_calls)


def test_a_producer_that_no_dialect_knows_gets_lines_for_the_configuration():
    status: StatusCode = "ok"
    seen = span({"acme.tool.name": "find", "acme.input": '{"q": 1}', "acme.output": "7"}, status=status)
    mapping = draft(seen)
    assert mapping is not None
    shown = "\n".join(diagnosis_lines(diagnosis(ProducerCounts(spans=1, mappings=[mapping]))))
    assert "    dialects:\n      acme_agents:\n        scopes:\n        - acme-agents\n" in shown
    assert "          arguments: acme.input\n" in shown


def test_offers_of_other_services_make_no_name_a_shared_one():
    both = diagnosed([*recordings("codex-cli", "coding"), *recordings("pydantic-ai", "one_call")])
    assert [one.shared_name for one in both] == [None, None]
    assert min(one.calls for one in both) > 0
