"""`toolgauge demo`: shows toolgauge at work in half a minute, without keys or network."""

import asyncio

import click

from toolgauge.cli.main import EXIT_CODES
from toolgauge.cli.output import terminal_style
from toolgauge.demo.demo import run
from toolgauge.report.streams import echo


@click.command("demo", epilog=EXIT_CODES)
@click.option(
    "--regression/--no-regression",
    default=True,
    show_default=True,
    help="Whether a healthy release and then a worse one follow, until the drop is detected.",
)
@click.option(
    "--stay",
    is_flag=True,
    help="Show all of it in the web view, too, on localhost:8317 or, where that is taken, on a free port; stay until Ctrl-C.",
)
def command(*, regression: bool, stay: bool) -> None:
    """Show recorded agent traffic being scored, and a worse release being detected: no keys, no network.

    Recorded runs of several real frameworks are sent over loopback sockets into a running pipeline, which sends them
    on, with their scores, to a destination that the demo opens too. Then conversations drawn from them with replacement
    stand for a healthy release and a worse one. Each phase fits a screen, and the summary lists everything that it counts;
    calls and values are in the web view. Nothing is written to disk.
    """
    asyncio.run(run(echo, regression=regression, stay=stay, style=terminal_style()))
