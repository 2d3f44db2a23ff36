"""Config -> the receivers, and other receivers in place of those that run: no port is given up before another one is bound, where that can be.

Where the address stays the same it cannot be: those that listen there stop first, and come back when the others cannot
start. Senders find the door shut for that moment and come again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias

from toolgauge import plugins
from toolgauge.config.extensions import extensions
from toolgauge.config.listeners import (
    Auth,
    CorsSection,
    GrpcListener,
    HttpListener,
    KeepaliveSection,
    ServerTlsSection,
)
from toolgauge.config.model import Config
from toolgauge.export.prometheus import MetricsEndpoint
from toolgauge.model.delivery import Consumer
from toolgauge.model.errors import StartError
from toolgauge.model.metrics import MetricRegistry
from toolgauge.model.ports import Receiver
from toolgauge.net.auth import TokenGuard
from toolgauge.net.listen import split_endpoint
from toolgauge.net.tls import ServerTls
from toolgauge.otlp.otlp_json import request_from_json
from toolgauge.receive.grpc import GrpcReceiver
from toolgauge.receive.http import HttpReceiver
from toolgauge.receive.settings import Cors, GrpcSettings, HttpSettings, Keepalive
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.settings import file_path

OtlpReceiver: TypeAlias = GrpcReceiver | HttpReceiver
# What is being handled may end.
_GRACE_S = 2.0
# The system lets go of a port a moment after it was closed.
_ATTEMPTS = 10
_WAIT_S = 0.1


async def exchanged(
    old: Sequence[OtlpReceiver], new: Sequence[OtlpReceiver], *, endpoints: Sequence[str], same: Sequence[bool]
) -> tuple[OtlpReceiver, ...]:
    """Start the new receivers but for those that are the `same`, and stop the old ones; return those that run now.

    Raises `StartError` when one cannot start; the old ones run then.
    """
    going = [receiver for receiver, is_same in zip(old, same, strict=True) if not is_same]
    coming = [receiver for receiver, is_same in zip(new, same, strict=True) if not is_same]
    wanted = {split_endpoint(endpoint)[1] for endpoint, is_same in zip(endpoints, same, strict=True) if not is_same}
    if wanted.isdisjoint(receiver.port for receiver in going):
        await _start(coming)
        await _stop(going, _GRACE_S)
    else:
        await _stop(going, _GRACE_S)
        try:
            await _again(lambda: _start(coming))
        except StartError:
            await _again(lambda: _start(going))
            raise
    return tuple(before if is_same else after for before, after, is_same in zip(old, new, same, strict=True))


async def _start(receivers: Sequence[OtlpReceiver]) -> None:
    try:
        for receiver in receivers:
            await receiver.start()
    except BaseException:
        await _stop(receivers, 0)
        raise


async def _stop(receivers: Sequence[OtlpReceiver], grace_s: float) -> None:
    await asyncio.gather(*(receiver.stop(grace_s) for receiver in receivers))


async def _again(start: Callable[[], Awaitable[None]]) -> None:
    for _ in range(_ATTEMPTS - 1):
        try:
            await start()
        except StartError:
            await asyncio.sleep(_WAIT_S)
        else:
            return
    await start()


_MS = 1_000_000
_S = 1_000_000_000


def make_receivers(
    config: Config,
    consumer: Consumer,
    *,
    metrics: SelfMetrics,
    hop_id: str,
    has_memory: Callable[[int], bool],
) -> tuple[GrpcReceiver | HttpReceiver, ...]:
    """Make the OTLP receivers; raise `StartError` when a file that they need cannot be used."""
    protocols = config.receivers.otlp.protocols
    grpc, http = _grpc_settings(protocols.grpc), _http_settings(protocols.http)
    return (
        GrpcReceiver(consumer, grpc, metrics=metrics, hop_id=hop_id, has_memory=has_memory),
        HttpReceiver(
            consumer,
            http,
            from_json=request_from_json,
            metrics=metrics,
            hop_id=hop_id,
            has_memory=has_memory,
        ),
    )


def make_additional_receivers(config: Config, consumer: Consumer) -> tuple[Receiver, ...]:
    """Make the receivers that other packages bring."""
    return tuple(plugins.receiver(name)(settings, consumer) for name, settings in extensions(config.receivers))


def make_metrics_endpoint(
    config: Config, registry: MetricRegistry, resource: Mapping[str, str], *, start_ns: int
) -> MetricsEndpoint | None:
    """Make the endpoint that Prometheus scrapes, if there is to be one."""
    section = config.exporters.prometheus
    if section is None:
        return None
    return MetricsEndpoint(
        section.endpoint,
        registry,
        resource,
        start_ns=start_ns,
        tls=server_tls(section.tls),
        guard=guard(section.auth),
    )


def server_tls(section: ServerTlsSection | None) -> ServerTls | None:
    """Read the section `tls` of a listener."""
    if section is None:
        return None
    return ServerTls(
        cert_file=file_path(section.cert_file),
        key_file=file_path(section.key_file),
        client_ca_file=None if section.client_ca_file is None else file_path(section.client_ca_file),
        min_version=section.min_version,
        reload_interval_s=section.reload_interval / _S,
    )


def guard(section: Auth | None) -> TokenGuard | None:
    """Read the section `auth` of a listener; raise `StartError` when its file cannot be read."""
    if section is None:
        return None
    tokens = section.tokens if section.token is None else (section.token, *section.tokens)
    filename = None if section.filename is None else file_path(section.filename)
    return TokenGuard(tokens=tokens, filename=filename, header=section.header, scheme=section.scheme)


def _grpc_settings(section: GrpcListener) -> GrpcSettings:
    return GrpcSettings(
        endpoint=section.endpoint,
        max_recv_msg_size=section.max_recv_msg_size,
        tls=server_tls(section.tls),
        guard=guard(section.auth),
        keepalive=_keepalive(section.keepalive),
        max_concurrent_streams=section.max_concurrent_streams,
    )


def _http_settings(section: HttpListener) -> HttpSettings:
    return HttpSettings(
        endpoint=section.endpoint,
        max_request_body_size=section.max_request_body_size,
        paths={
            section.traces_url_path: "traces",
            section.metrics_url_path: "metrics",
            section.logs_url_path: "logs",
        },
        tls=server_tls(section.tls),
        guard=guard(section.auth),
        cors=_cors(section.cors),
        read_header_timeout_s=section.read_header_timeout / _S,
        read_timeout_s=section.read_timeout / _S,
        idle_timeout_s=section.idle_timeout / _S,
    )


def _cors(section: CorsSection | None) -> Cors | None:
    if section is None:
        return None
    return Cors(
        allowed_origins=section.allowed_origins, allowed_headers=section.allowed_headers, max_age_s=section.max_age
    )


def _keepalive(section: KeepaliveSection) -> Keepalive:
    server, policy = section.server_parameters, section.enforcement_policy
    return Keepalive(
        max_connection_idle_ms=_milliseconds(server.max_connection_idle),
        max_connection_age_ms=_milliseconds(server.max_connection_age),
        max_connection_age_grace_ms=_milliseconds(server.max_connection_age_grace),
        time_ms=_milliseconds(server.time),
        timeout_ms=_milliseconds(server.timeout),
        min_time_ms=_milliseconds(policy.min_time),
        permit_without_stream=policy.permit_without_stream,
    )


def _milliseconds(duration_ns: int | None) -> int | None:
    return None if duration_ns is None else max(1, duration_ns // _MS)
