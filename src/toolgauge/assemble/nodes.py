"""Makes nodes of the readings of one trace: one per span, its log records folded in."""

from collections.abc import Generator, Mapping, Sequence

from toolgauge.assemble.canonical import fold_name
from toolgauge.assemble.node import Execution, Node, Request
from toolgauge.assemble.pauses import HANDFUL, WORK, Pace, in_order, parts
from toolgauge.assemble.twins import twins
from toolgauge.model.observations import (
    AgentRun,
    CallAnswered,
    CallExecuted,
    CallRequested,
    ConversationSeen,
    MessageSeen,
    ModelCall,
    Reading,
    ToolsOffered,
)


def nodes_of(
    readings: Sequence[Reading], parents: Mapping[str, str | None], pace: Pace
) -> Generator[None, None, dict[str, Node]]:
    """Return the nodes by span id, each with the parent that is known; pause now and then."""
    nodes: dict[str, Node] = {}
    # Only log records give a span more than one reading.
    several: dict[str, list[Reading]] = {}
    has_logs = False
    for part in parts(readings, HANDFUL):
        for reading in part:
            if reading.observations:
                span_id = reading.ref.span_id
                known = nodes.get(span_id)
                if known is None:
                    nodes[span_id] = _observed(reading)
                    has_logs = has_logs or reading.is_log
                else:
                    several.setdefault(span_id, [known.first]).append(reading)
        pace.left -= WORK * len(part)
        if pace.left < 0:
            yield pace.rest()
    if has_logs or several:
        yield from _add_logs(nodes, several, parents, pace)
    return nodes


def _add_logs(
    nodes: dict[str, Node], several: Mapping[str, list[Reading]], parents: Mapping[str, str | None], pace: Pace
) -> Generator[None, None, None]:
    """Fold the readings of one span into one node, and what log records tell of calls into the spans of those."""
    for part in parts(list(several.items()), HANDFUL):
        for span_id, readings in part:
            nodes[span_id] = _folded(readings)
        pace.left -= WORK * len(part)
        if pace.left < 0:
            yield pace.rest()
    for part in parts(list(nodes.items())):
        for span_id, node in part:
            if node.from_log_only:
                # The span itself may have been seen all the same, and had nothing to say.
                node.parent = parents.get(span_id)
        pace.left -= len(part)
        if pace.left < 0:
            yield pace.rest()
    yield from _absorb_logs([node for node in nodes.values() if node.executions], pace)


def _folded(readings: list[Reading]) -> Node:
    readings.sort(key=_log_order)
    node = _observed(readings[0])
    for reading in readings[1:]:
        _fold_in(node, _observed(reading))
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


def _observed(reading: Reading) -> Node:
    """Put what one reading tells on a node of its own."""
    node = Node(reading)
    for seen in reading.observations:
        # The most frequent first: each case that does not fit costs a little, and an exact type the least.
        if type(seen) is ConversationSeen:
            node.conversation = seen if node.conversation is None else _lower(node.conversation, seen)
        elif type(seen) is MessageSeen:
            node.messages.append(seen)
        elif type(seen) is CallExecuted:
            node.executions.append(_execution(node, seen, from_log=reading.is_log))
        elif type(seen) is CallRequested:
            node.requests.append(
                Request(
                    node, seen.name, seen.call_id, seen.arguments, seen.agent, seen.position, seen.usable, seen.output
                )
            )
        elif type(seen) is CallAnswered:
            node.answers.append(seen)
        elif type(seen) is ModelCall:
            node.model_call = seen if seen.stopped_for_tools else node.model_call or seen
            node.is_primary = True
        elif type(seen) is ToolsOffered:
            node.offers.append(seen)
        elif type(seen) is AgentRun:
            node.agent_run = node.agent_run or seen
    return node


def _lower(known: ConversationSeen, seen: ConversationSeen) -> ConversationSeen:
    ranks = (seen.rank, seen.conversation_id), (known.rank, known.conversation_id)
    return seen if ranks[0] < ranks[1] else known


def _execution(node: Node, seen: CallExecuted, *, from_log: bool) -> Execution:
    return Execution(
        node,
        seen.name,
        seen.call_id,
        seen.arguments,
        seen.agent,
        seen.result,
        seen.error,
        seen.protocol is not None,
        seen.tool_id,
        from_log,
    )


def _fold_in(node: Node, log: Node) -> None:
    """Add what a log record of the span tells."""
    node.agent_run = node.agent_run or log.agent_run
    if log.model_call is not None:
        node.model_call = log.model_call if log.model_call.stopped_for_tools else node.model_call or log.model_call
        node.is_primary = True
    if log.conversation is not None:
        known = node.conversation
        node.conversation = log.conversation if known is None else _lower(known, log.conversation)
    node.messages += log.messages
    node.offers += log.offers
    _merge_requests(node, log.requests)
    _merge_executions(node, log.executions)
    # Log records repeat what the span itself says, or say it in its place, each an answer.
    if log.answers:
        told = set[str | None]() if node.from_log_only else {answer.call_id for answer in node.answers}
        node.answers += [answer for answer in log.answers if answer.call_id is None or answer.call_id not in told]


def _merge_requests(node: Node, arriving: list[Request]) -> None:
    """Add requests of one reading; those that another reading of the same span has are views of the same."""
    for twin, request in twins(node.requests, arriving):
        twin.absorb(request)
    for request in arriving:
        if request.alive:
            request.node = node
            node.requests.append(request)


def _merge_executions(node: Node, arriving: list[Execution]) -> None:
    """Add executions of one reading; a log record may show the execution that its span shows."""
    if not arriving:
        return
    by_id = {execution.call_id: execution for execution in node.executions}
    by_name = {fold_name(execution.name): execution for execution in node.executions}
    for execution in arriving:
        execution.node = node
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
        pace.left -= len(part)
        if pace.left < 0:
            yield pace.rest()
