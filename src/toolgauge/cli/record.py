"""`toolgauge record`: writes received requests to a file, and counts its readings; where reading lags behind, it only writes."""

import asyncio
import os
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import click

from toolgauge.cli.logs import LogThread, log_to_stderr
from toolgauge.cli.main import configuration_options
from toolgauge.config.load import listener_endpoints, load
from toolgauge.config.model import Config, Exporters, Log, Receivers
from toolgauge.export.recording_file import RecordingFile, recording_ending
from toolgauge.model.observations import Reading
from toolgauge.model.outcomes import Scorecard
from toolgauge.model.ports import Dialect
from toolgauge.model.records import Record
from toolgauge.net.listen import check_endpoints
from toolgauge.otlp.request import Request
from toolgauge.pipeline.stages import ObservedSink, ignore
from toolgauge.recognize.recognizer import Recognizer
from toolgauge.recordings.producer_counts import CountingRecognizer
from toolgauge.report.streams import echo
from toolgauge.report.terminal import counted, shortened
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.service.pipeline_factory import make_pipeline
from toolgauge.service.process import handle_stop_signals, raise_descriptor_limit
from toolgauge.service.service import Service
from toolgauge.state.settings import StateSettings

_NAME_LENGTH = 80
# Services beyond this many are counted together.
_MAX_SERVICES = 100
_OTHERS = "(other services)"


@dataclass(slots=True)
class ServiceCounts:
    """The readings, trajectories and calls of one service; `dialects` counts spans and log records."""

    dialects: Counter[str] = field(default_factory=Counter[str])
    trajectories: int = 0
    calls: int = 0


class Recognized:
    """Counts what arrives; `on_first` gets a line for each new pair of a service and a dialect."""

    def __init__(self, on_first: Callable[[str], None]) -> None:
        self._on_first = on_first
        self.services: dict[str, ServiceCounts] = {}
        self.arrived = 0
        # Spans and log records.
        self.records = 0

    def recognizer(self, dialects: Sequence[Dialect], metrics: SelfMetrics, wanted: Collection[str] = ()) -> Recognizer:
        """Make a recognizer that counts its readings here."""
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

    def record(self, scorecard: Scorecard) -> None:
        """Count a trajectory that has closed."""
        counts = self._counts(scorecard.trajectory.service)
        counts.trajectories += 1
        counts.calls += len(scorecard.trajectory.calls)

    def counter(self) -> str:
        """Describe the counts in a few words."""
        services = tuple(self.services.values())
        read = sum(counts.dialects.total() for counts in services)
        trajectories, calls = sum(counts.trajectories for counts in services), sum(counts.calls for counts in services)
        return (
            f"{counted(self.arrived, 'request')}, {self.records:,} spans and log records ({read:,} read), "
            f"{_work(trajectories, calls)}"
        )

    def lines(self) -> Iterator[str]:
        """Describe each service, the busiest first."""
        for service, counts in sorted(self.services.items(), key=lambda entry: -entry[1].dialects.total()):
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


_EXIT_CODES = (
    "Exit codes: 0 ended in order; 1 could not start, or could not write everything; 2 misuse or bad configuration."
)


@click.command("record", epilog=_EXIT_CODES)
@click.option("-o", "--output", required=True, metavar="FILE", help="Ends in `.otlp`, `.otlp.gz` or `.otlp.xz`.")
@click.option("--force", is_flag=True, help="Replace FILE where there is one.")
@configuration_options
def command(output: str, config_paths: Sequence[str], overrides: Sequence[str], *, force: bool) -> int:
    """Receive OTLP, write it to a file, and show the services, dialects and tool calls in it.

    It receives as `toolgauge serve` does, by default on localhost:4317 (gRPC) and localhost:4318 (HTTP), and sends
    nothing on. Traces and logs are recorded; metrics are refused (404, `UNIMPLEMENTED`), as by `toolgauge serve`
    without a destination: `OTEL_METRICS_EXPORTER=none` in the agent keeps it from sending them. Of a configuration
    the sections `receivers`, `inbox`, `assemble` and `memory` count. SIGTERM and SIGINT (Ctrl-C) end it; a job in the
    background of a script ignores SIGINT: send SIGTERM. `toolgauge check`, `compare` and `doctor` read
    the file, also while it is written and after a crash; a compressed one lacks its last second then.

    The file holds prompts, arguments and results as they were sent, and only its owner can read it.
    """
    try:
        recording_ending(output)
    except ValueError as error:
        raise click.BadParameter(f"`{output}` {error}", param_hint="`--output`") from error
    config = load([Path(path) for path in config_paths], overrides, os.environ, sends=False)
    log = LogThread()
    log_to_stderr(Log(level="warning"), log)
    raise_descriptor_limit()
    try:
        return asyncio.run(_record(config, RecordingFile(output, replaces=force), log))
    finally:
        log.end()


async def _record(config: Config, recording: RecordingFile, log: LogThread) -> int:
    def show(line: str) -> None:
        log.print_line(lambda: line, err=True)

    # A taken port is named with the `--set` for a free one, as `toolgauge serve` does.
    check_endpoints({key: at for key, at in listener_endpoints(config).items() if key.startswith("receivers.")})
    recognized = Recognized(show)
    # A line that wraps could not be cleared.
    log.counter = lambda: recognized.counter()[: shutil.get_terminal_size().columns - 1]
    # It scores nothing and sends nothing on.
    alone = config.model_copy(
        update={
            "receivers": Receivers(otlp=config.receivers.otlp),
            "exporters": Exporters(prometheus=None),
            "annotate": "off",
            "watch": config.watch.model_copy(update={"enabled": False}),
            "state": StateSettings(),
            "admin": None,
        }
    )
    service = Service(
        alone,
        (),
        observing=lambda _sink: ObservedSink(None, recognized.record),
        recording=recording,
        on_accepted=recognized.accept,
        put_together=partial(make_pipeline, make_recognizer=recognized.recognizer, on_split=ignore),
    )
    stopping = asyncio.Event()

    def stop() -> None:
        if stopping.is_set():
            os._exit(1)
        stopping.set()

    handle_stop_signals(stop)
    await service.start()
    for receiver, name in zip(service.receivers, ("gRPC", "HTTP"), strict=True):
        show(f"receiving OTLP/{name} on port {receiver.port}")
    show(f"recording to `{recording.path}`; Ctrl-C ends it")
    await stopping.wait()
    log.counter = None
    show("stopping")
    await service.stop()
    log.end()
    echo(recognized.counter())
    for line in recognized.lines():
        echo(line)
    lost = recording.losses.total()
    echo(f"{counted(recording.written, 'request')} in `{recording.path}` ({recording.file_bytes} bytes)")
    if lost:
        reasons = sorted({reason for (_, reason), count in recording.losses.items() if count})
        echo(f"{lost} requests are missing from it: {', '.join(reasons)}")
    elif recording.written:
        echo(f"next: toolgauge check {recording.path}")
    return 1 if lost else 0
