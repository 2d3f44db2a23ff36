"""`toolgauge check --calls`: the runs of recorded traffic with their tool calls, without scores."""

import json
import os
from pathlib import Path

from toolgauge.cli.check import Asked
from toolgauge.cli.output import reading_progress, terminal_style
from toolgauge.config.load import load
from toolgauge.recordings.producer_counts import Tally
from toolgauge.recordings.recorded_requests import scorecards
from toolgauge.report.json_objects import trajectory_object
from toolgauge.report.streams import echo_fitted
from toolgauge.report.terminal import fitted
from toolgauge.report.text import TextWriter
from toolgauge.service.pipeline_factory import offline_pipeline, redactor


def print_calls(asked: Asked) -> None:
    """Print each run with its calls."""
    config = load([Path(path) for path in asked.config_paths], asked.overrides, os.environ, sends=False)
    tally, is_any = Tally(), False
    text = TextWriter(redactor(config), style=terminal_style(), shows_values=True)
    with reading_progress(asked.files) as reading:
        for scorecard in scorecards(tally.counted(reading), offline_pipeline(config, (), tally.recognizer)):
            is_any = True
            tally.unread_tools.add(scorecard.trajectory)
            if asked.as_json:
                reading.echo(json.dumps(trajectory_object(scorecard.trajectory)))
            else:
                for line in (*map(fitted, text.trajectory(scorecard.trajectory)), ""):
                    reading.echo(line)
    unread = sum(one.spans for one in tally.unread_tools.left_over() if one.is_problem)
    if unread or not is_any:
        found = f"{unread} of the spans look like tool calls and are not read" if unread else "nothing recognised"
        echo_fitted(
            f"{found}: no dialect knows their form; the section `dialects` of the configuration can map their attributes, "
            "`toolgauge doctor` names them",
            err=True,
        )
