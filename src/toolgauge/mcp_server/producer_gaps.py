"""What the producers of a recording leave out, what turns it on, and which evaluators cannot judge meanwhile: `toolgauge doctor`."""

from collections.abc import Iterator, Sequence
from typing import Annotated

from msgspec import Meta, Struct, convert

from toolgauge.config.model import Config
from toolgauge.mcp_server.plain_text import MAX_JSON, as_json, more, size_of
from toolgauge.mcp_server.scored_recordings import Work
from toolgauge.recordings.doctor import Diagnosis, Doctor, diagnosis_lines, diagnosis_object
from toolgauge.recordings.recorded_requests import scorecards
from toolgauge.recordings.stats import Tally
from toolgauge.service.pipeline_factory import offline_pipeline


class MissingPart(Struct, frozen=True, kw_only=True):
    """A fact that a producer leaves out: in `count` of `of` places (`unit`)."""

    what: str
    grade: Annotated[str, Meta(description="`problem` where calls cannot be judged without it, else `note`")]
    count: int
    of: int
    unit: str
    never_recorded: bool
    switches: list[str]
    advice: str
    not_evaluated: Annotated[list[str], Meta(description="evaluators that cannot judge without it")]
    cost: str


class DiagnosedProducer(Struct, frozen=True, kw_only=True):
    """A library in a service."""

    service: str | None
    scope: str
    version: str | None
    language: str | None
    dialects: list[str]
    spans: int
    log_records: int
    calls: int
    ok: bool
    missing: list[MissingPart]


class RecordingDiagnosis(Struct, frozen=True, kw_only=True):
    """The producers of a recording, with what each leaves out."""

    recording: str
    producers: list[DiagnosedProducer]
    more_producers: int
    notes: list[str]


class DiagnosedRecording(Struct, frozen=True, kw_only=True):
    """The answer, and lines for it."""

    answer: RecordingDiagnosis
    lines: tuple[str, ...]


def diagnose(name: str, files: tuple[str, ...], work: Work) -> DiagnosedRecording:
    """Diagnose a recording as `toolgauge doctor` does."""
    tally = Tally()
    doctor = Doctor(tally)
    for scorecard in scorecards(tally.counted(work.requests(files)), offline_pipeline(Config(), (), tally.recognizer)):
        doctor.add(scorecard.trajectory)
    found = sorted(doctor.diagnoses(), key=lambda one: not one.has_problems)
    notes = [*_notes(tally, doctor, found)]
    producers = list(_described(found))
    shown = found[: len(producers)]
    answer = RecordingDiagnosis(
        recording=name,
        producers=producers,
        more_producers=more(shown, len(found)),
        notes=notes,
    )
    return DiagnosedRecording(answer=answer, lines=(*(line for one in shown for line in diagnosis_lines(one)), *notes))


def _described(found: Sequence[Diagnosis]) -> Iterator[DiagnosedProducer]:
    """Describe producers, those with problems first, as many as there is room for."""
    room = MAX_JSON
    for one in found:
        producer = convert(diagnosis_object(one), DiagnosedProducer)
        room -= size_of(as_json(producer))
        if room < 0:
            return
        yield producer


def _notes(tally: Tally, doctor: Doctor, found: Sequence[object]) -> Iterator[str]:
    if not found:
        yield (
            f"nothing recognised: none of {tally.in_recording.total()} spans and log records is of an agent, or no dialect "
            "knows its form"
        )
    if doctor.split:
        yield f"{doctor.split} of {doctor.with_calls} trajectories lack spans inside, and are not evaluated as a whole"
    if tally.undecodable:
        yield f"{tally.undecodable} spans and log records are broken inside"
    if tally.dialect_errors:
        yield f"a dialect failed on {tally.dialect_errors} records"
