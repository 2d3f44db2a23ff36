"""Finds HTTP requests to providers of models in services that record no model call, and the packages that would record them."""

import re
from collections import Counter
from collections.abc import Collection, Iterator
from fnmatch import fnmatchcase
from typing import NamedTuple

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from toolgauge.model.json import JsonObject
from toolgauge.recognize.shortfalls import Producer, table
from toolgauge.report.terminal import PLAIN, Style, counted, shortened

_URLS = ("url.full", "http.url")
_PATHS = (*_URLS, "url.path", "http.target")
_HOSTS = ("server.address", "net.peer.name", "http.host")
_METHODS = ("http.request.method", "http.method")
_URL = re.compile(r"https?://([^/:?#]{1,253})")
_MAX_ATTRIBUTES, _LONGEST_VALUE, _NAME_LENGTH = 128, 2048, 200


def producer_object(producer: Producer) -> JsonObject:
    """Name a producer for `doctor --json`."""
    return {
        "service": producer.service or None,
        "scope": producer.scope,
        "version": producer.version or None,
        "language": producer.language or None,
    }


def producer_head(producer: Producer, length: int = _NAME_LENGTH) -> str:
    """Name a producer for a person, with at most `length` characters of each name."""
    scope = shortened(" ".join((producer.scope or "(no scope)", producer.version)).strip(), length)
    return f"{shortened(producer.service or 'unknown service', length)}: {scope}"


class ModelRequests(NamedTuple):
    """The requests of one producer to one host, and the packages that record the calls in them."""

    producer: Producer
    host: str
    spans: int
    packages: tuple[str, ...]


class ModelRequestSpans:
    """Takes the spans of a recording, and counts requests to providers of models."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[Producer, str, int]] = Counter()
        self._hosts = [(pattern, index) for index, one in enumerate(table().model_hosts) for pattern in one.hosts]

    def see(self, producer: Producer, span: Span) -> None:
        """Take a span."""
        if span.kind != Span.SPAN_KIND_CLIENT:
            return
        given = {pair.key: pair.value.string_value[:_LONGEST_VALUE] for pair in span.attributes[:_MAX_ATTRIBUTES]}
        # Lists of models and files are got, not posted.
        is_request = any(given.get(key) == "POST" for key in _METHODS) or "rpc.service" in given
        if not is_request or any("embedding" in given.get(key, "") for key in _PATHS):
            return
        urls = (found[1] for key in _URLS if (found := _URL.match(given.get(key, ""))))
        host = next(urls, None) or next((given[key] for key in _HOSTS if given.get(key)), "")
        host = host.partition(":")[0].lower()
        # A few names at most: each is one of the table, or a subdomain of one.
        for pattern, index in self._hosts:
            if fnmatchcase(host, pattern):
                self._counts[producer, pattern, index] += 1

    def left_over(self, services_with_runs: Collection[str]) -> list[ModelRequests]:
        """Return the requests of services that record no model call."""
        return [
            ModelRequests(producer, host, spans, table().model_hosts[index].packages.get(producer.language, ()))
            for (producer, host, index), spans in sorted(self._counts.items())
            if producer.service not in services_with_runs
        ]


def requests_object(found: ModelRequests) -> JsonObject:
    """Describe them for `doctor --json`."""
    return {
        **producer_object(found.producer),
        "dialects": [],
        "model_requests": {"host": found.host, "spans": found.spans, "packages": [*found.packages]},
        "ok": True,
    }


def requests_lines(found: ModelRequests, style: Style = PLAIN) -> Iterator[str]:
    """Describe them for a person."""
    yield style.head(producer_head(found.producer))
    spans = counted(found.spans, "request")
    yield f"  {style.doubtful('note')}: {spans} to `{found.host}`, and no model call recorded: a request's span has no tool calls"
    named = " or ".join(f"`{package}`" for package in found.packages)
    client = f"the model client ({named})" if named else "the model client"
    yield f"    do: add the instrumentation of the agent's framework where there is one, else of {client}"
