"""Makes nodes of the readings of one trace: one per span, its log records folded in."""

from bisect import bisect_left, insort
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import TypeAlias

from msgspec.structs import replace

from toolgauge.assemble.canonical import fold_name
from toolgauge.assemble.node import Execution, Node, Request
from toolgauge.assemble.requests import RequestIndex
from toolgauge.model.observations import (
    AgentRun,
    CallAnswered,
    CallExecuted,
    CallRequested,
    CodeExecuted,
    ConversationSeen,
    MessageSeen,
    ModelCall,
    Observation,
    Reading,
    SpanFailed,
    ToolDescribed,
    ToolsOffered,
)


class Folding:
    """Takes one log record after the other, each a node by itself."""

    __slots__ = ("_answered", "_node", "_requests", "_shown")

    def __init__(self, node: Node) -> None:
        self._node = node
        # What finds another view of what is told: made when there is something to be found, as seldom.
        self._requests: RequestIndex | None = None
        self._shown: _Shown | None = None
        self._answered: set[str | None] | None = None

    def add(self, log: Node) -> None:
        """Add the observations of a log record of the span."""
        node = self._node
        node.agent_run = node.agent_run or log.agent_run
        if log.model_call is not None:
            node.model_call = one_model_call(node.model_call, log.model_call)
            node.is_primary = True
        if log.conversation is not None:
            known = node.conversation
            node.conversation = log.conversation if known is None else lower(known, log.conversation)
        node.messages += log.messages
        node.offers += log.offers
        if log.requests:
            self._add_requests(log.requests)
        if log.executions:
            if self._shown is None:
                self._shown = _Shown(node)
            self._shown.add(log.executions)
        if log.answers:
            self._add_answers(log.answers)

    def _add_requests(self, arriving: list[Request]) -> None:
        """Add requests; those that another reading of the same span has are views of the same."""
        node, known = self._node, self._requests
        if known is None and node.requests:
            known = self._requests = RequestIndex(node.requests)
        if known is not None:
            for same, request in known.same_requests(arriving):
                same.absorb(request)
        for request in arriving:
            if request.alive:
                request.node = node
                node.requests.append(request)
                if known is not None:
                    known.add(request)

    def _add_answers(self, arriving: list[CallAnswered]) -> None:
        # Log records repeat what the span itself says, or say it in its place, each an answer.
        node = self._node
        if node.from_log_only:
            node.answers += arriving
            return
        if self._answered is None:
            self._answered = {answer.call_id for answer in node.answers}
        present = self._answered
        new = [answer for answer in arriving if answer.call_id is None or answer.call_id not in present]
        node.answers += new
        present.update([answer.call_id for answer in new])


class _Shown:
    """The executions of a node, by their ids and names. Of several that have the same, the last one counts."""

    __slots__ = ("_by_id", "_by_name", "_node", "_places")

    def __init__(self, node: Node) -> None:
        self._node = node
        self._by_id: dict[str, Execution] = {}
        # Places among all executions, in order.
        self._by_name: dict[str, list[int]] = {}
        self._places: dict[int, int] = {}
        for place, execution in enumerate(node.executions):
            self._note(execution, place)

    def add(self, arriving: list[Execution]) -> None:
        """Add executions of one reading; a log record may show the execution that its span shows."""
        executions = self._node.executions
        absorbed: list[tuple[Execution, str]] = []
        first_new = len(executions)
        for execution in arriving:
            execution.node = self._node
            same = self._same(execution)
            # Log records without ids tell of a call each; they may name the span of the whole run.
            is_other = same is not None and same.from_log and execution.call_id is None
            if same is None or is_other or same.has_other_id_than(execution):
                executions.append(execution)
            else:
                absorbed.append((same, fold_name(same.name)))
                same.absorb(execution)
        for same, name in absorbed:
            self._note_anew(same, name)
        for place in range(first_new, len(executions)):
            self._note(executions[place], place)

    def _same(self, execution: Execution) -> Execution | None:
        same = self._by_id.get(execution.call_id) if execution.call_id is not None else None
        named = None if same is not None else self._by_name.get(fold_name(execution.name))
        if named is not None:
            return self._node.executions[named[-1]]
        if same is None and not execution.name and len(self._by_name) == 1:
            # Content that was split off a tool's span does not name the tool again.
            return self._node.executions[0]
        return same

    def _note(self, execution: Execution, place: int) -> None:
        self._places[id(execution)] = place
        if execution.call_id is not None:
            self._by_id[execution.call_id] = execution
        self._by_name.setdefault(fold_name(execution.name), []).append(place)

    def _note_anew(self, execution: Execution, name: str) -> None:
        """Note an id or a name that an execution took from another view of it."""
        place = self._places[id(execution)]
        if execution.call_id is not None:
            known = self._by_id.get(execution.call_id)
            if known is None or self._places[id(known)] < place:
                self._by_id[execution.call_id] = execution
        if fold_name(execution.name) != name:
            places = self._by_name[name]
            del places[bisect_left(places, place)]
            if not places:
                del self._by_name[name]
            insort(self._by_name.setdefault(fold_name(execution.name), []), place)


def lower(known: ConversationSeen, seen: ConversationSeen) -> ConversationSeen:
    """Return the conversation id of the lower rank."""
    ranks = (seen.rank, seen.conversation_id), (known.rank, known.conversation_id)
    return seen if ranks[0] < ranks[1] else known


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
    """Fold the readings of one span into one node, and what log records hold of calls into the spans of those."""
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
        ordered = sorted(ordered, key=lambda placed: (placed[0], _written(placed[1])))
    return [reading for _, reading in ordered]


def _written(reading: Reading) -> str:
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
    """Put the observations of one reading on a node of its own."""
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
                    node,
                    seen.name,
                    seen.call_id,
                    seen.arguments,
                    seen.agent,
                    seen.position,
                    seen.usable,
                    seen.output,
                    seen.by_provider,
                )
            )
        elif type(seen) is CallAnswered:
            node.answers.append(seen)
        elif type(seen) is ModelCall:
            node.model_call = one_model_call(node.model_call, seen)
            node.is_primary = True
        else:
            _observe_seldom(node, seen)
    return node


def _observe_seldom(node: Node, seen: Observation) -> None:
    if isinstance(seen, ToolsOffered):
        node.offers.append(seen)
    elif isinstance(seen, AgentRun):
        node.agent_run = node.agent_run or seen
    elif isinstance(seen, ToolDescribed):
        node.definition = seen.tool
    elif isinstance(seen, SpanFailed):
        node.failure = seen.error
    elif isinstance(seen, CodeExecuted):
        node.code_step = seen


def one_model_call(known: ModelCall | None, seen: ModelCall) -> ModelCall:
    """Return one view of a model call of two: the first that shows that it asked for tools, with the tokens of either."""
    if known is None:
        return seen
    kept, other = (seen, known) if seen.stopped_for_tools else (known, seen)
    if kept.input_tokens is not None or kept.output_tokens is not None:
        return kept
    return replace(kept, input_tokens=other.input_tokens, output_tokens=other.output_tokens)


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
        is_unfinished=seen.is_unfinished,
    )


def _absorb_logs(nodes: Sequence[Node]) -> None:
    """Merge what log records hold of a call into the tool span with the same id, wherever both are in the trace."""
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
