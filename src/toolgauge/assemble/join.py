"""Joins the readings of a trace, or of the traces of a conversation, to one trajectory.

Pure: the same readings in any order give the same trajectory. A call shows up in three to eight places;
counting one twice or losing a rejected one would move every score.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from toolgauge.assemble.agent_runs import (
    earlier_turns,
    has_beginning,
    messages_of,
    new_offers,
    offer_turns,
    runs_of,
    tools_of,
    with_errors,
)
from toolgauge.assemble.answers import Answers
from toolgauge.assemble.calls import Offers, Surroundings, in_turns, tool_calls
from toolgauge.assemble.cutting import merged, with_truncated_values
from toolgauge.assemble.executions import code_steps, executed_calls, failed_steps
from toolgauge.assemble.misrouting import split_sign
from toolgauge.assemble.node import Node, NodeIndex, order, take_apart
from toolgauge.assemble.pairing import Pair, asked, mark_paused, pair, resumed
from toolgauge.assemble.repair import History, Repair, repair
from toolgauge.assemble.requests import requested_calls
from toolgauge.assemble.tree import plant
from toolgauge.model.left_out import NOTHING_LEFT_OUT, LeftOut
from toolgauge.model.observations import Reading
from toolgauge.model.trajectory import ClosedBecause, Run, SpanSource, Tokens, ToolCall, Trajectory, TrajectoryScope

# Nested model spans come in twos and threes.
_MAX_NESTING = 4


def tokens_of(traces: Iterable[Sequence[Node]]) -> Tokens | None:
    """Return the tokens of all traces, whose nodes come in order of time; `None` where none were recorded."""
    sums, measured, unmeasured = [0, 0], False, 0
    for nodes in traces:
        calls = [node for node in nodes if node.model_call is not None]
        for node in _counted(calls):
            found = _tokens(node)
            measured = measured or found != (None, None)
            unmeasured += None in found
            sums[0] += found[0] or 0
            sums[1] += found[1] or 0
    return Tokens(input=sums[0], output=sums[1], unmeasured=unmeasured) if measured else None


def _tokens(node: Node) -> tuple[int | None, int | None]:
    call = node.model_call
    return (None, None) if call is None else (call.input_tokens, call.output_tokens)


def _is_measured(node: Node) -> bool:
    return _tokens(node) != (None, None)


def _counted(calls: Sequence[Node]) -> list[Node]:
    """Leave out the spans that show what others show."""
    around: set[int] = set()
    around_measured: set[int] = set()
    for node in calls:
        _mark_above(node, around)
        if _is_measured(node):
            _mark_above(node, around_measured)
    counted = [node for node in calls if id(node) not in around_measured]
    counted = [node for node in counted if _is_measured(node) or not (id(node) in around or _is_within_measured(node))]
    # A single instrumentation, as nearly always, shows nothing twice.
    return _without_doubles(counted) if len({node.first.scope for node in counted}) > 1 else counted


def _above(node: Node) -> Node | None:
    """Return the span of a model call around this one; `None` where a tool or an agent run stands between."""
    above = node.branch.model_above
    if above is None or above.model_call is None:
        return None
    is_same = above.branch.inside is node.branch.inside and above.branch.tool_above is node.branch.tool_above
    return above if is_same else None


def _mark_above(node: Node, marked: set[int]) -> None:
    above = _above(node)
    # What is above a marked one is marked.
    while above is not None and id(above) not in marked:
        marked.add(id(above))
        above = _above(above)


def _is_within_measured(node: Node) -> bool:
    above = _above(node)
    for _ in range(_MAX_NESTING):
        if above is None:
            return False
        if _is_measured(above):
            return True
        above = _above(above)
    return False


def _without_doubles(calls: Sequence[Node]) -> list[Node]:
    """Count what two instrumentations wrote side by side about one call once: they overlap, with the same tokens."""
    counted: list[Node] = []
    waiting: dict[tuple[int | None, int | None], Node] = {}
    for node in calls:
        earlier = waiting.get(_tokens(node)) if _is_measured(node) else None
        if (
            earlier is not None
            and earlier.first.scope != node.first.scope
            and node.time_ns < earlier.time_ns + (earlier.end_ns - earlier.start_ns)
        ):
            del waiting[_tokens(node)]
            continue
        waiting[_tokens(node)] = node
        counted.append(node)
    return counted


Parents = Mapping[str, str | None]
# Service, scope with its version, language and dialect of a span.
_SourceKey: TypeAlias = tuple[str | None, str, str, str, str]


class GatheredTrace(Struct, frozen=True, kw_only=True):
    """What was received of one trace. `parents` maps span ids to parent ids, those of unread spans included.

    `history` reads the calls in the history that the model of a span was given; `None` where no span is left to be read.
    """

    trace_id: str
    readings: Sequence[Reading]
    parents: Parents
    left_out: LeftOut = NOTHING_LEFT_OUT
    history: History | None = None


def join(
    traces: Sequence[GatheredTrace], *, scope: TrajectoryScope, closed_because: ClosedBecause
) -> Trajectory | None:
    """Return the trajectory, `None` when no agent, model or tool call was observed."""
    planted: list[_Planted] = []
    for trace in traces:
        nodes = plant(with_truncated_values(trace.readings), trace.parents)
        index = NodeIndex(nodes)
        if index.of_run:
            planted.append(_Planted(trace.trace_id, index))
    planted.sort(key=lambda trace: trace.order)
    if not planted:
        return None
    index = planted[-1].index
    if len(planted) > 1:
        together = [node for trace in planted for node in trace.index.nodes]
        index = NodeIndex(sorted(together, key=order))
    joined = _joined(planted, index, traces[0].parents)
    repairs = _repairs(traces, planted, joined.pairs)
    if repairs:
        take_apart(index.nodes)
        return _repaired(traces, repairs, joined.split_sign, scope=scope, closed_because=closed_because)
    trajectory = _trajectory(traces, planted, index, joined, scope, closed_because)
    # Nodes and calls name each other: what is left to the collection of garbage costs more than taking it apart.
    take_apart(index.nodes)
    return trajectory


def _repairs(
    traces: Sequence[GatheredTrace], planted: "Sequence[_Planted]", pairs: Mapping[str, Sequence[Pair]]
) -> dict[str, Repair]:
    """Find what the histories of each trace restore of its outputs."""
    histories = {trace.trace_id: trace.history for trace in traces}
    found: dict[str, Repair] = {}
    for one in planted:
        history = histories[one.trace_id]
        restored = repair(one.index, pairs[one.trace_id], history) if history is not None else None
        if restored is not None:
            found[one.trace_id] = restored
    return found


def _repaired(
    traces: Sequence[GatheredTrace],
    repairs: Mapping[str, Repair],
    split_sign: str | None,
    *,
    scope: TrajectoryScope,
    closed_because: ClosedBecause,
) -> Trajectory | None:
    """Join anew what was repaired. That spans of it went elsewhere stays true."""
    shown_by = {lost: node for one in repairs.values() for lost, node in one.shown_by.items()}
    whole = [_with(repairs.get(trace.trace_id), trace) for trace in traces]
    trajectory = join(whole, scope=scope, closed_because=closed_because)
    if trajectory is None:
        return None
    calls = tuple([_shown_by(call, shown_by) for call in trajectory.calls]) if shown_by else trajectory.calls
    return replace(trajectory, calls=calls, split_sign=split_sign)


def _with(restored: Repair | None, trace: GatheredTrace) -> GatheredTrace:
    if restored is None:
        return replace(trace, history=None)
    parents = {**trace.parents, **{lost: node.first.parent_span_id for lost, node in restored.shown_by.items()}}
    return replace(trace, readings=restored.readings(trace.readings), parents=parents, history=None)


def _shown_by(call: ToolCall, shown_by: Mapping[str, Node]) -> ToolCall:
    """Put the span whose history shows a lost output in its place."""
    node = shown_by.get(call.requested_by.span_id) if call.requested_by is not None else None
    if node is None:
        return call
    if call.executed_by is not None:
        return replace(call, requested_by=node.ref)
    return replace(call, requested_by=node.ref, span=node.ref, dialect=node.first.dialect or "")


class _Joined(Struct, frozen=True):
    calls: tuple[ToolCall, ...]
    # When each turn of calls began.
    turns_ns: list[int]
    runs: list[Run]
    split_sign: str | None
    # Of each trace.
    pairs: Mapping[str, Sequence[Pair]]


def _joined(planted: "Sequence[_Planted]", index: NodeIndex, parents: Parents) -> _Joined:
    by_trace = {trace.trace_id: _pairs(trace) for trace in planted}
    pairs = [pair for these in by_trace.values() for pair in these]
    mark_paused(pairs, index.nodes)
    if len(planted) > 1:
        pairs = resumed(sorted(pairs, key=asked))
    elif any(pair.execution is not None and pair.execution.waits for pair in pairs):
        pairs = resumed(pairs)
    turns = in_turns(pairs)
    turns_ns = [turn.node.time_ns for turn in turns]
    answers = Answers()
    answers.collecting(index.answering, pairs)
    wholes = {trace.trace_id: trace.whole for trace in planted}
    with_tool_spans = {trace.trace_id for trace in planted if trace.has_tool_spans}
    answers.settle(pairs)
    around = Surroundings(answers, Offers(index.offering), wholes, with_tool_spans)
    calls = tool_calls(turns, turns_ns, around)
    runs: list[Run] = []
    for trace in planted:
        of_trace = runs_of(trace.whole, trace.index)
        runs += with_errors(of_trace, trace.whole, trace.index, calls) if trace.index.failing else of_trace
    # Of a conversation, each trace was looked at when it closed.
    sign = split_sign(index, pairs, parents) if len(planted) == 1 else None
    return _Joined(calls, turns_ns, runs, sign, by_trace)


def _trajectory(
    traces: Sequence[GatheredTrace],
    planted: "Sequence[_Planted]",
    index: NodeIndex,
    joined: _Joined,
    scope: TrajectoryScope,
    closed_because: ClosedBecause,
) -> Trajectory:
    calls, turns_ns = joined.calls, joined.turns_ns
    last = planted[-1]
    root = last.root
    messages = messages_of(index.speaking, turns_ns)
    attributes = _attributes(traces, root)
    start_ns, end_ns = _span_of_time(index.nodes)
    agents = _agents(index.running, calls)
    offers = new_offers(index.offering)
    begins, history = has_beginning(index.speaking), traces[0].history if len(traces) == 1 else None
    earlier = earlier_turns(index.speaking, history) if begins is False and history is not None else None
    producer, conversation_id = _producer(root, index.nodes), _conversation(last.index.nodes, root)
    return Trajectory(
        scope=scope,
        trace_id=last.trace_id,
        conversation_id=conversation_id,
        service=producer.service,
        resource=producer.resource,
        agents=agents,
        root=root.ref if root is not None else None,
        calls=calls,
        tools_offered=tools_of(offers),
        messages=messages,
        offer_turns=offer_turns(offers, turns_ns),
        attributes=attributes,
        closed_because=closed_because,
        start_ns=start_ns,
        end_ns=end_ns,
        left_out=merged([trace.left_out for trace in traces]),
        hidden_turns=sum([trace.hidden_turns for trace in planted]),
        has_beginning=begins,
        earlier_turns=earlier,
        has_media=any(seen.has_media for node in index.speaking for seen in node.messages),
        runs=tuple(joined.runs),
        code_steps=code_steps(index),
        tokens=tokens_of([trace.index.nodes for trace in planted]),
        split_sign=joined.split_sign,
        sources=tuple([_source(key, group) for key, group in _by_source(index.nodes).items()]),
    )


class _Planted:
    """One trace as a tree."""

    def __init__(self, trace_id: str, index: NodeIndex) -> None:
        nodes = index.nodes
        self.trace_id = trace_id
        self.index = index
        self.order = (nodes[0].time_ns, trace_id)
        self.root = _root(nodes)
        # What stands for the trace as a whole.
        self.whole = self.root or nodes[0]
        # Whether any of its calls has a span; known when they are joined.
        self.has_tool_spans = False

    @property
    def hidden_turns(self) -> int:
        """Count the model calls that asked for tools without a trace of what they asked for."""
        if self.index.executing:
            return 0
        stopped = [
            node for node in self.index.nodes if node.model_call is not None and node.model_call.stopped_for_tools
        ]
        return len([node for node in stopped if not node.requests])


def _root(nodes: Sequence[Node]) -> Node | None:
    """Return the outermost agent run, else the first span without a parent."""
    for node in nodes:
        if node.is_outermost_run:
            return node
    return next((node for node in nodes if node.parent is None and not node.from_log_only), None)


def _pairs(trace: _Planted) -> list[Pair]:
    requests = requested_calls(trace.index)
    executions = executed_calls(trace.index.executing, requests)
    pairs = pair(requests, executions)
    trace.has_tool_spans = bool(executions) and any(one.execution is not None for one in pairs)
    return pairs if not trace.index.coding else sorted([*pairs, *failed_steps(trace.index, pairs)], key=asked)


def _span_of_time(nodes: Sequence[Node]) -> tuple[int, int]:
    """Return the first start and the last end; log records without a span count where there is nothing else."""
    spans = [node for node in nodes if not node.from_log_only] or nodes
    return min([node.start_ns for node in spans]), max([node.end_ns for node in spans])


def _conversation(nodes: Sequence[Node], root: Node | None) -> str | None:
    """Return the conversation id of the lowest rank; among equals the root's, else the earliest."""
    best = root.conversation if root is not None else None
    for node in nodes:
        seen = node.conversation
        if seen is not None and (best is None or seen.rank < best.rank):
            best = seen
    return best.conversation_id if best is not None else None


def _producer(root: Node | None, nodes: Sequence[Node]) -> Reading:
    """Return the reading that names the service: the root's, else the first one's that does."""
    first = nodes[0].first if root is None else root.first
    if first.service is not None:
        return first
    return next((node.first for node in nodes if node.first.service is not None), first)


def _by_source(nodes: Sequence[Node]) -> Mapping[_SourceKey, Sequence[Node]]:
    """Group spans by who wrote them."""
    groups: dict[_SourceKey, list[Node]] = {}
    for node in nodes:
        first = node.first
        if first.dialect is None:
            continue
        key = (first.service, first.scope, first.version, first.language, first.dialect)
        group = groups.get(key)
        if group is None:
            groups[key] = [node]
        else:
            group.append(node)
    return groups


def _source(key: _SourceKey, nodes: Sequence[Node]) -> SpanSource:
    service, scope, version, language, dialect = key
    model_calls = len([node for node in nodes if node.model_call is not None])
    return SpanSource(
        service=service,
        scope=scope,
        dialect=dialect,
        spans=tuple([node.ref.span_id for node in nodes]),
        model_calls=model_calls,
        has_runs=model_calls > 0 or any(node.agent_run is not None for node in nodes),
        version=version,
        language=language,
    )


def _agents(running: Sequence[Node], calls: Sequence[ToolCall]) -> tuple[str, ...]:
    named = [node.agent_run.agent for node in running if node.agent_run is not None]
    named += [call.agent for call in calls]
    return tuple([agent for agent in dict.fromkeys(named) if agent is not None])


def _attributes(traces: Iterable[GatheredTrace], root: Node | None) -> dict[str, str | int | float | bool]:
    """Merge attributes: the root's win, then those of spans without a parent, then the earliest."""
    readings = [reading for trace in traces for reading in trace.readings if reading.attributes]
    if not readings:
        return {}
    readings = sorted(readings, key=lambda reading: _precedence(reading, root))
    merged: dict[str, str | int | float | bool] = {}
    for reading in readings:
        for key, value in reading.attributes:
            merged.setdefault(key, value)
    return merged


def _precedence(reading: Reading, root: Node | None) -> tuple[bool, bool, bool, int, str, str]:
    is_root = root is not None and reading.ref == root.ref
    has_parent = reading.parent_span_id is not None
    return (not is_root, has_parent, reading.is_log, reading.start_ns, reading.ref.span_id, reading.ref.trace_id)
