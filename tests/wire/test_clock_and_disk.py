"""Clocks that jump and a disk that is full: behind real sockets, with a destination."""

import asyncio
import subprocess
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.wire.destination import Destination, attributes, receiving
from tests.wire.support import (
    IN_TEST,
    LISTEN,
    SOON,
    environment,
    free_port,
    get,
    post,
    recorded,
    to_http,
    toolgauge_command,
    until,
)
from toolgauge.config.load import load
from toolgauge.service.criteria_factory import default_criteria
from toolgauge.service.service import Service

DAY_NS = 86_400_000_000_000


@asynccontextmanager
async def running(destination: Destination) -> AsyncGenerator[Service]:
    config = load((), (*LISTEN, *SOON, *IN_TEST, "hold.timeout=1s", to_http(destination.http_port)), {})
    service = Service(config, default_criteria())
    await service.start()
    try:
        yield service
    finally:
        assert not await service.stop()


async def send(service: Service, *scenarios: str) -> int:
    """Send recorded runs and return how many spans there were."""
    sent = Destination()
    for scenario in scenarios:
        for body in recorded("pydantic-ai", scenario):
            sent.take("traces", body)
            assert await asyncio.to_thread(post, service.receivers[1].port, body) == (200, b"")
    return len(sent.spans())


async def wait_for(wanted: object, seconds: float = 120) -> None:
    async with asyncio.timeout(seconds):
        while callable(wanted) and not wanted():
            await asyncio.sleep(0.02)


def assert_books_balance(service: Service) -> None:
    spans = service.metrics.spans.cells
    by_outcome: dict[str, float] = {}
    for labels, value in spans.items():
        by_outcome[labels[0]] = by_outcome.get(labels[0], 0) + value
    received = by_outcome.pop("received")
    queued = sum(service.metrics.spans_queued.current().values())
    assert received == sum(by_outcome.values()) + service.pipeline.admission.spans_held + queued


@pytest.mark.parametrize("jump_ns", [DAY_NS, -400 * DAY_NS], ids=["a day on", "a year back"])
async def test_a_wall_clock_that_jumps_ends_no_run_early_and_keeps_none_open(
    jump_ns: int, monkeypatch: pytest.MonkeyPatch
):
    real_ns, real_s = time.time_ns, time.time
    with receiving() as destination:
        async with running(destination) as service:
            sent = await send(service, "tool_error")
            monkeypatch.setattr(time, "time_ns", lambda: real_ns() + jump_ns)
            monkeypatch.setattr(time, "time", lambda: real_s() + jump_ns / 1e9)
            sent += await send(service, "unknown_tool", "one_call")
            await wait_for(lambda: len(destination.scorecards()) == 3)
            await wait_for(lambda: len(destination.spans()) == sent)
            assert_books_balance(service)
        because = [attributes(card)["toolgauge.closed_because"] for card in destination.scorecards()]
        assert because == ["run_ended"] * 3
        times = [event.time_unix_nano for event in destination.events()]
        assert max(times) - min(times) < 60_000_000_000
        points = [
            point
            for metric in destination.metrics().values()
            for point in (*metric.sum.data_points, *metric.histogram.data_points)
        ]
        assert points
        assert all(point.start_time_unix_nano <= point.time_unix_nano for point in points)


def test_a_full_disk_under_the_log_costs_the_log_and_nothing_else(tmp_path: Path):
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("there is no /dev/full on this system")
    ports = {name: free_port() for name in ("grpc", "http", "metrics")}
    listen = (
        f"receivers.otlp.protocols.grpc.endpoint=127.0.0.1:{ports['grpc']}",
        f"receivers.otlp.protocols.http.endpoint=127.0.0.1:{ports['http']}",
        f"exporters.prometheus.endpoint=127.0.0.1:{ports['metrics']}",
        "admin.endpoint=127.0.0.1:0",
        "web.endpoint=127.0.0.1:0",
        "log.level=debug",
    )
    (body,) = recorded("pydantic-ai", "tool_error")
    with receiving() as destination, full.open("wb") as disk:
        arguments = [
            part for setting in (*listen, *SOON, to_http(destination.http_port)) for part in ("--set", setting)
        ]
        process = subprocess.Popen(
            toolgauge_command("serve", *arguments), stdin=subprocess.DEVNULL, stdout=disk, stderr=disk,
            env=environment(), cwd=tmp_path,
        )  # fmt: skip
        try:
            until(lambda: is_up(ports["metrics"]), "the metrics")
            assert post(ports["http"], body) == (200, b"")
            # They leave in requests of their own, which may arrive in any order.
            until(lambda: len(destination.scorecards()) == 1, "the scorecard")
            until(lambda: len(destination.spans()) == 3, "the spans")
            process.terminate()
            assert process.wait(60) == 0
        finally:
            process.kill()
            process.wait()
    assert list(tmp_path.iterdir()) == []


def is_up(port: int) -> bool:
    try:
        return bool(get(port, "/metrics"))
    except OSError:
        return False
