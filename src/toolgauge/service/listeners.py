"""Config -> what the listeners need: TLS, guards, receivers."""

from collections.abc import Callable, Mapping

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
from toolgauge.model.metrics import MetricRegistry
from toolgauge.model.ports import Receiver
from toolgauge.net.auth import TokenGuard
from toolgauge.net.tls import ServerTls
from toolgauge.otlp.otlp_json import request_from_json
from toolgauge.receive.cors import Cors
from toolgauge.receive.grpc import GrpcReceiver
from toolgauge.receive.http import HttpReceiver
from toolgauge.receive.settings import GrpcSettings, HttpSettings, Keepalive
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.settings import file_path

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
