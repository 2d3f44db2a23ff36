"""A recording of the fixed scenario is compared with what really happened, as for the table of producers."""

import json
from collections.abc import Iterable
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.producers.stub.scenarios import TOOLS
from tests.recordings.corpus import diagnosed_with_trajectories
from tests.recovery_table import COLUMNS, SCENARIO, row_of_scenario
from tests.rows import each_row

CAPTURE = Path(__file__).parent / "conformance" / "pydantic-ai.otlp.pb"
YES = dict.fromkeys(COLUMNS, "yes")


def changed(folder: Path, *, without: Iterable[str] = (), extra: str = "") -> str:
    """Write the capture without these attributes; `extra` names a tool with one more span."""
    body = ExportTraceServiceRequest.FromString(CAPTURE.read_bytes())
    for group in (one for resource in body.resource_spans for one in resource.scope_spans):
        for span in group.spans:
            kept = [pair for pair in span.attributes if pair.key not in without]
            del span.attributes[:]
            span.attributes.extend(kept)
        if extra:
            more = next(span for span in group.spans if span.name == "execute_tool get_weather")
            copy = Span.FromString(more.SerializeToString().replace(b"get_weather", extra.encode()))
            copy.span_id = b"12345678"
            group.spans.append(copy)
            extra = ""
    file = folder / "s.otlp.pb"
    file.write_bytes(body.SerializeToString())
    return str(file)


def shown(file: str) -> tuple[dict[str, str], list[str]]:
    """Return the words of the row, and the faults."""
    row, faults = row_of_scenario(diagnosed_with_trajectories([file])[1])
    return {column: row[column].word for column in COLUMNS}, faults


def test_a_whole_recording_is_rebuilt():
    assert shown(str(CAPTURE)) == (YES, [])


def test_facts_that_are_left_out_are_named(tmp_path: Path):
    left_out = ("gen_ai.conversation.id", "gen_ai.tool.definitions", "model_request_parameters")
    words, lines = shown(changed(tmp_path, without=left_out))
    assert words == YES | {"offers": "not recorded", "conversation": "not recorded"}
    assert lines[0] == "conversation: not recorded"
    assert "offers of `get_weather`: not recorded" in lines


def test_a_call_that_was_never_made_is_named(tmp_path: Path):
    words, lines = shown(changed(tmp_path, extra="get_wealthy"))
    assert words["calls"] == "partly 4/5"
    assert "calls of `get_wealthy`: never made" in lines


@each_row("tool", json.loads(SCENARIO.read_text())["tools"], ids=lambda tool: tool["name"])
def test_the_stub_offers_the_tools_of_the_scenario(tool: dict[str, object]):
    assert TOOLS[str(tool["name"])] == (tool["description"], tool["parameters"])
