"""`toolgauge inspect`: the trajectories found in recorded traffic."""

import json

import click

from toolgauge.build.pipeline import offline_pipeline
from toolgauge.cli.output import reading_progress
from toolgauge.config.model import Config
from toolgauge.replay.describe import trajectory_lines, trajectory_object
from toolgauge.replay.run import scorecards


@click.command("inspect")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a trajectory and line.")
def command(files: tuple[str, ...], *, as_json: bool) -> None:
    """Print the trajectories found in recorded OTLP traffic.

    FILE is one request (`*.otlp.pb`, `*.logs.otlp.pb`), OTLP JSON (one request, or one a line), or a stream of
    length-delimited requests (`*.otlp`), each optionally `.gz` or `.xz`; `-` is standard input, a directory means
    all recordings in it. Files given together are one recording. Traces without tool calls are listed too.

    Arguments and results are printed as they were recorded: treat the output as you treat your traces.
    """
    with reading_progress(files) as recording:
        for scorecard in scorecards(recording, offline_pipeline(Config(), ())):
            if as_json:
                click.echo(json.dumps(trajectory_object(scorecard.trajectory)))
            else:
                for line in trajectory_lines(scorecard.trajectory):
                    click.echo(line)
                click.echo()
