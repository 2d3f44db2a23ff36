"""Reloads the configuration of a running process: loads and checks it first, then puts it in place.

Loading happens in a thread: reference files may be large. A port or a certificate that fails leaves the running part in
place; keys that need a start are named. A front and its workers all take a configuration, or none: each loads it first.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, Literal, TypeAlias, TypeVar

import msgspec

from toolgauge.backends.settings import VENDORS
from toolgauge.config.criteria import adopted_file
from toolgauge.config.load import Sources, empty_files
from toolgauge.config.model import Config, backends
from toolgauge.config.problems import spelled
from toolgauge.judge.inquiry import Client
from toolgauge.model.errors import ConfigError, StartError, ToolgaugeError
from toolgauge.pipeline.stages import Rules
from toolgauge.score.criterion import Criterion
from toolgauge.service.criteria_factory import evaluator_files
from toolgauge.service.destinations import renewed_destinations
from toolgauge.service.judge_pool import asks_judge, make_judges, open_client
from toolgauge.service.pipeline_factory import emit_settings, make_rules, redactor, watched_streams
from toolgauge.service.process import Faults, beside
from toolgauge.service.runtime import Runtime
from toolgauge.service.service import Service, check_messages
from toolgauge.service.workers.channel import Kind
from toolgauge.service.workers.front import Front, conversation_keys
from toolgauge.settings import FileState, Section

_LOG = logging.getLogger("toolgauge")
Load: TypeAlias = Callable[[], tuple[Config, tuple[Criterion, ...]]]
Outcome: TypeAlias = Literal["applied", "partly", "refused"]
_R = TypeVar("_R", bound=Runtime)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A configuration beside the running one; `empty` are configuration files without content, `client` is for new judges."""

    config: Config
    criteria: tuple[Criterion, ...]
    empty: frozenset[Path]
    rules: Rules | None = None
    client: Client | None = None
    changed_tools: tuple[str, ...] = ()


class RuntimeReloader(ABC, Generic[_R]):
    """Reloads one time after the other when asked to. A file that was emptied, or lost its last destination or all of its
    criteria, is taken for one that is still being written, and changes nothing. `adopt_view` gets what logs and pages show.
    """

    def __init__(
        self,
        service: _R,
        config: Config,
        criteria: Sequence[Criterion],
        *,
        load: Load,
        adopt_view: Callable[[Config, Sequence[Criterion]], None],
        files: Sequence[Path] = (),
    ) -> None:
        self._service = service
        self._at_start = config
        # The running configuration, which differs from the wanted one where a part failed.
        self._config = config
        self._criteria = tuple(criteria)
        self._load = load
        self._adopt_view = adopt_view
        self._files = tuple(files)
        self._empty = frozenset(empty_files(self._files))
        self._task: asyncio.Task[None] | None = None
        self._is_asked = False
        self._is_stopped = False
        self._is_loading = False

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
        if self._is_loading:
            self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while self._is_asked and not self._is_stopped:
            self._is_asked = False
            outcome: Outcome = "refused"
            with Faults(self._service.metrics).survived():
                outcome = await self.reload()
            self._service.metrics.reloads.add(1, (outcome,))

    async def reload(self) -> Outcome:
        """Load the configuration and put it in place."""
        self._is_loading = True
        try:
            loaded = await self.load()
            gone = tuple(self._missing(loaded))
            if not gone:
                await self._prepare_others()
        except ToolgaugeError as error:
            hint = "" if error.hint is None else f"; hint: {error.hint}"
            _LOG.error("the configuration was not reloaded, the running one stays: %s%s", error.message, hint)
            return "refused"
        finally:
            self._is_loading = False
        if gone:
            _LOG.warning("the configuration was not reloaded, the running one stays: %s", "; ".join(gone))
            return "refused"
        return "partly" if await self.apply(loaded) else "applied"

    async def load(self) -> Loaded:
        """Load the configuration beside the running one. Raises `ToolgaugeError`."""
        return await beside(self._loaded, "reload")

    def _loaded(self) -> Loaded:
        config, criteria = self._load()
        return Loaded(config=config, criteria=criteria, empty=frozenset(empty_files(self._files)))

    def _missing(self, loaded: Loaded) -> Iterator[str]:
        """Describe files, destinations and criteria that are gone, unless the configuration wants that."""
        for path in sorted(loaded.empty - self._empty):
            yield f"`{path}` is empty; write `{{}}` if it is to be"
        config, exporters = loaded.config, loaded.config.exporters
        if self._config.exporters.otlp and not exporters.otlp and "otlp" not in exporters.model_fields_set:
            yield "no destination is left; write `exporters: {otlp: null}` if there is to be none"
        is_written = not config.model_fields_set.isdisjoint(("criteria", "criteria_files")) or adopted_file(config)
        if _has_written(self._criteria) and not _has_written(loaded.criteria) and not is_written:
            yield "no criterion is left but the default ones; write `criteria: []` if there is to be none"

    async def _prepare_others(self) -> None:
        """Have other processes load the configuration. Raises `ToolgaugeError`."""

    @abstractmethod
    async def _adopt(self, loaded: Loaded, kept: dict[str, str]) -> object:
        """Put everything but receivers in place, and the reasons for sections that stay in `kept`; return `exporters`."""

    async def apply(self, loaded: Loaded) -> dict[str, str]:
        """Put it in place; return the sections that stay as they were, with the reasons."""
        config, criteria = loaded.config, loaded.criteria
        kept: dict[str, str] = {}
        changed = changed_criteria(self._criteria, criteria)
        changes = (*changed_keys(self._config, config), *loaded.changed_tools, *changed)
        receivers = await self._exchange_receivers(config, kept)
        exporters = await self._adopt(loaded, kept)
        self._service.push_interval_s = config.metrics.interval / 1e9
        self._adopt_view(config, criteria)
        self._criteria, self._empty = criteria, loaded.empty
        self._config = config.model_copy(update={"receivers": receivers, "exporters": exporters})
        if not self._service.has_front:
            self._log(changes, kept, changed_keys(self._at_start, config))
        return kept

    async def _exchange_receivers(self, config: Config, kept: dict[str, str]) -> object:
        """Return the section that is in use from here on."""
        service, old, new = self._service, self._config.receivers, config.receivers
        if new.otlp == old.otlp:
            return new
        before = {receiver.port for receiver in service.receivers}
        try:
            await service.exchange_receivers(old.otlp.protocols, config)
        except (ConfigError, StartError) as error:
            kept["receivers"] = error.message
            return old
        for name, receiver in zip(("gRPC", "HTTP"), service.receivers, strict=True):
            if receiver.port not in before:
                _LOG.info("receiving OTLP/%s on port %d", name, receiver.port, extra={"port": receiver.port})
        return new

    def _log(self, changes: Sequence[str], kept: Mapping[str, str], since_start: Sequence[str]) -> None:
        """Log the changes, the sections that stay, and the keys that wait for a start."""
        applied = [key for key in changes if not (key.startswith(tuple(kept)) or waits_for_start(key))]
        for section, reason in kept.items():
            _LOG.error("`%s` stays as it was: %s", section, reason, extra={"key": section})
        waiting = [key for key in since_start if waits_for_start(key)]
        if waiting:
            _LOG.warning("not applied until the next start: %s", ", ".join(waiting), extra={"keys": waiting})
        what = ", ".join(applied) or "nothing has changed"
        _LOG.info("the configuration was reloaded: %s", what, extra={"keys": applied})


class Reloader(RuntimeReloader[Service]):
    """Reloads a service that scores."""

    def _loaded(self) -> Loaded:
        """Make everything that can be made beside the running service. Raises `ConfigError`."""
        loaded = super()._loaded()
        config, criteria, service = loaded.config, loaded.criteria, self._service
        check_messages(self._at_start, criteria)
        rules = make_rules(
            config,
            criteria,
            service.metrics,
            running=self._config,
            read=service.pipeline.scorer.wanted,
            labels=self._at_start.metrics.resource_attributes,
        )
        wanted = config.judge if asks_judge(criteria) else None
        changed = (config.judge, config.redact) != (self._config.judge, self._config.redact)
        opens = wanted is not None and (changed or not service.judges.has_judges)
        has_other_tools = rules.scorer.registered_tools != service.pipeline.scorer.registered_tools
        return replace(
            loaded,
            rules=rules,
            client=open_client(wanted) if wanted is not None and opens else None,
            changed_tools=("registered tools have changed",) if has_other_tools else (),
        )

    async def _adopt(self, loaded: Loaded, kept: dict[str, str]) -> object:
        service, config, rules = self._service, loaded.config, loaded.rules
        old, exporters = self._config.exporters, config.exporters
        tables = backends(exporters)
        has_key_file = any(each.api_key_file is not None for each in tables.values())
        if exporters.otlp != old.otlp or tables != backends(old) or has_key_file:
            try:
                destinations = renewed_destinations(
                    config, service.metrics, service.outbox.destinations, hop_id=service.hop_id, ledger=service.ledger
                )
                await service.outbox.replace(destinations)
            except (ConfigError, StartError) as error:
                kept["exporters.otlp"] = error.message
                as_before = {name: getattr(old, name) for name in ("otlp", *VENDORS)}
                exporters = exporters.model_copy(update=as_before)
        if loaded.client is not None and config.judge is not None:
            judges = make_judges(config.judge, loaded.client, service.metrics.judge, redactor(config).content)
            await service.judges.replace(judges)
        elif service.judges.has_judges and not asks_judge(loaded.criteria):
            await service.judges.replace(None)

        running = config.model_copy(update={"exporters": exporters})

        def adopt() -> None:
            if rules is not None:
                service.pipeline.adopt(rules)
            service.emitter.adopt(emit_settings(running), redactor(config))

        # As soon as the worker is done with its current work.
        service.worker.post(adopt)
        # Trajectories that are being scored, and judges, may still speak of the criteria that went.
        service.emitter.keep({(each.name, each.revision) for each in (*self._criteria, *loaded.criteria)})
        for file in evaluator_files(loaded.criteria):
            _LOG.info("running the evaluators in %s as it is now", file, extra={"file": file})
        return exporters


class FrontReloader(RuntimeReloader[Front]):
    """Reloads a front and all of its workers. A certificate that fails in one worker stays there as it was, and is logged."""

    async def _prepare_others(self) -> None:
        processes = self._service.workers.processes
        answers = await asyncio.gather(*(process.ask(Kind.PREPARE) for process in processes))
        for process, answer in zip(processes, answers, strict=True):
            if answer is not None and answer.content:
                raise ConfigError(f"worker {process.number}: {answer.content.decode()}")

    async def _adopt(self, loaded: Loaded, kept: dict[str, str]) -> object:
        front, config = self._service, loaded.config
        answers = await asyncio.gather(*(process.ask(Kind.ADOPT) for process in front.workers.processes))
        for answer in answers:
            if answer is not None:
                kept.update(msgspec.msgpack.decode(answer.content, type=dict[str, str]))
        front.divided.divider.adopt(conversation_keys(loaded.criteria))
        streams = watched_streams(loaded.criteria)

        def adopt() -> None:
            front.emitter.adopt(emit_settings(config), redactor(config))
            front.observing.keep(streams)

        await front.run(adopt)
        return config.exporters


def _has_written(criteria: Sequence[Criterion]) -> bool:
    return any(not criterion.is_default for criterion in criteria)


def changed_criteria(old: Sequence[Criterion], new: Sequence[Criterion]) -> Iterator[str]:
    """Name the criteria that are new, gone or changed."""
    before = {criterion.name: criterion for criterion in old}
    after = {criterion.name: criterion for criterion in new}
    yield from (f"criterion {name} is new" for name in after if name not in before)
    yield from (f"criterion {name} is gone" for name in before if name not in after)
    for name, now in after.items():
        was = before.get(name, now)
        if any(getattr(was, key) != getattr(now, key) for key in ("revision", "sample", "enforce", "notify")):
            yield f"criterion {name} has changed"


# Sections that are bound, sized or opened once, at the start.
_AT_START = (
    "exporters.file",
    "exporters.prometheus",
    "exporters.webhook",
    "admin",
    "feedback",
    "inbox",
    "assemble.late_memory",
    "memory",
    "metrics.resource_attributes",
    "metrics.run_attributes",
    "metrics.max_services",
    "metrics.max_agents",
    "metrics.max_tools",
    "metrics.max_label_sets",
    "state",
    "watch",
    "web",
    "workers",
)


def changed_keys(old: Section, new: Section, path: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Name the keys whose values differ, in the order of the default file. Values may be secrets and are not named."""
    found: list[str] = []
    # One of them may have a plug-in's section that the other has not.
    fields = {**type(old).model_fields, **type(new).model_fields}
    for name, field in fields.items():
        before: object = getattr(old, name, None)
        after: object = getattr(new, name, None)
        here = (*path, field.alias or name)
        if isinstance(before, Section) and isinstance(after, Section):
            found += changed_keys(before, after, here)
        elif before != after:
            found.append(spelled(here))
    return tuple(found)


def waits_for_start(key: str) -> bool:
    """Return whether a change of this key takes effect at the next start only."""
    section, _, name = key.partition(".")
    # Receivers and exporters of other packages are opened once.
    if section in ("receivers", "exporters") and name.partition(".")[0] not in ("", "otlp", *VENDORS):
        return True
    return any(key == known or key.startswith(f"{known}.") for known in _AT_START)


_INTERVAL_S = 2.0
_MAX_NAMES = 5


class ConfigWatch:
    """Looks at the files that `find` finds, which is called again after each change. Make it before the configuration is loaded."""

    def __init__(self, find: Callable[[], Sources]) -> None:
        self._find = find
        self._sources = find()
        self._known: Mapping[Path, FileState] = self._sources.states()
        self._last = self._known

    async def run(self, ask: Callable[[], None], faults: Faults) -> None:
        """Look for ever, and ask for a reload after each change."""
        while True:
            await asyncio.sleep(_INTERVAL_S)
            changed: tuple[Path, ...] = ()
            with faults.survived():
                # A file system over the network may not answer for a while.
                changed = await beside(self.look, "watch")
            if changed:
                more = f" and {len(changed) - _MAX_NAMES} more" if len(changed) > _MAX_NAMES else ""
                names = ", ".join(f"`{path}`" for path in changed[:_MAX_NAMES])
                _LOG.info("configuration file changed, reloading: %s%s", names, more)
                ask()

    def look(self) -> tuple[Path, ...]:
        """Return the files that have changed since the last reload, once they have not since the last look."""
        found = self._sources.states()
        is_settled, self._last = found == self._last, found
        if not is_settled or found == self._known:
            return ()
        paths = dict.fromkeys((*self._known, *found))
        changed = tuple(path for path in paths if found.get(path) != self._known.get(path))
        self._sources = self._find()
        # A file that was looked at keeps the state that was found: if it has changed meanwhile, that is a change.
        self._known = {path: found.get(path, state) for path, state in self._sources.states().items()}
        self._last = self._known
        return changed
