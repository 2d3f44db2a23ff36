"""`toolgauge serve`: the processor itself."""

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import click

from toolgauge.cli.live_lines import LINES_PER_SECOND, LiveLines, Printed, terminal_width
from toolgauge.cli.logs import LogThread, log_to_stderr
from toolgauge.cli.main import configuration_options
from toolgauge.cli.output import terminal_style
from toolgauge.config.load import find_sources, listener_endpoints
from toolgauge.config.model import Config
from toolgauge.model.outcomes import Scorecard
from toolgauge.net.listen import check_endpoints
from toolgauge.net.settings import ListenerSettings
from toolgauge.pipeline.stages import ObservedSink
from toolgauge.report.catalogue import Catalogue
from toolgauge.report.streams import is_terminal
from toolgauge.score.criterion import Criterion
from toolgauge.score.unmatched import without_effect
from toolgauge.service.configuration import load_configuration, unusable_files
from toolgauge.service.criteria_factory import evaluator_files
from toolgauge.service.destinations import announced_destinations, destination_names
from toolgauge.service.pipeline_factory import VERSION, redactor
from toolgauge.service.process import Faults, freeze_loaded_objects, handle_stop_signals, tune_process
from toolgauge.service.reload import ConfigWatch, FrontReloader, Load, Reloader
from toolgauge.service.runtime import Losses, Runtime
from toolgauge.service.service import Service
from toolgauge.service.workers.front import Front, number_of_workers
from toolgauge.service.workers.redistribution import take_over_journals
from toolgauge.service.workers.worker_observations import Viewers
from toolgauge.settings import file_path, split_address
from toolgauge.web.trajectory_store import ADMITTED_PER_SECOND
from toolgauge.web.view import WebView

_LOG = logging.getLogger("toolgauge")
_EXIT_CODES = (
    "Exit codes: 0 stopped in order; 1 could not start, or lost data at the end; 2 misuse or bad configuration."
)


@click.command("serve", epilog=_EXIT_CODES)
@configuration_options
@click.option(
    "--print",
    "printed",
    type=click.Choice(("failed", "all", "off")),
    help="Which trajectories are printed, one line each, at most 20 a second and a summary at the end. By default `all` "
    "where standard output is a terminal, and `off` elsewhere.",
)
@click.option(
    "--watch-config",
    "is_watched",
    is_flag=True,
    help="Reload, as on SIGHUP, within 4 s of a change of a file of the configuration: its own, criteria, references, "
    "evaluators, definitions of tools. Links are followed, so that a change of a ConfigMap of Kubernetes is one.",
)
def command(
    config_paths: Sequence[str],
    overrides: Sequence[str],
    printed: Printed | None,
    is_watched: bool,  # noqa: FBT001 (click's signature)
) -> int:
    """Receive OTLP, score tool calls, and send on spans, scores, metrics and events.

    Without `--config` it receives on localhost:4317 (gRPC) and localhost:4318 (HTTP), scores what needs no reference,
    shows the latest runs on http://localhost:8317, serves metrics on localhost:9464/metrics and forwards nothing. SIGTERM
    and SIGINT stop it in order: open trajectories are scored, queued data is sent; a second signal ends it at once. A job in the
    background of a script ignores SIGINT: send SIGTERM. SIGHUP reloads configuration, criteria and references; where they are
    wrong, the running ones stay. Results are printed to standard output, the log to standard error.
    """

    def load() -> tuple[Config, tuple[Criterion, ...]]:
        return load_configuration(config_paths, overrides)

    files = tuple(Path(path) for path in config_paths)
    # Before anything is loaded: what changes from here on is a change.
    watch = ConfigWatch(partial(find_sources, files, overrides, os.environ)) if is_watched else None
    config, criteria = load()
    log = LogThread()
    # Rule: the log begins with the addresses that it listens on; warnings of the start come after them.
    log.hold_warnings()
    log_to_stderr(config.log, log)
    tune_process(config.memory.limit)
    code = 1
    try:
        wanted, lines = printed or ("all" if is_terminal() else "off"), None
        if wanted != "off":
            lines = LiveLines(wanted, redactor(config), log.print_line, terminal_style(), width=terminal_width)
            lines.adopt(redactor(config), _pass_at(criteria))
        options = [*(f"--config={path}" for path in config_paths), *(f"--set={override}" for override in overrides)]
        code = asyncio.run(_serve(config, criteria, load, files, watch, log, lines, options))
    finally:
        if not log.end():
            # Python would wait for the thread that writes the log, and nobody reads it.
            os._exit(code)
    return code


def _pass_at(criteria: Sequence[Criterion]) -> dict[str, float]:
    return {criterion.revision: criterion.pass_at for criterion in criteria}


async def _serve(
    config: Config,
    criteria: Sequence[Criterion],
    load: Load,
    files: Sequence[Path],
    watch: ConfigWatch | None,
    log: LogThread,
    lines: LiveLines | None,
    config_options: Sequence[str],
) -> int:
    for unusable in unusable_files(config):
        raise unusable
    check_endpoints(listener_endpoints(config))
    view = _web_view(config, criteria, lines)
    adopt = partial(_adopt, log, lines, view)
    shows = [each.show for each in (lines, view) if each is not None]
    service: Runtime
    if number_of_workers(config) == 1:
        take_over_journals(config.state)
        service = alone = Service(
            config, criteria, observing=(lambda sink: ObservedSink(sink, *shows)) if shows else None, is_live=True
        )
        reloader = Reloader(alone, config, criteria, load=load, adopt_view=adopt, files=files)
        keeps, is_leaf = alone.journal is not None, not alone.outbox.destinations
    else:
        keeps, is_leaf = False, not destination_names(config)
        service = front = Front(config, criteria, config_options, viewers=_viewers(config, lines, shows))
        reloader = FrontReloader(front, config, criteria, load=load, adopt_view=adopt, files=files)
    service.give_back = () if view is None else (view.shed,)
    service.metrics.log_dropped.observe = lambda: {(): log.dropped}
    stopping = asyncio.Event()

    def stop() -> None:
        if stopping.is_set():
            _end_at_once(service, log, keeps=keeps)
        stopping.set()
        service.hurry()

    handle_stop_signals(stop)
    await _start(service, view, reloader.ask)
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reloader.ask)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGHUP,))
    _announce(service, config, criteria, view)
    log.write_held()
    watching = None
    if watch is not None:
        _LOG.info("the configuration is reloaded when one of its files changes")
        watching = asyncio.create_task(watch.run(reloader.ask, Faults(service.metrics)))
    ticking = None if lines is None else asyncio.create_task(_tick(lines, service, config))
    await stopping.wait()
    _LOG.info("%s", _stopping_line(service, keeps=keeps, is_leaf=is_leaf))
    service.health.enter("stopping")
    if watching is not None:
        watching.cancel()
    await reloader.stop()
    _log_end(lost := await _stop(service, view), is_leaf=is_leaf)
    if lines is not None and ticking is not None:
        ticking.cancel()
        lines.summary()
    return int(bool(lost))


def _stopping_line(service: Runtime, *, keeps: bool, is_leaf: bool) -> str:
    if isinstance(service, Front):
        return f"stopping {len(service.workers.processes)} workers"
    left = "keeping open trajectories in the journal" if keeps else "scoring open trajectories"
    return f"stopping: {left}" + ("" if is_leaf else " and sending queued requests")


def _log_end(lost: Losses, *, is_leaf: bool) -> None:
    counts = {"spans": lost.spans, "trajectories_dropped": lost.dropped, "trajectories_incomplete": lost.incomplete}
    if lost:
        _LOG.error("stopped; lost: %s", lost, extra=counts)
        return
    other = " else" if lost.earlier else ""
    what = f"nothing{other} was lost" if lost.kept or is_leaf else f"everything{other} was delivered"
    _LOG.info("stopped; %s%s", what, f"; {lost}" if str(lost) else "", extra=counts)


def _web_view(config: Config, criteria: Sequence[Criterion], lines: LiveLines | None) -> WebView | None:
    if config.web is None:
        return None
    catalogue = Catalogue(config.metrics, config.costs)
    view = WebView(config.web, redactor(config), config.trace_url, _pass_at(criteria), catalogue)
    if lines is not None:
        lines.page_url = view.page_url
    return view


def _viewers(config: Config, lines: LiveLines | None, shows: Sequence[Callable[[Scorecard], None]]) -> Viewers:
    """Have workers hand over as many scorecards as pages keep and lines show."""
    at_once, workers = 0 if lines is None else LINES_PER_SECOND, number_of_workers(config)
    return Viewers(
        shows,
        shown=at_once if config.web is None else max(at_once, config.web.max_trajectories // workers),
        shown_per_second=max(1, ADMITTED_PER_SECOND // workers),
        count=None if lines is None else lines.count,
    )


def _adopt(
    log: LogThread, lines: LiveLines | None, view: WebView | None, new: Config, criteria: Sequence[Criterion]
) -> None:
    """Log and show by another configuration."""
    log_to_stderr(new.log, log)
    if lines is not None:
        lines.adopt(redactor(new), _pass_at(criteria))
    if view is not None:
        view.adopt(redactor(new), new.trace_url, _pass_at(criteria), new.costs)


def _end_at_once(service: Runtime, log: LogThread, *, keeps: bool) -> None:
    journal = " unless they are in the journal" if keeps else ""
    _LOG.warning("second signal: stopping at once, unsent spans and scores are lost%s", journal)
    service.kill()
    log.end()
    os._exit(1)


async def _start(service: Runtime, view: WebView | None, reload: Callable[[], None]) -> None:
    freeze_loaded_objects()
    if view is not None:
        await view.start(service, reload)
    try:
        await service.start()
    except BaseException:
        if view is not None:
            await view.stop()
        raise


async def _stop(service: Runtime, view: WebView | None) -> Losses:
    lost = await service.stop()
    if view is not None:
        await view.stop()
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGHUP,))
    return lost


async def _tick(lines: LiveLines, service: Runtime, config: Config) -> None:
    is_waiting = True
    while True:
        await asyncio.sleep(1)
        if is_waiting and service.trajectories_open:
            is_waiting = False
            lines.announce_first(service.clock(), config.assemble)
        lines.tick()


def _announce(service: Runtime, config: Config, criteria: Sequence[Criterion], view: WebView | None) -> None:
    protocols = config.receivers.otlp.protocols
    listeners = (("gRPC", protocols.grpc), ("HTTP", protocols.http))
    for receiver, (name, settings) in zip(service.receivers, listeners, strict=True):
        extra = {"transport": name.lower(), "port": receiver.port}
        _LOG.info("receiving OTLP/%s on port %d (%s)", name, receiver.port, _url(settings, receiver.port), extra=extra)
    if service.endpoint is not None and config.exporters.prometheus is not None:
        port, url = service.endpoint.port, _url(config.exporters.prometheus, service.endpoint.port)
        _LOG.info("metrics on port %d (%s/metrics)", port, url, extra={"port": port})
    if service.admin is not None and config.admin is not None:
        port = service.admin.port
        text = "health on port %d (%s), and for administration /status, /streams, /comparison and /ack"
        _LOG.info(text, port, _url(config.admin, port), extra={"port": port})
    if view is not None:
        _LOG.info("web view on %s", view.url, extra={"port": view.port})
    _LOG.info("toolgauge %s scores %d criteria: %s", VERSION, len(criteria), ", ".join(c.name for c in criteria))
    for file in evaluator_files(criteria):
        _LOG.info("running the evaluators in %s", file, extra={"file": file})
    for text in without_effect(criteria):
        _LOG.warning("%s", text)
    if config.state.directory is not None:
        directory = file_path(config.state.directory).absolute()
        _LOG.info("requests are acknowledged when they are in the journal in %s", directory)
    destinations = announced_destinations(config)
    if destinations:
        _LOG.info("exporting to %s", ", ".join(destinations), extra={"endpoints": destinations})
    else:
        _LOG.info("nothing is exported: `exporters` has no `otlp`, `kafka`, `file` or exporter of a plug-in")


def _url(settings: ListenerSettings, port: int) -> str:
    host, _ = split_address(settings.endpoint)
    scheme = "http" if settings.tls is None else "https"
    # Without a host, it listens on all addresses.
    return f"{scheme}://[{host or '::'}]:{port}" if ":" in (host or "::") else f"{scheme}://{host}:{port}"
