"""`OTEL_EXPORTER_OTLP_*` fills what the file leaves out of `exporters.otlp`.

The form for traces wins over the general one. A destination appears when an endpoint comes from here. The
meanings are those of the OpenTelemetry specification: the general endpoint is a base URL for HTTP, the one for
traces is used as it is, a timeout is a number of milliseconds, headers are percent-encoded.
"""

from collections.abc import Iterator, Mapping
from urllib.parse import unquote

from toolgauge.config.nodes import Node, Place, merged
from toolgauge.config.problems import Problem, config_error

_PREFIX = "OTEL_EXPORTER_OTLP_"
_ENDPOINT_KEYS = ("endpoint", "traces_endpoint")


def filled_in(root: Node, environment: Mapping[str, str]) -> Node:
    """Lay the file over what the environment says. Raises ConfigError for values that cannot be read."""
    exporters = root.child("exporters")
    otlp = exporters.child("otlp") if exporters else None
    if otlp is not None and isinstance(otlp.value, list):
        return root  # several destinations: it would be a guess which one is meant
    given: dict[str, Node] = otlp.value if otlp is not None and isinstance(otlp.value, dict) else {}
    settings = dict(_settings(environment, given))
    named = any(key in given for key in _ENDPOINT_KEYS)
    if named:
        settings = {key: node for key, node in settings.items() if key not in _ENDPOINT_KEYS}
    if not settings or not (named or any(key in settings for key in _ENDPOINT_KEYS)):
        return root
    if otlp is not None and not isinstance(otlp.value, dict | None):
        return root  # not a mapping: the model says so
    place = next(iter(settings.values())).place
    # Headers are one setting: those of the file are not mixed with those of the environment.
    below = {key: node for key, node in settings.items() if not (key == "headers" and "headers" in given)}
    destination = merged(Node(below, place), Node(given, otlp.place if otlp and given else place))
    others = exporters.value if exporters is not None and isinstance(exporters.value, dict) else {}
    whole = Node({**others, "otlp": destination}, exporters.place if exporters else place)
    entries = root.value if isinstance(root.value, dict) else {}
    return Node({**entries, "exporters": whole}, root.place)


def _settings(environment: Mapping[str, str], given: Mapping[str, Node]) -> Iterator[tuple[str, Node]]:
    protocol = _chosen(environment, "PROTOCOL")
    endpoint_given = any(key in given for key in _ENDPOINT_KEYS)
    if protocol is not None:
        yield "protocol", _protocol(*protocol)
    elif not endpoint_given and (chosen := _chosen(environment, "ENDPOINT")) is not None:
        yield "protocol", Node("http", Place(chosen[0]))  # the specification's default
    written = given.get("protocol")
    transport = written.value if written is not None else "http" if protocol is None else protocol[1]
    yield from _endpoints(environment, grpc=transport == "grpc")
    if (chosen := _chosen(environment, "COMPRESSION")) is not None:
        yield "compression", Node(chosen[1], Place(chosen[0]))
    if (chosen := _chosen(environment, "TIMEOUT")) is not None:
        yield "timeout", _milliseconds(*chosen)
    if (chosen := _chosen(environment, "HEADERS")) is not None:
        yield "headers", _headers(*chosen)
    yield from _security(environment)


def _chosen(environment: Mapping[str, str], name: str) -> tuple[str, str] | None:
    """Find a setting: the form for traces first. An empty variable counts as unset."""
    for variable in (f"{_PREFIX}TRACES_{name}", f"{_PREFIX}{name}"):
        value = environment.get(variable, "").strip()
        if value:
            return variable, value
    return None


def _endpoints(environment: Mapping[str, str], *, grpc: bool) -> Iterator[tuple[str, Node]]:
    if grpc:
        chosen = _chosen(environment, "ENDPOINT")
        if chosen is not None:
            yield "endpoint", Node(chosen[1], Place(chosen[0]))
        return
    general = environment.get(f"{_PREFIX}ENDPOINT", "").strip()
    traces = environment.get(f"{_PREFIX}TRACES_ENDPOINT", "").strip()
    if general:
        yield "endpoint", Node(general, Place(f"{_PREFIX}ENDPOINT"))
    elif traces.endswith("/v1/traces"):
        # Events and metrics belong where the traces go, and the usual path tells where that is.
        yield "endpoint", Node(traces.removesuffix("/v1/traces"), Place(f"{_PREFIX}TRACES_ENDPOINT"))
    if traces:
        yield "traces_endpoint", Node(traces, Place(f"{_PREFIX}TRACES_ENDPOINT"))


def _protocol(variable: str, value: str) -> Node:
    if value not in ("grpc", "http/protobuf"):
        raise config_error([Problem(Place(variable), f"`{value}` is not available; allowed: `grpc`, `http/protobuf`")])
    return Node(value, Place(variable))


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


def _security(environment: Mapping[str, str]) -> Iterator[tuple[str, Node]]:
    """Certificates become `tls`, so that the model says that it cannot be had, rather than sending in the open."""
    for name in ("CERTIFICATE", "CLIENT_KEY", "CLIENT_CERTIFICATE"):
        chosen = _chosen(environment, name)
        if chosen is not None:
            yield "tls", Node({name.lower(): Node(chosen[1], Place(chosen[0]))}, Place(chosen[0]))
            return
