"""Who we are on the wire: the resource of all that we say ourselves.

Every process has its own `service.instance.id`: two replicas would otherwise overwrite each other's series.
"""

# pyright: reportUnknownMemberType=false

from collections.abc import Mapping

from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.sdk.resources import OTELResourceDetector

from toolgauge.export import names
from toolgauge.export.fit import MAX_EXPLANATION, fit_text


def resource_from_environment() -> dict[str, str]:
    """Read `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_SERVICE_NAME`."""
    return {key: str(value) for key, value in OTELResourceDetector().detect().attributes.items()}


def own_attributes(instance_id: str, version: str, extra: Mapping[str, str]) -> dict[str, str]:
    """Describe this process; what the operator sets wins."""
    own = {"service.name": "toolgauge", "service.version": version, "service.instance.id": instance_id}
    return {fit_text(key, MAX_EXPLANATION): fit_text(value, MAX_EXPLANATION) for key, value in {**own, **extra}.items()}


def own_resource(attributes: Mapping[str, str]) -> Resource:
    """Encode the resource."""
    resource = Resource()
    for key, value in attributes.items():
        resource.attributes.add(key=key).value.string_value = value
    return resource


def own_scope(version: str) -> InstrumentationScope:
    """Encode the scope by which our own spans and records are known."""
    return InstrumentationScope(name=names.SCOPE, version=version)
