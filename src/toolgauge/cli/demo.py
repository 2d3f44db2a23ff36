"""`toolgauge demo`: what it does, in half a minute, without keys or network."""

import asyncio

import click

from toolgauge.cli.output import terminal_style
from toolgauge.demo.demo import run

_NEXT = """
What to do next:
  toolgauge serve            receive OTLP on localhost:4317 (gRPC) and 4318;
                             set your agents' OTEL_EXPORTER_OTLP_ENDPOINT to it
  toolgauge serve --set exporters.otlp.endpoint=HOST:PORT
                             and send everything on, scores included
  toolgauge inspect FILE...  the tool calls in recorded OTLP traffic
  toolgauge replay FILE...   the scores of recorded traffic"""


@click.command("demo")
@click.option(
    "--regression/--no-regression",
    default=True,
    show_default=True,
    help="Whether a healthy release and then a worse one follow, until the drop is detected.",
)
def command(*, regression: bool) -> None:
    """Show recorded agent traffic being scored, and a worse release being detected: no keys, no network, ends by itself.

    Recorded runs of several real frameworks are sent over loopback sockets into a running pipeline, which sends them
    on, with their scores, to a destination that the demo opens too. Then conversations drawn from them with replacement
    stand for a healthy release and a worse one. Nothing is written to disk.
    """
    asyncio.run(run(click.echo, regression=regression, style=terminal_style()))
    click.echo(_NEXT)
