"""Files that are no recording: the error says what a recording is."""

from pathlib import Path

import pytest

from tests.recordings.test_recordings import recording
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
