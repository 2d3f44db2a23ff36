"""Arranges the readings of one trace as nodes: one per span, its log records folded in, each below its parents.

Spans that nobody read leave only their ids; chains of parents run through them. Ids may form circles and
clocks of two services may disagree: both are repaired here, so that nothing after this has to care.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence

from toolgauge.assemble.canonical import fold_name
from toolgauge.assemble.clocks import clock_offsets
from toolgauge.assemble.node import Execution, Node, Request
from toolgauge.assemble.pauses import GLANCES, Pace, in_order, parts
from toolgauge.assemble.twins import twins
from toolgauge.model.observations import (
    AgentRun,
    CallAnswered,
    CallExecuted,
    CallRequested,
    ConversationSeen,
    MessageSeen,
    ModelCall,
    Observation,
    Reading,
    ToolsOffered,
)

# Paths are repeated on every call: a hostile chain of agents must not make them quadratic.
_MAX_AGENT_PATH = 32
# So many spans are glanced at without asking whether to pause.
_PAUSE_EVERY = 500


def plant(
    readings: Sequence[Reading], parents: Mapping[str, str | None], pace: Pace
) -> Generator[None, None, tuple[Node, ...]]:
    """Return the nodes of one trace in order of time; pause now and then.

    `parents` maps span ids to parent ids, those of unread spans included.
    """
    by_span = yield from _by_span(readings, pace)
    nodes: dict[str, Node] = {}
    for span_id, together in by_span.items():
        nodes[span_id] = _node(together)
        if pace.due():
            yield
    for span_id, node in nodes.items():
        if node.from_log_only:
            # The span itself may have been seen all the same, and had nothing to say.
            node.parent = parents.get(span_id)
    yield from _absorb_logs([node for node in nodes.values() if node.executions], pace)
    yield from _hang(nodes, parents, pace)
    by_time = yield from _rooted(nodes, pace)
    rooted = yield from in_order(by_time, lambda node: node.depth, pace)
    offsets = yield from clock_offsets(rooted, pace)
    for node in rooted:
        node.time_ns = node.start_ns + offsets[node.service]
        _inherit(node)
        if pace.due():
            yield
    return tuple((yield from in_order(by_time, lambda node: node.order, pace)))


def _by_span(readings: Sequence[Reading], pace: Pace) -> Generator[None, None, dict[str, list[Reading]]]:
    by_span: dict[str, list[Reading]] = {}
    for part in parts(readings):
        for reading in part:
            if reading.observations:
                by_span.setdefault(reading.ref.span_id, []).append(reading)
        if pace.due(len(part) // GLANCES):
            yield
    return by_span


def _node(readings: list[Reading]) -> Node:
    if len(readings) > 1:
        readings.sort(key=_log_order)
    first = readings[0]
    node = Node(
        ref=first.ref,
        parent=first.parent_span_id,
        start_ns=first.start_ns,
        end_ns=first.end_ns,
        service=first.service,
        scope=first.scope,
        dialect=first.dialect or "",
        from_log_only=first.is_log,
    )
    for reading in readings:
        answers = _observe(node, reading.observations, from_log=reading.is_log)
        if reading is first:
            node.answers = answers
        elif answers:
            # Log records repeat what the span itself says, or say it in its place, each an answer.
            on_span = set[str | None]() if first.is_log else {answer.call_id for answer in node.answers}
            node.answers.extend(answer for answer in answers if answer.call_id is None or answer.call_id not in on_span)
    return node


def _log_order(reading: Reading) -> tuple[bool, int, str, int, str]:
    """Put the span before its log records, and those in an order that does not depend on arrival."""
    if not reading.is_log:
        return (False, 0, "", 0, "")
    return (True, reading.start_ns, reading.scope, reading.size_bytes, _requested(reading))


def _requested(reading: Reading) -> str:
    return " ".join(
        f"{seen.position} {seen.call_id}" for seen in reading.observations if isinstance(seen, CallRequested)
    )


def _observe(node: Node, observations: Iterable[Observation], *, from_log: bool) -> list[CallAnswered]:
    """Put what was observed on the node, and return the answers."""
    requests: list[Request] = []
    executions: list[Execution] = []
    answers: list[CallAnswered] = []
    for seen in observations:
        # The most frequent first: each case that does not fit costs a little.
        match seen:
            case ConversationSeen():
                node.conversations.append(seen)
            case MessageSeen():
                node.messages.append(seen)
            case AgentRun():
                node.agent_run = node.agent_run or seen
            case ModelCall():
                node.model_call = seen if seen.stopped_for_tools else node.model_call or seen
            case CallRequested():
                requests.append(Request.of(node, seen))
            case CallExecuted():
                executions.append(Execution.of(node, seen, from_log=from_log))
            case CallAnswered():
                answers.append(seen)
            case ToolsOffered():
                node.offers.append(seen)
    _merge_requests(node, requests)
    _merge_executions(node, executions)
    return answers


def _merge_requests(node: Node, arriving: list[Request]) -> None:
    """Add requests of one reading; those that another reading of the same span has are views of the same."""
    if not node.requests:
        node.requests.extend(arriving)
        return
    for twin, request in twins(node.requests, arriving):
        twin.absorb(request)
    node.requests.extend(request for request in arriving if request.alive)


def _merge_executions(node: Node, arriving: list[Execution]) -> None:
    """Add executions of one reading; a log record may show the execution that its span shows."""
    if not node.executions and len(arriving) <= 1:
        node.executions.extend(arriving)
        return
    by_id = {execution.call_id: execution for execution in node.executions}
    by_name = {fold_name(execution.name): execution for execution in node.executions}
    for execution in arriving:
        twin = by_id.get(execution.call_id) if execution.call_id is not None else None
        twin = twin or by_name.get(fold_name(execution.name))
        if twin is None and not execution.name and len(by_name) == 1:
            # Content that was split off a tool's span does not name the tool again.
            twin = node.executions[0]
        # Log records without ids tell of a call each; they may name the span of the whole run.
        is_other = twin is not None and twin.from_log and execution.call_id is None
        if twin is None or is_other or twin.has_other_id_than(execution):
            node.executions.append(execution)
        else:
            twin.absorb(execution)


def _absorb_logs(nodes: Sequence[Node], pace: Pace) -> Generator[None, None, None]:
    """Merge what log records tell of a call into the tool span with the same id, wherever both are in the trace."""
    if not any(execution.from_log for node in nodes for execution in node.executions):
        return
    shown: dict[str, Execution] = {}
    for node in (yield from in_order(nodes, lambda node: (node.start_ns, node.ref.span_id), pace)):
        for execution in node.executions:
            if execution.call_id is not None and not execution.from_log and execution.name:
                shown.setdefault(execution.call_id, execution)
    for part in parts(nodes):
        for node in part:
            for execution in node.executions:
                if execution.from_log and execution.call_id in shown:
                    shown[execution.call_id].absorb(execution)
            node.executions = [execution for execution in node.executions if execution.host is None]
        if pace.due(len(part) // GLANCES):
            yield


def _hang(nodes: Mapping[str, Node], parents: Mapping[str, str | None], pace: Pace) -> Generator[None, None, None]:
    """Find the nearest node above each, through spans that are no nodes; each of those is walked once."""
    walked: dict[str, Node | None] = {}
    for count, node in enumerate(nodes.values(), 1):
        if count % _PAUSE_EVERY == 0 and pace.due(_PAUSE_EVERY // GLANCES):
            yield
        path: list[str] = []
        above = node.parent
        while above is not None and above not in nodes and above not in walked:
            walked[above] = None
            path.append(above)
            above = parents.get(above)
        found = None if above is None else nodes.get(above) or walked.get(above)
        for span_id in path:
            walked[span_id] = found
        node.above = found if found is not node else None


def _rooted(nodes: Mapping[str, Node], pace: Pace) -> Generator[None, None, list[Node]]:
    """Set depths, cutting circles of parents open where the order of time says so."""
    done: set[str] = set()
    ordered = yield from in_order(list(nodes.values()), lambda node: (node.start_ns, node.ref.span_id), pace)
    for count, node in enumerate(ordered, 1):
        if count % _PAUSE_EVERY == 0 and pace.due(_PAUSE_EVERY // GLANCES):
            yield
        path: list[Node] = []
        on_path: set[str] = set()
        at: Node | None = node
        while at is not None and at.ref.span_id not in done:
            if at.ref.span_id in on_path:
                at.above = None
                del path[path.index(at) + 1 :]
                break
            path.append(at)
            on_path.add(at.ref.span_id)
            at = at.above
        for below in reversed(path):
            below.depth = 0 if below.above is None else below.above.depth + 1
            done.add(below.ref.span_id)
    return ordered


def _inherit(node: Node) -> None:
    """Take over from the node above, which was done before."""
    above = node.above
    node.inside = node if node.agent_run is not None else None
    if above is not None:
        node.inside = node.inside or above.inside
        node.agents = above.agents
        node.model_above = above if above.is_primary else above.model_above
        shows_tool = any(not execution.from_log for execution in above.executions)
        node.tool_above = above if shows_tool else above.tool_above
        barrier = above.agent_run is not None or above.model_call is not None
        node.crossed = barrier or (not shows_tool and above.crossed)
    name = node.agent_run.agent if node.agent_run is not None else None
    # Two instrumentations of one run nest under the same name.
    if name is not None and node.agents[-1:] != (name,):
        node.agents = (*node.agents[: _MAX_AGENT_PATH - 1], name)
