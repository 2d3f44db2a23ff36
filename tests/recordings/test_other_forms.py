"""Files that are no recording: the error says what a recording is."""

from pathlib import Path

import pytest

from tests.cli.command import run
from tests.recordings.test_recordings import delimited, recording, traces
from toolgauge.model.errors import RecordingError


def refusal(file: Path, content: bytes) -> RecordingError:
    file.write_bytes(content)
    with pytest.raises(RecordingError) as caught:
        recording(file)
    return caught.value


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
