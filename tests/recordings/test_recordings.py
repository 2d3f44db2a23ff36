"""Files of every kind become one recording in order of recorded time."""

import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from toolgauge.model.errors import RecordingError
from toolgauge.recordings.recorded_requests import RecordedRequest, find_files, read


def traces(end_ns: int) -> bytes:
    request = ExportTraceServiceRequest()
    request.resource_spans.add().scope_spans.add().spans.add(end_time_unix_nano=end_ns, name="x")
    return request.SerializeToString()


def logs(time_ns: int) -> bytes:
    request = ExportLogsServiceRequest()
    request.resource_logs.add().scope_logs.add().log_records.add(time_unix_nano=time_ns)
    return request.SerializeToString()


def delimited(*bodies: bytes) -> bytes:
    out = b""
    for body in bodies:
        size = len(body)
        while size > 0x7F:
            out += bytes([size & 0x7F | 0x80])
            size >>= 7
        out += bytes([size]) + body
    return out


def _no_progress(size: int) -> None:
    del size


def recording(*paths: Path) -> list[RecordedRequest]:
    return list(read(find_files([str(path) for path in paths]), _no_progress))


def test_files_given_together_are_merged_by_recorded_time(tmp_path: Path):
    (tmp_path / "b.otlp.pb").write_bytes(traces(100))
    (tmp_path / "a.otlp.pb").write_bytes(traces(300))
    (tmp_path / "c.logs.otlp.pb").write_bytes(logs(200))
    (tmp_path / "stream.otlp").write_bytes(delimited(traces(150), traces(250)))
    (tmp_path / "notes.txt").write_text("not a recording")
    (tmp_path / "package.json").write_text('{"name": "not a recording"}')
    found = [(request.time_ns, request.signal) for request in recording(tmp_path)]
    assert found == [(100, "traces"), (150, "traces"), (200, "logs"), (250, "traces"), (300, "traces")]


@pytest.mark.parametrize(("ending", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_compressed_files_are_read(tmp_path: Path, ending: str, pack: type[bytes]):
    (tmp_path / f"one.otlp.pb{ending}").write_bytes(pack(traces(1)))
    (tmp_path / f"two.otlp{ending}").write_bytes(pack(delimited(traces(2), traces(3))))
    assert [request.body for request in recording(tmp_path)] == [traces(1), traces(2), traces(3)]


def test_json_is_read_as_one_document_and_as_one_a_line(tmp_path: Path):
    span = {"traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "b7ad6b7169203331", "endTimeUnixNano": "7"}
    document = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
    (tmp_path / "pretty.json").write_text(json.dumps(document, indent=2))
    (tmp_path / "lines.jsonl").write_text(json.dumps(document) + "\n\n" + json.dumps({"resourceLogs": []}) + "\n")
    assert [(request.time_ns, request.signal) for request in recording(tmp_path)] == [
        (7, "traces"),
        (7, "logs"),
        (7, "traces"),
    ]


def test_a_file_without_a_telling_name_is_plainly_claimed_by_its_content(tmp_path: Path):
    (tmp_path / "x").write_bytes(traces(5))
    (tmp_path / "y").write_bytes(delimited(traces(6), traces(7)))
    (tmp_path / "z").write_text('{"resourceSpans": []}')
    found = recording(tmp_path / "x", tmp_path / "y", tmp_path / "z")
    assert sorted(request.time_ns for request in found) == [0, 5, 6, 7]


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress])
def test_what_is_before_the_cut_of_a_compressed_stream_is_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, compress: Callable[[bytes], bytes]
):
    whole, cut = compress(delimited(traces(1), traces(2))), compress(delimited(traces(3)))
    (tmp_path / ("s.otlp.gz" if compress is gzip.compress else "s.otlp.xz")).write_bytes(whole + cut[:-5])
    assert [request.time_ns for request in recording(tmp_path)][:2] == [1, 2]
    assert "is cut off in request" in caplog.text


def test_a_stream_without_one_whole_request_is_an_error(tmp_path: Path):
    (tmp_path / "s.otlp").write_bytes(delimited(traces(1))[:-3])
    with pytest.raises(RecordingError, match=r"s\.otlp` is cut off in request 1"):
        recording(tmp_path)


@pytest.mark.parametrize("wrong", [logs(5), b"\x0a\x05ab", traces(5)[:-1]])
@pytest.mark.parametrize("position", [1, 2, 3])
def test_a_request_that_is_no_otlp_is_named_and_the_others_are_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, wrong: bytes, position: int
):
    bodies = [traces(1), traces(2)]
    bodies.insert(position - 1, wrong)
    (tmp_path / "s.otlp").write_bytes(delimited(*bodies))
    assert [request.time_ns for request in recording(tmp_path)] == [1, 2]
    assert f"s.otlp`, request {position}: not an OTLP request" in caplog.text
    assert "it was left out" in caplog.text


def test_a_line_that_is_no_otlp_is_named_and_the_others_are_read(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    line = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [{"endTimeUnixNano": "7"}]}]}]})
    (tmp_path / "lines.jsonl").write_text("\n".join((line, '{"resource_spans": []}', line, line[:-9])))
    assert [request.time_ns for request in recording(tmp_path)] == [7, 7]
    assert "lines.jsonl`, line 2: not OTLP JSON (neither `resourceSpans` nor `resourceLogs` in it)" in caplog.text
    assert "lines.jsonl`, line 4: not OTLP JSON" in caplog.text


def test_text_that_is_no_utf_8_does_not_make_a_stream_unreadable(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    (tmp_path / "s.otlp").write_bytes(delimited(traces(1).replace(b"x", b"\xff"), traces(2)))
    assert [request.time_ns for request in recording(tmp_path)] == [1, 2]
    assert caplog.text == ""
