"""Spans that look like tool calls and that no dialect reads are named, and nothing else is."""

from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.captures import Captured
from tests.rows import each_row
from tests.walk.support import key_value
from toolgauge.config.load import load
from toolgauge.recordings.doctor import Doctor
from toolgauge.recordings.producer_counts import Tally, UnreadTools, looks_like_tool_call, unread_lines, unread_object
from toolgauge.recordings.recorded_requests import read, scorecards
from toolgauge.service.pipeline_factory import offline_pipeline


def left_over(*files: Path, overrides: tuple[str, ...] = ()) -> list[UnreadTools]:
    tally = Tally()
    doctor = Doctor(tally)
    make = offline_pipeline(load((), overrides, {}), (), tally.recognizer)
    for card in scorecards(tally.counted(read([*map(str, files)], lambda _size: None)), make):
        doctor.add(card.trajectory)
    return tally.unread_tools()


def span(name: str, *keys: str, trace: bytes = b"1", number: int = 1) -> Span:
    found = Span(
        name=name, trace_id=trace * 16, span_id=bytes([number]) * 8, start_time_unix_nano=1, end_time_unix_nano=2
    )
    found.attributes.extend(key_value(key, "x") for key in keys)
    return found


def recording(path: Path, *spans: Span, scope: str = "acme") -> Path:
    body = ExportTraceServiceRequest()
    group = body.resource_spans.add()
    group.resource.attributes.append(key_value("service.name", "shop"))
    group.scope_spans.add(spans=spans).scope.name = scope
    path.write_bytes(body.SerializeToString())
    return path


@each_row(
    ("name", "keys", "looks"),
    [
        ("execute_tool refund", (), True),
        ("tool_call refund", (), True),
        ("ToolUse", (), True),
        ("agent.tool-execution", (), True),
        ("function_call", (), True),
        ("span", ("acme.tool.name",), True),
        ("span", ("acme.tool_call.arguments",), True),
        ("span", ("toolName",), True),
        ("toolbar call", (), False),
        ("GET /tools", ("http.route",), False),
        ("span", ("code.function.name", "db.stored_procedure.name"), False),
        ("span", ("telemetry.sdk.name", "tooling.version"), False),
        ("faas", ("faas.invocation_id",), False),
    ],
)
def test_names_and_keys_that_speak_of_tools(name: str, keys: tuple[str, ...], looks: object):
    assert looks_like_tool_call(span(name, *keys)) is looks


def test_tool_spans_of_an_unknown_producer_are_a_problem(tmp_path: Path):
    file = recording(tmp_path / "a.pb", span("run", "acme.tool.name"), span("run", "acme.tool.name", number=2))
    (unread,) = left_over(file)
    assert unread_object(unread) == {
        "service": "shop",
        "scope": "acme",
        "version": None,
        "language": None,
        "dialects": [],
        "not_read": {"spans": 2, "alone": 2, "names": ["run"]},
        "ok": False,
    }
    assert "toolgauge does not read 2 spans that look like tool calls: `run`" in "\n".join(unread_lines(unread))


def test_no_capture_of_a_known_producer_has_calls_that_go_unseen(captured: Captured):
    files = [path for path in captured.files() if "content_off" not in path.name]
    assert [unread for unread in left_over(*files) if unread.is_problem] == []


def test_hostile_names_are_bounded_and_cannot_steer_a_terminal(tmp_path: Path):
    names = ["tool_call \x1b[2J" + "x" * 100_000 + str(number) for number in range(20)]
    spans = [span(name, number=number + 1) for number, name in enumerate(names)]
    (unread,) = left_over(recording(tmp_path / "a.pb", *spans))
    text = "\n".join(unread_lines(unread))
    assert "\x1b" not in text
    assert len(text) < 1000
    assert unread.spans == 20
