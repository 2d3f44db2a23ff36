"""Arranges the nodes of one trace as a tree: each below its parents, and on one clock.

Spans that nobody read leave only their ids; chains of parents run through them. Ids may form circles and
clocks of two services may disagree: both are repaired here, so that nothing after this has to care.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import attrgetter

from msgspec.structs import replace

from toolgauge.assemble.node import NOWHERE, TOP, Branch, Node, order
from toolgauge.assemble.nodes import nodes_of
from toolgauge.model.observations import AgentRun, Reading

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


# Paths are repeated on every call: a hostile chain of agents must not make them quadratic.
_MAX_AGENT_PATH = 32
# Where spans hang from which no way up was found, and those that are passed on the way.
_ASTRAY = Branch(-2, (), None, None, None, crossed=False, model_above=None)
_PASSED = Branch(-3, (), None, None, None, crossed=False, model_above=None)


def plant(readings: Sequence[Reading], parents: Mapping[str, str | None]) -> list[Node]:
    """Return the nodes of one trace in order of time.

    `parents` maps span ids to parent ids, those of unread spans included.
    """
    by_span = nodes_of(readings, parents)
    nodes = list(by_span.values())
    services = {node.first.service for node in nodes}
    starts = {node.start_ns for node in nodes}
    _hang(nodes, by_span, parents)
    _settle_all(nodes)
    if len(services) > 1:
        _set_clocks(nodes)
    elif len(starts) == len(nodes):
        # Where no two spans start at the same time, it alone tells their order.
        return sorted(nodes, key=_time)
    return sorted(nodes, key=order)


_time: Callable[[Node], int] = attrgetter("time_ns")


def _hang(
    nodes: Iterable[Node],
    by_span: Mapping[str, Node],
    parents: Mapping[str, str | None],
) -> None:
    """Find the nearest node above each, through spans that are no nodes; each of those is walked once."""
    walked: dict[str, Node | None] = {}
    for node in nodes:
        parent = node.parent
        if parent is not None:
            above = by_span.get(parent)
            if above is None:
                above = _through_unread(parent, by_span, parents, walked)
            if above is not node:
                node.above = above


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


def _set_clocks(nodes: Sequence[Node]) -> None:
    offsets = clock_offsets(nodes)
    for node in nodes:
        offset_ns = offsets[node.first.service]
        node.time_ns += offset_ns
        node.until_ns += offset_ns


def _settle_all(nodes: Sequence[Node]) -> None:
    """Give each node its branch."""
    astray: list[Node] = []
    for node in nodes:
        if node.branch is NOWHERE:
            above = node.above
            known = above.below if above is not None else None
            if known is not None and node.agent_run is None:
                node.branch = known
            elif above is None or above.branch.depth >= 0:
                _settle(node)
            else:
                _climb(node, astray)
    if astray:
        _cut_open(astray)


def _way_up(node: Node, found: Branch, left: Branch) -> tuple[list[Node], Node | None]:
    """Follow the nodes above as long as they are `found`, mark them `left`; return them, and where that ended."""
    path: list[Node] = []
    at: Node | None = node
    while at is not None and at.branch is found:
        at.branch = left
        path.append(at)
        at = at.above
    return path, at


def _climb(node: Node, astray: list[Node]) -> None:
    """Settle the node and all above it, unless they go round in a circle."""
    path, at = _way_up(node, NOWHERE, _ASTRAY)
    if at is not None and at.branch is _ASTRAY:
        astray += path
        return
    for below in reversed(path):
        _settle(below)


def _cut_open(astray: Sequence[Node]) -> None:
    """Settle nodes below circles of parents, each cut open where the order of time demands it."""
    for node in sorted(astray, key=_start):
        path, at = _way_up(node, _ASTRAY, _PASSED)
        if at is not None and at.branch is _PASSED:
            # It becomes a root; those that were above it wait until their way up is followed.
            at.above = None
            while path[-1] is not at:
                path.pop().branch = _ASTRAY
        for below in reversed(path):
            _settle(below)


def _start(node: Node) -> tuple[int, str]:
    return (node.start_ns, node.ref.span_id)


def _settle(node: Node) -> None:
    """Hang the node below the one above it, which is settled."""
    above = node.above
    if above is None:
        branch = TOP
    else:
        branch = above.below
        if branch is None:
            branch = above.below = _branch_below(above)
    node.branch = branch if node.agent_run is None else _branch_of_run(node, node.agent_run, branch)


def _branch_below(node: Node) -> Branch:
    branch = node.branch
    shows_tool = bool(node.executions) and any(not execution.from_log for execution in node.executions)
    is_barrier = node.agent_run is not None or node.model_call is not None
    return Branch(
        branch.depth + 1,
        branch.agents,
        branch.inside,
        branch.outermost,
        node if shows_tool else branch.tool_above,
        is_barrier or (not shows_tool and branch.crossed),
        node if node.is_primary else branch.model_above,
        branch.topmost or node,
        node if node.failure is not None else branch.failed_above,
        node if node.code_step is not None else branch.step_above,
    )


def _is_of_tool(node: Node, branch: Branch) -> bool:
    """Return whether a tool of the run around it started this run: by a span in between, or by the span of the run itself."""
    if any(not execution.from_log for execution in node.executions):
        return True
    tool, inside = branch.tool_above, branch.inside
    return tool is not None and (inside is None or tool.branch.depth > inside.branch.depth)


def _branch_of_run(node: Node, run: AgentRun, branch: Branch) -> Branch:
    agents, outermost = branch.agents, branch.outermost
    # Rule: two instrumentations of one run nest under the same name; a run that a tool started is another one under any name.
    is_other = _is_of_tool(node, branch)
    if run.agent is not None and (is_other or agents[-1:] != (run.agent,)):
        agents = (*agents[: _MAX_AGENT_PATH - 1], run.agent)
    if is_other or branch.inside is None or branch.inside.branch.agents != agents:
        outermost = node
    return replace(branch, agents=agents, inside=node, outermost=outermost)
