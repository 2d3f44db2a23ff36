"""What no single key can tell: functions that do not exist yet, and addresses that contradict each other."""

import platform
from collections.abc import Iterator
from urllib.parse import urlsplit

from toolgauge.config.model import Config
from toolgauge.config.nodes import Node, PathStep, nearest, spelled
from toolgauge.config.problems import Problem
from toolgauge.net.settings import ListenerSettings
from toolgauge.settings import Section, split_address

_NOT_YET: tuple[tuple[str, ...], ...] = (
    ("redact", "patterns"),
    ("watch", "enabled"),
    ("watch", "false_alarms_per_week"),
    ("web", "endpoint"),
    ("state", "directory"),
)
_ANY_HOST = ("", "0.0.0.0", "::")  # noqa: S104 (compared with, never bound)
_LOOPBACK = ("localhost", "127.0.0.1", "::1", *_ANY_HOST)


def problems_in(config: Config, node: Node) -> Iterator[Problem]:
    """Yield what cannot work although every key is fine by itself; `node` tells where it was written."""
    yield from _not_available(config, node)
    yield from _open_listeners(config, node)
    yield from _same_address(config, node)
    yield from _loops(config, node)
    yield from _same_names(config, node)


def _not_available(config: Config, node: Node) -> Iterator[Problem]:
    default = Config()
    for path in _NOT_YET:
        if _value(config, path) != _value(default, path):
            yield _not_yet(node, path)


def _not_yet(node: Node, path: tuple[PathStep, ...]) -> Problem:
    name = spelled(step for step in path if not isinstance(step, int))
    return Problem(nearest(node, path).place, f"`{name}` is not available yet", "leave it out, or at its default")


def _value(section: Section, path: tuple[str, ...]) -> object:
    value: object = section
    for step in path:
        value = getattr(value, step)
    return value


def listener_sections(config: Config) -> Iterator[tuple[tuple[str, ...], ListenerSettings]]:
    """Yield everything that listens, with the path of its section."""
    protocols = ("receivers", "otlp", "protocols")
    yield (*protocols, "grpc"), config.receivers.otlp.protocols.grpc
    yield (*protocols, "http"), config.receivers.otlp.protocols.http
    if config.exporters.prometheus is not None:
        yield ("exporters", "prometheus"), config.exporters.prometheus
    if config.admin is not None:
        yield ("admin",), config.admin


def _listeners(config: Config) -> Iterator[tuple[tuple[str, ...], str]]:
    return (((*path, "endpoint"), listener.endpoint) for path, listener in listener_sections(config))


def _open_listeners(config: Config, node: Node) -> Iterator[Problem]:
    for path, listener in listener_sections(config):
        if listener.is_open:
            yield Problem(
                nearest(node, (*path, "endpoint")).place,
                f"`{spelled(path)}` listens on `{listener.endpoint}`, and anybody who reaches it gets in",
                "give it `auth`, or `tls` with `client_ca_file`; `insecure: true` says that the network is trusted",
            )


def _same_address(config: Config, node: Node) -> Iterator[Problem]:
    taken: list[tuple[tuple[str, int], tuple[str, ...]]] = []
    for path, address in _listeners(config):
        for other, by in taken:
            if _is_at(split_address(address), other):
                message = f"`{spelled(path)}` is `{address}`, where `{spelled(by)}` listens already"
                yield Problem(nearest(node, path).place, message)
        taken.append((split_address(address), path))


def _loops(config: Config, node: Node) -> Iterator[Problem]:
    """A destination that is our own receiver would send every span round for ever."""
    own = [(split_address(address), path) for path, address in _listeners(config) if path[0] == "receivers"]
    for number, exporter in enumerate(config.exporters.otlp):
        for key in ("endpoint", "traces_endpoint", "metrics_endpoint", "logs_endpoint"):
            url: str | None = getattr(exporter, key)
            target = _host_and_port(url) if url else ("", 0)
            for receiver, path in own:
                if _is_at(target, receiver):
                    place = nearest(node, ("exporters", "otlp", number, key)).place
                    message = f"`exporters.otlp` sends to `{target[0]}:{target[1]}`, which is our own `{spelled(path)}`"
                    yield Problem(place, message, "send to the next hop, or receive what comes back on another port")


def _same_names(config: Config, node: Node) -> Iterator[Problem]:
    seen: set[str] = set()
    for number, exporter in enumerate(config.exporters.otlp):
        if exporter.name is not None and exporter.name in seen:
            place = nearest(node, ("exporters", "otlp", number, "name")).place
            yield Problem(place, f"two destinations are called `{exporter.name}`", "metrics tell them apart by name")
        seen.add(exporter.name or "")


def _is_at(target: tuple[str, int], receiver: tuple[str, int]) -> bool:
    """Return whether a destination is the receiver, which may listen on every address of this machine."""
    if target[1] != receiver[1] or not target[1]:
        return False
    host, own = target[0].lower(), receiver[0].lower()
    if own in _ANY_HOST:
        return host in _LOOPBACK or host == platform.node().lower()
    return host == own or (host in _LOOPBACK and own in _LOOPBACK)


def _host_and_port(url: str) -> tuple[str, int]:
    if "://" not in url:
        return split_address(url)
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
