"""Config -> the pipeline inside an application, fed with spans of the SDK; no receiver, no port, no thread.

Nothing is held or sent on: the application's own exporter has had the spans already. Our own telemetry leaves by `Ways`.
"""

import asyncio
import socket
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from opentelemetry._logs import Logger
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan

from toolgauge.config.model import Config
from toolgauge.export.emitter import Emitter, resource_from_environment
from toolgauge.export.regression_events import IncidentLines
from toolgauge.export.sdk import SdkMetrics, emit_events, scorecard_spans, trace_request
from toolgauge.export.settings import DestinationSettings
from toolgauge.model.delivery import Accepted, Outgoing
from toolgauge.model.outcomes import Scorecard
from toolgauge.model.regressions import Regression, ToolDefinitionChange
from toolgauge.pipeline.stages import ignore
from toolgauge.score.criterion import Criterion
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.service.destinations import otlp_fan_out
from toolgauge.service.pipeline_factory import VERSION, NoOutbox, emit_settings, make_pipeline, make_watcher, redactor
from toolgauge.service.process import Faults, SteadyClock
from toolgauge.service.watching import log_incidents, send_own

_LOOK_AGAIN_S = 0.01
_Address: TypeAlias = tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]
_Found: TypeAlias = list[tuple[socket.AddressFamily, socket.SocketKind, int, str, _Address]]


class _Loop(asyncio.SelectorEventLoop):
    async def getaddrinfo(self, host: bytes | str | None, port: bytes | str | int | None, **hints: int) -> _Found:
        """Look the address up here and now: asyncio would ask an executor."""
        return socket.getaddrinfo(host, port, **hints)


class Push:
    """The destinations; belongs to one thread."""

    def __init__(self, exporters: Sequence[DestinationSettings], metrics: SelfMetrics) -> None:
        self.is_grpc = any(exporter.protocol == "grpc" for exporter in exporters)
        self._destination = otlp_fan_out(exporters, metrics, hop_id=uuid.uuid4().hex)
        self.put = self._destination.put
        self._loop: _Loop | None = None

    @property
    def is_idle(self) -> bool:
        """Nothing waits to be sent."""
        return self._destination.bytes_queued == 0

    @property
    def survives_fork(self) -> bool:
        """Return whether a forked child may make a destination of its own: gRPC, once begun, hangs or dies there."""
        return self._loop is None or not self.is_grpc

    def work(self, seconds: float) -> None:
        """Send for as long, or until everything has been sent."""
        if self._loop is None:
            self._loop = _Loop()
            self._loop.run_until_complete(self._destination.start())
        clock = self._loop.time
        until = clock() + seconds

        async def send() -> None:
            while not self.is_idle and clock() < until:
                await asyncio.sleep(_LOOK_AGAIN_S)

        self._loop.run_until_complete(send())

    def close(self) -> None:
        """Stop at once; requests left are dropped and counted. May be called twice and without a start."""
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.run_until_complete(self._destination.close())
            loop.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """How our own telemetry leaves an application; signals without a way here go to `destinations`, if there are any.
    `export` returns whether that worked. Without a provider, `logger` is `None`, or `pushes_metrics` true.
    """

    export: Callable[[Sequence[ReadableSpan]], bool] | None
    logger: Callable[[], Logger | None]
    pushes_metrics: Callable[[], bool]
    destinations: tuple[DestinationSettings, ...]
    on_scorecard: Callable[[Scorecard], None] | None


class InProcess(NoOutbox):
    """One pipeline and its ways out; belongs to one thread, except for members that are documented otherwise."""

    def __init__(self, config: Config, criteria: Sequence[Criterion], ways: Ways, instruments: SdkMetrics) -> None:
        self._clock = SteadyClock()
        registry = instruments.registry(self._clock)
        self.metrics = SelfMetrics(registry)
        self._ways = ways
        self._faults = Faults(self.metrics)
        self._resource = Resource.get_empty()
        self._emitter = Emitter(
            emit_settings(config),
            registry,
            self.metrics,
            redactor(config),
            instance_id=uuid.uuid4().hex,
            version=VERSION,
            resource_attributes=resource_from_environment(),
            start_ns=self._clock(),
        )
        self._incidents, watcher = IncidentLines(), make_watcher(config, self.metrics)
        if watcher is not None:
            watcher.on_tool_changes = self._tools_changed
        self._pipeline = make_pipeline(
            config,
            criteria,
            sink=self,
            outbox=self,
            metrics=self.metrics,
            watcher=watcher,
            on_regressions=self._regressed,
            on_split=ignore,
        )
        instruments.observe(registry)
        self.push = Push(ways.destinations, self.metrics) if ways.destinations else None
        self._interval_ns = config.metrics.interval
        self._next_push_ns = self._clock() + self._interval_ns

    def _regressed(self, regressions: Sequence[Regression]) -> None:
        log_incidents(regressions, self._incidents)
        send_own(self._emitter.regressions(regressions), self.put, self.metrics)

    def _tools_changed(self, changes: Sequence[ToolDefinitionChange], capped: int) -> None:
        self._emitter.count_tool_changes(changes, capped)
        send_own(self._emitter.tool_changes(changes), self.put, self.metrics)

    def record(self, scorecard: Scorecard) -> None:
        """Count the scorecard and show it to the application."""
        self._emitter.record(scorecard)
        if self._ways.on_scorecard is not None:
            with self._faults.survived(BaseException):
                self._ways.on_scorecard(scorecard)

    def requests(self, scorecards: Sequence[Scorecard]) -> Iterable[Outgoing]:
        """Encode scorecard spans and events."""
        return self._emitter.requests(scorecards)

    def put(self, outgoing: Outgoing) -> bool:
        """Send our own telemetry; count the application's spans."""
        if not outgoing.own:
            self.metrics.spans.add(outgoing.spans, ("consumed" if self._ways.export is None else "forwarded", "", ""))
            return True
        with self._faults.survived():
            if outgoing.signal == "traces" and self._ways.export is not None:
                if not self._ways.export(scorecard_spans(outgoing.body, self._resource)):
                    self.metrics.own_dropped.add(1, ("", "traces", "export_failed"))
                return True
            if outgoing.signal == "logs" and (logger := self._ways.logger()) is not None:
                emit_events(outgoing.body, logger)
                return True
            return self.push is None or self.push.put(outgoing)
        return False

    def take(self, spans: Sequence[ReadableSpan]) -> None:
        """Read spans."""
        if not spans:
            return
        read = False
        with self._faults.survived():
            self._read(spans)
            read = True
        if not read and len(spans) > 1:
            # One of them cannot be encoded. The spans before it are read again, and count once.
            for span in spans:
                with self._faults.survived():
                    self._read((span,))

    def _read(self, spans: Sequence[ReadableSpan]) -> None:
        self._resource = spans[-1].resource
        answer = self._pipeline.consume("traces", trace_request(spans), self._clock())
        if not isinstance(answer, Accepted):
            self.metrics.undecodable.add(len(spans), ("undecodable",))

    def work(self) -> float | None:
        """Do the due work; return the seconds until there is more to do, `None` when nothing is open."""
        now, push = self._clock(), self.push
        busy = False
        with self._faults.survived():
            busy = self._pipeline.tick(now)
        with self._faults.survived():
            self._pipeline.flush()
        if push is not None:
            with self._faults.survived():
                if now >= self._next_push_ns:
                    self._next_push_ns = now + self._interval_ns
                    self._send_metrics(push)
                push.work(0.05)
        if busy or (push is not None and not push.is_idle):
            return 0.0
        due = [
            at for at in (self._pipeline.next_due_ns, None if push is None else self._next_push_ns) if at is not None
        ]
        # A due trajectory that does not close yet is looked at again soon, not at once.
        return max(0.05, (min(due) - self._clock()) / 1e9) if due else None

    def _send_metrics(self, push: Push) -> None:
        if self._ways.pushes_metrics() and not push.put(self._emitter.metrics(self._clock())):
            self.metrics.own_dropped.add(1, ("", "metrics", "queue_full"))

    def close_open(self, until: Callable[[], bool]) -> bool:
        """Close and score all open trajectories and send the scores while `until()` holds; return whether all was done."""
        now = self._clock()
        with self._faults.survived():
            self._pipeline.close_open(now)
        busy = True
        while busy and until():
            with self._faults.survived():
                busy = self._pipeline.tick(now)
        with self._faults.survived():
            self._pipeline.flush()
        push = self.push
        if push is not None:
            with self._faults.survived():
                self._send_metrics(push)
                while not push.is_idle and until():
                    push.work(0.05)
        return not busy and (push is None or push.is_idle)

    def close(self) -> None:
        """Close the destinations. May be called twice."""
        push, self.push = self.push, None
        if push is not None:
            with self._faults.survived():
                push.close()
