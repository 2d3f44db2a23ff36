"""`OTEL_EXPORTER_OTLP_*` fills gaps in `exporters.otlp`, with the meanings of the OpenTelemetry specification.

Variables of a single signal (`OTEL_EXPORTER_OTLP_LOGS_HEADERS`) are for the process that makes the signal, and are not read.
"""

from collections.abc import Iterator, Mapping
from urllib.parse import unquote

from toolgauge.config.problems import Node, Place, Problem, config_error, merged
from toolgauge.export.settings import SIGNALS

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
    settings = dict(_settings(environment, given))
    if not settings or not any(key in given or key in settings for key in _ENDPOINT_KEYS):
        return root
    place = next(iter(settings.values())).place
    # Headers are one setting: those of the file are not mixed with those of the environment.
    below = {key: node for key, node in settings.items() if not (key in ("headers", "tls") and key in given)}
    filled = merged(Node(below, place), Node(dict(given), otlp.place if otlp and given else place))
    whole = Node({"exporters": Node({"otlp": filled}, exporters.place if exporters else place)}, root.place)
    return merged(root, whole)


def _settings(environment: Mapping[str, str], given: Mapping[str, Node]) -> Iterator[tuple[str, Node]]:
    """Yield keys of `exporters.otlp` with their values."""

    def chosen(name: str) -> Node | None:
        # An empty variable counts as unset.
        value, place = environment.get(f"{PREFIX}{name}", "").strip(), Place(f"{PREFIX}{name}")
        return Node(_converted(name, value, place), place) if value else None

    protocol, written = chosen("PROTOCOL"), given.get("protocol")
    transport = written.value if written is not None else "http" if protocol is None else protocol.value
    endpoint = None if any(key in given for key in _ENDPOINT_KEYS) else chosen("ENDPOINT")
    if protocol is not None:
        yield "protocol", protocol
    elif endpoint is not None and written is None:
        yield "protocol", Node("http", endpoint.place)  # the specification's default
    if endpoint is not None:
        yield "endpoint", endpoint
    for name in ("COMPRESSION", "TIMEOUT", "HEADERS"):
        if (found := chosen(name)) is not None:
            yield name.lower(), found
    tls = {key: found for name, key in _FILES.items() if (found := chosen(name)) is not None}
    # An endpoint of gRPC without a scheme means TLS, unless `INSECURE` is true.
    is_bare = endpoint is not None and transport == "grpc" and "://" not in str(endpoint.value)
    insecure = chosen("INSECURE")
    if insecure is not None and (is_bare or written is not None):
        tls["insecure"] = insecure
    if tls or (is_bare and endpoint is not None):
        yield "tls", Node(tls, next((node.place for node in tls.values()), endpoint.place if endpoint else Place("")))


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
