"""One attempt to send a request: the interface of both transports, and how an attempt ends.

Whether an error may be retried is decided when it becomes a verdict.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from toolgauge.model.delivery import Signal
from toolgauge.model.errors import StartError
from toolgauge.model.ports import Exporter

# More than this is no answer but an attack, or somebody else's protocol.
MAX_RESPONSE_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Delivered:
    """The destination has it, but for `rejected` items, which it will never take (`partial_success`)."""

    rejected: int = 0


@dataclass(frozen=True, slots=True)
class Transient:
    """It may work later. `retry_after_s` is the wait the destination asked for, `None` when it asked for none.

    `cause` is for the log where more is known than `reason`, which is a label: one of a few phrases, never of the destination.
    """

    reason: str
    retry_after_s: float | None = None
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Permanent:
    """It will never work: sending the same bytes again is noise.

    `is_lasting` is for what is wrong with the destination or how we ask it (a token, a path): the next request will
    fare the same, until somebody does something. `is_about_content` is for what may be wrong with the bytes (broken,
    too many): a part of them may be taken.
    """

    reason: str
    is_lasting: bool = False
    is_about_content: bool = False


Verdict: TypeAlias = Delivered | Transient | Permanent

DELIVERED = Delivered()
CONNECTION_REFUSED = "connection refused"
UNKNOWN_HOST = "the name of the host cannot be resolved"


class Sender(Protocol):
    """Sends one request once."""

    async def start(self) -> None:
        """Open what needs a running event loop; connects lazily."""
        ...

    async def renew(self) -> None:
        """Use TLS files that have changed; raise `StartError` when they cannot be used (the old ones stay in use)."""
        ...

    async def send(self, signal: Signal, body: bytes) -> Verdict:
        """Send the body and return how that ended."""
        ...

    async def close(self) -> None:
        """Close the connections; may be called twice and without a start."""
        ...


class ExporterSender:
    """Sends through an exporter of another package."""

    def __init__(self, exporter: Exporter, timeout_s: float) -> None:
        self._exporter = exporter
        self._timeout_s = timeout_s

    async def start(self) -> None:
        """Start the exporter."""
        await self._exporter.start()

    async def renew(self) -> None:
        """Do nothing: TLS is the exporter's own."""

    async def send(self, signal: Signal, body: bytes) -> Verdict:
        """Send once; the destination counts whatever else the exporter raises."""
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._exporter.send(signal, body)
        except OSError as error:
            return Transient(type(error).__name__)
        return DELIVERED

    async def close(self) -> None:
        """Close the exporter."""
        await self._exporter.close()


def delivered(signal: Signal, response: bytes) -> Delivered:
    """Make the verdict of a success. An answer that is not ours to read is still a success."""
    if not response:
        return DELIVERED
    try:
        rejected = _REJECTED[signal](response)
    except DecodeError:
        return DELIVERED
    return Delivered(rejected=max(0, rejected))


def _rejected_spans(response: bytes) -> int:
    return ExportTraceServiceResponse.FromString(response).partial_success.rejected_spans


def _rejected_points(response: bytes) -> int:
    return ExportMetricsServiceResponse.FromString(response).partial_success.rejected_data_points


def _rejected_records(response: bytes) -> int:
    return ExportLogsServiceResponse.FromString(response).partial_success.rejected_log_records


_REJECTED: dict[Signal, Callable[[bytes], int]] = {
    "traces": _rejected_spans,
    "metrics": _rejected_points,
    "logs": _rejected_records,
}


def is_on_this_machine(address: str) -> bool:
    """Return whether the `host:port` is a loopback address."""
    host = address.rpartition(":")[0].strip("[]").lower()
    return host in ("localhost", "::1") or host.startswith("127.")


def proxy_of(url: str) -> str | None:
    """Return the URL of the proxy for this URL; `None` when there is none. This machine is asked directly.

    The HTTP client would read it by itself, but only together with the passwords in `.netrc`, which are not meant for it.
    Raise `StartError` for a proxy that is not asked over HTTP: going around it is not ours to decide.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    if is_on_this_machine(f"{host}:{parts.port or 0}"):
        return None
    if proxy_bypass(f"{host}:{parts.port}" if parts.port else host):
        return None
    proxies = getproxies()
    named = proxies.get(parts.scheme) or proxies.get("all")
    if named is None:
        return None
    proxy = named if "://" in named else f"http://{named}"
    if urlsplit(proxy).scheme not in ("http", "https"):
        raise StartError(
            f"the proxy that the environment names for `{parts.scheme}` is not an HTTP proxy",
            hint=f"name another one, or `{host}` in `no_proxy`",
        )
    return proxy
