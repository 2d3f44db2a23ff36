"""One entry of `exporters.otlp` -> what a destination is told to be."""

from toolgauge.config.model import OtlpExporter
from toolgauge.forward.settings import DestinationSettings, RetrySettings


def destination_settings(exporter: OtlpExporter) -> DestinationSettings:
    """Read one entry of `exporters.otlp`."""
    retry = exporter.retry
    return DestinationSettings(
        endpoint=exporter.endpoint or "",
        traces_endpoint=exporter.traces_endpoint,
        protocol=exporter.protocol,
        compression=exporter.compression,
        headers=exporter.headers,
        timeout_s=exporter.timeout / 1e9,
        retry=RetrySettings(
            initial_interval_s=retry.initial_interval / 1e9,
            multiplier=retry.multiplier,
            randomization_factor=retry.randomization_factor,
            max_interval_s=retry.max_interval / 1e9,
            max_elapsed_time_s=retry.max_elapsed_time / 1e9,
        ),
        queue_max_bytes=exporter.queue.max_bytes,
    )
