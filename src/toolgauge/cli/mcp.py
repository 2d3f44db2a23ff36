"""`toolgauge mcp`: answers questions of coding agents about recordings."""

import sys

import click

from toolgauge.cli.main import EXIT_CODES, configuration_options, criteria_option
from toolgauge.report.streams import echo


@click.command("mcp", epilog=EXIT_CODES)
@click.argument("recordings", nargs=-1, metavar="[RECORDING...]")
@criteria_option(
    "A criteria file; may be given several times. Without one, the default criteria score what needs no reference."
)
@configuration_options
def command(
    recordings: tuple[str, ...],
    criteria_files: tuple[str, ...],
    config_paths: tuple[str, ...],
    overrides: tuple[str, ...],
) -> None:
    """Answer a coding agent's questions about recordings, such as why a run failed, over the Model Context Protocol.

    RECORDING is a file as in `toolgauge check --help`, or a directory. A client starts this command and speaks to it on
    standard input and output; `docs/mcp.md` has what to paste. The agent can list runs, have a failure explained, compare
    two recordings, have criteria suggested, and find out what was not recorded. No file is written, no judge is asked, and
    nothing is sent but a person's verdict on a run.

    The agent gets to read what is given here and what is inside of directories given here, by default the current one, and
    nothing else. Recordings and criteria are read again when they have changed. Values of spans are hidden, but with
    `--set redact.values=show`; what looks like a key, a token, an e-mail address or a card is masked in any case.

    Needs the extra `mcp`: `python3 -m pip --python .venv install '.[mcp]'` in the clone.
    """
    from toolgauge.cli.output import mcp_extra, print_notes

    with mcp_extra("toolgauge mcp"):
        from toolgauge.mcp_server.stdio_server import serve
    from toolgauge.mcp_server.answers_to_questions import ToolAnswers
    from toolgauge.mcp_server.readable_files import ReadableFiles
    from toolgauge.mcp_server.scored_recordings import ScoringFiles

    # A mistake in a file is found before the client waits for an answer.
    scoring = ScoringFiles(config_paths, overrides, criteria_files)
    print_notes(scoring.load().criteria)
    if sys.stdin.isatty():
        echo(
            "waiting for a client on standard input, which is a terminal: clients start this command themselves",
            err=True,
        )
    serve(ToolAnswers(ReadableFiles(recordings), scoring))
