"""Files, `--set` and environment variables -> one `Config`, or one `ConfigError` that lists all problems; a `Config` as YAML."""

import contextlib
import glob
import os
import platform
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

import yaml
from pydantic import ValidationError

from toolgauge.backends.settings import VENDORS
from toolgauge.config.criteria import EvaluatorFile, criteria_problems, evaluator_file
from toolgauge.config.environment import PREFIX, filled_in
from toolgauge.config.model import Config, config_model
from toolgauge.config.parse import CORE_SCALARS, files_matching, parse_yaml, read_file
from toolgauge.config.problems import Node, Place, Problem, config_error, merged, nearest, plain, problems_of, spelled
from toolgauge.export.redact import Redactor
from toolgauge.model.errors import ConfigError
from toolgauge.model.json import Json
from toolgauge.net.settings import ListenerSettings
from toolgauge.settings import AS_WRITTEN, split_address


def load(
    paths: Sequence[Path],
    overrides: Sequence[str],
    environment: Mapping[str, str],
    *,
    sends: bool = True,
    warn: Callable[[ConfigError], None] | None = None,
    criteria_files: Sequence[str] = (),
) -> Config:
    """Merge the files from left to right, then the overrides (`a.b=c`); where it `sends`, fill in `OTEL_EXPORTER_OTLP_*`.
    `criteria_files` are further ones, of which the contracts count.

    Raises ConfigError with every problem found; problems of these variables alone go to `warn`, where given.
    """
    root = read(paths, overrides, environment)
    if not sends:
        return _validated(root, environment, criteria_files)
    try:
        return _validated(filled_in(root, environment), environment, criteria_files)
    except ConfigError as error:
        if warn is None:
            raise
        config = _validated(root, environment, criteria_files)
        warn(error)
        return config


def _validated(root: Node, environment: Mapping[str, str], criteria_files: Sequence[str] = ()) -> Config:
    root = _with_contracts(root, environment, criteria_files)
    model = config_model(root)
    config: Config | None = None
    try:
        config = model.model_validate(_prepared(root), context=AS_WRITTEN)
        problems = tuple(problems_in(config, root))
    except ValidationError as error:
        problems = problems_of(error, root, model)
    if config is None or problems:
        raise config_error((*problems, *criteria_problems(root, _patterns(root, "criteria_files"), environment)))
    return config


def _with_contracts(root: Node, environment: Mapping[str, str], criteria_files: Sequence[str]) -> Node:
    """Merge the contracts of files into section `tools`, which wins: first those beside criteria, then those that it names."""
    if not isinstance(root.value, dict):
        return root
    parts = [Node(name, root.place) for name in (*_matched(_patterns(root, "criteria_files")), *criteria_files)]
    contracts = Node({}, root.place)
    written = root.child("tools") or contracts
    for part in parts:
        beside = parse_yaml(read_file(Path(str(part.value))), str(part.value), environment).child("tools")
        contracts = contracts if beside is None else merged(contracts, beside)
    entries = written.value if isinstance(written.value, list) else [written]
    for entry in entries:
        if isinstance(entry.value, str):
            for name in files_matching(str(absolute_glob(entry)), "file of contracts", "tools"):
                found = parse_yaml(read_file(Path(name)), name, environment)
                contracts = merged(contracts, found.child("tools") or found)
        elif entry.value is not None:
            contracts = merged(contracts, entry)
    return Node({**root.value, "tools": contracts}, root.place) if contracts.value else root


def read(paths: Sequence[Path], overrides: Sequence[str], environment: Mapping[str, str]) -> Node:
    """Merge the files from left to right, then the overrides, without a look at keys. Raises ConfigError."""
    root = Node({}, Place("configuration"))
    for path in paths:
        node = parse_yaml(read_file(path), str(path), environment)
        if node.value is None:
            node = Node({}, Place(str(path)))
        if not isinstance(node.value, dict):
            raise config_error([Problem(node.place, "a configuration must be a mapping of keys to values")])
        root = merged(root, node)
    for override in overrides:
        path, equals, text = override.partition("=")
        steps = path.strip().split(".")
        source = f"--set {path}"
        if not equals or not all(steps):
            raise ConfigError(f"`--set {path[:60]}` is not of the form `a.b=value`")
        at: Node | None = root
        for step in steps[:-1]:
            at = at.child(step) if at is not None else None
            if at is not None and isinstance(at.value, list):
                raise ConfigError(f"`{source}`: `{step}` is a list, of which single entries cannot be set")
        node = parse_yaml(text, source, environment, first_line=None)
        for step in reversed(steps):
            node = Node({step: node}, Place(source))
        root = merged(root, node)
    return root


def empty_files(paths: Sequence[Path]) -> Iterator[Path]:
    """Yield the files without any content but comments: an empty mapping (`{}`) is content. Raises ConfigError."""
    return (path for path in paths if parse_yaml(read_file(path), str(path), None).value is None)


def _prepared(root: Node) -> object:
    """Strip the places, except from criteria: they are read later, together with the criteria in files."""
    values = plain(root)
    if not isinstance(values, dict):
        return values
    prepared: dict[str, object] = dict(values)
    criteria = root.child("criteria")
    if criteria is not None:
        prepared["criteria"] = () if criteria.value is None else criteria.value
    defaults = root.child("defaults")
    if defaults is not None and isinstance(defaults.value, dict):
        prepared["defaults"] = {
            key: entry if isinstance(entry.value, dict) else plain(entry) for key, entry in defaults.value.items()
        }
    for key in ("criteria_files", "tool_definitions"):
        if globs := root.items(key):
            prepared[key] = tuple(map(absolute_glob, globs))
    return prepared


def absolute_glob(node: Node) -> object:
    """Make a glob independent of the file it stands in; the directory's own name is not a pattern."""
    if not isinstance(node.value, str) or not node.value:
        return node.value
    if Path(node.value).is_absolute():
        return node.value
    directory = glob.escape(str(node.place.directory.absolute()))
    return str(Path(directory) / node.value)


# Device, inode, size and time of change of a file behind all links; `None` where there is none.
FileState: TypeAlias = tuple[int, int, int, int] | None


@dataclass(frozen=True, slots=True)
class Sources:
    """Files by name, and globs, in which further files may appear."""

    files: tuple[Path, ...]
    patterns: tuple[str, ...]

    def states(self) -> Mapping[Path, FileState]:
        """Return the state that each of the files has."""
        matched = (Path(name) for pattern in self.patterns for name in glob.glob(pattern, recursive=True))  # noqa: PTH207 (`Path.glob` takes no absolute pattern)
        found: dict[Path, FileState] = {}
        for path in (*self.files, *matched):
            found[path] = None
            with contextlib.suppress(OSError, ValueError):  # ValueError: a NUL in the name
                status = os.stat(path)  # noqa: PTH116 (through every link, at once)
                if stat.S_ISREG(status.st_mode):
                    found[path] = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        return found


def find_sources(
    paths: Sequence[Path], overrides: Sequence[str], environment: Mapping[str, str], criteria_paths: Sequence[Path] = ()
) -> Sources:
    """Find the files of a configuration: its own, criteria (`criteria_paths` too), references, evaluators and tools."""
    # A pipe can be read once, and is not ours.
    if not all(path.is_file() for path in paths):
        return Sources((*paths, *criteria_paths), ())
    try:
        root = read(paths, overrides, environment)
    except ConfigError:
        return Sources((*paths, *criteria_paths), ())
    criteria_files = tuple(_patterns(root, "criteria_files"))
    tools = root.child("tools")
    entries = tools.value if tools is not None and isinstance(tools.value, list) else [tools]
    contracts = [str(absolute_glob(one)) for one in entries if one is not None and isinstance(one.value, str)]
    definitions = (*_patterns(root, "tool_definitions"), *contracts)
    named = [*criteria_paths, *_named(root.child("criteria") or Node(None, root.place))]
    for path in (*criteria_paths, *map(Path, _matched(criteria_files))):
        with contextlib.suppress(ConfigError):
            if path.is_file():
                of_file = parse_yaml(read_file(path), str(path), environment)
                named.extend(_named(of_file.child("criteria") or of_file))
    return Sources(tuple(dict.fromkeys((*paths, *named))), (*criteria_files, *definitions))


def _matched(patterns: Iterable[str]) -> Iterator[str]:
    return (name for pattern in patterns for name in sorted(glob.glob(pattern, recursive=True)))  # noqa: PTH207 (as above)


def _patterns(root: Node, *path: str) -> Iterator[str]:
    return (pattern for entry in root.items(*path) if isinstance(pattern := absolute_glob(entry), str))


def _named(criteria: Node) -> Iterator[Path]:
    for criterion in criteria.items():
        code = evaluator_file(criterion)
        if isinstance(code, EvaluatorFile):
            yield code.path
        reference = criterion.child("reference")
        file = reference.child("file") if reference is not None else None
        if file is not None and isinstance(file.value, str):
            yield nearest(criterion, ("reference", "file")).place.directory / file.value


_ANY_HOST = ("", "0.0.0.0", "::")  # noqa: S104 (compared with, never bound)
_LOOPBACK = ("localhost", "127.0.0.1", "::1", *_ANY_HOST)


def problems_in(config: Config, node: Node) -> Iterator[Problem]:
    """Yield the problems that no single key has; `node` has the places where keys were written."""
    try:
        Redactor(show_values=False, patterns=config.redact.patterns)
    except ConfigError as error:
        yield Problem(nearest(node, ("redact", "patterns")).place, error.message, error.hint)
    for path, listener in listener_sections(config):
        if listener.is_open:
            yield Problem(
                nearest(node, (*path, "endpoint")).place,
                f"`{spelled(path)}` listens on `{listener.endpoint}`, and anybody who reaches it gets in",
                "give it `auth`, or `tls` with `client_ca_file`; `insecure: true` says that the network is trusted",
            )
    taken: list[tuple[tuple[str, int], str]] = []
    for key, address in listener_endpoints(config).items():
        for other, by in taken:
            if _is_at(split_address(address), other):
                message = f"`{key}` is `{address}`, where `{by}` listens already"
                yield Problem(nearest(node, key.split(".")).place, message)
        taken.append((split_address(address), key))
    yield from _loops(config, node)
    for kind in ("otlp", "webhook", *VENDORS):
        seen: set[str] = set()
        for number, exporter in enumerate(getattr(config.exporters, kind)):
            if exporter.name is not None and exporter.name in seen:
                place = nearest(node, ("exporters", kind, number, "name")).place
                message = f"two destinations are called `{exporter.name}`"
                yield Problem(place, message, "metrics tell them apart by name")
            seen.add(exporter.name or "")
    if config.workers != 1 and config.receivers.kafka is not None:
        message = "`workers` cannot be more than 1 with `receivers.kafka`: consumers of one group share its partitions already"
        yield Problem(nearest(node, ("workers",)).place, message, "run more processes with `workers: 1`")


def listener_sections(config: Config) -> Iterator[tuple[tuple[str, ...], ListenerSettings]]:
    """Yield everything that listens, with the path of its section."""
    protocols = ("receivers", "otlp", "protocols")
    yield (*protocols, "grpc"), config.receivers.otlp.protocols.grpc
    yield (*protocols, "http"), config.receivers.otlp.protocols.http
    if config.exporters.prometheus is not None:
        yield ("exporters", "prometheus"), config.exporters.prometheus
    if config.admin is not None:
        yield ("admin",), config.admin
    if config.web is not None:
        yield ("web",), config.web


def listener_endpoints(config: Config) -> dict[str, str]:
    """Return where everything listens, by configuration key."""
    return {spelled((*path, "endpoint")): listener.endpoint for path, listener in listener_sections(config)}


def _loops(config: Config, node: Node) -> Iterator[Problem]:
    """A destination that is our own receiver would send every span round for ever."""
    endpoints = listener_endpoints(config).items()
    own = [(split_address(address), name) for name, address in endpoints if name.startswith("receivers.")]
    for number, exporter in enumerate(config.exporters.otlp):
        for key in ("endpoint", "traces_endpoint", "metrics_endpoint", "logs_endpoint"):
            url: str | None = getattr(exporter, key)
            target = ("", 0)
            if url and "://" in url:
                parts = urlsplit(url)
                target = (parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
            elif url:
                target = split_address(url)
            for receiver, name in own:
                if _is_at(target, receiver):
                    place = nearest(node, ("exporters", "otlp", number, key)).place
                    message = f"`exporters.otlp` sends to `{target[0]}:{target[1]}`, which is our own `{name}`"
                    hint = "send to the next hop, or receive what comes back on another port"
                    if place.source.startswith(PREFIX):
                        hint = f"`unset {place.source}` in this shell, or set `exporters.otlp.endpoint`"
                    yield Problem(place, message, hint)


def _is_at(target: tuple[str, int], receiver: tuple[str, int]) -> bool:
    """Return whether a destination is the receiver, which may listen on every address of this machine."""
    if target[1] != receiver[1] or not target[1]:
        return False
    host, own = target[0].lower(), receiver[0].lower()
    if own in _ANY_HOST:
        return host in _LOOPBACK or host == platform.node().lower()
    return host == own or (host in _LOOPBACK and own in _LOOPBACK)


class _Dumper(yaml.SafeDumper):
    """Quotes texts that our reader would take for other values."""

    _MERGE_KEY = ("tag:yaml.org,2002:merge", re.compile("<<$"))
    yaml_implicit_resolvers = {None: [*CORE_SCALARS, _MERGE_KEY]}  # noqa: RUF012 (PyYAML wants a plain class attribute)

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 (PyYAML's signature)
        """Write equal values out in full."""
        return True


def shown(config: Config) -> str:
    """Write the configuration so that reading it again gives the same, secrets aside."""
    return as_yaml(config.model_dump(mode="json"))


def as_yaml(values: Json) -> str:
    """Write values so that reading them as configuration gives the same."""
    return yaml.dump(_escaped(values), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)  # pyright: ignore[reportUnknownMemberType] - in newer stubs


def _escaped(value: Json) -> Json:
    match value:
        case str():
            return value.replace("$", "$$")
        case dict():
            return {key: _escaped(entry) for key, entry in value.items()}
        case list():
            return [_escaped(item) for item in value]
        case _:
            return value
