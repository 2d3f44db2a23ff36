"""Doctor's advice over all captures is true of them, and says what makes calls doubtful."""

import json

from tests.captures import CORPUS, Captured
from tests.recognize.support import span
from tests.recordings.corpus import diagnosed, recordings
from toolgauge.dialects.generic import mapping_of
from toolgauge.model.records import StatusCode
from toolgauge.recognize.shortfalls import Producer
from toolgauge.recordings.doctor import Diagnosis, diagnosis_lines, diagnosis_object
from toolgauge.recordings.stats import ProducerCounts

# Facts that switches for content record; those that are recorded for themselves are another matter.
CONTENT = ("calls", "arguments", "results", "user_text", "tool_definitions")
# Advice to record an attribute, or to take a newer release, names the switch that has to be on as well.
OTHER_ADVICE = ("upgrade", "newer releases", "record `gen_ai.tool.definitions`")


def test_no_advice_is_to_switch_on_what_is_on(captured: Captured):
    assert captured.failures(assert_no_switch_is_on) == {}


def assert_no_switch_is_on(folder: str, scenario: str) -> None:
    truth = json.loads((CORPUS / folder / f"{scenario}.truth.json").read_text())
    calls = [call for trace in truth["traces"] for call in trace["tool_calls"]]
    is_on = all(call.get("in_capture", {}).get("arguments") is not False for call in calls)
    for diagnosis in diagnosed(recordings(folder, scenario)) if is_on else ():
        for missing in diagnosis.missing:
            is_other = missing.remedy.how.startswith(OTHER_ADVICE)
            assert is_other or missing.fact not in CONTENT or not missing.remedy.switches, missing.remedy.how


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
