"""Dialects written in the configuration, in a whole pipeline: beside the built-in one of the same producer, and after a reload."""

from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.walk.support import CORPUS, SECOND, START_NS, Walk, key_value
from toolgauge.config.load import load
from toolgauge.model.trajectory import ToolCall
from toolgauge.recordings.recorded_requests import read, scorecards
from toolgauge.service.criteria_factory import default_criteria
from toolgauge.service.pipeline_factory import make_rules, offline_pipeline

EXAMPLES = Path(__file__).parents[2] / "examples" / "simple-dialect"
AI_SDK = """
dialects:
  my_framework:
    scopes: [ai]
    spans:
      - match: {ai.operationId: ai.toolCall}
        reads: tool_call
        tool_name: ai.toolCall.name
        call_id: ai.toolCall.id
        arguments: ai.toolCall.args
        result: ai.toolCall.result
      - match: {ai.operationId: [ai.generateText.doGenerate, ai.streamText.doStream]}
        reads: model_call
        tools: ai.prompt.tools
        requests:
          attribute: ai.response.toolCalls
          path: ["*"]
          tool_name: [toolName]
          call_id: [toolCallId]
          arguments: [input]
      - match: {ai.operationId: [ai.generateText, ai.streamText]}
        reads: agent_run
        agent: ai.telemetry.functionId
"""


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    path = tmp_path / "toolgauge.yaml"
    path.write_text(AI_SDK)
    return path


def calls(scenario: str, *config_files: Path) -> list[tuple[object, ...]]:
    config = load(config_files, (), {})
    files = sorted(str(path) for path in (CORPUS / "vercel-ai").glob(f"{scenario}*.otlp.pb"))
    recording = read(files, lambda _size: None)
    found = scorecards(recording, offline_pipeline(config, ()))
    return [shown(call) for card in found for call in card.trajectory.calls]


def shown(call: ToolCall) -> tuple[object, ...]:
    return call.turn, call.name, call.call_id, call.arguments, call.result, call.state


@pytest.mark.parametrize("scenario", ["sequence3_legacy", "multi_turn_legacy"])
def test_a_mapping_reads_what_the_dialect_of_the_same_producer_reads(scenario: str, config_file: Path):
    mapped = calls(scenario, config_file)
    assert mapped
    assert mapped == calls(scenario)


def request_of_an_unread_producer(trace: bytes) -> bytes:
    body = ExportTraceServiceRequest()
    span = body.resource_spans.add().scope_spans.add().spans.add()
    span.trace_id, span.span_id, span.name = trace * 16, trace * 8, "acme"
    span.start_time_unix_nano, span.end_time_unix_nano = START_NS, START_NS + SECOND
    span.attributes.extend([key_value("acme.kind", "tool"), key_value("acme.tool", "refund")])
    return body.SerializeToString()


def test_what_a_reload_maps_is_read_from_then_on():
    walk = Walk(criteria=default_criteria(load((), (), {}).defaults))
    walk.send(request_of_an_unread_producer(b"1"))
    walk.wait(60)
    assert walk.scorecards() == []
    before = load((), (), {})
    mapping = "dialects.acme.spans=[{match: {acme.kind: tool}, reads: tool_call, tool_name: acme.tool}]"
    after = load((), (mapping,), {})
    criteria = default_criteria(after.defaults)
    walk.pipeline.adopt(make_rules(after, criteria, walk.metrics, running=before, read=walk.pipeline.scorer.wanted))
    walk.send(request_of_an_unread_producer(b"2"))
    walk.wait(60)
    assert [card.trace_id for card in walk.scorecards()] == [b"2" * 16]


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_examples_are_valid(example: Path):
    assert len(load((example,), (), {}).dialects) == 1
