"""What pages know: the latest trajectories, how values are written, and the service that runs.

Pages are plain functions in threads; what belongs to the worker is asked for on the event loop, with a deadline.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from toolgauge.export.redact import Redactor
from toolgauge.model.errors import ToolgaugeError
from toolgauge.model.metrics import MetricRegistry
from toolgauge.model.regressions import Arm, Stream, StreamHistory, StreamStatus
from toolgauge.service.health import ComponentHealth, Health
from toolgauge.web.kept import TrajectoryStore

_T = TypeVar("_T")
_ANSWER_TIMEOUT_S = 5.0


class BusyError(ToolgaugeError):
    """The worker did not answer in time; the page is answered with status 503."""


class Watching(Protocol):
    """Streams of scores, and the detectors that watch them. Its methods are called on the event loop."""

    async def statuses(self) -> Sequence[StreamStatus]:
        """Return what the detector of each stream knows."""
        ...

    async def histories(self, streams: Sequence[Stream]) -> Sequence[StreamHistory]:
        """Return what these streams were over time, without those that are not watched."""
        ...

    async def arms(self) -> Sequence[Arm]:
        """Return the observations of each stream by version."""
        ...


class Listening(Protocol):
    """Something that listens."""

    @property
    def port(self) -> int:
        """The port in use; 0 before it listens."""
        ...


class WatchedStreams:
    """Asks the detectors from the thread of a page. Its methods wait; they raise `BusyError` after some seconds.

    While the service starts there is nothing yet: what an earlier process saved is being read.
    """

    def __init__(self, watching: Watching, health: Health, loop: asyncio.AbstractEventLoop) -> None:
        self._watching = watching
        self._health = health
        self._loop = loop

    def statuses(self) -> Sequence[StreamStatus]:
        """Return what the detector of each stream knows, those in alarm first."""
        return () if self._health.phase == "starting" else self._ask(self._watching.statuses)

    def histories(self, streams: Sequence[Stream]) -> Sequence[StreamHistory]:
        """Return what these streams were over time, without those that are not watched."""
        return () if self._health.phase == "starting" else self._ask(lambda: self._watching.histories(streams))

    def arms(self) -> Sequence[Arm]:
        """Return the observations of each stream by version."""
        return () if self._health.phase == "starting" else self._ask(self._watching.arms)

    def _ask(self, question: Callable[[], Coroutine[object, object, _T]]) -> _T:
        return _asked(question, self._loop)


def _asked(question: Callable[[], Coroutine[object, object, _T]], loop: asyncio.AbstractEventLoop) -> _T:
    """Have the event loop answer, and wait in the thread of a page."""

    async def answer() -> _T:
        async with asyncio.timeout(_ANSWER_TIMEOUT_S):
            return await question()

    try:
        return asyncio.run_coroutine_threadsafe(answer(), loop).result()
    except TimeoutError as error:
        raise BusyError("the worker is busy and did not answer in time: try again") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """The service that runs. `streams` is `None` where nothing is watched, `clock` wall-clock time in nanoseconds.

    `receivers` are those of OTLP over gRPC and HTTP.
    """

    health: Health
    registry: MetricRegistry
    streams: WatchedStreams | None
    clock: Callable[[], int]
    loop: asyncio.AbstractEventLoop
    receivers: Sequence[Listening] = ()
    # Whether some criterion looks at messages and results: else they are not read.
    wants_content: Callable[[], bool] = lambda: True

    def components(self) -> Mapping[str, ComponentHealth]:
        """Return the health of each part by its name; none while the process starts or stops."""

        async def looked_at() -> Mapping[str, ComponentHealth]:
            return dict(self.health.components()) if self.health.is_ready else {}

        # Destinations measure their outages by the clock of the event loop.
        return _asked(looked_at, self.loop)


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """How what spans hold is written: `trace_url` is a template with `{trace_id}`, `None` where nothing is linked.

    `pass_at` has the least score that passes, by the criterion's revision, as far as known.
    """

    redactor: Redactor
    trace_url: str | None
    pass_at: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(slots=True)
class Shown:
    """All that pages are made of. `writing` is exchanged at a reload; `running` is `None` before there is a service."""

    store: TrajectoryStore
    writing: Writing
    running: Running | None = None
