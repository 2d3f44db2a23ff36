"""`exporters.otlp` -> the way out."""

from collections.abc import Iterator, Sequence

from toolgauge import plugins
from toolgauge.config.destinations import ClientTlsSection, OtlpExporter
from toolgauge.config.extensions import extensions
from toolgauge.config.model import Config
from toolgauge.export.destination import Destination, exporter_destination, otlp_destination
from toolgauge.export.fan_out import FanOut
from toolgauge.export.sender import LEAST_OWN_RESERVE_BYTES, DestinationSettings, RetrySettings
from toolgauge.model.ports import Exporter
from toolgauge.net.tls import ClientTls
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.settings import file_path


def make_outbox(config: Config, metrics: SelfMetrics, *, hop_id: str, user_agent: str) -> FanOut:
    """Make the destinations, or what stands in when there are none."""
    otlp = fan_out(config.exporters.otlp, metrics, hop_id=hop_id, user_agent=user_agent)
    return FanOut((*otlp.destinations, *_of_plug_ins(config, metrics)), metrics)


def _of_plug_ins(config: Config, metrics: SelfMetrics) -> Iterator[Destination]:
    for name, settings in extensions(config.exporters):
        exporter: Exporter = plugins.exporter(name)(settings)
        yield exporter_destination(name, exporter, metrics)


def fan_out(exporters: Sequence[OtlpExporter], metrics: SelfMetrics, *, hop_id: str, user_agent: str) -> FanOut:
    """Make the destinations of `exporters.otlp`."""
    destinations = [
        otlp_destination(destination_settings(exporter, number), metrics, hop_id, user_agent)
        for number, exporter in enumerate(exporters, 1)
    ]
    return FanOut(destinations, metrics)


def renewed_outbox(
    config: Config, metrics: SelfMetrics, in_use: Sequence[Destination], *, hop_id: str, user_agent: str
) -> FanOut:
    """Make what `make_outbox` makes, with those of the destinations in use that stay as they are."""
    by_name = {destination.name: destination for destination in in_use if destination.is_built_in}
    destinations: list[Destination] = []
    for number, exporter in enumerate(config.exporters.otlp, 1):
        settings = destination_settings(exporter, number)
        known = by_name.get(settings.name)
        if known is None or known.settings != settings:
            known = otlp_destination(settings, metrics, hop_id, user_agent)
        destinations.append(known)
    destinations.extend(destination for destination in in_use if not destination.is_built_in)
    return FanOut(destinations, metrics)


def destination_settings(exporter: OtlpExporter, number: int = 1) -> DestinationSettings:
    """Read one entry of `exporters.otlp`; those without a name are numbered."""
    retry = exporter.retry
    return DestinationSettings(
        name=exporter.name or ("otlp" if number == 1 else f"otlp/{number}"),
        endpoint=exporter.endpoint or "",
        signal_endpoints=exporter.signal_endpoints,
        signals=frozenset(exporter.signals),
        protocol=exporter.protocol,
        compression=exporter.compression,
        headers=exporter.headers,
        tls=_tls(exporter.tls),
        timeout_s=exporter.timeout / 1e9,
        retry=RetrySettings(
            initial_interval_s=retry.initial_interval / 1e9,
            multiplier=retry.multiplier,
            randomization_factor=retry.randomization_factor,
            max_interval_s=retry.max_interval / 1e9,
            max_elapsed_time_s=retry.max_elapsed_time / 1e9,
        ),
        queue_max_bytes=exporter.queue.max_bytes,
        # With two criteria, what is said of the spans that fill a queue takes half as many bytes as they; with more, more.
        own_reserve_bytes=max(LEAST_OWN_RESERVE_BYTES, exporter.queue.max_bytes),
        in_flight=exporter.queue.num_consumers,
        max_request_bytes=exporter.max_request_size,
    )


def _tls(section: ClientTlsSection | None) -> ClientTls | None:
    if section is None or section.insecure:
        return None
    return ClientTls(
        ca_file=None if section.ca_file is None else file_path(section.ca_file),
        cert_file=None if section.cert_file is None else file_path(section.cert_file),
        key_file=None if section.key_file is None else file_path(section.key_file),
        server_name=section.server_name_override,
        min_version=section.min_version,
        verifies=not section.insecure_skip_verify,
        reload_interval_s=section.reload_interval / 1e9,
    )
