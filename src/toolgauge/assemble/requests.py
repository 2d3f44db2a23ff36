"""Collects what the models of one trace asked for, each request once, in the models' order.

A request shows up on the model's span, in log records, on the span of a second instrumentation above or
beside it, and in summaries on agent spans. The innermost model span decides to which turn it belongs.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from operator import attrgetter

from toolgauge.assemble.node import Node, Request
from toolgauge.assemble.told import Told
from toolgauge.assemble.twins import Known, Summed, twins

_position: Callable[[Request], int] = attrgetter("position")
# Nested model spans come in twos and threes; a limit keeps a hostile chain from costing its square.
_MAX_NESTING = 4
# So many spans may stand between an output and what tells of it.
_MAX_AROUND = 16


def requested_calls(told: Told) -> list[Request]:
    """Return each request once: by turn, within it by the model's order."""
    requesting = told.requesting
    primary = [node for node in requesting if node.is_primary]
    nested = [node for node in primary if node.branch.model_above is not None]
    if nested:
        _absorb_above(nested)
    # A single instrumentation, as nearly always, tells nothing twice; and keys of arguments are dear.
    if len({node.first.scope for node in primary}) > 1:
        _absorb_beside(primary)
    if len(primary) < len(requesting):
        _absorb_summaries(requesting, primary)
        _give_to_single_outputs([node for node in requesting if _tells_of_outputs(node)], told.nodes)
        requesting = [node for node in told.nodes if node.requests]
    calls: list[Request] = []
    for node in requesting:
        requests = node.requests
        calls += requests if len(requests) == 1 else sorted(requests, key=_position)
    return [request for request in calls if request.alive]


def _absorb_above(nodes: Sequence[Node]) -> None:
    summed: dict[int, Summed] = {}
    for node in sorted(nodes, key=lambda node: -node.branch.depth):
        known = _alive(node)
        for outer in _requesting_above(node):
            if id(outer) not in summed:
                summed[id(outer)] = Summed(_alive(outer))
            arriving = summed[id(outer)].arriving(known)
            for twin, request in twins(known, arriving):
                twin.absorb(request)


def _absorb_summaries(requesting: Sequence[Node], primary: Sequence[Node]) -> None:
    known = Known()
    for node in primary:
        _add_alive(known, node)
    for node in requesting:
        if not node.is_primary:
            for twin, request in known.twins(node.requests):
                twin.absorb(request)
            _add_alive(known, node)


def _add_alive(known: Known, node: Node) -> None:
    for request in _alive(node):
        known.add(request)


def _give_to_single_outputs(telling: Sequence[Node], nodes: Sequence[Node]) -> None:
    """Move what only a span around one single output told to that output, to whose turn it belongs."""
    if not telling:
        return
    tellers = {id(node): list[Node]() for node in telling}
    for node in nodes:
        above = node.above if node.model_call is not None else None
        for _ in range(_MAX_AROUND):
            if above is None:
                break
            if id(above) in tellers:
                tellers[id(above)].append(node)
            above = above.above
    for node in telling:
        outputs = tellers[id(node)]
        if len(outputs) == 1:
            told, node.requests = _alive(node), []
            for request in told:
                request.node = outputs[0]
            outputs[0].requests.extend(told)


def _tells_of_outputs(node: Node) -> bool:
    # An agent's run may sum up outputs that no span shows.
    return not node.is_primary and node.agent_run is None and bool(_alive(node))


def _alive(node: Node) -> list[Request]:
    return [request for request in node.requests if request.alive]


def _requesting_above(node: Node) -> Iterator[Node]:
    above = node.branch.model_above
    for _ in range(_MAX_NESTING):
        if above is None:
            return
        if above.requests:
            yield above
        above = above.branch.model_above


def _absorb_beside(nodes: Sequence[Node]) -> None:
    """Merge what two instrumentations wrote side by side about one output."""
    seen: dict[Hashable, Request] = {}
    for node in nodes:
        for request in _alive(node):
            keys = (request.call_id, (request.name, request.position, request.arguments_key))
            earlier = (seen[key] for key in keys if key is not None and key in seen)
            twin = next((known for known in earlier if _doubles(known, request)), None)
            if twin is not None:
                twin.absorb(request)
            else:
                seen.update((key, request) for key in keys if key is not None)


def _doubles(earlier: Request, later: Request) -> bool:
    """Tell whether two instrumentations saw the same at the same time."""
    overlap = later.node.time_ns < earlier.node.time_ns + (earlier.node.end_ns - earlier.node.start_ns)
    if not overlap or earlier.node.first.scope == later.node.first.scope or earlier.name != later.name:
        return False
    if earlier.call_id is not None and later.call_id is not None and earlier.call_id != later.call_id:
        return False
    mine, others = earlier.arguments_key, later.arguments_key
    return mine is None or others is None or mine == others
