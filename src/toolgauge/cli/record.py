"""`toolgauge record`: writes received requests to a file."""

import asyncio
import contextlib
import logging
import os
import queue
import shutil
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from toolgauge.cli.logs import log_to_stderr
from toolgauge.cli.main import configuration_options
from toolgauge.config.load import listener_endpoints, load
from toolgauge.config.model import Config, Log
from toolgauge.export.recording_file import RecordingFile, recording_ending
from toolgauge.net.listen import check_endpoints
from toolgauge.recordings.recorder import make_recorder
from toolgauge.report.streams import echo, has_bar, redraw
from toolgauge.report.terminal import counted
from toolgauge.service.process import handle_stop_signals, raise_descriptor_limit

_EVERY_S = 0.5
_SCREEN_GRACE_S = 1.0


class _Screen:
    """Lines on stderr, and below them a counter where that is a terminal; written by a thread, so that nothing waits for it."""

    def __init__(self) -> None:
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._has_counter = has_bar()
        self._thread = threading.Thread(target=self._run, name="toolgauge-screen", daemon=True)
        self.counter: Callable[[], str] = lambda: ""

    def start(self) -> None:
        self._thread.start()

    def line(self, text: str) -> None:
        self._lines.put(text)

    def end(self) -> None:
        self._lines.put(None)
        self._thread.join(_SCREEN_GRACE_S)

    def _run(self) -> None:
        text: str | None = ""
        # The recording continues when nobody reads the lines.
        with contextlib.suppress(OSError):
            while text is not None:
                try:
                    text = self._lines.get(timeout=_EVERY_S if self._has_counter else None)
                    redraw("")
                    if text is not None:
                        echo(text, err=True)
                except queue.Empty:
                    # A line that wraps could not be cleared.
                    redraw(self.counter()[: shutil.get_terminal_size().columns - 1])


class _LogLines(logging.Handler):
    """Shows lines of our log among the others."""

    def __init__(self, screen: _Screen) -> None:
        super().__init__()
        self._screen = screen

    def emit(self, record: logging.LogRecord) -> None:
        self._screen.line(self.format(record))


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
    background of a script ignores SIGINT: send SIGTERM. `toolgauge inspect`, `replay`, `compare` and `doctor` read
    the file, also while it is written and after a crash; a compressed one lacks its last second then.

    The file holds prompts, arguments and results as they were sent, and only its owner can read it.
    """
    try:
        recording_ending(output)
    except ValueError as error:
        raise click.BadParameter(f"`{output}` {error}", param_hint="`--output`") from error
    config = load([Path(path) for path in config_paths], overrides, os.environ, sends=False)
    screen = _Screen()
    log_to_stderr(Log(level="warning"), _LogLines(screen))
    raise_descriptor_limit()
    return asyncio.run(_record(config, RecordingFile(output, replaces=force), screen))


async def _record(config: Config, recording: RecordingFile, screen: _Screen) -> int:
    # A taken port is named with the `--set` for a free one, as `toolgauge serve` does.
    check_endpoints({key: at for key, at in listener_endpoints(config).items() if key.startswith("receivers.")})
    service, recognized = make_recorder(config, recording, screen.line)
    screen.counter = recognized.counter
    stopping = asyncio.Event()

    def stop() -> None:
        if stopping.is_set():
            os._exit(1)
        stopping.set()

    handle_stop_signals(stop)
    await service.start()
    for receiver, name in zip(service.receivers, ("gRPC", "HTTP"), strict=True):
        screen.line(f"receiving OTLP/{name} on port {receiver.port}")
    screen.line(f"recording to `{recording.path}`; Ctrl-C ends it")
    screen.start()
    await stopping.wait()
    screen.line("stopping")
    await service.stop()
    screen.end()
    echo(recognized.counter())
    for line in recognized.lines():
        echo(line)
    lost = recording.losses.total()
    echo(f"{counted(recording.written, 'request')} in `{recording.path}` ({recording.file_bytes} bytes)")
    if lost:
        reasons = sorted({reason for (_, reason), count in recording.losses.items() if count})
        echo(f"{lost} requests are missing from it: {', '.join(reasons)}")
    elif recording.written:
        echo(f"next: toolgauge inspect {recording.path}")
    return 1 if lost else 0
