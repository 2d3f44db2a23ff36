"""A recording on disk: whose it is, what it replaces, and when the next one begins."""

import gzip
import lzma
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.rows import each_row
from tests.wire.support import until_equal
from toolgauge.export.recording_file import RecordingFile, recording_ending
from toolgauge.model.errors import StartError

BODY = b"\x0a\x06\x12\x04\x12\x02\x2a\x00"


def written(recording: RecordingFile, count: int = 1) -> None:
    recording.start()
    for _ in range(count):
        recording.put("traces", BODY)
    recording.close(60)
    recording.close(60)


@pytest.mark.parametrize(
    ("name", "decompress"), [("a.otlp", bytes), ("a.otlp.gz", gzip.decompress), ("a.otlp.xz", lzma.decompress)]
)
def test_requests_are_written_one_after_another(tmp_path: Path, name: str, decompress: Callable[[bytes], bytes]):
    recording = RecordingFile(str(tmp_path / name))
    written(recording, 3)
    assert decompress((tmp_path / name).read_bytes()) == (b"\x08" + BODY) * 3
    assert (recording.written, recording.losses.total()) == (3, 0)


def test_only_its_owner_can_read_it_also_where_everybody_could_read_what_was_there(tmp_path: Path):
    (tmp_path / "a.otlp").write_bytes(b"old")
    (tmp_path / "a.otlp").chmod(0o666)
    written(RecordingFile(str(tmp_path / "a.otlp"), replaces=True))
    assert stat.S_IMODE((tmp_path / "a.otlp").stat().st_mode) == 0o600
    assert (tmp_path / "a.otlp").read_bytes() == b"\x08" + BODY


def test_a_file_that_is_there_is_not_overwritten(tmp_path: Path):
    (tmp_path / "a.otlp").write_bytes(b"old")
    with pytest.raises(StartError, match="it exists") as caught:
        RecordingFile(str(tmp_path / "a.otlp")).start()
    assert caught.value.hint == "`--force` replaces it"
    assert (tmp_path / "a.otlp").read_bytes() == b"old"


def test_with_rotation_a_file_that_is_there_is_moved_aside(tmp_path: Path):
    (tmp_path / "a.otlp").write_bytes(b"old")
    written(RecordingFile(str(tmp_path / "a.otlp"), max_bytes=100, max_backups=1))
    (backup,) = tmp_path.glob("a-*.otlp")
    assert backup.read_bytes() == b"old"
    assert (tmp_path / "a.otlp").read_bytes() == b"\x08" + BODY


def test_a_full_file_is_moved_aside_and_the_oldest_are_deleted(tmp_path: Path):
    stranger = tmp_path / "a-notes.otlp"
    stranger.write_bytes(b"mine")
    for _ in range(5):
        written(RecordingFile(str(tmp_path / "a.otlp"), max_bytes=20, max_backups=2), 1)
    assert len([*tmp_path.glob("a-2*.otlp")]) == 2
    assert stranger.read_bytes() == b"mine"


def test_a_file_grows_up_to_its_limit(tmp_path: Path):
    recording = RecordingFile(str(tmp_path / "a.otlp"), max_bytes=30, max_backups=9)
    recording.start()
    for count in range(1, 8):
        recording.put("traces", BODY)
        until_equal(lambda: recording.written, count, "the request to be written")
    recording.close(60)
    sizes = [file.stat().st_size for file in sorted(tmp_path.glob("a-*.otlp"))]
    assert sizes == [27, 27]
    assert (tmp_path / "a.otlp").stat().st_size == 9


def test_what_finds_no_room_in_the_queue_is_counted_as_missing(tmp_path: Path):
    recording = RecordingFile(str(tmp_path / "a.otlp"))
    # Nothing is written before the start.
    recording.put("traces", bytes(20 << 20))
    recording.put("traces", bytes(20 << 20))
    assert recording.losses["traces", "queue_full"] == 1


@each_row("name", ["run", "run.json", "run.otlp.pb", "run.logs.otlp", "run.otlp.zip"])
def test_a_name_that_readers_would_take_for_something_else_is_refused(name: str):
    with pytest.raises(ValueError, match=r"must end in `\.otlp`, `\.otlp\.gz` or `\.otlp\.xz`"):
        recording_ending(name)
