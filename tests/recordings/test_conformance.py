"""A recording of the fixed scenario gets the row that the table of producers gives its capture, and each fault is named."""

import json
from collections.abc import Iterable
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.cli.command import run
from tests.producers.stub.scenarios import TOOLS
from tests.recordings.corpus import diagnosed_with_trajectories
from tests.rows import each_row
from toolgauge.recordings.conformance import (
    COLUMNS,
    SCENARIO,
    conformance,
    conformance_lines,
)

CAPTURE = Path(__file__).parent / "conformance" / "pydantic-ai.otlp.pb"
YES = dict.fromkeys(COLUMNS, "yes")


def changed(folder: Path, *, without: Iterable[str] = (), scope: str = "pydantic-ai", extra: str = "") -> str:
    """Write the capture without these attributes; `extra` names a tool with one more span."""
    body = ExportTraceServiceRequest.FromString(CAPTURE.read_bytes())
    for group in (one for resource in body.resource_spans for one in resource.scope_spans):
        group.scope.name = scope
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
    """Return the words of the row, and the lines below it."""
    found = conformance(diagnosed_with_trajectories([file])[1], ())
    return {column: cell.word for column, cell in found.row.items()}, list(conformance_lines(found))[3:]


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


def test_the_command_ends_with_0_only_where_the_whole_run_is_rebuilt(tmp_path: Path):
    whole = run("doctor", "--conformance", str(CAPTURE))
    assert (whole.code, whole.out.splitlines()[-1]) == (0, "| pydantic-ai 2.68.0 | yes | yes | yes | yes | yes | yes |")
    lacking = run("doctor", "--conformance", "--json", changed(tmp_path, without=("gen_ai.conversation.id",)))
    found = json.loads(lacking.out)
    assert (lacking.code, found["ok"]) == (1, False)
    assert found["rebuilt"]["conversation"] == {"answer": "not recorded", "right": 0, "of": 1}
    assert found["wrong"] == [{"what": "conversation", "call": None, "wrong": "not recorded"}]


def test_a_hostile_name_stays_in_its_cell(tmp_path: Path):
    ended = run("doctor", "--conformance", changed(tmp_path, scope="a|b\x1b[2J" + "s" * 5000))
    row = ended.out.splitlines()[2]
    assert row.startswith("| a\\|b\\x1b[2Js")
    assert len(row) < 400


@each_row("tool", json.loads(SCENARIO.read_text())["tools"], ids=lambda tool: tool["name"])
def test_the_stub_offers_the_tools_of_the_scenario(tool: dict[str, object]):
    assert TOOLS[str(tool["name"])] == (tool["description"], tool["parameters"])
