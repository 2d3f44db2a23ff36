"""`OTEL_EXPORTER_OTLP_*` fills gaps in `exporters.otlp`, with the meanings of the OpenTelemetry specification.

A signal's own variable (`OTEL_EXPORTER_OTLP_LOGS_HEADERS`) wins; signals with different settings get a destination each.
"""

from collections.abc import Iterator, Mapping
from urllib.parse import unquote

from toolgauge.config.problems import Node, Place, Problem, config_error, merged, plain
from toolgauge.export.settings import SIGNALS
from toolgauge.model.delivery import Signal

PREFIX = "OTEL_EXPORTER_OTLP_"
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
    ways = _ways(
        {
            signal: settings
            for signal, settings in by_signal.items()
            if any(key in given or key in settings for key in _ENDPOINT_KEYS)
        }
    )
    if not any(ways):
        return root
    place = next(node.place for way in ways for node in way.values())
    destinations: list[Node] = []
    for way in ways:
        # Headers are one setting: those of the file are not mixed with those of the environment.
        below = {key: node for key, node in way.items() if not (key in ("headers", "tls") and key in given)}
        destinations.append(merged(Node(below, place), Node(dict(given), otlp.place if otlp and given else place)))
    others = exporters.value if exporters is not None and isinstance(exporters.value, dict) else {}
    filled = destinations[0] if len(destinations) == 1 else Node(destinations, place)
    whole = Node({**others, "otlp": filled}, exporters.place if exporters else place)
    entries = root.value if isinstance(root.value, dict) else {}
    return Node({**entries, "exporters": whole}, root.place)


def _ways(by_signal: Mapping[Signal, dict[str, Node]]) -> list[dict[str, Node]]:
    """Put together the signals that are sent the same way: to one base, with all other settings alike."""

    def rest(settings: Mapping[str, Node]) -> dict[str, object]:
        return {key: plain(node) for key, node in settings.items() if key not in _ENDPOINT_KEYS}

    ways: list[tuple[list[Signal], dict[str, Node]]] = []
    for signal, settings in by_signal.items():
        for signals, way in ways:
            bases = {str(plain(each["endpoint"])) for each in (way, settings) if "endpoint" in each}
            if len(bases) < 2 and rest(way) == rest(settings):
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


class _Variables:
    def __init__(self, environment: Mapping[str, str], signal: Signal, given: Mapping[str, Node]) -> None:
        self._environment = environment
        self._signal = signal
        self._given = given

    def settings(self) -> Iterator[tuple[str, Node]]:
        """Yield keys of `exporters.otlp` with their values."""
        protocol, written = self._chosen("PROTOCOL"), self._given.get("protocol")
        transport = written.value if written is not None else "http" if protocol is None else protocol.value
        endpoint: tuple[str, Node] | None = None
        if not any(key in self._given for key in _ENDPOINT_KEYS):
            endpoint = self._endpoint(is_grpc=transport == "grpc")
        if protocol is not None:
            yield "protocol", protocol
        elif endpoint is not None and written is None:
            yield "protocol", Node("http", endpoint[1].place)  # the specification's default
        if endpoint is not None:
            yield endpoint
        for name in ("COMPRESSION", "TIMEOUT", "HEADERS"):
            if (chosen := self._chosen(name)) is not None:
                yield name.lower(), chosen
        tls: dict[str, Node] = {}
        for name, key in _FILES.items():
            if (chosen := self._chosen(name)) is not None:
                tls[key] = chosen
        # An endpoint of gRPC without a scheme means TLS, unless `INSECURE` is true.
        is_bare = endpoint is not None and transport == "grpc" and "://" not in str(endpoint[1].value)
        insecure = self._chosen("INSECURE")
        if insecure is not None and (is_bare or written is not None):
            tls["insecure"] = insecure
        if tls or (is_bare and endpoint is not None):
            yield (
                "tls",
                Node(tls, next(iter(tls.values())).place if tls else endpoint[1].place if endpoint else Place("")),
            )

    def _endpoint(self, *, is_grpc: bool) -> tuple[str, Node] | None:
        chosen = self._chosen("ENDPOINT")
        if chosen is not None:
            is_whole = not is_grpc and chosen.place.source != f"{PREFIX}ENDPOINT"
            return f"{self._signal}_endpoint" if is_whole else "endpoint", chosen
        traces = self._environment.get(f"{PREFIX}TRACES_ENDPOINT", "").strip()
        # Events and metrics belong where the traces go, and the usual path shows where that is.
        if traces and (is_grpc or traces.endswith("/v1/traces")):
            base = traces if is_grpc else traces.removesuffix("/v1/traces")
            return "endpoint", Node(base, Place(f"{PREFIX}TRACES_ENDPOINT"))
        return None

    def _chosen(self, name: str) -> Node | None:
        """Read a setting: the form of the signal first. An empty variable counts as unset."""
        for variable in (f"{PREFIX}{self._signal.upper()}_{name}", f"{PREFIX}{name}"):
            value = self._environment.get(variable, "").strip()
            if value:
                return Node(_converted(name, value, Place(variable)), Place(variable))
        return None


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
