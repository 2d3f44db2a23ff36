"""Arranges the nodes of one trace as a tree: each below its parents, and on one clock.

Spans that nobody read leave only their ids; chains of parents run through them. Ids may form circles and
clocks of two services may disagree: both are repaired here, so that nothing after this has to care.
"""

from collections.abc import Generator, Mapping, Sequence

from toolgauge.assemble.clocks import clock_offsets
from toolgauge.assemble.node import Node, order
from toolgauge.assemble.nodes import nodes_of
from toolgauge.assemble.pauses import Pace, in_order, parts
from toolgauge.model.observations import AgentRun, Reading

# Paths are repeated on every call: a hostile chain of agents must not make them quadratic.
_MAX_AGENT_PATH = 32
# Depths of spans from which no way up was found as yet.
_UNKNOWN, _ON_PATH = -1, -2


def plant(
    readings: Sequence[Reading], parents: Mapping[str, str | None], pace: Pace
) -> Generator[None, None, list[Node]]:
    """Return the nodes of one trace in order of time; pause now and then.

    `parents` maps span ids to parent ids, those of unread spans included.
    """
    nodes = yield from nodes_of(readings, parents, pace)
    yield from _hang(nodes, parents, pace)
    rooted = yield from _rooted(nodes, pace)
    offsets = yield from clock_offsets(rooted, pace)
    for part in parts(rooted):
        for node in part:
            if offsets:
                node.time_ns += offsets[node.service]
            _inherit(node)
        pace.left -= len(part)
        if pace.left < 0:
            yield pace.rest()
    return (yield from in_order(rooted, order, pace))


def _hang(nodes: Mapping[str, Node], parents: Mapping[str, str | None], pace: Pace) -> Generator[None, None, None]:
    """Find the nearest node above each, through spans that are no nodes; each of those is walked once."""
    walked: dict[str, Node | None] = {}
    for part in parts(list(nodes.values())):
        for node in part:
            parent = node.parent
            if parent is not None:
                above = nodes.get(parent)
                if above is None:
                    above = _through_unread(parent, nodes, parents, walked)
                if above is not node:
                    node.above = above
        pace.left -= len(part)
        if pace.left < 0:
            yield pace.rest()


def _through_unread(
    parent: str, nodes: Mapping[str, Node], parents: Mapping[str, str | None], walked: dict[str, Node | None]
) -> Node | None:
    path: list[str] = []
    above: str | None = parent
    while above is not None and above not in nodes and above not in walked:
        walked[above] = None
        path.append(above)
        above = parents.get(above)
    found = None if above is None else nodes.get(above) or walked.get(above)
    for span_id in path:
        walked[span_id] = found
    return found


def _rooted(nodes: Mapping[str, Node], pace: Pace) -> Generator[None, None, list[Node]]:
    """Return each node after the one above it, and set depths.

    Circles of parents are cut open where the order of time says so.
    """
    rooted: list[Node] = []
    for part in parts((yield from in_order(list(nodes.values()), _start, pace))):
        for node in part:
            path: list[Node] = []
            at: Node | None = node
            while at is not None and at.depth == _UNKNOWN:
                at.depth = _ON_PATH
                path.append(at)
                at = at.above
            if at is not None and at.depth == _ON_PATH:
                _cut_open(path, at)
            for below in reversed(path):
                below.depth = 0 if below.above is None else below.above.depth + 1
                rooted.append(below)
        pace.left -= len(part)
        if pace.left < 0:
            yield pace.rest()
    return rooted


def _start(node: Node) -> tuple[int, str]:
    return (node.start_ns, node.ref.span_id)


def _cut_open(path: list[Node], top: Node) -> None:
    """Make the node a root; those that were above it wait until their way up is followed."""
    top.above = None
    while path[-1] is not top:
        path.pop().depth = _UNKNOWN


def _inherit(node: Node) -> None:
    """Take over from the node above, which was done before."""
    above = node.above
    if above is not None:
        node.agents = above.agents
        node.inside = above.inside
        node.outermost = above.outermost
        node.model_above = above if above.is_primary else above.model_above
        shows_tool = bool(above.executions) and any(not execution.from_log for execution in above.executions)
        node.tool_above = above if shows_tool else above.tool_above
        barrier = above.agent_run is not None or above.model_call is not None
        node.crossed = barrier or (not shows_tool and above.crossed)
    if node.agent_run is not None:
        _begin_run(node, node.agent_run)


def _begin_run(node: Node, run: AgentRun) -> None:
    # Two instrumentations of one run nest under the same name.
    if run.agent is not None and node.agents[-1:] != (run.agent,):
        node.agents = (*node.agents[: _MAX_AGENT_PATH - 1], run.agent)
    if node.inside is None or node.inside.agents != node.agents:
        node.outermost = node
    node.inside = node
