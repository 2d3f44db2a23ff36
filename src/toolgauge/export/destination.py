"""A destination: a bounded queue, a few sender tasks, retries, and counts of delivered and dropped spans.

Each request is acknowledged (or rejected in part), or dropped and counted with a reason; a full queue refuses more.
"""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import msgspec.structs

from toolgauge.export.grpc_sender import GrpcSender
from toolgauge.export.send_queue import SendQueue
from toolgauge.export.sender import (
    Delivered,
    ExporterSender,
    HttpSender,
    Permanent,
    Sender,
    Transient,
    Verdict,
)
from toolgauge.export.settings import SIGNALS, DestinationSettings, RetrySettings, checked_headers
from toolgauge.export.tail_sampling import Keep
from toolgauge.model.delivery import Outgoing, Signal
from toolgauge.model.errors import StartError
from toolgauge.model.ports import Exporter
from toolgauge.net.throttle import QUIET_S, Throttle, repetitions
from toolgauge.net.tls import WatchedFiles
from toolgauge.otlp.request import count_undecodable
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.settings import MIB, SECOND, redacted_url
from toolgauge.state.ledger import NO_LEDGER, Ledger

_log = logging.getLogger("toolgauge.export")


@dataclass(frozen=True, slots=True)
class Outage:
    """The reason why a destination refuses requests; with a `signal`, it refuses that signal until somebody fixes it."""

    reason: str
    lasted_s: float
    signal: Signal | None = None


class DestinationHealth:
    """Tracks outages by a monotonic `clock`; logs each cause once an outage, at most one a minute."""

    def __init__(
        self, name: str, clock: Callable[[], float], endpoint: str = "", signals: Sequence[Signal] = SIGNALS
    ) -> None:
        self._name, self._signals = name, signals
        self._where = f"{name} ({endpoint})" if endpoint else name
        self._clock = clock
        self._failing_since: float | None = None
        self._reason = ""
        self._refusing: dict[Signal, tuple[str, float]] = {}
        # Causes of the current outage that are logged.
        self._warned: set[str] = set()
        self._last_warned_s: float | None = None
        self._dropped = Throttle(QUIET_S, clock)

    def now(self) -> Outage | None:
        """Return the current outage; `None` without one."""
        return None if self._failing_since is None else Outage(self._reason, self._clock() - self._failing_since)

    def refusing(self) -> tuple[Outage, ...]:
        """Return the signals that the destination refuses."""
        now_s = self._clock()
        return tuple(Outage(reason, now_s - since, signal) for signal, (reason, since) in self._refusing.items())

    def refused(self, signal: Signal, reason: str) -> None:
        """A request was refused, as later ones of its signal will be."""
        _, since = self._refusing.get(signal, ("", self._clock()))
        self._refusing[signal] = reason, since

    def failed(self, reason: str, cause: str = "") -> None:
        """Note a failed attempt that will be repeated; `cause` adds details, where known."""
        now_s = self._clock()
        self._reason = f"{reason}: {cause}" if cause else reason
        if self._failing_since is None:
            self._failing_since = now_s
        if self._reason in self._warned or (self._last_warned_s is not None and now_s - self._last_warned_s < QUIET_S):
            return
        self._warned.add(self._reason)
        self._last_warned_s = now_s
        extra = {"destination": self._name, "reason": reason}
        _log.warning("destination %s does not accept requests (%s); retrying", self._where, self._reason, extra=extra)

    def succeeded(self, signal: Signal) -> None:
        """A request of the signal was accepted."""
        self._refusing.pop(signal, None)
        since, self._failing_since = self._failing_since, None
        if self._warned and since is not None:
            _log.info("destination %s accepts requests again after %.0f s", self._name, self._clock() - since)
        self._warned.clear()

    def dropped(self, signal: Signal, reason: str, spans: int, counter: str) -> None:
        """A request was given up; `counter` counted it."""
        suppressed = self._dropped.suppressed(reason)
        if suppressed is not None:
            what = f"with {spans} spans" if spans else f"of {signal}"
            others = ", ".join(one for one in self._signals if one != signal)
            is_refused = others and self._refusing.get(signal, ("",))[0] == reason
            remedy = f"; set `signals: [{others}]` to send it no {signal}" if is_refused else ""
            text = "destination %s: a request %s was dropped (%s); counted in %s%s%s"
            extra = {"destination": self._name, "reason": reason}
            _log.warning(text, self._where, what, reason, counter, remedy, repetitions(suppressed), extra=extra)


_DRAIN_WAIT_S = 0.25
# Room beyond the queue for our own scorecards, events and metrics, which must not be lost because senders fill the queue.
# With two criteria they take half as many bytes as the spans that fill it; metrics need room where the queue is small.
_LEAST_OWN_RESERVE_BYTES = 16 * MIB
End: TypeAlias = Literal["shutdown", "destination_removed"]
HOP_HEADER = "x-toolgauge-hop"


class Backoff:
    """The waits of one request. `random` yields floats in [0, 1)."""

    def __init__(self, settings: RetrySettings, random: Callable[[], float]) -> None:
        self._settings = settings
        self._random = random
        self._interval_s = settings.initial_interval / SECOND

    def next_wait_s(self, *, elapsed_s: float, retry_after_s: float | None) -> float | None:
        """Return the wait before the next attempt, `None` when the time for retries would be over by then."""
        settings = self._settings
        spread = settings.randomization_factor * (2 * self._random() - 1)
        wait_s = max(self._interval_s * (1 + spread), retry_after_s or 0.0)
        self._interval_s = min(self._interval_s * settings.multiplier, settings.max_interval / SECOND)
        is_over = settings.max_elapsed_time and elapsed_s + wait_s > settings.max_elapsed_time / SECOND
        return None if is_over else wait_s


@dataclass(frozen=True, slots=True)
class Undelivered:
    """Numbers of dropped spans, of other requests of senders (log records, metrics), and of our own requests."""

    spans: int = 0
    requests: int = 0
    own: int = 0

    def and_also(self, outgoing: Outgoing) -> "Undelivered":
        """Add a request."""
        if outgoing.own:
            return replace(self, own=self.own + 1)
        if outgoing.spans:
            return replace(self, spans=self.spans + outgoing.spans)
        return replace(self, requests=self.requests + 1)

    def __bool__(self) -> bool:
        return self != Undelivered()

    def __str__(self) -> str:
        counts = ((self.spans, "spans"), (self.requests, "log or metric requests"), (self.own, "requests of our own"))
        return " and ".join(f"{count} {what}" for count, what in counts if count)


class Destination:
    """Sends requests to one destination, with a queue, retries and counts.

    Implements `model.delivery.Outbox`; belongs to one event loop.
    """

    def __init__(
        self, settings: DestinationSettings, metrics: SelfMetrics, sender: Sender, ledger: Ledger = NO_LEDGER
    ) -> None:
        self._sender = sender
        self._ledger = ledger
        self.settings = settings
        self._metrics = metrics
        self.name = settings.name or "otlp"
        metrics.begin_destination(self.name, settings.signals)
        self.queue = SendQueue(
            max_bytes=settings.queue.max_bytes,
            own_reserve_bytes=max(_LEAST_OWN_RESERVE_BYTES, settings.queue.max_bytes),
        )
        keep = settings.keep
        self.keep = None if keep is None else Keep(self.name, keep, self.queue, metrics, ledger)
        # Whether every destination of spans has dropped a trace: its scores belong to nothing.
        self.is_dropped: Callable[[str], bool] = lambda _trace_id: False
        self._tasks: list[asyncio.Task[None]] = []
        self._renewing: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        endpoints = ", ".join(redacted_url(endpoint) or "" for endpoint in settings.endpoints)
        self.health = DestinationHealth(self.name, time.monotonic, endpoints, settings.signals)
        self._undelivered = Undelivered()
        # Requests in the journal, for the next process to send.
        self.kept = Undelivered()
        self._end: End = "shutdown"
        # Requests that are being sent at this moment.
        self.requests_in_flight = 0

    @property
    def is_of_otlp(self) -> bool:
        """Return whether it is an entry of `exporters.otlp`."""
        return isinstance(self._sender, GrpcSender | HttpSender)

    def has_room(self, size_bytes: int) -> bool:
        """Return whether `put` would take a senders' request of this size now."""
        return self.queue.has_room(size_bytes, own=False) if self.keep is None else self.keep.has_room(size_bytes)

    def put(self, outgoing: Outgoing) -> bool:
        """Queue the request; False without room (the request is then neither queued nor counted)."""
        if self.keep is None or outgoing.signal == "metrics" or (outgoing.own and not outgoing.of_traces):
            return self.queue.put(outgoing)
        return self.keep.put_own(outgoing) if outgoing.own else self.keep.put(outgoing)

    @property
    def spans_waiting(self) -> int:
        """Senders' spans that wait to be sent, or for the results of their trace."""
        return self.queue.spans + (0 if self.keep is None else self.keep.spans)

    def miss(self, outgoing: Outgoing) -> None:
        """Count a request that other destinations queued and this one had no room for."""
        self._count_lost(outgoing, outgoing.spans, "queue_full")

    async def start(self) -> None:
        """Start the sender tasks; nothing connects before the first request."""
        tls = self.settings.client_tls
        # Made before the files are read, so that no later change is missed.
        watched = None if tls is None else WatchedFiles(tls.files)
        await self._sender.start()
        self._tasks = [asyncio.create_task(self._work()) for _ in range(self.settings.queue.num_consumers)]
        if tls is not None and watched is not None:
            self._renewing = asyncio.create_task(self._renew(watched, tls.reload_interval / SECOND))

    def hurry(self) -> None:
        """Skip the waits between attempts from here on: little time is left."""
        self._stopping.set()

    async def drain(self, timeout_s: float, because: End | None = None) -> Undelivered:
        """Send the queued requests without waits between attempts, and take no more; return the counted losses."""
        self._end = because or self._end
        self._empty_keep()
        self.queue.close()
        self.hurry()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_s)
        await self._stop_tasks()
        return self._undelivered

    async def close(self) -> None:
        """Stop at once; requests left are dropped and counted. May be called twice and without a start."""
        self.queue.close()
        self._stopping.set()
        await self._stop_tasks()
        renewing, self._renewing = self._renewing, None
        if renewing is not None:
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)
        await self._sender.close()

    async def _renew(self, files: WatchedFiles, interval_s: float) -> None:
        while True:
            await asyncio.sleep(interval_s)
            try:
                if files.changed():
                    await self._sender.renew()
            except StartError as error:
                _log.error("destination %s: %s; the certificate in use stays", self.name, error.message)

    async def _stop_tasks(self) -> None:
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._empty_keep()
        for outgoing in self.queue.leftovers():
            self._give_up(outgoing)

    def _empty_keep(self) -> None:
        """Leave undecided traces to the next process where the journal has them; send the others unsampled."""
        if self.keep is None:
            return
        with self._metrics.lock:
            for outgoing in self.keep.close():
                if self._end == "shutdown" and self._ledger.keeps(outgoing.entries):
                    self.kept = self.kept.and_also(outgoing)
                else:
                    self._metrics.keep_unsampled.add(outgoing.spans, (self.name, "shutdown"))
                    self.queue.append(outgoing)

    async def _take(self) -> Outgoing | None:
        return await self.queue.take()

    async def _work(self) -> None:
        while (outgoing := await self._take()) is not None:
            # The request, or its parts, not yet acknowledged or dropped; the next one is last.
            left = [outgoing]
            try:
                while left:
                    left[-1:] = await self._deliver(left[-1])
            except asyncio.CancelledError:
                for part in left:
                    self._give_up(part)
                raise

    async def _deliver(self, outgoing: Outgoing) -> tuple[Outgoing, ...]:
        """Acknowledge or drop the request; return its halves when they must be sent instead."""
        verdict = await self._sent(outgoing)
        if isinstance(verdict, Delivered):
            self._settle(outgoing)
            self.health.succeeded(outgoing.signal)
            lost = min(verdict.rejected, outgoing.spans)
            if outgoing.spans > lost:
                self._metrics.spans.add(outgoing.spans - lost, ("forwarded", "", self.name))
            if verdict.rejected:
                self._metrics.send_rejected.add(verdict.rejected, (self.name, outgoing.signal))
                self._count_lost(outgoing, lost, "partial_success")
            return ()
        if verdict.is_about_content and outgoing.parts:
            self._ledger.claim_deliveries(outgoing.entries)
            middle = len(outgoing.parts) // 2
            size_bytes = sum(size for size, _ in outgoing.parts[:middle])
            return (
                _part(outgoing, outgoing.parts[middle:], outgoing.body[size_bytes:]),
                _part(outgoing, outgoing.parts[:middle], outgoing.body[:size_bytes]),
            )
        if verdict.is_about_content and not outgoing.own:
            found = await asyncio.to_thread(count_undecodable, outgoing.signal, outgoing.body)
            if found:
                self._metrics.undecodable.add(found, ("undecodable",))
        if verdict.is_lasting:
            self.health.refused(outgoing.signal, verdict.reason)
        self._drop(outgoing, verdict.reason)
        return ()

    async def _sent(self, outgoing: Outgoing) -> Delivered | Permanent:
        """Retry until the request is accepted, refused for good, or out of time, counted from the first attempt."""
        if len(outgoing.body) > self.settings.max_request_size:
            return Permanent("too_large", is_about_content=True)
        began_s, backoff = time.monotonic(), Backoff(self.settings.retry, random.random)
        while isinstance(verdict := await self._attempt(outgoing), Transient):
            self.health.failed(verdict.reason, verdict.cause)
            if self._stopping.is_set():
                # The process is ending: retry until `drain` runs out of time.
                await asyncio.sleep(_DRAIN_WAIT_S)
            else:
                elapsed_s = time.monotonic() - began_s
                wait_s = backoff.next_wait_s(elapsed_s=elapsed_s, retry_after_s=verdict.retry_after_s)
                if wait_s is None:
                    return Permanent("retries_exhausted")
                await wait(self._stopping, wait_s)
            self._metrics.retries.add(1, (self.name, outgoing.signal))
        return verdict

    async def _attempt(self, outgoing: Outgoing) -> Verdict:
        self.requests_in_flight += 1
        try:
            verdict = await self._sender.send(outgoing.signal, outgoing.body)
        except (Exception, SystemExit, KeyboardInterrupt, asyncio.CancelledError) as error:
            # A sender task must outlive all faults of one request; its own cancellation is not a fault.
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            # Not the message, which may quote the request.
            _log.debug("destination %s: internal error while sending: %s", self.name, type(error).__name__)
            verdict = Permanent(f"internal_{type(error).__name__}", is_about_content=True)
        finally:
            self.requests_in_flight -= 1
        if not isinstance(verdict, Delivered):
            self._metrics.send_failures.add(1, (self.name, outgoing.signal, verdict.reason))
        return verdict

    def _settle(self, outgoing: Outgoing) -> None:
        self.queue.release(outgoing)
        self._ledger.settle(outgoing.entries)

    def _drop(self, outgoing: Outgoing, reason: str) -> None:
        self._settle(outgoing)
        self._count_lost(outgoing, outgoing.spans, reason)

    def _give_up(self, outgoing: Outgoing) -> None:
        """Drop a request at the end, unless the journal has it for the next process."""
        if self._end == "shutdown" and self._ledger.keeps(outgoing.entries):
            self.kept = self.kept.and_also(outgoing)
            return
        # Metrics are cumulative, and the journal holds the last ones.
        if not (self._ledger.has_journal and outgoing.own and outgoing.signal == "metrics"):
            self._undelivered = self._undelivered.and_also(outgoing)
        self._drop(outgoing, self._end)

    def _count_lost(self, outgoing: Outgoing, spans: int, reason: str) -> None:
        counter = self._metrics.own_dropped if outgoing.own else self._metrics.requests_dropped
        if outgoing.own or not outgoing.spans:
            counter.add(1, (self.name, outgoing.signal, reason))
        if spans:
            counter = self._metrics.spans
            counter.add(spans, ("dropped", reason, self.name))
        self.health.dropped(outgoing.signal, reason, spans, counter.name)


def _part(outgoing: Outgoing, parts: tuple[tuple[int, int], ...], body: bytes) -> Outgoing:
    spans = sum(spans for _, spans in parts)
    return msgspec.structs.replace(outgoing, body=body, spans=spans, parts=parts if len(parts) > 1 else ())


def otlp_destination(
    settings: DestinationSettings, metrics: SelfMetrics, hop_id: str, user_agent: str, ledger: Ledger = NO_LEDGER
) -> Destination:
    """Make a destination that takes OTLP."""
    metadata = (*checked_headers(settings.headers, settings.name or "otlp"), (HOP_HEADER, hop_id))
    kind = GrpcSender if settings.protocol == "grpc" else HttpSender
    return Destination(settings, metrics, kind(settings, metadata=metadata, user_agent=user_agent), ledger)


def exporter_destination(
    name: str, exporter: Exporter, metrics: SelfMetrics, ledger: Ledger = NO_LEDGER
) -> Destination:
    """Make a destination of an exporter that another package brings, with the usual queue and retries."""
    # Not validated: the exporter alone knows its endpoint.
    settings = DestinationSettings.model_construct(name=name)
    return Destination(settings, metrics, ExporterSender(exporter, settings.timeout / SECOND), ledger)


async def wait(event: asyncio.Event, wait_s: float | None) -> None:
    """Wait for the event, so long at most."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(wait_s):
            await event.wait()
