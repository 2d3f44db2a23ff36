"""The configuration of one worker: limits are for all workers together, and each has an equal share.

What is for the front alone is left out: receivers, the web view, the admin endpoint, the metrics endpoint, webhooks, the recording and
the detectors of regressions.
"""

from pathlib import Path

from toolgauge.assemble.settings import AssembleSettings
from toolgauge.config.model import Config, Exporters, Receivers
from toolgauge.export.settings import DestinationSettings, KafkaExporterSettings, QueueSettings
from toolgauge.judge.settings import JudgeSettings
from toolgauge.settings import file_path
from toolgauge.state.settings import StateSettings


def directory_of(state: Path, number: int) -> Path:
    """Return where a worker keeps its journal."""
    return state / f"worker-{number}"


def share(config: Config, number: int, workers: int) -> Config:
    """Return the configuration of the worker with this number, from 0."""
    hold, inbox = config.hold, config.inbox
    return config.model_copy(
        update={
            "receivers": Receivers(),
            "exporters": _exporters(config.exporters, workers),
            "web": None,
            "admin": None,
            "watch": config.watch.model_copy(update={"enabled": False}),
            "hold": hold.model_copy(update={"max_bytes": hold.max_bytes // workers}),
            "inbox": inbox.model_copy(update={"max_bytes": _part(inbox.max_bytes, workers)}),
            "assemble": _assemble(config.assemble, workers),
            "judge": None if config.judge is None else _judge(config.judge, workers),
            "state": _state(config.state, number, workers),
        }
    )


def _part(whole: int, workers: int) -> int:
    return max(1, whole // workers)


def _exporters(exporters: Exporters, workers: int) -> Exporters:
    kafka = exporters.kafka
    return exporters.model_copy(
        update={
            "file": None,
            "webhook": (),
            "prometheus": None,
            "otlp": tuple(_destination(each, workers) for each in exporters.otlp),
            "kafka": None if kafka is None else _kafka(kafka, workers),
        }
    )


def _queue(queue: QueueSettings, workers: int) -> QueueSettings:
    # A share of the requests that are on their way at a time: the destination sees as many as from one process.
    update = {"max_bytes": _part(queue.max_bytes, workers), "num_consumers": _part(queue.num_consumers, workers)}
    return queue.model_copy(update=update)


def _destination(destination: DestinationSettings, workers: int) -> DestinationSettings:
    return destination.model_copy(update={"queue": _queue(destination.queue, workers)})


def _kafka(kafka: KafkaExporterSettings, workers: int) -> KafkaExporterSettings:
    return kafka.model_copy(update={"queue": _queue(kafka.queue, workers)})


def _assemble(assemble: AssembleSettings, workers: int) -> AssembleSettings:
    late = assemble.late_memory
    return assemble.model_copy(
        update={
            "max_open": _part(assemble.max_open, workers),
            "max_open_bytes": _part(assemble.max_open_bytes, workers),
            "late_memory": late.model_copy(update={"traces": _part(late.traces, workers)}),
        }
    )


def _judge(judge: JudgeSettings, workers: int) -> JudgeSettings:
    calls, cost = judge.calls_per_minute, judge.max_cost_per_hour
    return judge.model_copy(
        update={
            "max_concurrent": _part(judge.max_concurrent, workers),
            "max_queue": _part(judge.max_queue, workers),
            "max_queue_bytes": _part(judge.max_queue_bytes, workers),
            "calls_per_minute": None if calls is None else _part(calls, workers),
            "max_cost_per_hour": None if cost is None else cost / workers,
        }
    )


def _state(state: StateSettings, number: int, workers: int) -> StateSettings:
    if state.directory is None:
        return state
    directory = str(directory_of(file_path(state.directory), number))
    return state.model_copy(update={"directory": directory, "max_bytes": _part(state.max_bytes, workers)})
