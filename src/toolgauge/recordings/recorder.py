"""Receives OTLP as `toolgauge serve` does, writes what arrives to a file, and reads it to show what it is.

Reading may lag behind, and what it cannot keep up with is written without being read.
"""

import asyncio
import uuid
from collections.abc import Callable

from toolgauge.config.model import Config, Exporters
from toolgauge.export.recording_file import RecordingFile
from toolgauge.model.metrics import MetricRegistry
from toolgauge.otlp.request import Request
from toolgauge.pipeline.pipeline import Pipeline, ignore_split
from toolgauge.recordings.recognized import Recognized
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.service.destinations import make_outbox
from toolgauge.service.evaluation_limit import EvaluationLimit
from toolgauge.service.inbox import Inbox, Intake
from toolgauge.service.memory import MemoryGuard
from toolgauge.service.pipeline_factory import make_pipeline
from toolgauge.service.process import Faults, SteadyClock
from toolgauge.service.serve import make_receivers
from toolgauge.service.worker import Worker

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
