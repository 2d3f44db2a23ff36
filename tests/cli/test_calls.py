"""`check --calls` and `doctor` as people and scripts run them."""

import json
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from tests.cli.command import run, unbroken
from tests.walk.support import CORPUS

HEALTHY = str(CORPUS / "pydantic-ai" / "one_call.otlp.pb")
SILENT = str(CORPUS / "pydantic-ai" / "content_off.otlp.pb")
MAILED = str(CORPUS.parents[1] / "src" / "toolgauge" / "demo" / "traffic" / "pydantic-ai.sequence3.otlp.pb")


def recording(folder: Path, name: str, **attributes: str) -> str:
    values = [
        KeyValue(key=key.replace("_", "."), value=AnyValue(string_value=text)) for key, text in attributes.items()
    ]
    span = Span(trace_id=b"t" * 16, span_id=b"s" * 8, name=name, start_time_unix_nano=1, end_time_unix_nano=2)
    span.attributes.extend(values)
    spans = ScopeSpans(spans=[span])
    spans.scope.name = "unknown.framework"
    made = ExportTraceServiceRequest(resource_spans=[ResourceSpans(scope_spans=[spans])])
    (folder / "run.otlp.pb").write_bytes(made.SerializeToString())
    return str(folder / "run.otlp.pb")


def test_a_mapping_of_the_configuration_reads_calls(tmp_path: Path):
    file = recording(tmp_path, "x", acme_kind="tool", acme_tool="find", acme_output='{"output": {"id": 7}}')
    mapping = "{match: {acme.kind: tool}, reads: tool_call, tool_name: acme.tool, result: {attribute: acme.output, path: output}}"
    given = ("--set", f"dialects={{acme: {{scopes: unknown, spans: [{mapping}]}}}}", file)
    shown = run("check", "--calls", "--json", *given)
    assert (shown.err, '"result": {"id": 7}' in shown.out) == ("", True)
    assert json.loads(run("doctor", "--json", *given).out)["dialects"] == ["acme"]


def test_doctor_ends_with_1_where_something_is_missing_and_prints_one_object_a_producer():
    ended = run("doctor", SILENT)
    assert (ended.code, ended.err) == (1, "")
    assert "problem: no arguments in 3 of 3 calls, no results in 3 of 3 calls" in ended.out
    (line,) = run("doctor", "--json", SILENT, HEALTHY).out.splitlines()
    assert [missing["what"] for missing in json.loads(line)["missing"]] == ["arguments", "results", "user_text"]


def test_doctor_ends_with_0_where_all_is_well_and_judges_nothing_without_calls():
    ended = run("doctor", HEALTHY)
    assert (ended.code, ended.err, "nothing is missing" in ended.out) == (0, "", True)
    without = run("doctor", str(CORPUS / "pydantic-ai" / "no_tool.otlp.pb")).out
    assert ", 0 calls\n  no tool call: nothing to judge\n" in without
    assert "nothing is missing" not in without


def test_doctor_names_the_scopes_of_a_recording_that_it_does_not_read(tmp_path: Path):
    ended = run("doctor", recording(tmp_path, "step", acme_kind="work"))
    assert (ended.code, "the most spans are of the scopes `unknown.framework`" in unbroken(ended.err)) == (1, True)


def test_secrets_are_masked_for_people_and_not_for_programs():
    shown, printed = run("check", "--calls", MAILED).out, run("check", "--calls", "--json", MAILED).out
    assert 'send_email(to="[email]", ' in shown
    assert ("zoe@example.com" in shown, "zoe@example.com" in printed) == (False, True)


def test_an_unread_producer_beside_a_known_one_is_a_problem_for_doctor(tmp_path: Path):
    unread = recording(tmp_path, "call_tool find_order", acme_kind="work")
    assert [run("doctor", HEALTHY, *more).code for more in ((), (unread,))] == [0, 1]
