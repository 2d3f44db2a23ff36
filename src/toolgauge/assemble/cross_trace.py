"""Relates a trace to spans elsewhere: bounded memories of earlier traces, and signs of misrouted spans.

A call may be answered in the history of a later trace, or resumed there; spans may complete chains of parents later. Half of a trace that
a load balancer split looks like a whole run, with false scores. Filtered spans and runs of earlier traces are not signs of a split.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from itertools import islice
from operator import attrgetter, itemgetter

from cachetools import FIFOCache, LRUCache
from msgspec.structs import astuple, replace

from toolgauge.assemble.memory import READING_BYTES, cut, memory_of
from toolgauge.assemble.node import Execution, Node, NodeIndex, arguments_key
from toolgauge.assemble.pairing import Pair
from toolgauge.model.names import fold_name
from toolgauge.model.observations import CallAnswered, CallRequested, Reading
from toolgauge.model.records import PackedHead, SpanHead, SpanRef, packed_head
from toolgauge.model.trajectory import ToolCall, Trajectory

# Flags of a span (OTLP, `SpanFlags`).
_KNOWN_IS_REMOTE, _IS_REMOTE = 0x100, 0x200


class _Generation:
    """Spans of one period, by trace; most traces leave one."""

    __slots__ = ("_by_trace", "readings", "unsorted")

    def __init__(self) -> None:
        self.readings: dict[str, list[Reading]] = {}
        self.unsorted: deque[Sequence[PackedHead]] = deque()
        self._by_trace: dict[bytes, bytes | list[bytes]] = {}

    def take_heads(self, trace_id: bytes) -> list[bytes]:
        """Sort the heads by trace; take one trace's."""
        by_trace = self._by_trace
        while self.unsorted:
            for seen_id, rest in self.unsorted.popleft():
                together = by_trace.get(seen_id)
                if together is None:
                    by_trace[seen_id] = rest
                elif isinstance(together, list):
                    together.append(rest)
                else:
                    by_trace[seen_id] = [together, rest]
        packed = by_trace.pop(trace_id, None)
        return [] if packed is None else [packed] if isinstance(packed, bytes) else packed


class RecentSpans:
    """Remembers the newest spans by trace: at least `capacity` and at most twice as many. Large ones count as several."""

    def __init__(self, capacity: int) -> None:
        self._capacity = max(1, capacity)
        self._young = _Generation()
        self._old = _Generation()
        self._young_count = 0

    def add(self, reading: Reading) -> None:
        """Remember one reading."""
        self._young.readings.setdefault(reading.ref.trace_id, []).append(reading)
        self._count(_spans_worth(reading))

    def add_heads(self, heads: Sequence[PackedHead]) -> None:
        """Remember the ids of spans that no dialect reads."""
        first = 0
        while first < len(heads):
            some = heads[first : first + self._capacity - self._young_count]
            first += len(some)
            self._young.unsorted.append(some)
            self._count(len(some))

    def take(self, trace_id: str) -> list[Reading]:
        """Remove and return the readings of a trace."""
        young = self._young.readings.pop(trace_id, [])
        self._young_count -= sum(map(_spans_worth, young))
        return self._old.readings.pop(trace_id, []) + young

    def take_heads(self, trace_id: bytes) -> list[SpanHead]:
        """Give away the ids of a trace."""
        young = self._young.take_heads(trace_id)
        self._young_count -= len(young)
        return [SpanHead(trace_id, rest) for rest in self._old.take_heads(trace_id) + young]

    def _count(self, spans: int) -> None:
        self._young_count += spans
        if self._young_count >= self._capacity:
            self._old, self._young, self._young_count = self._young, _Generation(), 0


def _spans_worth(reading: Reading) -> int:
    # A session's id, which is all that most of them hold, may be anything.
    return 1 + reading.size_bytes // READING_BYTES


def head_of(reading: Reading) -> SpanHead:
    """Return the ids of a span that was read."""
    flags = 0 if reading.parent_is_remote is None else _KNOWN_IS_REMOTE | (reading.parent_is_remote and _IS_REMOTE)
    parent = raw_id(reading.parent_span_id or "")
    return packed_head(raw_id(reading.ref.trace_id), raw_id(reading.ref.span_id), parent, flags=flags)


def raw_id(written: str) -> bytes:
    """Return the id as unread spans carry it. Readings may come from elsewhere, with ids of their own making."""
    try:
        return bytes.fromhex(written)
    except ValueError:
        return written.encode("utf-8", "surrogatepass")


# A call takes three entries of about a hundred bytes.
_MAX_ENTRIES = 100_000
_MAX_CALLS = 100


class WaitingCalls:
    """Hashes of the ids, and of the names and arguments, of waiting calls with their service and conversation."""

    def __init__(self, max_entries: int = _MAX_ENTRIES) -> None:
        # The calls that were last seen to wait the longest time ago are forgotten.
        self._known = LRUCache[int, None](max_entries)

    def explained(self, trajectory: Trajectory) -> Trajectory:
        """Return the trajectory of a trace without a split sign that an earlier waiting call explains; remember its own."""
        if trajectory.conversation_id is None:
            return trajectory
        conversation = hash((trajectory.service, trajectory.conversation_id))
        if trajectory.split_sign == _UNSEEN:
            is_resumed = conversation in self._known
        else:
            keys = (key for call in trajectory.calls for key in _keys(conversation, call))
            is_resumed = trajectory.split_sign is not None and any(key in self._known for key in keys)
        waiting = [call for call in trajectory.calls if call.state in ("paused", "requested_only")]
        for call in waiting[:_MAX_CALLS]:
            for key in (conversation, *_keys(conversation, call)):
                self._known[key] = None
        return replace(trajectory, split_sign=None) if is_resumed else trajectory


def _keys(conversation: int, call: ToolCall) -> Iterator[int]:
    if call.call_id is not None:
        yield hash((conversation, call.call_id))
    key = arguments_key(call.arguments)
    if key is not None:
        yield hash((conversation, fold_name(call.name), key))


# Most answers take one or two thousand; names may be anything.
_MAX_BYTES = 32 * 1024 * 1024
# What an answer takes beside its texts: its place in the table, with its key and the trace's id.
_ENTRY_BYTES = 650
# So many characters of a result are kept of each.
_MAX_TEXT = 1024
# No id is longer: some carry a few thousand characters of a model's thoughts.
_MAX_ID = 8192
_UNANSWERED = (-1, "", CallAnswered(), 0)


class UnmatchedResults:
    """The first answer to each call, by service and call id, from model calls that are traces of their own."""

    def __init__(self, max_bytes: int = _MAX_BYTES) -> None:
        # Each with the start and the trace of the model call, and about how much memory it takes.
        self._known = FIFOCache[tuple[str | None, str], tuple[int, str, CallAnswered, int]](max_bytes, itemgetter(3))

    def note(self, reading: Reading) -> None:
        """Remember the answers in the history of a model call, which has no parent."""
        # Spans without a parent are mostly runs, which show no answers.
        shows_answers = CallAnswered in map(type, reading.observations) and not reading.is_log
        for seen in reading.observations if shows_answers else ():
            if type(seen) is CallAnswered and seen.call_id is not None:
                if len(seen.call_id) > _MAX_ID or len(seen.name or "") > _MAX_ID:
                    continue
                key, place = (reading.service, seen.call_id), (reading.start_ns, reading.ref.trace_id)
                known = self._known.get(key)
                # Every later history repeats it: the first is remembered, in any order of arrival.
                if known is None or place <= known[:2]:
                    cut_short = cut(seen, _MAX_TEXT)
                    answer = cut_short if isinstance(cut_short, CallAnswered) else seen
                    size = _ENTRY_BYTES + memory_of((reading.service, *astuple(answer)))
                    if size <= self._known.maxsize:
                        self._known[key] = (*place, answer, size)

    def found(self, closing: Sequence[Reading]) -> list[Reading]:
        """Return the answers that other traces hold, as log records of the spans that asked."""
        found: list[Reading] = []
        # Nearly always empty: most traces hold both the model calls and their answers.
        for reading in closing if self._known else ():
            answers: list[CallAnswered] = []
            for seen in reading.observations if reading.parent_span_id is None and not reading.is_log else ():
                if type(seen) is CallRequested and seen.call_id is not None:
                    start_ns, trace_id, answer, _ = self._known.get((reading.service, seen.call_id), _UNANSWERED)
                    # An id that is used again was answered before: that answer is about another call.
                    if trace_id != reading.ref.trace_id and start_ns > reading.start_ns:
                        answers.append(answer)
            if answers:
                found.append(
                    replace(
                        reading,
                        is_log=True,
                        start_ns=reading.end_ns,
                        status="unset",
                        observations=tuple(answers),
                        size_bytes=0,
                        attributes=(),
                    )
                )
        return found


_NEWEST_TRAJECTORIES = 100
_LEAST_SPLIT = 5
_SPLIT_SHARE = 0.1
# A share that rises and falls again is reported this often.
_REPORT_AGAIN_NS = 3_600_000_000_000
_WINDOW_NS = 60_000_000_000
_MAX_REMEMBERED = 20_000
_LOOP_SHARE = 0.5
_LEAST_SPANS = 100
_parent = attrgetter("parent")
_UNASKED = "a tool ran for which the request of the model never came"
_UNSEEN = "a model was given the answer to a call of which no span came"
_ORPHANED = "spans of the run never came that others of its spans name as their parents"


class SplitDetector:
    """Suspects a load balancer that splits traces when a share of the newest trajectories shows signs."""

    def __init__(self) -> None:
        self._newest: deque[bool] = deque(maxlen=_NEWEST_TRAJECTORIES)
        self._reported_ns: int | None = None
        self.split_suspected = False

    @property
    def share(self) -> float:
        """The share of trajectories with signs."""
        return sum(self._newest) / len(self._newest) if self._newest else 0.0

    def add(self, now_ns: int, *, has_sign: bool) -> bool:
        """Count a trajectory with calls; return whether a new suspicion is to be reported."""
        before = self.split_suspected
        self._newest.append(has_sign)
        self.split_suspected = sum(self._newest) >= _LEAST_SPLIT and self.share >= _SPLIT_SHARE
        if before or not self.split_suspected:
            return False
        if self._reported_ns is not None and now_ns - self._reported_ns < _REPORT_AGAIN_NS:
            return False
        self._reported_ns = now_ns
        return True


class LoopDetector:
    """Suspects that our output is sent back to us when most spans of a minute arrive twice. Keeps only hashes of spans."""

    def __init__(self) -> None:
        self._began_ns = 0
        self._newer: set[int] = set()
        self._older: set[int] = set()
        self._repeated = 0
        self.loop_suspected = False

    def add(self, refs: Collection[SpanRef], now_ns: int) -> None:
        """Count spans."""
        self.turn_over_if_due(now_ns)
        new = {*map(hash, refs)} - self._newer - self._older
        self._repeated += len(refs) - len(new)
        self._newer.update(islice(new, max(0, _MAX_REMEMBERED - len(self._newer))))

    def turn_over_if_due(self, now_ns: int) -> None:
        """Begin a new window when the old one is over: a suspicion ends when no spans arrive."""
        if now_ns - self._began_ns < _WINDOW_NS:
            return
        # A span that is not remembered could not be found again: it says nothing about the share.
        seen = len(self._newer) + self._repeated
        self.loop_suspected = seen >= _LEAST_SPANS and self._repeated >= _LOOP_SHARE * seen
        self._older, self._newer = self._newer, set()
        self._repeated = 0
        self._began_ns = now_ns


def split_sign(index: NodeIndex, pairs: Sequence[Pair], parents: Mapping[str, str | None]) -> str | None:
    """Return the sign that spans inside a trace with these calls are missing, in words; `None` without one."""
    if not index.running:
        return None
    calls = {pair.call_id for pair in pairs if pair.call_id is not None}
    # Models ask for no steps of code agents: they write the code.
    alone = [pair.execution for pair in pairs if pair.request is None]
    unasked = [ran for ran in alone if ran is not None and ran.kind == "tool"]
    unseen = [
        node
        for node in index.answering
        if node.model_call is not None and node.is_primary and node.answers[-1].call_id not in calls
    ]
    missing = {*map(_parent, index.nodes)}.difference(parents, (None,))
    orphans = [node for node in index.nodes if node.parent in missing] if missing else []
    # Nearly always there is nothing to be explained.
    if not unasked and not unseen and not orphans:
        return None
    models = _Models(index)
    if any(models.asked_before(ran) for ran in unasked):
        return _UNASKED
    if any(models.lacks_before(node, calls) for node in unseen):
        return _UNSEEN
    return _ORPHANED if orphans and _lacks_inside(index, orphans, parents) else None


class _Models:
    """The model calls of a trace by agent run, and the tools that models ask for."""

    def __init__(self, index: NodeIndex) -> None:
        # In order of time, with the shortest time that one of them took.
        self._by_run: dict[int, tuple[list[Node], int]] = {}
        for node in index.models:
            if node.is_primary and node.branch.inside is not None:
                models, shortest_ns = self._by_run.get(id(node.branch.inside), ([], node.until_ns - node.time_ns))
                models.append(node)
                self._by_run[id(node.branch.inside)] = models, min(shortest_ns, node.until_ns - node.time_ns)
        self._answered = {answer.call_id for node in index.answering for answer in node.answers}
        requested = {request.name for node in index.requesting for request in node.requests}
        offered = {tool.name for node in index.offering for offer in node.offers for tool in offer.tools}
        self._names = set(map(fold_name, requested | offered))

    def asked_before(self, ran: Execution) -> bool:
        """Return whether models ask for this call, and the model call of the run that must have come before it is missing."""
        is_answered = ran.call_id is not None and ran.call_id in self._answered
        is_for_models = is_answered or fold_name(ran.name) in self._names
        return is_for_models and ran.run is not None and self._is_missing(ran.run, ran.node)

    def lacks_before(self, node: Node, calls: Collection[str | None]) -> bool:
        """Return whether a model's newest answer is to a call of its own run that is not among the seen `calls`."""
        run, answered = node.branch.inside, node.answers[-1].call_id
        if run is None or answered is None:
            return False
        before = self._newest_before(run, node)
        if before is not None and before.answers and before.answers[-1].call_id == answered:
            return False
        is_of_later_turn = any(seen.role == "user" and seen.follows for seen in node.messages)
        if is_of_later_turn and not any(answer.call_id in calls for answer in node.answers):
            return False
        return self._is_missing(run, node)

    def _newest_before(self, run: Node, node: Node) -> Node | None:
        models, _ = self._by_run.get(id(run), ((), 0))
        place = bisect_left(models, node.time_ns, key=attrgetter("time_ns"))
        return models[place - 1] if place else None

    def _is_missing(self, run: Node, node: Node) -> bool:
        before = self._newest_before(run, node)
        if before is not None:
            # Some producers write the text of an output without its calls, or without calls that the provider runs.
            return bool(before.requests)
        # A resumed run continues where it was; before another one, a model took its time.
        _, shortest_ns = self._by_run.get(id(run), ((), 0))
        return shortest_ns != 0 and node.time_ns - run.time_ns >= shortest_ns


def _lacks_inside(index: NodeIndex, orphans: Sequence[Node], parents: Mapping[str, str | None]) -> bool:
    """Return whether an ended run lacks parents of some spans whose kind no filter drops: others have their parents."""
    ended = next((run for run in index.running if run.is_outermost_run and _is_below_top(run, parents)), None)
    if ended is None:
        return False
    service = ended.first.service
    kinds = {_kind(node) for node in orphans if node.first.service == service and not node.first.parent_is_remote}
    kinds.discard(None)
    if not kinds:
        return False
    kind_of = {node.ref.span_id: _kind(node) for node in index.nodes}
    return any(
        node.parent is not None and node.parent in parents and kind_of.get(node.parent) != kind_of[node.ref.span_id]
        for node in index.nodes
        if kind_of[node.ref.span_id] in kinds
    )


def _is_below_top(run: Node, parents: Mapping[str, str | None]) -> bool:
    at: str | None = run.ref.span_id
    passed: set[str] = set()
    while at is not None and at in parents and at not in passed:
        passed.add(at)
        at = parents[at]
    return at is None


def _kind(node: Node) -> Hashable | None:
    """Return scope and kind of a span; `None` for those within tools, whose two sides are apart."""
    if node.from_log_only or node.branch.tool_above is not None:
        return None
    if node.executions:
        is_protocol = any(execution.is_protocol for execution in node.executions)
        return None if is_protocol else (node.first.scope, "tool")
    if node.agent_run is not None:
        return (node.first.scope, "agent")
    return (node.first.scope, "model") if node.model_call is not None else None
