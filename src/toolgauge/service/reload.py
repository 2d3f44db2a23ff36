"""Another configuration for a service that runs on: loaded beside it, and put in place only when it is sound.

Loading happens in a thread, because reference files may be large and senders must not wait. What cannot be had (a
port, a certificate) leaves the part that runs in place; what can only be had at a start is named. Open trajectories,
held spans, queues, metrics and questions to judges are not touched.
"""

import asyncio
import gc
import logging
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from toolgauge.config.load import empty_files
from toolgauge.config.model import Config
from toolgauge.config.nodes import Node, plain, spelled
from toolgauge.judge.client import Client
from toolgauge.model.errors import ConfigError, StartError, ToolgaugeError
from toolgauge.pipeline.stages import Rules
from toolgauge.score.criterion import Criterion, Lookup
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.service.destinations import renewed_destinations
from toolgauge.service.judge_pool import asks_judge, make_judges, open_client
from toolgauge.service.messages import check_messages
from toolgauge.service.own_evaluators import evaluator_files
from toolgauge.service.pipeline_factory import VERSION, emit_settings, make_rules, redactor
from toolgauge.service.process import Faults, beside
from toolgauge.service.serve import exchanged, make_receivers
from toolgauge.service.service import Service
from toolgauge.settings import Section

_LOG = logging.getLogger("toolgauge")
# While a thread loads, the event loop gets its turn this often.
_TURN_S = 0.001
_FREED_AT_ONCE = 1000
_FREE_PAUSE_S = 0.005
Load: TypeAlias = Callable[[], tuple[Config, tuple[Criterion, ...]]]
Outcome: TypeAlias = Literal["applied", "partly", "refused"]


@dataclass(frozen=True, slots=True)
class Loaded:
    """What was made beside the running service. `client` is `None` unless other judges are to be asked.

    `empty` are the configuration files that hold nothing.
    """

    config: Config
    criteria: tuple[Criterion, ...]
    rules: Rules
    client: Client | None
    changed_tools: tuple[str, ...]
    empty: frozenset[Path]


class ReloadLoop(ABC):
    """Reloads one time after the other when it is asked to."""

    def __init__(self, metrics: SelfMetrics) -> None:
        self._metrics = metrics
        self._faults = Faults(metrics)
        self._task: asyncio.Task[None] | None = None
        self._is_asked = False
        self._is_stopped = False

    def ask(self) -> None:
        """Reload soon; requests during a reload are answered by one more, after it."""
        if self._is_stopped:
            _LOG.info("stopping: the configuration is not reloaded")
            return
        self._is_asked = True
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Reload no more; a configuration that is being put in place is finished. Works twice."""
        self._is_stopped = True
        if self._task is None:
            return
        if self.may_be_cancelled:
            self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    @property
    @abstractmethod
    def may_be_cancelled(self) -> bool:
        """Whether nothing has been put in place yet."""

    @abstractmethod
    async def reload(self) -> Outcome:
        """Load the configuration and put it in place."""

    async def _run(self) -> None:
        while self._is_asked and not self._is_stopped:
            self._is_asked = False
            outcome: Outcome = "refused"
            with self._faults.survived():
                outcome = await self.reload()
            self._metrics.reloads.add(1, (outcome,))


class Reloader(ReloadLoop):
    """Reloads a service when asked to; `load` reads what it read at the start, `adopt_view` takes what logs and pages show.

    `files` are the configuration files. One that was emptied, or lost its last destination or all of its criteria, is
    taken for one that is still being written, and changes nothing.
    """

    def __init__(
        self,
        service: Service,
        config: Config,
        criteria: Sequence[Criterion],
        *,
        load: Load,
        adopt_view: Callable[[Config, Sequence[Criterion]], None],
        files: Sequence[Path] = (),
    ) -> None:
        super().__init__(service.metrics)
        self._service = service
        self._files = tuple(files)
        self._empty = frozenset(empty_files(self._files))
        self._at_start = config
        # What runs, which is not what was asked for where something could not be had.
        self._config = config
        self._criteria = tuple(criteria)
        self._load = load
        self._adopt_view = adopt_view
        self._freeing: asyncio.Task[None] | None = None
        self._is_loading = False

    @property
    def may_be_cancelled(self) -> bool:
        """Whether it is still being loaded."""
        return self._is_loading

    async def stop(self) -> None:
        """Reload no more; a configuration that is being put in place is finished. Works twice."""
        if self._freeing is not None:
            self._freeing.cancel()
        await super().stop()

    async def reload(self) -> Outcome:
        """Load the configuration and put it in place."""
        try:
            loaded = await self.load()
        except ToolgaugeError as error:
            log_refused(error)
            return "refused"
        gone = tuple(
            missing(self._config, self._criteria, loaded.config, loaded.criteria, emptied=loaded.empty - self._empty)
        )
        if gone:
            log_missing(gone)
            return "refused"
        kept = await self.apply(loaded)
        return "partly" if kept else "applied"

    async def load(self) -> Loaded:
        """Load the configuration beside the running one. Raises `ToolgaugeError`."""
        turn_s = sys.getswitchinterval()
        self._is_loading = True
        sys.setswitchinterval(_TURN_S)
        # Collecting garbage stops all threads for as long as it takes to walk over every reference there is.
        gc.disable()
        try:
            return await beside(self._prepare, "reload")
        finally:
            gc.freeze()
            gc.enable()
            sys.setswitchinterval(turn_s)
            self._is_loading = False

    def _prepare(self) -> Loaded:
        """Make what can be made beside the running service. Raises `ConfigError`."""
        config, criteria = self._load()
        check_messages(self._at_start, criteria)
        service = self._service
        rules = make_rules(
            config,
            criteria,
            service.metrics,
            running=self._config,
            read=service.pipeline.scorer.wanted,
            labels=self._at_start.metrics.resource_attributes,
            deadline=lambda _criterion: service.evaluation_limit,
        )
        wanted = config.judge if asks_judge(criteria) else None
        changed = (config.judge, config.redact) != (self._config.judge, self._config.redact)
        opens = wanted is not None and (changed or not service.judges.has_judges)
        has_other_tools = rules.scorer.registered_tools != service.pipeline.scorer.registered_tools
        return Loaded(
            config,
            criteria,
            rules,
            open_client(wanted) if wanted is not None and opens else None,
            ("registered tools have changed",) if has_other_tools else (),
            frozenset(empty_files(self._files)),
        )

    async def apply(self, loaded: Loaded) -> dict[str, str]:
        """Put it in place; return the sections that stay as they were, with the reasons."""
        config, before = loaded.config, self._config
        kept: dict[str, str] = {}
        changes = (
            *changed_keys(before, config),
            *loaded.changed_tools,
            *changed_criteria(self._criteria, loaded.criteria),
        )
        receivers = await self._exchange_receivers(config, kept)
        exporters = await self._exchange_destinations(config, kept)
        await self._exchange_judges(loaded)
        await self._service.adopt(loaded.rules, emit_settings(config), redactor(config), config.metrics.interval / 1e9)
        # Trajectories that are being scored, and judges, may still speak of the criteria that went.
        self._service.emitter.keep({(each.name, each.revision) for each in (*self._criteria, *loaded.criteria)})
        self._adopt_view(config, loaded.criteria)
        gone, self._criteria = self._criteria, loaded.criteria
        self._freeing = asyncio.create_task(_free(gone))
        del gone
        self._empty = loaded.empty
        self._config = config.model_copy(update={"receivers": receivers, "exporters": exporters})
        self.log(changes, kept, changed_keys(self._at_start, config))
        for file in evaluator_files(loaded.criteria):
            _LOG.info("running the evaluators in %s as it is now", file, extra={"file": file})
        return kept

    async def _exchange_receivers(self, config: Config, kept: dict[str, str]) -> object:
        """Return the section that is in use from here on."""
        service, old, new = self._service, self._config.receivers, config.receivers
        if new.otlp == old.otlp:
            return new
        try:
            made = make_receivers(
                config,
                service.intake,
                metrics=service.metrics,
                hop_id=service.hop_id,
                has_memory=service.memory.admits,
            )
            wanted = new.otlp.protocols
            same = (old.otlp.protocols.grpc == wanted.grpc, old.otlp.protocols.http == wanted.http)
            endpoints = (wanted.grpc.endpoint, wanted.http.endpoint)
            service.receivers = await exchanged(service.receivers, made, endpoints=endpoints, same=same)
        except (ConfigError, StartError) as error:
            kept["receivers"] = error.message
            return old
        return new

    async def _exchange_destinations(self, config: Config, kept: dict[str, str]) -> object:
        service, old, new = self._service, self._config.exporters, config.exporters
        if new.otlp == old.otlp:
            return new
        try:
            destinations = renewed_destinations(
                config,
                service.metrics,
                service.outbox.destinations,
                hop_id=service.hop_id,
                user_agent=f"toolgauge/{VERSION}",
                ledger=service.ledger,
            )
            await service.outbox.replace(destinations)
        except (ConfigError, StartError) as error:
            kept["exporters.otlp"] = error.message
            return new.model_copy(update={"otlp": old.otlp})
        return new

    async def _exchange_judges(self, loaded: Loaded) -> None:
        service, config = self._service, loaded.config
        if loaded.client is not None and config.judge is not None:
            judges = make_judges(config.judge, loaded.client, service.metrics.judge, redactor(config).content)
            await service.judges.replace(judges)
        elif service.judges.has_judges and not asks_judge(loaded.criteria):
            await service.judges.replace(None)

    def log(self, changes: Sequence[str], kept: Mapping[str, str], since_start: Sequence[str]) -> None:
        """Log what has changed."""
        log_reloaded(changes, kept, since_start)


def missing(
    running: Config,
    criteria: Sequence[Criterion],
    config: Config,
    loaded: Sequence[Criterion],
    *,
    emptied: Iterable[Path],
) -> Iterator[str]:
    """Name what was there and is gone without a word that it is meant to be."""
    for path in sorted(emptied):
        yield f"`{path}` is empty; write `{{}}` if it is to be"
    exporters = config.exporters
    if running.exporters.otlp and not exporters.otlp and "otlp" not in exporters.model_fields_set:
        yield "no destination is left; write `exporters: {otlp: null}` if there is to be none"
    is_written = not config.model_fields_set.isdisjoint(("criteria", "criteria_files"))
    if _written(criteria) and not _written(loaded) and not is_written:
        yield "no criterion is left but the default ones; write `criteria: []` if there is to be none"


def log_missing(gone: Sequence[str]) -> None:
    """Log that the running configuration stays, and which parts are gone."""
    _LOG.warning("the configuration was not reloaded, the running one stays: %s", "; ".join(gone))


def log_refused(error: ToolgaugeError) -> None:
    """Log that the running configuration stays."""
    hint = "" if error.hint is None else f"; hint: {error.hint}"
    _LOG.error("the configuration was not reloaded, the running one stays: %s%s", error.message, hint)


def log_reloaded(changes: Sequence[str], kept: Mapping[str, str], since_start: Sequence[str]) -> None:
    """Log what has changed, what stays, and what waits for a start."""
    applied = [key for key in changes if not (key.startswith(tuple(kept)) or waits_for_start(key))]
    for section, reason in kept.items():
        _LOG.error("`%s` stays as it was: %s", section, reason, extra={"key": section})
    waiting = [key for key in since_start if waits_for_start(key)]
    if waiting:
        _LOG.warning("takes effect at the next start: %s", ", ".join(waiting), extra={"keys": waiting})
    what = ", ".join(applied) or "nothing has changed"
    _LOG.info("the configuration was reloaded: %s", what, extra={"keys": applied})


def _written(criteria: Sequence[Criterion]) -> bool:
    return any(not criterion.is_default for criterion in criteria)


def changed_criteria(old: Sequence[Criterion], new: Sequence[Criterion]) -> Iterator[str]:
    """Describe which criteria came, went and changed."""
    before = {criterion.name: criterion for criterion in old}
    after = {criterion.name: criterion for criterion in new}
    yield from (f"criterion {name} is new" for name in after if name not in before)
    yield from (f"criterion {name} is gone" for name in before if name not in after)
    for name in after:
        if name in before and _meaning(before[name]) != _meaning(after[name]):
            yield f"criterion {name} has changed"


def _meaning(criterion: Criterion) -> tuple[object, ...]:
    return criterion.revision, criterion.sample, criterion.enforce


async def _free(criteria: Sequence[Criterion]) -> None:
    """Free references bit by bit: freeing hundreds of thousands of them at once stops all threads for that long."""
    cases: list[object] = []
    for criterion in criteria:
        if isinstance(criterion.reference, Lookup):
            cases.extend(criterion.reference.cases.values())
    del criteria
    while cases:
        del cases[-_FREED_AT_ONCE:]
        await asyncio.sleep(_FREE_PAUSE_S)


# What is bound, sized or opened once, at the start.
_AT_START = (
    "exporters.file",
    "exporters.prometheus",
    "exporters.webhook",
    "admin",
    "inbox",
    "assemble.late_memory",
    "memory",
    "metrics.resource_attributes",
    "metrics.max_services",
    "metrics.max_agents",
    "metrics.max_tools",
    "metrics.max_label_sets",
    "state",
    "watch",
    "web",
    "workers",
)


def changed_keys(old: Config, new: Config) -> tuple[str, ...]:
    """Name the keys whose values differ, in the order of the default file. Values may be secrets and are not named."""
    return tuple(_differences(old, new, ()))


def waits_for_start(key: str) -> bool:
    """Return whether a change of this key takes effect at the next start only."""
    section, _, name = key.partition(".")
    # Receivers and exporters of other packages are opened once.
    if section in ("receivers", "exporters") and name.partition(".")[0] not in ("", "otlp"):
        return True
    return any(key == known or key.startswith(f"{known}.") for known in _AT_START)


def _differences(old: Section, new: Section, path: tuple[str, ...]) -> Iterator[str]:
    # One of them may have a plug-in's section that the other has not.
    fields = {**type(old).model_fields, **type(new).model_fields}
    for name, field in fields.items():
        before: object = getattr(old, name, None)
        after: object = getattr(new, name, None)
        here = (*path, field.alias or name)
        if isinstance(before, Section) and isinstance(after, Section):
            yield from _differences(before, after, here)
        elif _bare(before) != _bare(after):
            yield spelled(here)


def _bare(value: object) -> object:
    """Strip the lines on which criteria are written."""
    if isinstance(value, tuple):
        items: tuple[object, ...] = value  # pyright: ignore[reportUnknownVariableType] (narrowed from object)
        return tuple(plain(item) if isinstance(item, Node) else item for item in items)
    return value
