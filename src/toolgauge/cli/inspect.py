"""`toolgauge inspect`: the trajectories found in recorded traffic."""

import json
import os
from pathlib import Path

import click

from toolgauge.cli.main import EXIT_CODES, configuration_options
from toolgauge.cli.output import reading_progress, terminal_style
from toolgauge.config.load import load
from toolgauge.config.model import Config
from toolgauge.offline.replay.recordings import scorecards
from toolgauge.offline.replay.stats import Stats, Tally
from toolgauge.report.json_objects import trajectory_object
from toolgauge.report.text import TextWriter
from toolgauge.service.pipeline_factory import offline_pipeline, redactor


@click.command("inspect", epilog=EXIT_CODES)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@configuration_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a trajectory and line.")
@click.option("--stats", is_flag=True, help="Print figures of the whole recording instead (with --json: one object).")
def command(
    files: tuple[str, ...], config_paths: tuple[str, ...], overrides: tuple[str, ...], *, as_json: bool, stats: bool
) -> None:
    """Print the trajectories found in recorded OTLP traffic.

    FILE is one request (`*.otlp.pb`, `*.logs.otlp.pb`), OTLP JSON (one request, or one a line), or a stream of
    length-delimited requests (`*.otlp`), each optionally `.gz` or `.xz`; `-` is standard input, a directory means
    all recordings in it. Files given together are one recording. Traces without tool calls are listed too.

    Arguments and results are printed, but for what looks like a key, a token, an e-mail address or a card, which is masked;
    --json has them as they were recorded: treat the output as you treat your traces. With --stats none are: spans and log records read and unread, dialects, scopes, states of calls, and what could not be
    observed and why; `toolgauge doctor` tells what to do about it. Of a configuration, `dialects` and the times after which
    trajectories close count.
    """
    config = load([Path(path) for path in config_paths], overrides, os.environ)
    if stats:
        _print_stats(config, files, as_json=as_json)
        return
    text = TextWriter(redactor(config), style=terminal_style(), shows_values=True)
    with reading_progress(files) as reading:
        for scorecard in scorecards(reading, offline_pipeline(config, ())):
            if as_json:
                reading.echo(json.dumps(trajectory_object(scorecard.trajectory)))
            else:
                for line in (*text.trajectory(scorecard.trajectory), ""):
                    reading.echo(line)


def _print_stats(config: Config, files: tuple[str, ...], *, as_json: bool) -> None:
    tally = Tally()
    stats = Stats(tally)
    with reading_progress(files) as recording:
        for scorecard in scorecards(tally.counted(recording), offline_pipeline(config, (), tally.recognizer)):
            stats.add(scorecard.trajectory)
    if as_json:
        click.echo(json.dumps(stats.as_object()))
    else:
        for line in stats.lines(terminal_style()):
            click.echo(line)
