"""Another configuration for the front and all of its workers: all take it, or none.

Each loads it beside what runs, and it is put in place where all could load it. What one worker cannot have then (a certificate) stays
as it was in that worker, and is logged.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from toolgauge.config.load import empty_files
from toolgauge.config.model import Config
from toolgauge.model.errors import ConfigError, StartError, ToolgaugeError
from toolgauge.score.criterion import Criterion
from toolgauge.score.scorer import reading_scope
from toolgauge.service.pipeline_factory import emit_settings, redactor, watched_streams
from toolgauge.service.process import beside
from toolgauge.service.reload import (
    Load,
    Outcome,
    ReloadLoop,
    changed_criteria,
    changed_keys,
    log_missing,
    log_refused,
    log_reloaded,
    missing,
)
from toolgauge.service.serve import exchanged, make_receivers
from toolgauge.service.workers.channel import Kind
from toolgauge.service.workers.front import Front
from toolgauge.service.workers.front_factory import conversation_keys
from toolgauge.service.workers.messages import Adopted


class FrontReloader(ReloadLoop):
    """Reloads a front; the parameters are those of `Reloader`."""

    def __init__(
        self,
        front: Front,
        config: Config,
        criteria: Sequence[Criterion],
        *,
        load: Load,
        adopt_view: Callable[[Config, Sequence[Criterion]], None],
        files: Sequence[Path] = (),
    ) -> None:
        super().__init__(front.metrics)
        self._front = front
        self._at_start = self._config = config
        self._criteria = tuple(criteria)
        self._load = load
        self._adopt_view = adopt_view
        self._files = tuple(files)
        self._empty = frozenset(empty_files(self._files))
        self._is_loading = False

    @property
    def may_be_cancelled(self) -> bool:
        """Whether it is still being loaded."""
        return self._is_loading

    async def reload(self) -> Outcome:
        """Load the configuration here and in all workers, and put it in place."""
        self._is_loading = True
        try:
            config, criteria = await beside(self._load, "reload")
            empty = frozenset(empty_files(self._files))
            gone = tuple(missing(self._config, self._criteria, config, criteria, emptied=empty - self._empty))
            if gone:
                log_missing(gone)
                return "refused"
            await self._prepare_workers()
        except ToolgaugeError as error:
            log_refused(error)
            return "refused"
        finally:
            self._is_loading = False
        self._empty = empty
        return "partly" if await self._apply(config, criteria) else "applied"

    async def _prepare_workers(self) -> None:
        processes = self._front.workers.processes
        answers = await asyncio.gather(*(process.ask(Kind.PREPARE) for process in processes))
        for process, answer in zip(processes, answers, strict=True):
            if answer:
                raise ConfigError(f"worker {process.number}: {answer.decode()}")

    async def _apply(self, config: Config, criteria: Sequence[Criterion]) -> dict[str, str]:
        front, kept = self._front, dict[str, str]()
        changes = (*changed_keys(self._config, config), *changed_criteria(self._criteria, criteria))
        receivers = await self._exchange_receivers(config, kept)
        answers = await asyncio.gather(*(process.ask(Kind.ADOPT) for process in front.workers.processes))
        for answer in answers:
            if answer is not None:
                kept.update(msgspec.msgpack.decode(answer, type=Adopted).kept)
        front.push_interval_s = config.metrics.interval / 1e9
        front.intake.divider.adopt(conversation_keys(criteria))
        front.reading_scope = reading_scope(criteria)
        streams = watched_streams(criteria)

        def adopt() -> None:
            front.emitter.adopt(emit_settings(config), redactor(config))
            front.observing.keep(streams)

        await front.run(adopt)
        self._adopt_view(config, criteria)
        self._criteria = tuple(criteria)
        self._config = config.model_copy(update={"receivers": receivers})
        log_reloaded(changes, kept, changed_keys(self._at_start, config))
        return kept

    async def _exchange_receivers(self, config: Config, kept: dict[str, str]) -> object:
        """Return the section that is in use from here on."""
        front, old, new = self._front, self._config.receivers, config.receivers
        if new.otlp == old.otlp:
            return new
        try:
            made = make_receivers(
                config, front.intake, metrics=front.metrics, hop_id=front.hop_id, has_memory=front.memory.admits
            )
            wanted = new.otlp.protocols
            same = (old.otlp.protocols.grpc == wanted.grpc, old.otlp.protocols.http == wanted.http)
            endpoints = (wanted.grpc.endpoint, wanted.http.endpoint)
            front.receivers = await exchanged(front.receivers, made, endpoints=endpoints, same=same)
        except (ConfigError, StartError) as error:
            kept["receivers"] = error.message
            return old
        return new
