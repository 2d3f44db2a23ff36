"""`toolgauge doctor`: the facts that producers leave out of recorded traffic."""

import json
import os

import click

from toolgauge.cli.main import EXIT_CODES, configuration_options
from toolgauge.cli.output import reading_progress, terminal_style
from toolgauge.config.load import load
from toolgauge.recordings.doctor import Diagnosis, Doctor, diagnosis_lines, diagnosis_object
from toolgauge.recordings.producer_counts import Tally, unread_lines, unread_object
from toolgauge.recordings.recorded_requests import scorecards
from toolgauge.report.streams import echo, echo_fitted
from toolgauge.report.terminal import shortened
from toolgauge.service.pipeline_factory import offline_pipeline

_MAX_SCOPES, _NAME_LENGTH = 10, 80


@click.command("doctor", epilog=EXIT_CODES)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@configuration_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per producer, each on one line.")
def command(files: tuple[str, ...], config_paths: tuple[str, ...], overrides: tuple[str, ...], *, as_json: bool) -> int:
    """Show what the producers in recorded OTLP traffic leave out, and what turns it on.

    For each producer (service, scope with its version, language): which dialect was recognised, what is missing, which
    environment variable or option of that producer records it, or that none does, and which evaluators cannot judge
    meanwhile. FILE is as in `toolgauge check --help`; give log records and spans of one recording together.

    Missing calls, arguments and results are problems (exit code 1); what only narrows the view is a note. Nothing
    recognised at all is a problem too, and so are spans that look like tool calls and are not read, unless other spans of
    their traces show calls. Of a configuration, `dialects` and the times after which trajectories close count.
    """
    config = load(config_paths, overrides, os.environ, sends=False)
    tally = Tally()
    diagnosing = Doctor(tally)
    with reading_progress(files) as recording:
        for scorecard in scorecards(tally.counted(recording), offline_pipeline(config, (), tally.recognizer)):
            diagnosing.add(scorecard.trajectory)
    diagnoses, style = tuple(diagnosing.diagnoses()), terminal_style()
    unread = tally.unread_tools()
    if as_json:
        for found in (*map(diagnosis_object, diagnoses), *map(unread_object, unread)):
            echo(json.dumps(found))
    else:
        # Lines about spans that no dialect reads are for pasting.
        blocks = (
            *((echo_fitted, diagnosis_lines(each, style)) for each in diagnoses),
            *((echo, unread_lines(one, style)) for one in unread),
        )
        for write, lines in blocks:
            for line in (*lines, ""):
                write(line)
    _warn_of(tally, diagnosing, diagnoses)
    is_fine = diagnoses and not any(diagnosis.has_problems for diagnosis in diagnoses)
    return 0 if is_fine and not any(one.is_problem for one in unread) else 1


def _warn_of(tally: Tally, diagnosing: Doctor, diagnoses: tuple[Diagnosis, ...]) -> None:
    """Print warnings about the recording as a whole."""
    if not diagnoses:
        names = [shortened(name or "(no scope)", _NAME_LENGTH) for name, _ in tally.scopes.most_common(_MAX_SCOPES)]
        scopes = f"; the most spans are of the scopes {', '.join(f'`{name}`' for name in names)}" if names else ""
        echo_fitted(
            f"nothing recognised: none of {tally.records} spans and log records is of an agent, or no dialect knows its form "
            f"(`toolgauge validate --components` lists them){scopes}",
            err=True,
        )
    if diagnosing.split:
        echo_fitted(
            f"split: {diagnosing.split} of {diagnosing.with_calls} trajectories lack some spans, and are not evaluated as a whole; "
            "record all spans of a trace in one place, and route by trace id where several toolgauge instances share the load (in a "
            "Collector: `routing_key: traceID` of the exporter `loadbalancing`)",
            err=True,
        )
    if diagnosing.without_parent:
        echo_fitted(
            f"parent missing: {diagnosing.without_parent} runs hang below a span that failed and never ended, and are not evaluated as "
            "a whole; end the span of a run also when it raises, or start each run in a context of its own",
            err=True,
        )
    if tally.undecodable:
        echo_fitted(f"undecodable: {tally.undecodable} spans and log records cannot be decoded", err=True)
    if tally.dialect_errors:
        echo_fitted(f"unread: a dialect failed on {tally.dialect_errors} records; please report it", err=True)
