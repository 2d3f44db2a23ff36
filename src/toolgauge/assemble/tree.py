"""Arranges the readings of one trace as a tree: one node per span, below its parents, all on one clock.

Log records are folded into their spans. Circles of ids and clocks that disagree are repaired here, for all that follows.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain, pairwise
from operator import attrgetter, itemgetter
from typing import TypeAlias

from msgspec.structs import replace

from toolgauge.assemble.dedupe import RequestIndex
from toolgauge.assemble.memory import written_out
from toolgauge.assemble.node import NOWHERE, TOP, Branch, Execution, Node, Request, order
from toolgauge.model.content import NotRecorded
from toolgauge.model.names import fold_name
from toolgauge.model.observations import (
    AgentRun,
    CallAnswered,
    CallExecuted,
    CallRequested,
    CodeExecuted,
    ConversationSeen,
    MessageSeen,
    ModelCall,
    PropertiesSeen,
    Reading,
    SpanFailed,
    ToolDescribed,
    ToolsOffered,
)

_Edge: TypeAlias = tuple[Node, Node]
_LogOrder: TypeAlias = tuple[bool, int, str, int, str]
_order: Callable[[tuple[_LogOrder, Reading]], _LogOrder] = itemgetter(0)
_time: Callable[[Node], int] = attrgetter("time_ns")
_executions: Callable[[Node], list[Execution]] = attrgetter("executions")
_is_log, _span_id, _service = attrgetter("is_log"), attrgetter("ref.span_id"), attrgetter("first.service")
_rank: Callable[[ConversationSeen], tuple[int, str]] = attrgetter("rank", "conversation_id")
# Paths are repeated on every call: a hostile chain of agents must not make them quadratic.
_MAX_AGENT_PATH = 32
# The branch of spans passed on the way up.
_PASSED = Branch(-2, (), None, None, None, crossed=False, model_above=None)


def plant(readings: Sequence[Reading], parents: Mapping[str, str | None]) -> list[Node]:
    """Return the nodes of one trace in order of time; `parents` maps span ids to parent ids, unread spans included."""
    by_span = nodes_of(readings, parents)
    nodes = list(by_span.values())
    # Above unread spans, each of which is walked once.
    walked: dict[str, Node | None] = {}
    for node in nodes:
        at = node.parent
        if at is not None:
            above = by_span.get(at)
            if above is None:
                path: list[str] = []
                while at is not None and at not in by_span and at not in walked:
                    walked[at] = None
                    path.append(at)
                    at = parents.get(at)
                above = None if at is None else by_span.get(at) or walked[at]
                walked.update(dict.fromkeys(path, above))
            node.above = above if above is not node else None
    _settle_all(nodes)
    if len({*map(_service, nodes)}) > 1:
        offsets = clock_offsets(nodes)
        for node in nodes:
            offset_ns = offsets[node.first.service]
            node.time_ns += offset_ns
            node.until_ns += offset_ns
    elif len({*map(_time, nodes)}) == len(nodes):
        # Where no two spans start at the same time, the time alone gives their order.
        return sorted(nodes, key=_time)
    return sorted(nodes, key=order)


def clock_offsets(nodes: Sequence[Node]) -> Mapping[str | None, int]:
    """Return for each service the time to add, so that its spans are on the clock of the topmost service.

    A clock is left alone while every span starts within its cause; else the spans are put in the middle. A span after its cause
    has another clock only if it would fit into it: work handed over to run alone is longer.
    """
    shallowest: dict[str | None, int] = {}
    edges: dict[str | None, list[_Edge]] = {}
    for node in nodes:
        shallowest[node.first.service] = min(node.branch.depth, shallowest.get(node.first.service, node.branch.depth))
        if node.above is not None and node.above.first.service != node.first.service:
            edges.setdefault(node.first.service, []).append((node.above, node))
    offsets: dict[str | None, int] = {}
    for service in sorted(shallowest, key=lambda service: (shallowest[service], service or "")):
        is_off = False
        # How far forward each span must be moved to start after its cause, and how far it can be to end before it.
        least: list[int] = []
        most: list[int] = []
        for above, node in edges.get(service, ()):
            offset_ns = offsets.get(above.first.service)
            if offset_ns is None:
                continue
            start_ns, end_ns = above.start_ns + offset_ns, above.end_ns + offset_ns
            fits = node.end_ns - node.start_ns <= end_ns - start_ns
            is_off = is_off or node.start_ns < start_ns or (fits and node.start_ns > end_ns)
            least.append(start_ns - node.start_ns)
            most += [end_ns - node.end_ns] if fits else []
        forward = max(least, default=0)
        offsets[service] = (forward + max(forward, min(most, default=forward))) // 2 if is_off else 0
    return offsets


def _settle_all(nodes: Sequence[Node]) -> None:
    """Give each node its branch. A circle of parents is cut open above its earliest span."""
    # The last one first: most producers send a span after the spans below it.
    for node in reversed(nodes):
        if node.branch is not NOWHERE:
            continue
        above = node.above
        if above is not None and above.below is not None and node.agent_run is None:
            node.branch = above.below
            continue
        if above is None or above.branch is not NOWHERE:
            _settle(node)
            continue
        path: list[Node] = []
        at: Node | None = node
        while at is not None and at.branch is NOWHERE:
            at.branch = _PASSED
            path.append(at)
            at = at.above
        if at is not None and at.branch is _PASSED:
            earliest = min(path[path.index(at) :], key=lambda one: (one.start_ns, one.ref.span_id))
            earliest.above = None
            end = path.index(earliest) + 1
            # The rest of a circle hangs below the spans that led to its earliest one.
            path = [*path[end:], *path[:end]]
        for below in reversed(path):
            _settle(below)


def _settle(node: Node) -> None:
    """Give the node the branch below the one above it, which is settled."""
    above = node.above
    branch = TOP if above is None else above.below
    if branch is None and above is not None:
        around = above.branch
        shows_tool = False in [execution.from_log for execution in above.executions]
        is_barrier = above.agent_run is not None or above.model_call is not None
        branch = above.below = Branch(
            around.depth + 1,
            around.agents,
            around.inside,
            around.outermost,
            above if shows_tool else around.tool_above,
            is_barrier or (not shows_tool and around.crossed),
            above if above.is_primary else around.model_above,
            around.topmost or above,
            above if above.failure is not None else around.failed_above,
            above if above.code_step is not None else around.step_above,
            around.top_run or (above if above.agent_run is not None else None),
        )
    if branch is not None:
        node.branch = branch if node.agent_run is None else _branch_of_run(node, node.agent_run, branch)


def _branch_of_run(node: Node, run: AgentRun, branch: Branch) -> Branch:
    agents, outermost, tool, inside = branch.agents, branch.outermost, branch.tool_above, branch.inside
    # Rule: two instrumentations of one run nest under the same name; a run that a tool started is another one under any name.
    is_other = False in [execution.from_log for execution in node.executions] or (
        tool is not None and (inside is None or tool.branch.depth > inside.branch.depth)
    )
    if run.agent is not None and (is_other or agents[-1:] != (run.agent,)):
        agents = (*agents[: _MAX_AGENT_PATH - 1], run.agent)
    if is_other or inside is None or inside.branch.agents != agents:
        outermost = node
    return replace(branch, agents=agents, inside=node, outermost=outermost)


def nodes_of(readings: Sequence[Reading], parents: Mapping[str, str | None]) -> dict[str, Node]:
    """Return the nodes by span id, each with the parent that is known."""
    seen = [reading for reading in readings if reading.observations]
    ids = [*map(_span_id, seen)]
    if len({*ids}) == len(ids) and True not in map(_is_log, seen):
        return dict(zip(ids, map(_observed, seen), strict=True))
    by_span: dict[str, list[Reading]] = {}
    for span_id, reading in zip(ids, seen, strict=True):
        by_span.setdefault(span_id, []).append(reading)
    nodes = {span_id: _observed(of[0]) if len(of) == 1 else _folded(of) for span_id, of in by_span.items()}
    for span_id, node in nodes.items():
        if node.from_log_only:
            # The span itself may have been seen all the same, and had nothing to say.
            node.parent = parents.get(span_id)
    # A log record of a call, and the tool span with its id, may be anywhere in the trace.
    executing = sorted(filter(_executions, nodes.values()), key=lambda node: (node.start_ns, node.ref.span_id))
    shown: dict[str, Execution] = {}
    for execution in chain.from_iterable(map(_executions, executing)):
        if execution.call_id is not None and not execution.from_log and execution.name:
            shown.setdefault(execution.call_id, execution)
    for node in nodes.values():
        for execution in node.executions:
            if execution.from_log and execution.call_id in shown:
                shown[execution.call_id].absorb(execution)
        node.executions = [execution for execution in node.executions if execution.host is None]
    return nodes


def _observed(reading: Reading, node: Node | None = None) -> Node:
    """Put the observations of one reading on the node, or on one of its own."""
    is_log, start_ns, end_ns = reading.is_log, reading.start_ns, reading.end_ns
    if node is None:
        until_ns = max(start_ns, end_ns)
        node = Node(reading, reading.ref, reading.parent_span_id, start_ns, end_ns, is_log, is_log, start_ns, until_ns)
    for seen in reading.observations:
        # The most frequent first: each case that does not fit costs a little, and an exact type the least.
        if type(seen) is ConversationSeen:
            known = node.conversation
            node.conversation = seen if known is None else min(known, seen, key=_rank)
        elif type(seen) is MessageSeen:
            node.messages.append(seen)
            node.user = node.user or (seen if seen.role == "user" else None)
        elif type(seen) is PropertiesSeen:
            node.properties = node.properties or seen
        elif type(seen) is ModelCall:
            node.model_call = seen if node.model_call is None else _one_model_call(node.model_call, seen)
            node.is_primary = True
        elif type(seen) is CallExecuted:
            result, error, protocol = seen.result, seen.error, seen.protocol is not None
            arguments, agent, tool_id = seen.arguments, seen.agent, seen.tool_id
            is_unfinished = seen.is_unfinished or (end_ns < start_ns and error is None and type(result) is NotRecorded)
            ran = Execution(
                node, seen.name, seen.call_id, arguments, agent, result, error, protocol, tool_id, is_log, is_unfinished
            )
            node.executions.append(ran)
        elif type(seen) is CallRequested:
            arguments, agent, place = seen.arguments, seen.agent, seen.position
            views = (arguments, agent, place, seen.usable, seen.output, seen.by_provider)
            node.requests.append(Request(node, seen.name, seen.call_id, *views))
        elif type(seen) is CallAnswered:
            node.answers.append(seen)
        elif type(seen) is AgentRun:
            node.agent_run = node.agent_run or seen
        elif type(seen) is ToolsOffered:
            node.offers.append(seen)
        elif type(seen) is ToolDescribed:
            node.definition = seen.tool
        elif type(seen) is SpanFailed:
            node.failure = seen.error
        elif type(seen) is CodeExecuted:
            node.code_step = seen
    return node


def _one_model_call(known: ModelCall, seen: ModelCall) -> ModelCall:
    """Return one view of a model call of two: the first that shows that it asked for tools, with the tokens of either."""
    kept, other = (seen, known) if seen.stopped_for_tools else (known, seen)
    if kept.ending is None and other.ending is not None:
        kept = replace(kept, ending=other.ending)
    if kept.input_tokens is not None or kept.output_tokens is not None:
        return kept
    return replace(kept, input_tokens=other.input_tokens, output_tokens=other.output_tokens)


def _folded(readings: Sequence[Reading]) -> Node:
    """Return one node for a span and its log records."""
    # The span comes before its log records, which are in an order that does not depend on arrival.
    keyed: list[tuple[_LogOrder, Reading]] = []
    for one in readings:
        asked = [f"{seen.position} {seen.call_id}" for seen in one.observations if isinstance(seen, CallRequested)]
        key = (True, one.start_ns, one.scope, one.size_bytes, " ".join(asked)) if one.is_log else (False, 0, "", 0, "")
        keyed.append((key, one))
    keyed.sort(key=_order)
    if any(former[0] == latter[0] for former, latter in pairwise(keyed)):
        # Where all else is alike, their contents decide; they may be long.
        keyed.sort(key=lambda placed: (placed[0], written_out(placed[1])))
    first, *logs = [reading for _, reading in keyed]
    node = _observed(first)
    # Made when there is another view of a call to be found, which is seldom.
    requests: RequestIndex | None = None
    shown: _Shown | None = None
    answered: dict[str | None, bool] | None = None
    for log in logs:
        # Calls and answers of the log record may be other views of the node's own.
        known = node.requests, node.executions, node.answers
        node.requests, node.executions, node.answers = [], [], []
        _observed(log, node)
        asked, ran, answers = node.requests, node.executions, node.answers
        node.requests, node.executions, node.answers = known
        if asked and node.requests:
            requests = requests or RequestIndex(node.requests)
            for same, request in requests.same_requests(asked):
                same.absorb(request)
        for request in asked:
            if request.alive:
                node.requests.append(request)
                if requests is not None:
                    requests.add(request)
        if ran:
            shown = shown or _Shown(node)
            shown.add(ran)
        if node.from_log_only:
            node.answers += answers
        elif answers:
            # Log records repeat the answers of the span itself; of two for one call, only one may have the failure.
            if answered is None:
                answered = {answer.call_id: answer.error is not None for answer in node.answers}
            new = [
                one
                for one in answers
                if one.call_id is None
                or one.call_id not in answered
                or (one.error is not None and not answered[one.call_id])
            ]
            node.answers += new
            answered.update({answer.call_id: answer.error is not None for answer in new})
    return node


class _Shown:
    """The executions of a node, by their ids and names. Of several with the same id or name, the last one counts."""

    __slots__ = ("_by_id", "_by_name", "_node")

    def __init__(self, node: Node) -> None:
        self._node = node
        self._by_id: dict[str, Execution] = {}
        self._by_name: dict[str, Execution] = {}
        self._note(node.executions)

    def add(self, arriving: Sequence[Execution]) -> None:
        """Add executions of one reading; a log record may show the execution that its span shows."""
        new: list[Execution] = []
        absorbing: list[Execution] = []
        for execution in arriving:
            same = self._by_id.get(execution.call_id) if execution.call_id is not None else None
            same = same or self._by_name.get(fold_name(execution.name))
            if same is None and not execution.name and len(self._by_name) == 1:
                # Content that was split off a tool's span does not name the tool again.
                same = self._node.executions[0]
            # Each log record without an id shows another call; it may name the span of the whole run.
            is_other = same is not None and same.from_log and execution.call_id is None
            if same is None or is_other or same.has_other_id_than(execution):
                new.append(execution)
            else:
                same.absorb(execution)
                absorbing.append(same)
        # An execution may have taken an id or a name from another view.
        for same in absorbing:
            if same.call_id is not None:
                self._by_id.setdefault(same.call_id, same)
            if same.name and self._by_name.get("") is same:
                del self._by_name[""]
                self._by_name.setdefault(fold_name(same.name), same)
        self._node.executions += new
        self._note(new)

    def _note(self, executions: Sequence[Execution]) -> None:
        for execution in executions:
            if execution.call_id is not None:
                self._by_id[execution.call_id] = execution
            self._by_name[fold_name(execution.name)] = execution
