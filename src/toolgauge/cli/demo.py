"""`toolgauge demo`: what it does, in half a minute, without keys or network."""

import asyncio

import click

from toolgauge.demo.demo import run

_NEXT = """
What to do next:
  toolgauge serve                       receive OTLP on localhost:4317 (gRPC) and localhost:4318 (HTTP); point your
                                        agents' OTEL_EXPORTER_OTLP_ENDPOINT, or a Collector's exporter, at it
  toolgauge serve --set exporters.otlp.endpoint=HOST:PORT
                                        and send everything on to your backend, scores included
  toolgauge inspect FILE...             the tool calls in recorded OTLP traffic
  toolgauge replay --criteria F FILE... scores of recorded traffic against your own criteria"""


@click.command("demo")
def command() -> None:
    """Show recorded agent traffic being scored: no keys, no network, ends by itself.

    Recorded runs of several real frameworks are sent over loopback sockets into a running pipeline, which sends them
    on, with their scores, to a destination that the demo opens too. Nothing is written to disk.
    """
    asyncio.run(run(click.echo))
    click.echo(_NEXT)
