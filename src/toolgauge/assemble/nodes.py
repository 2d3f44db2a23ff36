"""Makes nodes of the readings of one trace: one per span, its log records folded in."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import TypeAlias

from toolgauge.assemble.folding import Folding, lower
from toolgauge.assemble.node import Execution, Node, Request
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

_LogOrder: TypeAlias = tuple[bool, int, str, int, str]
_order: Callable[[tuple[_LogOrder, Reading]], _LogOrder] = itemgetter(0)


def nodes_of(readings: Sequence[Reading], parents: Mapping[str, str | None]) -> dict[str, Node]:
    """Return the nodes by span id, each with the parent that is known."""
    nodes: dict[str, Node] = {}
    # Only log records give a span more than one reading.
    several: dict[str, list[Reading]] = {}
    has_logs = False
    for reading in readings:
        if reading.observations:
            span_id = reading.ref.span_id
            known = nodes.get(span_id)
            if known is None:
                nodes[span_id] = _observed(reading)
                has_logs = has_logs or reading.is_log
            else:
                several.setdefault(span_id, [known.first]).append(reading)
    if has_logs or several:
        _add_logs(nodes, several, parents)
    return nodes


def _add_logs(nodes: dict[str, Node], several: Mapping[str, list[Reading]], parents: Mapping[str, str | None]) -> None:
    """Fold the readings of one span into one node, and what log records tell of calls into the spans of those."""
    for span_id, readings in several.items():
        nodes[span_id] = _folded(readings)
    for span_id, node in list(nodes.items()):
        if node.from_log_only:
            # The span itself may have been seen all the same, and had nothing to say.
            node.parent = parents.get(span_id)
    _absorb_logs([node for node in nodes.values() if node.executions])


def _folded(readings: Sequence[Reading]) -> Node:
    first, *others = _ordered(readings)
    node = _observed(first)
    folding = Folding(node)
    for reading in others:
        folding.add(_observed(reading))
    return node


def _ordered(readings: Sequence[Reading]) -> list[Reading]:
    ordered = sorted([(_log_order(reading), reading) for reading in readings], key=_order)
    if any(former[0] == latter[0] for former, latter in pairwise(ordered)):
        # Where all else is alike, what they say decides; it may be long.
        ordered = sorted(ordered, key=lambda placed: (placed[0], _said(placed[1])))
    return [reading for _, reading in ordered]


def _said(reading: Reading) -> str:
    try:
        return repr(reading.observations)
    except RecursionError:
        # Deeper than anything that a tool takes or returns.
        return ""


def _log_order(reading: Reading) -> _LogOrder:
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
            node.conversation = seen if node.conversation is None else lower(node.conversation, seen)
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


def _absorb_logs(nodes: Sequence[Node]) -> None:
    """Merge what log records tell of a call into the tool span with the same id, wherever both are in the trace."""
    if not any(execution.from_log for node in nodes for execution in node.executions):
        return
    shown: dict[str, Execution] = {}
    for node in sorted(nodes, key=lambda node: (node.start_ns, node.ref.span_id)):
        for execution in node.executions:
            if execution.call_id is not None and not execution.from_log and execution.name:
                shown.setdefault(execution.call_id, execution)
    for node in nodes:
        for execution in node.executions:
            if execution.from_log and execution.call_id in shown:
                shown[execution.call_id].absorb(execution)
        node.executions = [execution for execution in node.executions if execution.host is None]
