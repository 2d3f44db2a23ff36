"""A sample sender, `python -m toolgauge.demo.sample_sender`: drawn conversations over OTLP/gRPC, a healthy release, then a worse one.

For trying dashboards and alerts out: it draws recorded traffic again and again (`drawing`).
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import asyncio
import itertools
import secrets
import time

import click
import grpc
import grpc.aio

from toolgauge.demo.drawing import EXPORT, HEALTHY, WORSE, Release, drawn, healthy_recordings
from toolgauge.report.streams import echo

_RETRY_S = 1.0
_TIMEOUT_S = 10.0


@click.command("sender")
@click.option(
    "--endpoint",
    default="http://localhost:4317",
    envvar="OTEL_EXPORTER_OTLP_ENDPOINT",
    show_default=True,
    help="Where to send to, over gRPC without TLS; also OTEL_EXPORTER_OTLP_ENDPOINT.",
)
@click.option("--healthy", default=400, show_default=True, help="Conversations of the healthy release, 1.0.")
@click.option(
    "--worse", default=0, show_default=True, help="Conversations of the worse release, 1.1, after it; 0 is without end."
)
@click.option("--rate", default=4.0, show_default=True, help="Conversations a second.")
@click.option(
    "--seed", type=int, help="Decides what is drawn, and which calls fail. Without it, another one each time."
)
def main(endpoint: str, healthy: int, worse: int, rate: float, seed: int | None) -> None:
    """Send recorded conversations, drawn with replacement: a healthy release, then one in which a tool fails more often."""
    chosen = secrets.randbits(32) if seed is None else seed
    plan = ((HEALTHY, healthy), (WORSE, worse or None))
    asyncio.run(_send_all(endpoint.removeprefix("http://"), plan, rate=rate, seed=chosen))


async def _send_all(target: str, plan: tuple[tuple[Release, int | None], ...], *, rate: float, seed: int) -> None:
    recorded = healthy_recordings()
    async with grpc.aio.insecure_channel(target, options=(("grpc.enable_http_proxy", 0),)) as channel:
        export = channel.unary_unary(EXPORT)
        for release, count in plan:
            echo(f"sending version {release.version} to {target}: {count or 'any number of'} conversations")
            # At a steady pace, which does not slow down where an answer takes long.
            due = time.monotonic()
            for body in itertools.islice(drawn(recorded, release, seed=seed, clock=time.time_ns), count):
                while not await _is_taken(export, body):
                    await asyncio.sleep(_RETRY_S)
                    due = time.monotonic()
                due += 1 / rate
                await asyncio.sleep(max(0.0, due - time.monotonic()))
    echo("everything is sent")


async def _is_taken(export: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes], body: bytes) -> bool:
    try:
        await export(body, timeout=_TIMEOUT_S)
    except grpc.aio.AioRpcError as error:
        if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
            return False
        raise
    return True


if __name__ == "__main__":
    main()
