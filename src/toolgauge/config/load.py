"""Files, `--set` and environment variables -> one `Config`, or one `ConfigError` that lists all problems; a `Config` as YAML.

`OTEL_EXPORTER_OTLP_*` fills gaps in `exporters.otlp`, with the meanings of the OpenTelemetry specification. Variables of one signal
(`OTEL_EXPORTER_OTLP_LOGS_HEADERS`) are refused: a file describes several destinations.
"""

import contextlib
import glob
import platform
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from urllib.parse import unquote, urlsplit

import yaml
from pydantic import ValidationError

from toolgauge.backends.settings import VENDORS
from toolgauge.config.criteria import EvaluatorFile, criteria_problems, evaluator_file
from toolgauge.config.model import Config, config_model
from toolgauge.config.parse import CORE_SCALARS, files_matching, parse_yaml, read_file
from toolgauge.config.problems import Node, Place, Problem, config_error, merged, nearest, plain, problems_of, spelled
from toolgauge.export.redact import Redactor
from toolgauge.export.settings import SIGNALS
from toolgauge.model.errors import ConfigError
from toolgauge.model.json import Json
from toolgauge.net.settings import ListenerSettings
from toolgauge.settings import AS_WRITTEN, FileState, file_state, split_address


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
    """Merge the contracts of files into section `tools`, which wins: first contracts beside criteria, then the named files."""
    if not isinstance(root.value, dict):
        return root
    contracts = Node({}, root.place)
    written = root.child("tools") or contracts
    for name in (*_matched(_patterns(root, "criteria_files")), *criteria_files):
        beside = parse_yaml(read_file(Path(name)), name, environment).child("tools")
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
    """Make a glob independent of the file that holds it; the directory's own name is not a pattern."""
    if not isinstance(node.value, str) or not node.value:
        return node.value
    if Path(node.value).is_absolute():
        return node.value
    directory = glob.escape(str(node.place.directory.absolute()))
    return str(Path(directory) / node.value)


@dataclass(frozen=True, slots=True)
class Sources:
    """Files by name, and globs, in which further files may appear."""

    files: tuple[Path, ...]
    patterns: tuple[str, ...]

    def states(self) -> Mapping[Path, FileState]:
        """Return the state that each of the files has."""
        matched = (Path(name) for pattern in self.patterns for name in glob.glob(pattern, recursive=True))  # noqa: PTH207 (`Path.glob` takes no absolute pattern)
        return {path: file_state(path) for path in (*self.files, *matched)}


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


def _patterns(root: Node, key: str) -> Iterator[str]:
    return (pattern for entry in root.items(key) if isinstance(pattern := absolute_glob(entry), str))


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


_PROTOCOLS = "receivers.otlp.protocols"
_LISTENERS = (f"{_PROTOCOLS}.grpc", f"{_PROTOCOLS}.http", "exporters.prometheus", "admin", "web")


def listener_sections(config: Config) -> Iterator[tuple[tuple[str, ...], ListenerSettings]]:
    """Yield everything that listens, with the path of its section."""
    for key in _LISTENERS:
        section: ListenerSettings | None = attrgetter(key)(config)
        if section is not None:
            yield tuple(key.split(".")), section


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


PREFIX = "OTEL_EXPORTER_OTLP_"
_ENDPOINT_KEYS = ("endpoint", *(f"{signal}_endpoint" for signal in SIGNALS))
_FILES = {"CERTIFICATE": "ca_file", "CLIENT_KEY": "key_file", "CLIENT_CERTIFICATE": "cert_file"}
_NAMES = ("ENDPOINT", "PROTOCOL", "COMPRESSION", "TIMEOUT", "HEADERS", "INSECURE", *_FILES)
_OF_ONE_SIGNAL = {f"{PREFIX}{signal.upper()}_{name}": signal for signal in SIGNALS for name in _NAMES}
# The variables that an application's own exporter reads.
EXPORTER_VARIABLES = frozenset((f"{PREFIX}ENDPOINT", *_OF_ONE_SIGNAL))


def filled_in(root: Node, environment: Mapping[str, str]) -> Node:
    """Lay the file over the values of the environment. Raises ConfigError for values that cannot be read."""
    exporters = root.child("exporters")
    otlp = exporters.child("otlp") if exporters else None
    if otlp is not None and not isinstance(otlp.value, dict | None):
        return root  # several destinations, and it would be a guess which one is meant; or no mapping, says the model
    for variable, signal in _OF_ONE_SIGNAL.items():
        if environment.get(variable, "").strip():
            hint = f"write `exporters.otlp` as a list of destinations, one of them with `signals: [{signal}]`"
            raise config_error([Problem(Place(variable), "variables of one signal are not read", hint)])
    given: dict[str, Node] = otlp.value if otlp is not None and isinstance(otlp.value, dict) else {}
    settings = dict(_settings(environment, given))
    if not settings or not any(key in given or key in settings for key in _ENDPOINT_KEYS):
        return root
    place = next(node.place for node in settings.values())
    # Headers are one setting: headers of the file are not mixed with headers of the environment.
    below = {key: node for key, node in settings.items() if not (key in ("headers", "tls") and key in given)}
    filled = merged(Node(below, place), Node(dict(given), otlp.place if otlp and given else place))
    others = exporters.value if exporters is not None and isinstance(exporters.value, dict) else {}
    whole = Node({**others, "otlp": filled}, exporters.place if exporters else place)
    entries = root.value if isinstance(root.value, dict) else {}
    return Node({**entries, "exporters": whole}, root.place)


def _settings(environment: Mapping[str, str], given: Mapping[str, Node]) -> Iterator[tuple[str, Node]]:
    """Yield keys of `exporters.otlp` with their values. An empty variable counts as unset."""
    chosen: dict[str, Node] = {}
    for name in _NAMES:
        variable = f"{PREFIX}{name}"
        if value := environment.get(variable, "").strip():
            chosen[name] = Node(_converted(name, value, Place(variable)), Place(variable))
    protocol, written = chosen.get("PROTOCOL"), given.get("protocol")
    endpoint = None if any(key in given for key in _ENDPOINT_KEYS) else chosen.get("ENDPOINT")
    if protocol is not None:
        yield "protocol", protocol
    elif endpoint is not None and written is None:
        yield "protocol", Node("http", endpoint.place)  # the specification's default
    if endpoint is not None:
        yield "endpoint", endpoint
    for name in ("COMPRESSION", "TIMEOUT", "HEADERS"):
        if name in chosen:
            yield name.lower(), chosen[name]
    tls = {key: chosen[name] for name, key in _FILES.items() if name in chosen}
    # An endpoint of gRPC without a scheme means TLS, unless `INSECURE` is true.
    transport = written or protocol
    is_grpc = transport is not None and transport.value == "grpc"
    bare = endpoint if endpoint is not None and is_grpc and "://" not in str(endpoint.value) else None
    if "INSECURE" in chosen and (bare is not None or written is not None):
        tls["insecure"] = chosen["INSECURE"]
    if tls or bare is not None:
        yield "tls", Node(tls, next((node.place for node in (*tls.values(), bare) if node is not None), Place("")))


def _converted(name: str, value: str, place: Place) -> str | bool | dict[str, Node]:
    match name:
        case "PROTOCOL" if value not in ("grpc", "http/protobuf"):
            raise config_error([Problem(place, f"`{value}` is not available; allowed: `grpc`, `http/protobuf`")])
        case "INSECURE":
            if value.lower() not in ("true", "false"):
                raise config_error([Problem(place, "must be `true` or `false`")])
            return value.lower() == "true"
        case "TIMEOUT":
            if not value.isascii() or not value.isdecimal() or len(value) > 9 or int(value) == 0:
                raise config_error([Problem(place, "must be a whole number of milliseconds above 0")])
            return f"{int(value)}ms"
        case "HEADERS":
            headers: dict[str, Node] = {}
            for pair in filter(str.strip, value.split(",")):
                name, equals, text = pair.partition("=")
                if not equals or not name.strip():
                    # The text is not shown: it may be half a secret.
                    raise config_error([Problem(place, "must be `name=value` pairs with commas between")])
                headers[unquote(name.strip())] = Node(unquote(text.strip()), place)
            return headers
        case _:
            return value
