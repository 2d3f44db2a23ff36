"""Receives OTLP as `toolgauge serve` does, writes what arrives to a file, and reads it to show what it is.

Reading may lag behind; requests that it cannot keep up with are written unread. The worker's thread reads and counts, the event
loop counts requests and shows the counts.
"""

import asyncio
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

from toolgauge.config.model import Config, Exporters
from toolgauge.export.recording_file import RecordingFile
from toolgauge.model.delivery import Outgoing
from toolgauge.model.metrics import MetricRegistry
from toolgauge.model.observations import Reading
from toolgauge.model.outcomes import Scorecard
from toolgauge.model.ports import Dialect
from toolgauge.model.records import Record
from toolgauge.offline.terminal import counted, shortened
from toolgauge.otlp.request import Request
from toolgauge.pipeline.pipeline import Pipeline, ignore_split
from toolgauge.recognize.recognizer import Recognizer
from toolgauge.recordings.stats import CountingRecognizer
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.service.destinations import make_outbox
from toolgauge.service.evaluation_limit import EvaluationLimit
from toolgauge.service.inbox import Inbox, Intake
from toolgauge.service.memory import MemoryGuard
from toolgauge.service.pipeline_factory import make_pipeline
from toolgauge.service.process import Faults, SteadyClock
from toolgauge.service.serve import make_receivers
from toolgauge.service.worker import Worker

_NAME_LENGTH = 80
# Services beyond this many are counted together.
_MAX_SERVICES = 100
_OTHERS = "(other services)"


@dataclass(slots=True)
class ServiceCounts:
    """The readings, trajectories and calls of one service; `dialects` counts spans and log records."""

    dialects: Counter[str] = field(default_factory=Counter[str])
    read: int = 0
    trajectories: int = 0
    calls: int = 0


class Recognized:
    """Counts the readings and trajectories of one pipeline, whose `pipeline.ScorecardSink` it is.

    `on_first` gets a line for each new pair of a service and a dialect.
    """

    def __init__(self, on_first: Callable[[str], None]) -> None:
        self._on_first = on_first
        self.services: dict[str, ServiceCounts] = {}
        self.arrived = 0
        # Spans and log records.
        self.records = 0

    def recognizer(self, dialects: Sequence[Dialect], metrics: SelfMetrics, wanted: Collection[str] = ()) -> Recognizer:
        """Make a recognizer that counts here what it reads."""
        return CountingRecognizer(dialects, metrics, wanted, self.note)

    def accept(self, request: Request) -> None:
        """Count a request that was accepted."""
        self.arrived += 1
        if request.signal != "metrics":
            self.records += request.count

    def note(self, record: Record, reading: Reading) -> None:
        """Count a reading, and report the first one of a service and a dialect."""
        dialect, service = reading.dialect, record.resource.service
        if dialect is None:
            return
        counts = self._counts(service)
        if not counts.dialects[dialect]:
            scope = f"{record.scope.name} {record.scope.version or ''}".strip()
            shown = shortened(scope, _NAME_LENGTH) if scope else "no scope"
            self._on_first(f"service {_named(service)}: dialect {dialect} ({shown})")
        counts.dialects[dialect] += 1
        counts.read += 1

    def record(self, scorecard: Scorecard) -> None:
        """Count a trajectory that has closed."""
        counts = self._counts(scorecard.trajectory.service)
        counts.trajectories += 1
        counts.calls += len(scorecard.trajectory.calls)

    def requests(self, scorecards: Sequence[Scorecard]) -> list[Outgoing]:
        """Send nothing on."""
        del scorecards
        return []

    def counter(self) -> str:
        """Describe the counts in a few words."""
        services = tuple(self.services.values())
        read = sum(counts.read for counts in services)
        trajectories, calls = sum(counts.trajectories for counts in services), sum(counts.calls for counts in services)
        return (
            f"{counted(self.arrived, 'request')}, {self.records:,} spans and log records ({read:,} read), "
            f"{_work(trajectories, calls)}"
        )

    def lines(self) -> Iterator[str]:
        """Describe each service, the busiest first."""
        for service, counts in sorted(self.services.items(), key=lambda entry: -entry[1].read):
            dialects = ", ".join(f"{dialect} ({count})" for dialect, count in counts.dialects.most_common())
            yield f"  {_named(service)}: {_work(counts.trajectories, counts.calls)}; {dialects or 'no dialect'}"

    def _counts(self, service: str | None) -> ServiceCounts:
        name = service or ""
        if name not in self.services and len(self.services) >= _MAX_SERVICES:
            name = _OTHERS
        return self.services.setdefault(name, ServiceCounts())


def _work(trajectories: int, calls: int) -> str:
    return f"{counted(trajectories, 'trajectory', 'trajectories')}, {counted(calls, 'tool call')}"


def _named(service: str | None) -> str:
    return f"`{shortened(service, _NAME_LENGTH)}`" if service else "without a name"


_GRACE_S = 2.0
_READING_DEADLINE_S = 5.0
_WRITING_DEADLINE_S = 15.0
_WORKER_GRACE_S = 1.0
_LOOK_S = 0.1


class Recorder:
    """Records from `start` to `stop`, with the receivers of a configuration. Belongs to one event loop."""

    def __init__(self, config: Config, recording: RecordingFile, on_first: Callable[[str], None]) -> None:
        clock = SteadyClock()
        hop_id = uuid.uuid4().hex
        metrics = SelfMetrics(MetricRegistry(clock))
        memory = MemoryGuard(config.memory.limit, metrics)
        self.recognized = Recognized(on_first)
        self._recording = recording
        self._pipeline = _pipeline(config, self.recognized, metrics, memory, hop_id)
        inbox = Inbox(config.inbox.max_bytes)
        intake = Intake(self._pipeline, inbox, clock, on_accepted=self._record)
        self._faults = Faults(metrics)
        self._worker = Worker(
            self._pipeline, inbox, clock=clock, faults=self._faults, evaluation_limit=EvaluationLimit()
        )
        self.receivers = make_receivers(config, intake, metrics=metrics, hop_id=hop_id, has_memory=memory.admits)
        self._memory = memory
        self._clock = clock
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Open the ports and the file; raise `StartError` when one cannot be had, and nothing stays open then."""
        self._memory.check()
        try:
            for receiver in self.receivers:
                await receiver.start()
            # A file that is to be replaced goes only when everything else works.
            self._recording.start()
        except BaseException:
            await self._stop_receiving(0)
            raise
        self._worker.start()
        self._watching = asyncio.create_task(self._watch_memory())

    async def stop(self) -> None:
        """Stop receiving, close and count open trajectories, and write the requests that wait."""
        await self._stop_receiving(_GRACE_S)
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        try:
            await self._worker.begin_to_finish(self._close_open, _READING_DEADLINE_S)
            await self._worker.finished(_READING_DEADLINE_S)
        except TimeoutError:
            self._worker.give_up()
        self._worker.end(_WORKER_GRACE_S)
        await asyncio.to_thread(self._recording.close, _WRITING_DEADLINE_S)

    async def _stop_receiving(self, grace_s: float) -> None:
        await asyncio.gather(*(receiver.stop(grace_s) for receiver in self.receivers))

    def _record(self, request: Request) -> None:
        self._recording.put(request.signal, request.body)
        self.recognized.accept(request)

    def _close_open(self) -> None:
        self._pipeline.close(self._clock())
        while self._pipeline.tick(self._clock()):
            pass
        self._pipeline.flush()

    async def _watch_memory(self) -> None:
        while True:
            with self._faults.survived():
                if self._memory.look(self._clock(), is_empty=self._pipeline.is_empty):
                    self._worker.post(self._pipeline.shed)
            await asyncio.sleep(_LOOK_S)


def _pipeline(
    config: Config, recognized: Recognized, metrics: SelfMetrics, memory: MemoryGuard, hop_id: str
) -> Pipeline:
    """Make a pipeline that scores nothing and sends nothing on."""
    alone = config.model_copy(update={"annotate": "off", "exporters": Exporters(prometheus=None)})
    return make_pipeline(
        alone,
        (),
        sink=recognized,
        outbox=make_outbox(alone, metrics, hop_id=hop_id, user_agent=""),
        metrics=metrics,
        has_memory=memory.admits,
        make_recognizer=recognized.recognizer,
        on_unmatched=None,
        on_split=ignore_split,
    )
