"""`toolgauge inspect` on producers that no dialect knows."""

from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from tests.cli.command import run, unbroken
from tests.cli.test_exit_codes import RETRY
from tests.walk.support import CORPUS


def recording(folder: Path, name: str, **attributes: str) -> str:
    values = [
        KeyValue(key=key.replace("_", "."), value=AnyValue(string_value=text)) for key, text in attributes.items()
    ]
    span = Span(trace_id=b"t" * 16, span_id=b"s" * 8, name=name, start_time_unix_nano=1, end_time_unix_nano=2)
    span.attributes.extend(values)
    spans = ScopeSpans(spans=[span])
    spans.scope.name = "unknown.framework"
    request = ExportTraceServiceRequest(resource_spans=[ResourceSpans(scope_spans=[spans])])
    (folder / "run.otlp.pb").write_bytes(request.SerializeToString())
    return str(folder / "run.otlp.pb")


@pytest.mark.parametrize(
    ("name", "said"),
    [("step", "nothing recognised: "), ("call_tool find_order", "1 of the spans look like tool calls")],
)
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_an_unknown_producer_is_led_to_the_section_dialects(
    tmp_path: Path, name: str, said: str, options: tuple[str, ...]
):
    inspected = run("inspect", *options, recording(tmp_path, name, acme_kind="work"))
    assert (inspected.code, inspected.out) == (0, "")
    assert said in inspected.err
    assert "the section `dialects` of the configuration" in unbroken(inspected.err)


def test_an_unread_producer_beside_a_known_one_is_a_problem_for_doctor(tmp_path: Path):
    unread = recording(tmp_path, "call_tool find_order", acme_kind="work")
    assert run("doctor", RETRY).code == 0
    assert run("doctor", RETRY, unread).code == 1


def test_a_known_producer_is_not():
    assert run("inspect", str(CORPUS / "pydantic-ai" / "one_call.otlp.pb")).err == ""


def test_a_plain_key_of_a_mapping_is_a_list_of_one(tmp_path: Path):
    file = recording(tmp_path, "x", acme_kind="tool", acme_tool="find", acme_output='{"output": {"id": 7}}')
    mapping = "{match: {acme.kind: tool}, reads: tool_call, tool_name: acme.tool, result: {attribute: acme.output, path: output}}"
    inspected = run("inspect", "--json", "--set", f"dialects={{acme: {{scopes: unknown, spans: [{mapping}]}}}}", file)
    assert inspected.err == ""
    assert '"result": {"id": 7}' in inspected.out
