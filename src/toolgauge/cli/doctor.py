"""`toolgauge doctor`: what producers leave out of their spans, and what turns it on."""

import json

import click

from toolgauge.cli.main import EXIT_CODES
from toolgauge.cli.output import reading_progress, terminal_style
from toolgauge.config.model import Config
from toolgauge.offline.replay.doctor import Diagnosis, Doctor, diagnosis_lines, diagnosis_object
from toolgauge.offline.replay.recordings import scorecards
from toolgauge.offline.replay.requirements import Requirements
from toolgauge.offline.replay.stats import Tally
from toolgauge.service.pipeline_factory import offline_pipeline


@click.command("doctor", epilog=EXIT_CODES)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a producer and line.")
def command(files: tuple[str, ...], *, as_json: bool) -> int:
    """Show what the producers in recorded OTLP traffic leave out, and what turns it on.

    For each producer (service, scope and its version): which dialect was recognised, what is missing, which
    environment variable or option of that producer records it, or that none does, and which evaluators cannot judge
    meanwhile. FILE is as in `toolgauge inspect --help`; give log records and spans of one recording together.

    Missing calls, arguments and results are problems (exit code 1); what only narrows the view is a note. Nothing
    recognised at all is a problem too.
    """
    tally = Tally()
    doctor = Doctor(tally, Requirements())
    with reading_progress(files) as recording:
        for scorecard in scorecards(tally.counted(recording), offline_pipeline(Config(), (), tally.recognizer)):
            doctor.add(scorecard.trajectory)
    diagnoses = tuple(doctor.diagnoses())
    _print(diagnoses, as_json=as_json)
    _warn(tally, doctor, diagnoses)
    return 0 if diagnoses and not any(diagnosis.has_problems for diagnosis in diagnoses) else 1


def _print(diagnoses: tuple[Diagnosis, ...], *, as_json: bool) -> None:
    style = terminal_style()
    for diagnosis in diagnoses:
        if as_json:
            click.echo(json.dumps(diagnosis_object(diagnosis)))
        else:
            for line in diagnosis_lines(diagnosis, style):
                click.echo(line)
            click.echo()


def _warn(tally: Tally, doctor: Doctor, diagnoses: tuple[Diagnosis, ...]) -> None:
    """Print warnings about the recording as a whole."""
    total = tally.in_recording.total()
    if not diagnoses:
        click.echo(
            f"nothing recognised: none of {total} spans and log records is of an agent, or no dialect knows its form; "
            "`toolgauge components` lists the dialects, `toolgauge inspect --stats` the scopes",
            err=True,
        )
    if doctor.split:
        click.echo(
            f"split: {doctor.split} of {doctor.with_calls} trajectories lack spans inside, and are not evaluated as a whole; "
            "record all spans of a trace in one place, and route by trace id where several toolgauges share the load (in a "
            "Collector `routing_key: traceID` of the exporter `loadbalancing`)",
            err=True,
        )
    if tally.undecodable:
        click.echo(f"undecodable: {tally.undecodable} spans and log records are broken inside", err=True)
    if tally.dialect_errors:
        click.echo(f"unread: a dialect failed on {tally.dialect_errors} records; please report it", err=True)
