"""Files that are no recording: the error says what they look like, else what a recording is."""

import gzip
from pathlib import Path

import pytest

from tests.cli.command import run
from tests.recordings.test_recordings import delimited, recording, traces
from toolgauge.model.errors import RecordingError

JAEGER = '{"data": [{"traceID": "a1", "spans": [{"traceID": "a1", "operationName": "x"}], "processes": {}}]}'
LANGFUSE = '[{"id": "1", "traceId": "a1", "type": "GENERATION", "parentObservationId": null}]'
LANGSMITH = '[{"id": "1", "name": "agent", "run_type": "chain", "inputs": {}, "trace_id": "a1"}]'
CONSOLE = '{"name": "x", "context": {"trace_id": "0x1", "span_id": "0x2"}, "kind": "SpanKind.INTERNAL"}'
CASE = '{"id": "a", "evaluator": "tool_call_f1", "expected": {}, "actual": {}}'
SNAKE = '{"resource_spans": []}'


def refusal(file: Path, content: bytes) -> RecordingError:
    file.write_bytes(content)
    with pytest.raises(RecordingError) as caught:
        recording(file)
    return caught.value


@pytest.mark.parametrize(
    ("name", "document", "hint"),
    [
        ("jaeger.json", JAEGER, "it looks like an export of Jaeger, which is not OTLP"),
        ("langfuse.json", LANGFUSE, "it looks like an export of Langfuse, which is not OTLP"),
        ("langsmith.json", LANGSMITH, "it looks like an export of LangSmith, which is not OTLP"),
        ("console.json", CONSOLE, "it looks like output of the console exporter of OpenTelemetry's Python SDK"),
        ("cases.jsonl", CASE, "these look like offline cases, which `toolgauge score` reads"),
        ("snake.json", SNAKE, "`resourceSpans`, not `resource_spans`"),
    ],
)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_json_that_is_no_otlp_is_named(tmp_path: Path, name: str, document: str, hint: str, pack: type[bytes]):
    error = refusal(tmp_path / name, pack(document.encode()))
    assert "not OTLP JSON" in error.message
    assert hint in (error.hint or "")


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        (b"\x28\xb5\x2f\xfd\x04\x00rest", "it is compressed with zstd, which is not read here: unpack it"),
        (b"PK\x03\x04\x14\x00", "it is compressed with zip"),
        (b"SQLite format 3\0" + bytes(50), "it is an SQLite database"),
        (len(traces(5) * 20).to_bytes(4) + traces(5) * 20, "the Collector's file exporter with `format: proto`"),
    ],
)
@pytest.mark.parametrize("name", ["recording.otlp", "recording"])
def test_bytes_that_are_no_otlp_are_named(tmp_path: Path, name: str, content: bytes, hint: str):
    assert hint in (refusal(tmp_path / name, content).hint or "")


@pytest.mark.parametrize("name", ["notes.txt", "notes.json", "notes.otlp", "notes.otlp.pb"])
def test_what_is_not_known_has_the_known_forms_as_hint(tmp_path: Path, name: str):
    hint = refusal(tmp_path / name, b"hello, this is text\n").hint or ""
    assert hint.startswith("a recording is OTLP: `*.otlp.pb` (one request), `*.otlp`")


def test_a_recording_that_is_cut_off_is_a_recording(tmp_path: Path):
    (tmp_path / "s.otlp").write_bytes(delimited(traces(1), traces(2))[:-3])
    assert [request.time_ns for request in recording(tmp_path / "s.otlp")] == [1]


@pytest.mark.parametrize("command", ["inspect", "replay", "doctor"])
def test_an_empty_file_is_named_as_empty(tmp_path: Path, command: str):
    (tmp_path / "e.otlp").touch()
    ended = run(command, "e.otlp", cwd=tmp_path)
    assert (ended.code, ended.err) == (1, "error: `e.otlp` is empty\nhint: nothing was recorded in it\n")


def test_an_empty_file_among_others_in_a_directory_is_left_alone(tmp_path: Path):
    (tmp_path / "a.otlp").touch()
    (tmp_path / "b.otlp").write_bytes(delimited(traces(7)))
    assert [request.time_ns for request in recording(tmp_path)] == [7]
