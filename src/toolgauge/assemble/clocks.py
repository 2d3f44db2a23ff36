"""Finds out by how much the clocks of services differ, from spans that do not fit into those that caused them.

A service keeps one clock, so all its spans are moved together: the order among them is never touched.
"""

from collections.abc import Collection, Mapping, Sequence

from toolgauge.assemble.node import Node

_Edge = tuple[Node, Node]


def clock_offsets(nodes: Sequence[Node]) -> Mapping[str | None, int]:
    """Return for each service what to add to its times to have them on the clock of the topmost service."""
    shallowest: dict[str | None, int] = {}
    edges: dict[str | None, list[_Edge]] = {}
    for node in nodes:
        shallowest[node.first.service] = min(node.branch.depth, shallowest.get(node.first.service, node.branch.depth))
        if node.above is not None and node.above.first.service != node.first.service:
            edges.setdefault(node.first.service, []).append((node.above, node))
    offsets: dict[str | None, int] = {}
    for service in sorted(shallowest, key=lambda service: (shallowest[service], service or "")):
        known = [(above, node) for above, node in edges.get(service, ()) if above.first.service in offsets]
        offsets[service] = _offset(known, offsets)
    return offsets


def _offset(edges: Collection[_Edge], offsets: Mapping[str | None, int]) -> int:
    """Leave a clock alone while every span starts within its cause; else put the spans in the middle.

    A span that starts after its cause has ended was timed by another clock only if it would fit into it: work
    that was handed over and goes on alone is longer.
    """
    is_off = False
    least, most = None, None
    for above, node in edges:
        start_ns, end_ns = above.start_ns + offsets[above.first.service], above.end_ns + offsets[above.first.service]
        fits = node.end_ns - node.start_ns <= end_ns - start_ns
        is_off = is_off or node.start_ns < start_ns or (fits and node.start_ns > end_ns)
        forward = start_ns - node.start_ns
        least = forward if least is None else max(least, forward)
        if fits:
            room = end_ns - node.end_ns
            most = room if most is None else min(most, room)
    if not is_off or least is None:
        return 0
    return least if most is None or most < least else (least + most) // 2
