"""The envelope of a request: its groups of spans or log records, each of them left as bytes.

Writes requests from raw spans. Nothing here looks into a span, so whatever a sender put into one goes on unchanged.
"""

from collections.abc import Iterable
from copy import copy

from msgspec import Struct

from toolgauge.otlp.bounds import check_request
from toolgauge.otlp.messages import (
    REQUEST,
    Repeated,
    RequestMessage,
    ResourceGroupMessage,
    ScopeGroupMessage,
    Wire,
    joined,
    parse,
)

# Taking items out one by one copies none of them, but moves all that stand behind: beyond this it takes milliseconds.
_MOVED_AT_MOST = 1_000_000
# A resource or scope is written once.
_MOST_WRITTEN = 16


class Container(Struct, eq=False):
    """What stands around a span: resource and scope as bytes, copies of their own.

    `resource` and `scope` hold one element for each time the sender wrote the field, or one for all where it did so
    senselessly often. Compared by identity. `request` stands for the request that it came in; `origin` is equal for all
    containers of one request, and of requests that came on one connection; containers of one resource group share its
    `resource`.
    """

    resource: tuple[bytes, ...]
    resource_schema_url: bytes
    scope: tuple[bytes, ...]
    scope_schema_url: bytes
    request: object = None
    origin: object = None


def container(
    resource: tuple[bytes, ...],
    resource_schema_url: bytes,
    scope_group: ScopeGroupMessage,
    *,
    request: object,
    origin: object,
) -> Container:
    """Copy what stands around the spans of a scope group."""
    return Container(
        resource=resource,
        resource_schema_url=resource_schema_url,
        scope=copied(scope_group.scope),
        scope_schema_url=scope_group.schema_url,
        request=request,
        origin=origin,
    )


def copied(written: Repeated[bytes]) -> tuple[bytes, ...]:
    """Copy a resource or scope as it was written; more than anybody writes are joined, which is merging them."""
    return tuple(written) if len(written) <= _MOST_WRITTEN else (joined(written),)


def parse_request(body: bytes) -> RequestMessage:
    """Parse the envelope of a request of spans or log records; raise `DecodeError` when it is broken.

    One that has too many groups or items for its size counts as broken.
    """
    check_request(body)
    return parse(REQUEST, body)


def count_items(body: bytes) -> int:
    """Count the spans or log records of a request; raise `DecodeError` when its envelope is broken."""
    return sum(len(scope.items) for group in parse_request(body).resource_groups for scope in group.scope_groups)


def encode_spans(spans: Iterable[tuple[Container, bytes]]) -> bytes:
    """Write one request from raw spans: one scope group a container, in the order in which they first occur."""
    by_container: dict[Container, list[bytes]] = {}
    for around, raw in spans:
        by_container.setdefault(around, []).append(raw)
    request = REQUEST()
    by_resource: dict[tuple[tuple[bytes, ...], bytes], ResourceGroupMessage] = {}
    for around, raws in by_container.items():
        key = (around.resource, around.resource_schema_url)
        group = by_resource.get(key)
        if group is None:
            group = by_resource[key] = request.resource_groups.add()
            group.resource.extend(around.resource)
            group.schema_url = around.resource_schema_url
        scope_group = group.scope_groups.add()
        scope_group.scope.extend(around.scope)
        scope_group.schema_url = around.scope_schema_url
        scope_group.items.extend(raws)
    return request.SerializeToString()


def without_items(request: RequestMessage, places: Iterable[tuple[int, int, int]]) -> bytes:
    """Write the request without the items at these places (resource group, scope group, item).

    They are gone from `request` then. A group that this empties is dropped, unless it has fields that we do not know.
    """
    gone: dict[tuple[int, int], list[int]] = {}
    for resource_index, scope_index, index in places:
        gone.setdefault((resource_index, scope_index), []).append(index)
    # From the end, so that dropping a group leaves the other indexes valid.
    for resource_index, scope_index in sorted(gone, reverse=True):
        group = request.resource_groups[resource_index]
        _remove_from_scope(group, scope_index, gone[resource_index, scope_index])
        if not group.scope_groups and not _has_unknown_fields(group, ("resource", "schema_url")):
            del request.resource_groups[resource_index : resource_index + 1]
    return request.SerializeToString()


def _remove_from_scope(group: ResourceGroupMessage, scope_index: int, gone: list[int]) -> None:
    scope = group.scope_groups[scope_index]
    items = scope.items
    if len(gone) * len(items) <= _MOVED_AT_MOST:
        for index in sorted(gone, reverse=True):
            del items[index : index + 1]
    else:
        left_out = frozenset(gone)
        kept = [raw for index, raw in enumerate(items) if index not in left_out]
        del items[:]
        items.extend(kept)
    if not items and not _has_unknown_fields(scope, ("scope", "schema_url")):
        del group.scope_groups[scope_index : scope_index + 1]


def _has_unknown_fields(emptied: Wire, known_fields: tuple[str, ...]) -> bool:
    known = copy(emptied)
    for name in known_fields:
        known.ClearField(name)
    return known.ByteSize() > 0
