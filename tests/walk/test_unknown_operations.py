"""Calls of model spans whose operations are not known: each is one call, whatever other span shows it, or `doctor` names the span."""

from pathlib import Path

from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans

from tests.walk import shapes
from tests.walk.shapes import Attributes
from toolgauge.config.load import load
from toolgauge.model.json import Json
from toolgauge.recordings.doctor import Diagnosis, Doctor, diagnosis_lines, diagnosis_object
from toolgauge.recordings.producer_counts import Tally
from toolgauge.recordings.recorded_requests import read, scorecards
from toolgauge.service.pipeline_factory import offline_pipeline

FIND = ("find", "c1")
BUY = ("buy", "c2")


def span(
    number: int, operation: str, *calls: tuple[str, str | None], parent: int = 0, start: int = 0, end: int = 0
) -> ScopeSpans:
    """Write a span with calls in its output; times are in seconds."""
    parts: list[Json] = [
        {"type": "tool_call", "name": name, "arguments": {"q": 1}, **({} if call_id is None else {"id": call_id})}
        for name, call_id in calls
    ]
    output: Attributes = {
        "gen_ai.output.messages": [{"role": "assistant", "parts": parts, "finish_reason": "tool_call"}]
    }
    return shapes.span(
        f"{operation} x",
        {"gen_ai.operation.name": operation, **(output if calls else {})},
        id=str(number),
        parent=str(parent) if parent else None,
        at=start,
        seconds=(end or start + 1) - start,
        scope="acme",
    )


def recording(folder: Path, *spans: ScopeSpans) -> str:
    file = folder / "a.otlp.pb"
    file.write_bytes(shapes.request(*spans).SerializeToString())
    return str(file)


def called(folder: Path, *spans: ScopeSpans) -> list[tuple[str, str | None]]:
    make = offline_pipeline(load((), (), {}), ())
    cards = scorecards(read([recording(folder, *spans)], lambda _size: None), make)
    return [(call.name, call.call_id) for card in cards for call in card.trajectory.calls]


def diagnosis(folder: Path, *spans: ScopeSpans) -> Diagnosis:
    tally = Tally()
    doctor = Doctor(tally)
    make = offline_pipeline(load((), (), {}), (), tally.recognizer)
    for card in scorecards(tally.counted(read([recording(folder, *spans)], lambda _size: None)), make):
        doctor.add(card.trajectory)
    (found,) = doctor.diagnoses()
    return found


def test_a_plan_alone_shows_its_calls(tmp_path: Path):
    assert called(tmp_path, span(1, "plan", FIND, BUY)) == [FIND, BUY]


def test_a_model_span_within_or_around_shows_the_same_calls(tmp_path: Path):
    within = (span(1, "plan", FIND, end=9), span(2, "chat", FIND, parent=1, start=2))
    around = (span(1, "chat", FIND, end=9), span(2, "fetch_response", FIND, parent=1, start=2))
    assert called(tmp_path, *within) == called(tmp_path, *around) == [FIND]
    without_id = ("find", None)
    assert called(tmp_path, span(1, "plan", without_id, end=9), span(2, "chat", without_id, parent=1, start=2)) == [
        without_id
    ]


def test_a_session_sums_up_the_outputs_of_an_agent_within_it(tmp_path: Path):
    session = (
        span(1, "live", FIND, BUY, end=20),
        span(2, "invoke_agent", parent=1, start=1, end=19),
        span(3, "chat", FIND, parent=2, start=2),
        span(4, "chat", BUY, parent=2, start=5),
    )
    assert called(tmp_path, *session) == [FIND, BUY]


def test_a_response_that_is_fetched_again_asks_for_nothing_more(tmp_path: Path):
    run = span(1, "invoke_agent", end=20)
    fetched = [span(number, "fetch_response", FIND, parent=1, start=number) for number in (3, 4)]
    assert called(tmp_path, run, span(2, "chat", FIND, parent=1, start=2), *fetched) == [FIND]
    assert called(tmp_path, run, *fetched) == [FIND]


def test_doctor_names_spans_from_which_nothing_was_read(tmp_path: Path):
    found = diagnosis(tmp_path, span(1, "invoke_workflow", FIND), span(2, "poll", start=2), span(3, "poll", start=3))
    assert diagnosis_object(found)["unread"] == [
        {"name": "poll x", "operation": "poll", "spans": 2},
        {"name": "invoke_workflow x", "operation": "invoke_workflow", "spans": 1},
    ]
    lines = list(diagnosis_lines(found))
    assert lines[2:5] == [
        "  note: no tool call; nothing was read from 3 spans of scope `acme`:",
        "    2 `poll x`, operation `poll`",
        "    1 `invoke_workflow x`, operation `invoke_workflow`",
    ]
    assert "nothing to judge" not in "".join(lines)
