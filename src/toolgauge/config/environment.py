"""`OTEL_EXPORTER_OTLP_*` fills gaps in `exporters.otlp`, with the meanings of the OpenTelemetry specification.

Variables of one signal (`OTEL_EXPORTER_OTLP_LOGS_HEADERS`) are refused: a file describes several destinations.
"""

from collections.abc import Iterator, Mapping
from urllib.parse import unquote

from toolgauge.config.problems import Node, Place, Problem, config_error, merged
from toolgauge.export.settings import SIGNALS

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
    # Headers are one setting: those of the file are not mixed with those of the environment.
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
