"""Recorded runs of real producers, diagnosed as the command does it."""

from pathlib import Path

from toolgauge.config.model import Config
from toolgauge.model.trajectory import Trajectory
from toolgauge.recordings.doctor import Diagnosis, Doctor
from toolgauge.recordings.producer_counts import Tally
from toolgauge.recordings.recorded_requests import find_files, read, scorecards
from toolgauge.service.pipeline_factory import offline_pipeline

CORPUS = Path(__file__).parents[1] / "corpus"


def recordings(folder: str, scenario: str = "*") -> list[str]:
    """Name the recorded requests of a scenario."""
    found = sorted(str(path) for path in (CORPUS / folder).glob(f"{scenario}.*otlp.pb"))
    assert found, f"no recording of {folder}/{scenario}"
    return found


def diagnosed_with_trajectories(paths: list[str]) -> tuple[list[Diagnosis], list[Trajectory]]:
    """Diagnose the producers of a recording, and return its trajectories as well."""
    tally = Tally()
    doctor = Doctor(tally)
    recording = tally.counted(read(find_files(paths), lambda _size: None))
    found: list[Trajectory] = []
    for scorecard in scorecards(recording, offline_pipeline(Config(), (), tally.recognizer)):
        doctor.add(scorecard.trajectory)
        found.append(scorecard.trajectory)
    return list(doctor.diagnoses()), found


def diagnosed(paths: list[str]) -> list[Diagnosis]:
    """Diagnose the producers of a recording."""
    return diagnosed_with_trajectories(paths)[0]
