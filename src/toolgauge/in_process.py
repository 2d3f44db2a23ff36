"""toolgauge inside an application: a span exporter around the application's own.

Spans go to the wrapped exporter at once and unchanged, and its result is returned; then they wait in a bounded queue
for one daemon thread, which starts with the first span. Failures and delays stay in that thread.
"""

import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from opentelemetry._logs import Logger, LoggerProvider, get_logger_provider
from opentelemetry.context import (
    _SUPPRESS_INSTRUMENTATION_KEY,  # pyright: ignore[reportPrivateUsage] - what the SDK's own processors use
    attach,
    detach,
    set_value,
)
from opentelemetry.metrics import MeterProvider, get_meter_provider
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from toolgauge.config.load import EXPORTER_VARIABLES
from toolgauge.export.sdk import SdkMetrics
from toolgauge.model.errors import ConfigError
from toolgauge.model.judging import JudgeEvaluator
from toolgauge.model.outcomes import Scorecard
from toolgauge.service.criteria_factory import evaluator_files, load_for_replay
from toolgauge.service.in_process_factory import InProcess, Ways
from toolgauge.service.pipeline_factory import VERSION

_LOG = logging.getLogger("toolgauge")
_MAX_WAITING = 8192
_BATCH = 512
_TIMEOUT_MILLIS = 30_000
_FORK_WAIT_S = 1.0
_NAME = "toolgauge"

Paths: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


class ToolgaugeSpanExporter(SpanExporter):
    """Passes spans to `exporter`, if there is one, and scores the tool calls in them.

    `criteria` and `config` are files as for `toolgauge serve`, `overrides` what `--set` takes; receivers, `hold` and
    the metrics endpoint do not exist here. Scores leave as

    - scorecard spans through `exporter`, else to `exporters.otlp`;
    - events through `logger_provider`, else the application's global one, else to `exporters.otlp`;
    - metrics through `meter_provider`, else the application's global one, else to `exporters.otlp`;
    - scorecards to `on_scorecard`, which is called in toolgauge's thread.

    A forked child starts afresh with its own spans; a gRPC destination that was in use before the fork is lost to it.
    Around an exporter, `exporters.otlp` counts only where the configuration names an endpoint; without one, the
    variables `OTEL_EXPORTER_OTLP_*` fill it in. Raises `ConfigError` when criteria or configuration are wrong.
    """

    def __init__(
        self,
        exporter: SpanExporter | None = None,
        *,
        criteria: Paths = (),
        config: Paths = (),
        overrides: Sequence[str] = (),
        on_scorecard: Callable[[Scorecard], None] | None = None,
        logger_provider: LoggerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        self._exporter = exporter
        theirs = () if exporter is None else EXPORTER_VARIABLES
        environment = {key: value for key, value in os.environ.items() if key not in theirs}
        loaded, self._criteria = load_for_replay(_paths(config), overrides, _paths(criteria), environment, sends=True)
        # In process no span is held, and no event loop could ask judges.
        asking = next((one.name for one in self._criteria if isinstance(one.evaluator, JudgeEvaluator)), None)
        if asking is not None:
            raise ConfigError(
                f"criterion `{asking}` asks a judge model, which is not possible in process",
                hint="run `toolgauge serve` for criteria that ask a judge",
            )
        if loaded.annotate == "hold":
            raise ConfigError(
                "`annotate: hold` is not possible in process, where spans go on at once",
                hint="use `scorecard`, or run `toolgauge serve`",
            )
        if any(exporter.keep is not None for exporter in loaded.exporters.otlp):
            raise ConfigError(
                "`exporters.otlp.keep` is not possible in process, where spans go on at once",
                hint="leave `keep` out, or run `toolgauge serve`",
            )
        self._config = loaded.model_copy(update={"annotate": "off" if loaded.annotate == "off" else "scorecard"})
        for file in evaluator_files(self._criteria):
            _LOG.info("running the evaluators in %s", file)
        self._logger_provider = logger_provider
        self._meter_provider = meter_provider
        self._ways = Ways(
            export=None if exporter is None else self._export_own,
            logger=self._logger,
            pushes_metrics=lambda: _does_nothing(meter_provider or get_meter_provider()),
            destinations=loaded.exporters.otlp,
            on_scorecard=on_scorecard,
        )
        self._instruments = SdkMetrics((meter_provider or get_meter_provider()).get_meter(_NAME, VERSION))
        self._is_shut_down = False
        # Kept and never closed: they share descriptors with the parent's.
        self._of_parents: list[InProcess] = []
        self._lost_its_way = False
        self._is_paused = False
        self._begin()
        # Made at once, so that a plug-in that cannot be loaded is an error here.
        self._scoring: InProcess | None = self._make()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=_weakly(self._pause),
                after_in_parent=_weakly(self._resume),
                after_in_child=_weakly(self._begin_again),
            )

    def _make(self) -> InProcess:
        return InProcess(self._config, self._criteria, self._ways, self._instruments)

    def _pause(self) -> None:
        """Keep our thread from working while the process forks: a library's lock that it held would be held for ever."""
        self._is_paused = self._thread is not threading.current_thread() and self._working.acquire(timeout=_FORK_WAIT_S)

    def _resume(self) -> None:
        if self._is_paused:
            self._working.release()

    def _begin_again(self) -> None:
        """In a forked child the thread is gone, locks may stay held for ever, and open trajectories are the parent's."""
        if self._scoring is not None:
            self._of_parents.append(self._scoring)
            push = self._scoring.push
            if push is not None and not push.survives_fork:
                self._ways = replace(self._ways, destinations=())
                self._lost_its_way = True
        self._scoring = None
        self._begin()

    def _begin(self) -> None:
        self._exporting = threading.Lock()
        self._working = threading.Lock()
        self._changed = threading.Condition()
        self._waiting: list[ReadableSpan] = []
        self._unread = 0
        self._flushes: list[_Flush] = []
        self._thread: threading.Thread | None = None

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Pass the spans on and return the result of the wrapped exporter, or let its exception through."""
        try:
            if self._exporter is None:
                return SpanExportResult.SUCCESS
            with self._exporting:
                return self._exporter.export(spans)
        finally:
            try:
                self._take(spans)
            except Exception as error:  # noqa: BLE001 - a fault of ours never costs the application a span
                _LOG.error("could not score exported spans: %s", type(error).__name__)

    def force_flush(self, timeout_millis: int = _TIMEOUT_MILLIS) -> bool:
        """Close, score and send all open traces, and flush the exporter; False when time was too short. Later spans go unscored."""
        until_s = time.monotonic() + timeout_millis / 1000
        done = self._finish(until_s, ends=False)
        if self._exporter is None:
            return done
        # The SDK's own base class returns nothing, and so do exporters that leave it at that: they keep nothing back.
        return self._exporter.force_flush(max(0, int((until_s - time.monotonic()) * 1000))) is not False and done

    def shutdown(self, timeout_millis: float = _TIMEOUT_MILLIS) -> None:
        """Do as `force_flush` does, end the thread and shut the wrapped exporter down. May be called twice."""
        with self._changed:
            if self._is_shut_down:
                return
            self._is_shut_down = True
        if not self._finish(time.monotonic() + timeout_millis / 1000, ends=True):
            _LOG.warning("not everything could be scored and sent within %d ms", timeout_millis)
        if self._exporter is not None:
            self._exporter.shutdown()

    def _take(self, spans: Sequence[ReadableSpan]) -> None:
        with self._changed:
            if self._is_shut_down:
                return
            room = _MAX_WAITING - len(self._waiting)
            self._waiting.extend(spans[:room])
            self._unread += max(0, len(spans) - room)
            self._start()
            self._changed.notify()

    def _start(self) -> None:
        if self._thread is not None:
            return
        thread = threading.Thread(target=self._run, name=_NAME, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # No thread can start now, or never again: some Pythons start none at their own end. Spans wait for the next
            # call; `force_flush` and `shutdown` do the work themselves.
            return
        self._thread = thread

    def _finish(self, until_s: float, *, ends: bool) -> bool:
        flush = _Flush(until_s, ends=ends)
        with self._changed:
            thread = self._thread
            if self._is_shut_down and not ends:
                return True
            if thread is not None:
                if thread is threading.current_thread() or not thread.is_alive():
                    return False
                self._flushes.append(flush)
                self._changed.notify()
        if thread is None:
            return self._finish_here(flush)
        flush.is_over.wait(max(0.0, until_s - time.monotonic()))
        if ends:
            thread.join(max(0.0, until_s - time.monotonic()))
        return flush.is_done

    def _finish_here(self, flush: "_Flush") -> bool:
        with self._changed:
            spans, self._waiting = self._waiting, []
        if not spans:
            return True
        token = attach(set_value(_SUPPRESS_INSTRUMENTATION_KEY, value=True))
        try:
            with self._working:
                scoring = self._scoring = self._scoring or self._make()
                if scoring.push is not None and scoring.push.is_grpc:
                    _LOG.warning("cannot start a thread to export over gRPC: nothing is sent; use `protocol: http`")
                    scoring.close()
                scoring.take(spans)
                self._flushed(flush, scoring)
        finally:
            detach(token)
        return flush.is_done

    def _run(self) -> None:
        attach(set_value(_SUPPRESS_INSTRUMENTATION_KEY, value=True))
        with self._working:
            scoring = self._scoring = self._scoring or self._make()
        if self._lost_its_way:
            _LOG.warning("gRPC does not survive a fork: nothing of this process goes to `exporters.otlp`; use HTTP")
        rest_s: float | None = 0.0
        while True:
            spans, flush = self._next(rest_s, scoring)
            with self._working:
                for start in range(0, len(spans), _BATCH):
                    scoring.take(spans[start : start + _BATCH])
                rest_s = scoring.work() if flush is None else self._flushed(flush, scoring)
            if flush is not None and flush.ends:
                return

    def _flushed(self, flush: "_Flush", scoring: InProcess) -> float:
        try:
            flush.is_done = scoring.close_open(lambda: time.monotonic() < flush.until_s)
            if flush.ends:
                scoring.close()
        finally:
            flush.is_over.set()
        return 0.0

    def _next(self, rest_s: float | None, scoring: InProcess) -> tuple[list[ReadableSpan], "_Flush | None"]:
        with self._changed:
            if not self._waiting and not self._flushes and rest_s != 0:
                self._changed.wait(rest_s)
            spans, self._waiting = self._waiting, []
            unread, self._unread = self._unread, 0
            flush = self._flushes.pop(0) if self._flushes else None
        if unread:
            scoring.metrics.spans_unread.add(unread)
        return spans, flush

    def _export_own(self, spans: Sequence[ReadableSpan]) -> bool:
        exporter = self._exporter
        if exporter is None:
            return False
        # A fork need not wait for this.
        self._working.release()
        try:
            # An exporter is not called twice at a time: the interface says so.
            with self._exporting:
                return exporter.export(spans) is SpanExportResult.SUCCESS
        finally:
            self._working.acquire()

    def _logger(self) -> Logger | None:
        provider = self._logger_provider or get_logger_provider()
        return None if _does_nothing(provider) else provider.get_logger(_NAME, VERSION)


def _weakly(method: Callable[[], None]) -> Callable[[], None]:
    """Call the method while its object lives: hooks for forks stay registered for ever."""
    weak = weakref.WeakMethod(method)

    def call() -> None:
        alive = weak()
        if alive is not None:
            alive()

    return call


class _Flush:
    def __init__(self, until_s: float, *, ends: bool) -> None:
        self.until_s = until_s
        self.ends = ends
        self.is_over = threading.Event()
        self.is_done = False


def _paths(paths: Paths) -> tuple[str, ...]:
    given = (paths,) if isinstance(paths, str | os.PathLike) else paths
    return tuple(str(Path(path)) for path in given)


def _does_nothing(provider: LoggerProvider | MeterProvider) -> bool:
    return type(provider).__module__.startswith(("opentelemetry._logs", "opentelemetry.metrics"))
