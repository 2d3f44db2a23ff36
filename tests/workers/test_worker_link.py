"""A worker and its front: what either sends when the other has no time, or has ended."""

import asyncio
import socket
import threading
from typing import cast

from toolgauge.model.metrics import MetricRegistry
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.service.process import Relief
from toolgauge.service.reload import Reloader
from toolgauge.service.runtime import Losses
from toolgauge.service.service import Service
from toolgauge.service.workers.channel import Channel, Kind
from toolgauge.service.workers.worker_service import FrontLink, WorkerService


class Busy(Channel):
    """A channel whose transport has too much to send, and which only its loop may look at."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.sent: list[bytes] = []
        self.waiting = 0

    @property
    def bytes_waiting(self) -> int:
        assert threading.get_ident() == self.thread
        return self.waiting

    def send(self, kind: Kind, number: int = 0, *content: bytes) -> None:  # noqa: ARG002 (as a channel has them)
        self.sent += content


def test_a_worker_refuses_observations_while_too_much_waits_for_the_front():
    async def send() -> tuple[list[bool], list[bytes]]:
        channel = Busy()
        link = FrontLink(channel, "hop", lost_ns=0)
        taken: list[bool] = []
        for waiting in (0, 9 << 20, 9 << 20):
            channel.waiting = waiting
            taken.append(await asyncio.to_thread(link.send_observed, b"found"))
            await asyncio.sleep(0)
        return taken, channel.sent

    assert asyncio.run(send()) == ([True, True, False], [b"found", b"found"])


class Scoring:
    """A service that has nothing to score."""

    def __init__(self) -> None:
        self.metrics = SelfMetrics(MetricRegistry())
        self.relieved: list[Relief] = []

    def relieve(self, relief: Relief) -> None:
        self.relieved.append(relief)

    def tidy(self) -> None:
        """Do nothing."""

    async def start(self) -> None:
        """Do nothing."""

    def hurry(self) -> None:
        """Do nothing."""

    async def stop(self, began_ns: int | None) -> Losses:  # noqa: ARG002 (as a service has it)
        """Have lost nothing."""
        return Losses()


def test_a_worker_that_has_stopped_waits_until_its_front_has_read_what_it_lost():
    async def stop() -> tuple[list[Kind], bool, int]:
        ends = socket.socketpair()
        front, own = await Channel.of(ends[0]), await Channel.of(ends[1])
        service = cast("Service", Scoring())
        link = FrontLink(own, "hop", lost_ns=0)
        worker = WorkerService(own, link, service, cast("Reloader", None), lambda _wishes: None)
        running = asyncio.create_task(worker.run())
        front.send(Kind.STOP, 0, (1).to_bytes(8))
        kinds: list[Kind] = []
        async for frame in front.frames():
            kinds.append(frame.kind)
            if frame.kind is Kind.STOPPED:
                break
        await asyncio.sleep(0.05)
        is_there = not running.done()
        await front.close()
        return kinds, is_there, await running

    assert asyncio.run(stop()) == ([Kind.READY, Kind.STOPPED], True, 0)


def test_a_worker_gives_back_what_the_front_asks_for():
    async def relieve() -> list[Relief]:
        ends = socket.socketpair()
        front, own = await Channel.of(ends[0]), await Channel.of(ends[1])
        scoring = Scoring()
        link = FrontLink(own, "hop", lost_ns=0)
        worker = WorkerService(own, link, cast("Service", scoring), cast("Reloader", None), lambda _wishes: None)
        for relief in (Relief.OWN, Relief.OPEN):
            front.send(Kind.RELIEVE, 0, bytes((relief,)))
        await front.close()
        await worker.run()
        return scoring.relieved

    assert asyncio.run(relieve()) == [Relief.OWN, Relief.OPEN]
