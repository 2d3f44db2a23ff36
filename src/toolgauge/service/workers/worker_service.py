"""A worker: a service that gets its requests from the front over a channel, and stops in order when the front asks or ends."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine

import msgspec

from toolgauge.backends.settings import VENDORS, BackendSettings
from toolgauge.config.model import Config, Receivers
from toolgauge.export.settings import DestinationSettings, KeepSettings, QueueSettings
from toolgauge.model.delivery import Answer, Outgoing, Refused, Signal
from toolgauge.model.errors import ToolgaugeError
from toolgauge.model.metrics import snapshot
from toolgauge.service.process import Faults, Relief
from toolgauge.service.reload import Loaded, Reloader
from toolgauge.service.service import Service
from toolgauge.service.workers.channel import Channel, Frame, Kind, packed, unpack_request
from toolgauge.service.workers.merged_metrics import Snapshot
from toolgauge.service.workers.redistribution import directory_of
from toolgauge.settings import file_path

_LOG = logging.getLogger("toolgauge")
_MAX_OBSERVED_BYTES = 8 * 1024 * 1024
_CLOSED_WITHIN_S = 2.0
_LAST_METRICS_WITHIN_S = 12.0  # The front waits for the last metrics of all workers, some of which score until then


class FrontLink:
    """Implements `WorkerLink`: the front as a worker sees it, over their channel."""

    def __init__(self, channel: Channel, hop_id: str, *, lost_ns: int) -> None:
        self.hop_id = hop_id
        self.lost_ns = lost_ns
        self.flush_observations: Callable[[], None] = lambda: None
        # Whether too much waited to be sent to the front when something was sent.
        self._is_behind = False
        # The service whose metrics are sent.
        self.service: Service | None = None
        self._channel = channel
        self._loop = asyncio.get_running_loop()
        self._finish: asyncio.Future[Outgoing | None] = self._loop.create_future()

    def send_observed(self, content: bytes) -> bool:
        """Send observations to the front, from any thread; False when too much waits to be sent."""
        if self._is_behind:
            return False
        self._loop.call_soon_threadsafe(self._send, Kind.OBSERVED, 0, content)
        return True

    def _send(self, kind: Kind, number: int, content: bytes) -> None:
        self._channel.send(kind, number, content)
        # Here, on the loop: the transport counts what other threads must not see it change.
        self._is_behind = self._channel.bytes_waiting > _MAX_OBSERVED_BYTES

    async def last_metrics(self) -> Outgoing | None:
        """Hand the front the last metrics; return the metrics of all processes where this worker is to send them."""
        if self.service is None:
            return None
        self.flush_observations()
        # The loop first sends the observations that were handed to it.
        await asyncio.sleep(0)
        self.send_snapshot(Kind.LAST, 0)
        try:
            async with asyncio.timeout(_LAST_METRICS_WITHIN_S):
                return await asyncio.shield(self._finish)
        except TimeoutError:
            return None

    def finish(self, outgoing: Outgoing | None) -> None:
        """End the wait for the last metrics, with the metrics of all processes if this worker is to send them."""
        if not self._finish.done():
            self._finish.set_result(outgoing)

    def send_snapshot(self, kind: Kind, number: int) -> None:
        """Send this worker's state."""
        if self.service is not None:
            service = self.service
            metrics = tuple(metric for metric in snapshot(service.metrics.registry) if metric.cells)
            self._send(kind, number, packed(Snapshot(metrics, service.health.components(), service.is_empty)))


class WorkerService:
    """Answers the front. `control` takes what the front wants to observe."""

    def __init__(
        self,
        channel: Channel,
        link: FrontLink,
        service: Service,
        reloader: Reloader,
        control: Callable[[bytes], None],
    ) -> None:
        self._channel = channel
        self._link = link
        self._service = service
        self._reloader = reloader
        self._control = control
        self._faults = Faults(service.metrics)
        self._loaded: Loaded | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._stop: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        link.service = service

    async def run(self) -> int:
        """Work until the front wants an end or has gone; return the exit code."""
        reading = asyncio.create_task(self._read())
        try:
            await self._service.start()
            self._channel.send(Kind.READY)
            began_ns = await self._stop
            self._service.hurry()
            losses = await self._service.stop(began_ns)
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self._channel.send(Kind.STOPPED, 0, packed(losses))
            # Wait for the front to read that and close: if it writes to a closed socket, asyncio drops unread frames.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CLOSED_WITHIN_S):
                    await asyncio.shield(reading)
        finally:
            await self._channel.close()
            await reading
        return 1 if losses else 0

    async def _read(self) -> None:
        async for frame in self._channel.frames():
            with self._faults.survived():
                self._take(frame)
            # It holds a request until the next one comes.
            del frame
        self._link.finish(None)
        if not self._stop.done():
            _LOG.warning("the front process has ended: stopping")
            self._stop.set_result(None)

    def _take(self, frame: Frame) -> None:
        match frame.kind:
            case Kind.REQUEST:
                self._begin(self._consume(frame.number, *unpack_request(frame.content)))
            case Kind.ASK:
                self._link.send_snapshot(Kind.SNAPSHOT, frame.number)
            case Kind.PREPARE:
                self._begin(self._prepare(frame.number))
            case Kind.ADOPT:
                self._begin(self._adopt(frame.number))
            case Kind.OUTGOING:
                self._service.put_own(frame.read(Outgoing))
            case Kind.OBSERVING:
                self._control(frame.content)
            case Kind.RELIEVE:
                self._service.relieve(Relief(frame.content[0]))
                self._service.tidy()
            case Kind.FINISH:
                self._link.finish(frame.read(Outgoing) if frame.content else None)
            case Kind.STOP if not self._stop.done():
                self._stop.set_result(int.from_bytes(frame.content))
            case _:
                pass

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _consume(self, number: int, signal: Signal, sender: str | None, body: bytes) -> None:
        answer: Answer = Refused("an internal error of a worker")
        with self._faults.survived():
            answer = await self._service.intake.consume(signal, body, sender)
        self._channel.send(Kind.ANSWER, number, packed(answer))

    async def _prepare(self, number: int) -> None:
        error = ""
        try:
            self._loaded = await self._reloader.load()
        except ToolgaugeError as problem:
            error = problem.message
        self._channel.send(Kind.PREPARED, number, error.encode())

    async def _adopt(self, number: int) -> None:
        loaded, self._loaded = self._loaded, None
        kept = {} if loaded is None else await self._reloader.apply(loaded)
        self._channel.send(Kind.ADOPTED, number, msgspec.msgpack.encode(kept))


def share(config: Config, number: int, workers: int) -> Config:
    """Return the configuration of the worker with this number: an equal share of each limit, without the front's sections."""

    def part(whole: int) -> int:
        return max(1, whole // workers)

    def queue(settings: QueueSettings) -> QueueSettings:
        # A share of the requests that are on their way at a time: the destination sees as many as from one process.
        update = {"max_bytes": part(settings.max_bytes), "num_consumers": part(settings.num_consumers)}
        return settings.model_copy(update=update)

    def keep(settings: DestinationSettings) -> KeepSettings | None:
        kept = settings.keep
        return None if kept is None else kept.model_copy(update={"max_bytes": part(kept.max_bytes)})

    exporters, assemble, judge, state = config.exporters, config.assemble, config.judge, config.state
    kafka, late = exporters.kafka, assemble.late_memory
    tables: dict[str, tuple[BackendSettings, ...]] = {vendor: getattr(exporters, vendor) for vendor in VENDORS}
    out: dict[str, object] = {
        **{
            vendor: tuple(each.model_copy(update={"queue": queue(each.queue)}) for each in section)
            for vendor, section in tables.items()
        },
        "file": None,
        "webhook": (),
        "prometheus": None,
        "otlp": tuple(
            each.model_copy(update={"queue": queue(each.queue), "keep": keep(each)}) for each in exporters.otlp
        ),
        "kafka": None if kafka is None else kafka.model_copy(update={"queue": queue(kafka.queue)}),
    }
    opened = {
        "max_open": part(assemble.max_open),
        "max_open_bytes": part(assemble.max_open_bytes),
        "late_memory": late.model_copy(update={"traces": part(late.traces)}),
    }
    update: dict[str, object] = {
        "receivers": Receivers(),
        "exporters": exporters.model_copy(update=out),
        "web": None,
        "admin": None,
        "watch": config.watch.model_copy(update={"enabled": False}),
        "hold": config.hold.model_copy(update={"max_bytes": config.hold.max_bytes // workers}),
        "inbox": config.inbox.model_copy(update={"max_bytes": part(config.inbox.max_bytes)}),
        "assemble": assemble.model_copy(update=opened),
    }
    if judge is not None:
        calls, cost = judge.calls_per_minute, judge.max_cost_per_hour
        asked = {
            "max_concurrent": part(judge.max_concurrent),
            "max_queue": part(judge.max_queue),
            "max_queue_bytes": part(judge.max_queue_bytes),
            "calls_per_minute": None if calls is None else part(calls),
            "max_cost_per_hour": None if cost is None else cost / workers,
        }
        update["judge"] = judge.model_copy(update=asked)
    if state.directory is not None:
        directory = str(directory_of(file_path(state.directory), number))
        update["state"] = state.model_copy(update={"directory": directory, "max_bytes": part(state.max_bytes)})
    return config.model_copy(update=update)
