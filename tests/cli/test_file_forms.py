"""Every form of file that the page of commands names is read, by every command that takes recordings."""

import json
import lzma
from base64 import b64decode
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from toolgauge.cli.main import commands

PAGE = (Path(__file__).parents[2] / "docs" / "commands.md").read_text()
RETRY = Path(__file__).parents[2] / "src" / "toolgauge" / "demo" / "traffic" / "openinference-crewai.retry.otlp.pb"


def as_json(request: bytes) -> bytes:
    """OTLP JSON, which has ids in hex where protobuf's own JSON has them in base64."""
    written = MessageToDict(ExportTraceServiceRequest.FromString(request), use_integers_for_enums=True)
    for group in written["resourceSpans"]:
        for span in (span for scope in group["scopeSpans"] for span in scope["spans"]):
            span.update({key: b64decode(span[key]).hex() for key in ("traceId", "spanId", "parentSpanId") if key in span})  # fmt: skip
    return json.dumps(written).encode()


def split() -> list[bytes]:
    """One request a span."""
    parts: list[bytes] = []
    for group in ExportTraceServiceRequest.FromString(RETRY.read_bytes()).resource_spans:
        for scope in group.scope_spans:
            for span in scope.spans:
                request = ExportTraceServiceRequest()
                alone = request.resource_spans.add(resource=group.resource).scope_spans.add(scope=scope.scope)
                alone.spans.append(span)
                parts.append(request.SerializeToString())
    return parts


def toolgauge(*words: str) -> Result:
    return CliRunner().invoke(commands, words, prog_name="toolgauge")


def test_the_page_names_these_forms():
    text = PAGE.partition("\n## Files\n")[2].partition("\n## ")[0]
    for named in ("`*.otlp.pb`", "`*.logs.otlp.pb`", "one request, or one a line", "`*.otlp`", "`.gz` or `.xz`"):
        assert named in " ".join(text.split()), named


COMMANDS = (
    "check --calls",
    "check",
    "check --firings",
    "check --criterion default.tool_success",
    "doctor",
    "expect",
    f"compare {RETRY}",
    "compare --agents",
    "learn",
    "init --force -d made",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_that_takes_recordings_reads_them(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("lines.jsonl.xz").write_bytes(lzma.compress(b"\n".join(map(as_json, split()))))
    Path("request.otlp.pb").write_bytes(RETRY.read_bytes())
    words = command.split()
    from_lines, from_request = (toolgauge(*words, file) for file in ("lines.jsonl.xz", "request.otlp.pb"))
    # What learns wants more runs than there are, and has read this one to know.
    assert from_lines.exit_code == from_request.exit_code, from_lines.output
    assert "cannot read" not in from_lines.stderr
    assert from_lines.stdout.replace("lines.jsonl.xz", "") == from_request.stdout.replace("request.otlp.pb", "")
