"""`OTEL_EXPORTER_OTLP_*` fills what the file leaves out of `exporters.otlp`.

The form of a signal (`OTEL_EXPORTER_OTLP_LOGS_HEADERS`) wins over the general one. A destination appears when an
endpoint comes from here; where signals have different settings, there is one for each. The meanings are those of
the OpenTelemetry specification ("OpenTelemetry Protocol Exporter"): the general endpoint is a base URL for HTTP, that of
a signal is used as it is, a timeout is a number of milliseconds, headers are percent-encoded, and gRPC without a scheme
means TLS unless `INSECURE` is true.
"""

from collections.abc import Iterator, Mapping
from urllib.parse import unquote

from toolgauge.config.problems import Node, Place, Problem, config_error, merged, plain
from toolgauge.export.settings import SIGNALS
from toolgauge.model.delivery import Signal

_PREFIX = "OTEL_EXPORTER_OTLP_"
_ENDPOINT_KEYS = ("endpoint", *(f"{signal}_endpoint" for signal in SIGNALS))
_FILES = {"CERTIFICATE": "ca_file", "CLIENT_KEY": "key_file", "CLIENT_CERTIFICATE": "cert_file"}


def filled_in(root: Node, environment: Mapping[str, str]) -> Node:
    """Lay the file over the values of the environment. Raises ConfigError for values that cannot be read."""
    exporters = root.child("exporters")
    otlp = exporters.child("otlp") if exporters else None
    if otlp is not None and not isinstance(otlp.value, dict | None):
        return root  # several destinations, and it would be a guess which one is meant; or no mapping, says the model
    given: dict[str, Node] = otlp.value if otlp is not None and isinstance(otlp.value, dict) else {}
    by_signal: dict[Signal, dict[str, Node]] = {
        signal: dict(_Variables(environment, signal, given).settings()) for signal in SIGNALS
    }
    going: dict[Signal, dict[str, Node]] = {
        signal: settings for signal, settings in by_signal.items() if _goes_somewhere(settings, given)
    }
    ways = _ways(going)
    if not any(ways):
        return root
    place = next(node.place for way in ways for node in way.values())
    written = otlp.place if otlp and given else place
    destinations = [_laid_over(way, given, place, written) for way in ways]
    others = exporters.value if exporters is not None and isinstance(exporters.value, dict) else {}
    filled = destinations[0] if len(destinations) == 1 else Node(list(destinations), place)
    whole = Node({**others, "otlp": filled}, exporters.place if exporters else place)
    entries = root.value if isinstance(root.value, dict) else {}
    return Node({**entries, "exporters": whole}, root.place)


def _goes_somewhere(settings: Mapping[str, Node], given: Mapping[str, Node]) -> bool:
    return any(key in given or key in settings for key in _ENDPOINT_KEYS)


def _laid_over(settings: Mapping[str, Node], given: Mapping[str, Node], place: Place, written: Place) -> Node:
    # Headers are one setting: those of the file are not mixed with those of the environment.
    below = {key: node for key, node in settings.items() if not (key in ("headers", "tls") and key in given)}
    return merged(Node(below, place), Node(dict(given), written))


def _ways(by_signal: Mapping[Signal, dict[str, Node]]) -> list[dict[str, Node]]:
    """Put together the signals that are sent the same way."""
    ways: list[tuple[list[Signal], dict[str, Node]]] = []
    for signal, settings in by_signal.items():
        for signals, way in ways:
            if _is_one_way(way, settings):
                signals.append(signal)
                way.update(settings)
                break
        else:
            ways.append(([signal], dict(settings)))
    if len(ways) > 1 or len(by_signal) < len(SIGNALS):
        for signals, way in ways:
            place = next((node.place for node in way.values()), Place("environment"))
            way["signals"] = Node([Node(signal, place) for signal in signals], place)
    return [way for _, way in ways]


def _is_one_way(way: Mapping[str, Node], other: Mapping[str, Node]) -> bool:
    def rest(settings: Mapping[str, Node]) -> dict[str, object]:
        return {key: plain(node) for key, node in settings.items() if key not in _ENDPOINT_KEYS}

    same_base = "endpoint" not in way or "endpoint" not in other or plain(way["endpoint"]) == plain(other["endpoint"])
    return same_base and rest(way) == rest(other)


class _Variables:
    """The variables of the environment about one signal."""

    def __init__(self, environment: Mapping[str, str], signal: Signal, given: Mapping[str, Node]) -> None:
        self._environment = environment
        self._signal = signal
        self._given = given

    def settings(self) -> Iterator[tuple[str, Node]]:
        """Yield keys of `exporters.otlp` with their values."""
        is_endpoint_given = any(key in self._given for key in _ENDPOINT_KEYS)
        protocol = self._chosen("PROTOCOL")
        written = self._given.get("protocol")
        transport = written.value if written is not None else "http" if protocol is None else protocol[1]
        endpoints = {} if is_endpoint_given else dict(self._endpoints(is_grpc=transport == "grpc"))
        if protocol is not None:
            yield "protocol", _protocol(*protocol)
        elif endpoints and written is None:
            yield "protocol", Node("http", next(iter(endpoints.values())).place)  # the specification's default
        yield from endpoints.items()
        if (chosen := self._chosen("COMPRESSION")) is not None:
            yield "compression", Node(chosen[1], Place(chosen[0]))
        if (chosen := self._chosen("TIMEOUT")) is not None:
            yield "timeout", _milliseconds(*chosen)
        if (chosen := self._chosen("HEADERS")) is not None:
            yield "headers", _headers(*chosen)
        bare = endpoints.get("endpoint") if transport == "grpc" else None
        yield from self._security(bare if bare is not None and "://" not in str(bare.value) else None)

    def _chosen(self, name: str) -> tuple[str, str] | None:
        """Find a setting: the form of the signal first. An empty variable counts as unset."""
        for variable in (f"{_PREFIX}{self._signal.upper()}_{name}", f"{_PREFIX}{name}"):
            value = self._environment.get(variable, "").strip()
            if value:
                return variable, value
        return None

    def _endpoints(self, *, is_grpc: bool) -> Iterator[tuple[str, Node]]:
        chosen = self._chosen("ENDPOINT")
        traces = self._environment.get(f"{_PREFIX}TRACES_ENDPOINT", "").strip()
        if chosen is not None:
            is_whole = not is_grpc and chosen[0] != f"{_PREFIX}ENDPOINT"
            yield f"{self._signal}_endpoint" if is_whole else "endpoint", Node(chosen[1], Place(chosen[0]))
        elif traces and is_grpc:
            yield "endpoint", Node(traces, Place(f"{_PREFIX}TRACES_ENDPOINT"))
        elif traces.endswith("/v1/traces"):
            # Events and metrics belong where the traces go, and the usual path shows where that is.
            yield "endpoint", Node(traces.removesuffix("/v1/traces"), Place(f"{_PREFIX}TRACES_ENDPOINT"))

    def _security(self, bare_endpoint: Node | None) -> Iterator[tuple[str, Node]]:
        """Read certificates, and whether an endpoint without a scheme means plain text."""
        tls: dict[str, Node] = {}
        for name, key in _FILES.items():
            if (chosen := self._chosen(name)) is not None:
                tls[key] = Node(chosen[1], Place(chosen[0]))
        insecure = self._chosen("INSECURE")
        if insecure is not None and (bare_endpoint is not None or self._given.get("protocol") is not None):
            tls["insecure"] = _truth(*insecure)
        if tls or bare_endpoint is not None:
            place = next(iter(tls.values())).place if tls else bare_endpoint.place if bare_endpoint else Place("")
            yield "tls", Node(tls, place)


def _protocol(variable: str, value: str) -> Node:
    if value not in ("grpc", "http/protobuf"):
        raise config_error([Problem(Place(variable), f"`{value}` is not available; allowed: `grpc`, `http/protobuf`")])
    return Node(value, Place(variable))


def _truth(variable: str, value: str) -> Node:
    if value.lower() not in ("true", "false"):
        raise config_error([Problem(Place(variable), "must be `true` or `false`")])
    return Node(value.lower() == "true", Place(variable))


def _milliseconds(variable: str, value: str) -> Node:
    if not value.isascii() or not value.isdecimal() or len(value) > 9 or int(value) == 0:
        raise config_error([Problem(Place(variable), "must be a whole number of milliseconds above 0")])
    return Node(f"{int(value)}ms", Place(variable))


def _headers(variable: str, value: str) -> Node:
    place = Place(variable)
    headers: dict[str, Node] = {}
    for pair in value.split(","):
        name, equals, text = pair.partition("=")
        if not pair.strip():
            continue
        if not equals or not name.strip():
            # The text is not shown: it may be half a secret.
            raise config_error([Problem(place, "must be `name=value` pairs with commas between")])
        headers[unquote(name.strip())] = Node(unquote(text.strip()), place)
    return Node(headers, place)
