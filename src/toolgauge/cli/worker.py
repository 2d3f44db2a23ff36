"""`toolgauge worker`: one of the processes that `toolgauge serve` starts where `workers` is more than 1."""

import asyncio
import logging
import os
import socket
import threading
from collections.abc import Callable, Sequence
from functools import partial

import click

from toolgauge.cli.logs import LogThread, log_to_stderr
from toolgauge.cli.main import configuration_options
from toolgauge.config.model import Config
from toolgauge.model.errors import ToolgaugeError
from toolgauge.pipeline.stages import ObservedSink
from toolgauge.score.criterion import Criterion
from toolgauge.service.configuration import load_configuration
from toolgauge.service.process import freeze_loaded_objects, tune_process
from toolgauge.service.reload import Load, Reloader
from toolgauge.service.service import Service
from toolgauge.service.workers.channel import Channel, Kind, beat, packed
from toolgauge.service.workers.worker_observations import WorkerObserver
from toolgauge.service.workers.worker_service import FrontLink, WorkerService, share


@click.command("worker", hidden=True)
@configuration_options
@click.option("--descriptor", type=int, required=True, help="The open socket to the front.")
@click.option("--beats", type=int, required=True, help="The open pipe for signs of life.")
@click.option(
    "--lost", type=int, required=True, help="Until when acknowledged spans died with the one before it; or 0."
)
@click.option("--number", type=int, required=True, help="Which worker this is, from 0.")
@click.option("--workers", type=int, required=True, help="How many there are.")
@click.option("--hop-id", required=True, help="The id that all of them have in common.")
def command(
    config_paths: Sequence[str],
    overrides: Sequence[str],
    descriptor: int,
    beats: int,
    lost: int,
    number: int,
    workers: int,
    hop_id: str,
) -> int:
    """Score what the front hands over. Started by `toolgauge serve`."""
    threading.Thread(target=beat, args=(beats,), name="toolgauge-beat", daemon=True).start()
    end = socket.socket(fileno=descriptor)

    def load() -> tuple[Config, tuple[Criterion, ...]]:
        config, criteria = load_configuration(config_paths, overrides)
        return share(config, number, workers), criteria

    def with_number(record: logging.LogRecord) -> bool:
        record.msg = f"worker {number}: {record.msg}"
        record.worker = number
        return True

    log = LogThread()
    log.addFilter(with_number)
    code = 1
    try:
        code = asyncio.run(_work(end, load, log, workers, partial(FrontLink, hop_id=hop_id, lost_ns=lost)))
    finally:
        if not log.end():
            os._exit(code)
    return code


async def _work(
    end: socket.socket, load: Load, log: LogThread, workers: int, make_link: Callable[[Channel], FrontLink]
) -> int:
    channel = await Channel.of(end)
    try:
        config, criteria = load()
        log_to_stderr(config.log, log)
        tune_process(config.memory.limit // workers)
        link = make_link(channel)
        observer = WorkerObserver(link.send_observed)
        link.flush_observations = observer.flush
        service = Service(
            config,
            criteria,
            observing=lambda sink: ObservedSink(sink, observer.add),
            on_notices=observer.notify,
            is_live=True,
            link=link,
        )
        service.on_feedback = observer.hear
        observer.start(service.metrics, service.worker)
        service.metrics.log_dropped.observe = lambda: {(): log.dropped}
        reloader = Reloader(
            service, config, criteria, load=load, adopt_view=lambda new, _criteria: log_to_stderr(new.log, log)
        )
        freeze_loaded_objects()
        return await WorkerService(channel, link, service, reloader, observer.control).run()
    except ToolgaugeError as error:
        channel.send(Kind.FAILED, 0, packed(error))
        await channel.close()
        return 1
