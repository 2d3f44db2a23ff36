"""Doctor's advice over all captures is true of them, and says what makes calls doubtful."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.captures import CORPUS, all_captures, switches
from tests.producers.stub.scenarios import TOOLS
from tests.recognize.support import span
from tests.recordings.corpus import diagnosed, recordings
from toolgauge.dialects.generic import mapping_of
from toolgauge.model.records import StatusCode
from toolgauge.recognize.shortfalls import Fact, Producer
from toolgauge.recordings.doctor import Diagnosis, diagnosis_lines, diagnosis_object
from toolgauge.recordings.stats import ProducerCounts

CONTENT = ("calls", "arguments", "results", "user_text", "tool_definitions")
# Advice that is no switch: to record an attribute by hand, or to take a newer release.
OTHER_ADVICE = ("record ", "upgrade ", "newer releases ")


def test_each_line_of_advice_is_true_of_its_capture():
    wrong = [found for captured in all_captures().values() for found in captured.failures(assert_advice_is_true).items()]
    assert wrong == []


def assert_advice_is_true(folder: str, scenario: str) -> None:
    truth = json.loads((CORPUS / folder / f"{scenario}.truth.json").read_text())
    raw = b"".join(Path(file).read_bytes() for file in recordings(folder, scenario)).decode(errors="replace")
    set_up = switches(folder)
    off = {*set_up.off.get(scenario, ())}
    for one in diagnosed(recordings(folder, scenario)):
        for missing in one.missing:
            line = f"{one.producer.scope}: {missing.what}: {missing.remedy.how}"
            assert is_missing(missing.fact, truth, raw), line
            assert not {*missing.remedy.switches} & {*set_up.on} - off, line
            if missing.fact in CONTENT and missing.remedy.switches and not missing.remedy.how.startswith(OTHER_ADVICE):
                assert {*missing.remedy.switches} & off, line
        calls = [call["name"] for trace in truth["traces"] for call in trace["tool_calls"]]
        assert one.shared_name is None or one.shared_name not in calls
        shown = "\n".join(diagnosis_lines(one))
        assert "nothing was read from" not in shown or not calls, shown


def is_missing(fact: Fact, truth: Mapping[str, Any], raw: str) -> bool:
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
        case "user_text":
            return lacks(*(trace["user_message"] for trace in truth["traces"]))
        case "tool_definitions":
            return lacks(*(TOOLS[call["name"]][0] for call in calls if call["name"] in TOOLS), *([] if calls else [""]))
        case "conversation_id":
            return lacks(truth.get("session_id") or truth.get("conversation_id"))
        case "failures":
            return lacks("status.code", "error.type")


def diagnosis(sent: ProducerCounts, shared_name: str | None = None, lone_calls: int = 0) -> Diagnosis:
    producer = Producer(service="shop", scope="acme-agents", version="2", language="python")
    return Diagnosis(producer=producer, sent=sent, calls=2, missing=(), shared_name=shared_name, lone_calls=lone_calls)


def test_a_producer_that_no_dialect_knows_gets_lines_for_the_configuration():
    status: StatusCode = "ok"
    seen = span({"acme.tool.name": "find", "acme.input": '{"q": 1}', "acme.output": "7"}, status=status)
    mapping = mapping_of(seen)
    assert mapping is not None
    shown = "\n".join(diagnosis_lines(diagnosis(ProducerCounts(spans=1, mappings=[mapping]))))
    assert "    dialects:\n      acme_agents:\n        scopes:\n        - acme-agents\n" in shown
    assert "          arguments: acme.input\n" in shown


def test_a_name_that_all_tools_share_is_a_problem():
    shared = diagnosis(ProducerCounts(spans=2), shared_name="DynamicStructuredTool", lone_calls=2)
    shown = "\n".join(diagnosis_lines(shared))
    assert "problem: all its calls are called `DynamicStructuredTool`" in shown
    assert "2 calls in a trace of a single span" in shown
    assert diagnosis_object(shared)["shared_name"] == "DynamicStructuredTool"
