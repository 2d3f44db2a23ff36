"""Joins the readings of a trace, or of the traces of a conversation, into one trajectory, in any order of arrival.

A call shows up in three to eight places; counting one twice or losing a rejected one would move every score.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, filterfalse, islice
from operator import attrgetter
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from toolgauge.assemble.agent_runs import (
    Offers,
    earlier_turns,
    has_beginning,
    messages_of,
    runs_of,
    tools_on_offer,
    with_endings,
    with_errors,
)
from toolgauge.assemble.calls import Answers, in_turns, tool_calls
from toolgauge.assemble.cross_trace import split_sign
from toolgauge.assemble.dedupe import code_steps, executed_calls, failed_steps, requested_calls
from toolgauge.assemble.memory import merged
from toolgauge.assemble.node import Node, NodeIndex, order
from toolgauge.assemble.pairing import Pair, asked, mark_stopped, pair, resumed
from toolgauge.assemble.repair import History, Repair, repair
from toolgauge.assemble.tree import plant
from toolgauge.model.left_out import NOTHING_LEFT_OUT, LeftOut
from toolgauge.model.metrics import MAX_PROPERTY, short_hash
from toolgauge.model.observations import REQUEST_MODEL, RESPONSE_MODEL, Reading
from toolgauge.model.trajectory import ClosedBecause, Run, SpanSource, Tokens, ToolCall, Trajectory, TrajectoryScope

# Versions of the properties of one trajectory, above which they are not remembered.
_MOST_REMEMBERED = 4
# Nested model spans come in twos and threes.
_MAX_NESTING = 4
# Texts that a producer dropped.
_CUT = LeftOut(texts=1, is_complete=False)
Parents: TypeAlias = Mapping[str, str | None]


class GatheredTrace(Struct, frozen=True, kw_only=True):
    """The readings of one trace. `parents` includes unread spans; `history` reads the calls a model's span was given."""

    trace_id: str
    readings: Sequence[Reading]
    parents: Parents
    left_out: LeftOut = NOTHING_LEFT_OUT
    history: History | None = None


class _Planted:
    """One trace as a tree, with the pairs of its calls."""

    def __init__(self, trace: GatheredTrace, index: NodeIndex) -> None:
        self.trace = trace
        self.index = index
        # The outermost agent run, else the first span without a parent.
        self.root: Node | None = None
        for node in index.running or index.nodes:
            if node.is_outermost_run if index.running else node.parent is None and not node.from_log_only:
                self.root = node
                break
        # Stands for the trace as a whole.
        self.whole = self.root or index.nodes[0]
        self.pairs: list[Pair] = []
        if index.requesting or index.executing:
            requests = requested_calls(index)
            self.pairs = pair(requests, executed_calls(index.executing, requests), index.offering)
        self.has_tool_spans = any(one.execution is not None for one in self.pairs)
        if index.coding:
            self.pairs = sorted([*self.pairs, *failed_steps(index, self.pairs)], key=asked)
        # Here, as finding the pairs has completed the requests.
        self.tools, self.begins = tools_on_offer(index.offering), has_beginning(index.speaking)


def join(
    traces: Sequence[GatheredTrace], *, scope: TrajectoryScope, closed_because: ClosedBecause
) -> Trajectory | None:
    """Return the trajectory, `None` when no agent, model or tool call was observed."""
    planted: list[_Planted] = []
    for trace in traces:
        index = NodeIndex(plant(trace.readings, trace.parents))
        if index.of_run:
            planted.append(_Planted(trace, index))
    if not planted:
        return None
    if len(planted) > 1:
        planted.sort(key=lambda one: (one.index.nodes[0].time_ns, one.trace.trace_id))
        index = NodeIndex(sorted([node for one in planted for node in one.index.nodes], key=order))
    else:
        index = planted[0].index
    trajectory = _joined(traces, planted, index, scope, closed_because)
    repairs: dict[str, Repair] = {}
    for one in planted:
        history = one.trace.history
        restored = repair(one.index, one.pairs, history) if history is not None else None
        if restored is not None:
            repairs[one.trace.trace_id] = restored
    history = traces[0].history if len(traces) == 1 else None
    if trajectory.has_beginning is False and history is not None and not repairs:
        trajectory = replace(trajectory, earlier_turns=earlier_turns(index.speaking, history))
    # Nodes and calls name each other: leaving them to garbage collection costs more than taking them apart.
    for node in index.nodes:
        del node.requests, node.executions, node.branch, node.below
    return _repaired(trajectory, traces, repairs) if repairs else trajectory


def _repaired(damaged: Trajectory, traces: Sequence[GatheredTrace], repairs: Mapping[str, Repair]) -> Trajectory | None:
    """Join repaired traces. That their spans went elsewhere stays true."""
    shown_by = {lost: node for one in repairs.values() for lost, node in one.shown_by.items()}
    whole: list[GatheredTrace] = []
    for trace in traces:
        restored = repairs.get(trace.trace_id)
        readings, parents = trace.readings, trace.parents
        if restored is not None:
            readings = restored.readings(readings)
            parents = {**parents, **{lost: node.first.parent_span_id for lost, node in restored.shown_by.items()}}
        whole.append(replace(trace, readings=readings, parents=parents, history=None))
    trajectory = join(whole, scope=damaged.scope, closed_because=damaged.closed_because)
    if trajectory is None:
        return None
    calls: list[ToolCall] = []
    for call in trajectory.calls:
        # The span whose history shows a lost output takes its place.
        node = shown_by.get(call.requested_by.span_id) if call.requested_by is not None else None
        if node is None:
            calls.append(call)
        elif call.executed_by is not None:
            calls.append(replace(call, requested_by=node.ref))
        else:
            calls.append(replace(call, requested_by=node.ref, span=node.ref, dialect=node.first.dialect or ""))
    return replace(trajectory, calls=tuple(calls), split_sign=damaged.split_sign)


def _joined(
    traces: Sequence[GatheredTrace],
    planted: Sequence[_Planted],
    index: NodeIndex,
    scope: TrajectoryScope,
    closed_because: ClosedBecause,
) -> Trajectory:
    pairs, turns_ns, calls = _calls(planted, index)
    runs, hidden_turns = _runs(planted, calls)
    last = planted[-1]
    root, nodes = last.root, index.nodes
    producer = nodes[0].first if root is None else root.first
    if producer.service is None:
        producer = next((node.first for node in nodes if node.first.service is not None), producer)
    agents = [*map(_agent, index.running), *[call.agent for call in calls]]
    # Few traces have more than one version of the properties of their runs and model calls.
    values = [node.properties.values for node in nodes if node.properties is not None]
    distinct = dict(zip(map(id, values), values, strict=True))
    # Log records without a span count where there is nothing else.
    spans = [*filterfalse(_is_log_alone, nodes)] or nodes
    # The lowest rank; among equals the root's, else the earliest.
    named = [*filter(None, map(_conversation, (last.whole, *last.index.nodes)))]
    tools, begins = last.tools, last.begins
    if len(planted) > 1:
        tools, begins = tools_on_offer(index.offering), has_beginning(index.speaking)
    merge = _merged if len(distinct) <= _MOST_REMEMBERED else _merged.__wrapped__
    return Trajectory(
        scope=scope,
        trace_id=last.trace.trace_id,
        conversation_id=min(named, key=_rank).conversation_id if named else None,
        service=producer.service,
        resource=producer.resource,
        agents=tuple(dict.fromkeys([agent for agent in agents if agent is not None])),
        root=root.ref if root is not None else None,
        calls=calls,
        tools_offered=tools,
        messages=messages_of(index.speaking, turns_ns),
        attributes=_attributes(traces, root),
        closed_because=closed_because,
        start_ns=min(map(_start_ns, spans)),
        end_ns=max(map(_end_ns, spans)),
        left_out=merged([trace.left_out for trace in traces] + [_CUT] * (True in map(_is_cut, nodes))),
        hidden_turns=hidden_turns,
        has_beginning=begins,
        has_media=True in map(_has_media, chain.from_iterable(map(_messages, index.speaking))),
        runs=tuple(runs),
        code_steps=code_steps(index),
        properties=merge(*distinct.values()),
        tokens=tokens_of([one.index for one in planted]),
        split_sign=split_sign(index, pairs, traces[0].parents) if len(planted) == 1 else None,
        sources=_sources(nodes),
    )


def _runs(planted: Sequence[_Planted], calls: Sequence[ToolCall]) -> tuple[list[Run], int]:
    """Return the runs, and the number of model calls that asked for tools, without a trace of the requests."""
    runs: list[Run] = []
    hidden_turns = 0
    for one in planted:
        of_trace = with_endings(runs_of(one.whole, one.index, one.tools, begins=one.begins), one.whole, one.index)
        runs += with_errors(of_trace, one.whole, one.index, calls) if one.index.failing else of_trace
        for node in one.index.models if not one.index.executing else ():
            hidden_turns += not node.requests and node.model_call is not None and node.model_call.stopped_for_tools
    return runs, hidden_turns


# Fields of nodes, mapped over all nodes: Python code for each takes several times as long.
_start_ns, _end_ns, _span_id = attrgetter("start_ns"), attrgetter("end_ns"), attrgetter("ref.span_id")
_agent_run, _agent, _model_call = attrgetter("agent_run"), attrgetter("agent_run.agent"), attrgetter("model_call")
_messages, _has_media, _is_cut = attrgetter("messages"), attrgetter("has_media"), attrgetter("first.is_cut")
_conversation, _rank, _is_log_alone = attrgetter("conversation"), attrgetter("rank"), attrgetter("from_log_only")
_scope, _may_add_up, _model_above = map(attrgetter, ("first.scope", "model_call.may_add_up", "branch.model_above"))
_writer = attrgetter("first.service", "first.scope", "first.dialect", "first.version", "first.language")
# Every node that is asked shows a model call, or has properties.
_tokens = attrgetter("model_call.input_tokens", "model_call.output_tokens")
_sums, _NO_TOKENS = attrgetter("properties.input_tokens", "properties.output_tokens"), (None, None)


def _calls(planted: Sequence[_Planted], index: NodeIndex) -> tuple[list[Pair], list[int], tuple[ToolCall, ...]]:
    """Put the calls of all traces in order; also return their pairs and the start of each turn."""
    pairs = [pair for one in planted for pair in one.pairs]
    if not pairs:
        return pairs, [], ()
    has_waiting = mark_stopped(pairs, index.nodes)
    if len(planted) > 1:
        pairs = resumed(sorted(pairs, key=asked))
    elif has_waiting:
        pairs = resumed(pairs)
    turns = in_turns(pairs)
    turns_ns = [turn.node.time_ns for turn in turns]
    answers = Answers(index.answering, pairs)
    answers.settle(pairs)
    wholes = {one.trace.trace_id: one.whole for one in planted}
    with_tool_spans = {one.trace.trace_id for one in planted if one.has_tool_spans}
    return pairs, turns_ns, tool_calls(turns, turns_ns, answers, Offers(index.offering), wholes, with_tool_spans)


def _sources(nodes: Sequence[Node]) -> tuple[SpanSource, ...]:
    """Group spans by their writer."""
    groups: defaultdict[tuple[str | None, str, str | None, str, str], list[Node]] = defaultdict(list)
    for writer, node in zip(map(_writer, nodes), nodes, strict=True):
        groups[writer].append(node)
    sources = [
        SpanSource(
            service=service,
            scope=scope,
            dialect=dialect,
            spans=tuple(map(_span_id, group)),
            model_calls=len([*filter(_model_call, group)]),
            has_runs=any(map(_model_call, group)) or any(map(_agent_run, group)),
            version=version,
            language=language,
        )
        for (service, scope, dialect, version, language), group in groups.items()
        if dialect is not None
    ]
    return tuple(sources)


# Runs of one agent have the same properties: without it, fingerprints take a fifth more.
@lru_cache(maxsize=128)
def _merged(*distinct: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    found: dict[str, set[str]] = {}
    for values in distinct:
        for name, value in values:
            found.setdefault(name, set()).add(value)
    together = {name: " + ".join(sorted(several)) for name, several in found.items()}
    return {name: value if len(value) <= MAX_PROPERTY else short_hash(value) for name, value in together.items()}


def _attributes(traces: Iterable[GatheredTrace], root: Node | None) -> dict[str, str | int | float | bool]:
    """Merge attributes: the root's win, then spans without a parent, then the earliest."""
    merged: dict[str, str | int | float | bool] = {}
    readings = [reading for trace in traces for reading in trace.readings if reading.attributes]
    readings.sort(key=lambda one: (one.is_log, one.start_ns, one.ref.span_id, one.ref.trace_id))
    readings.sort(key=lambda one: (root is None or one.ref != root.ref, one.parent_span_id is not None))
    for reading in readings:
        for key, value in reading.attributes:
            merged.setdefault(key, value)
    return merged


# A model call may be on several spans: of other instrumentations, or of a framework that sums up the calls within. So the
# innermost spans with tokens count, unless a tool or agent run is between them and the span above.


def tokens_of(traces: Iterable[NodeIndex]) -> Tokens | None:
    """Return the tokens of the model calls of all traces; `None` where none were recorded.

    The sums on spans of agent runs count in traces without any model call that has tokens.
    """
    input_tokens, output_tokens, unmeasured, cost = 0, 0, 0, None
    unpriced: dict[str, tuple[int, int]] = {}
    for index in traces:
        counted = _counted(index.models)
        measured = [*map(_tokens, counted)]
        if measured.count(_NO_TOKENS) == len(measured):
            tops = [node for node in index.running if node.is_outermost_run and node.properties is not None]
            tops = [node for node in tops if _sums(node) != _NO_TOKENS]
            counted, measured = (tops, [*map(_sums, tops)]) if tops else (counted, measured)
        for node, (sent, received) in zip(counted, measured, strict=True):
            unmeasured += sent is None or received is None
            properties = node.properties
            if properties is not None and properties.cost is not None and (sent, received) != _NO_TOKENS:
                cost = (cost or 0.0) + properties.cost
            elif sent or received:
                # The answering model, else the requested one.
                named = {} if properties is None else dict(properties.values)
                model = named.get(RESPONSE_MODEL, named.get(REQUEST_MODEL, ""))
                before = unpriced.get(model, (0, 0))
                unpriced[model] = before[0] + (sent or 0), before[1] + (received or 0)
            input_tokens += sent or 0
            output_tokens += received or 0
    # Producers write 0 where a call failed or was cut off.
    if not input_tokens and not output_tokens:
        return None
    return Tokens(input=input_tokens, output=output_tokens, unmeasured=unmeasured, cost=cost, unpriced=unpriced)


def _is_measured(node: Node) -> bool:
    return _tokens(node) != _NO_TOKENS


def _counted(calls: Sequence[Node]) -> Sequence[Node]:
    """Leave out the spans that show the same calls as others."""
    if len(calls) <= 1:
        return calls
    if True in map(_may_add_up, calls):
        # The tokens of a later call below the same span may include an earlier call's.
        found: list[Node] = []
        places: dict[str | None, int] = {}
        for node in sorted(calls, key=lambda node: node.time_ns):
            place, call = places.get(node.parent), node.model_call
            before = (None, None) if place is None else _tokens(found[place])
            grew = [
                old is not None and new is not None and old < new
                for old, new in zip(before, _tokens(node), strict=True)
            ]
            if place is not None and call is not None and call.may_add_up and all(grew):
                found[place] = node
            else:
                places[node.parent] = len(found)
                found.append(node)
        calls = found
    nested = [*filter(_model_above, calls)]
    # A single instrumentation, as nearly always, shows nothing twice.
    if not nested and len({*map(_scope, calls)}) <= 1:
        return calls
    around: set[int] = set()
    around_measured: set[int] = set()
    for node in nested:
        for marked in (around, around_measured) if _is_measured(node) else (around,):
            for above in _models_around(node):
                # All above a marked one are marked.
                if id(above) in marked:
                    break
                marked.add(id(above))
    counted = [node for node in calls if id(node) not in around_measured]
    unmeasured = [node for node in nested if id(node) not in around_measured and not _is_measured(node)]
    around |= {id(one) for one in unmeasured if any(map(_is_measured, islice(_models_around(one), _MAX_NESTING)))}
    if around:
        counted = [node for node in counted if _is_measured(node) or id(node) not in around]
    if len({*map(_scope, counted)}) <= 1:
        return counted
    # Two instrumentations wrote spans of one call side by side: they overlap, with the same tokens in. Of streams, some add up those out.
    single: list[Node] = []
    waiting: dict[int | None, Node] = {}
    for node in counted:
        sent, _ = _tokens(node)
        earlier = None if sent is None else waiting.get(sent)
        is_other = earlier is not None and earlier.first.scope != node.first.scope
        if earlier is not None and is_other and node.time_ns < earlier.time_ns + (earlier.end_ns - earlier.start_ns):
            del waiting[sent]
        else:
            waiting[sent] = node
            single.append(node)
    return single


def _models_around(node: Node) -> Iterator[Node]:
    """Yield the spans of model calls around this one from the innermost, up to a tool or an agent run."""
    above = node.model_around
    while above is not None and above.model_call is not None:
        yield above
        above = above.model_around
