"""Detects misrouted spans: traces split over several processes, and loops of our own output.

A half without a sign looks like a whole run, with false scores. Filtered spans and runs of earlier traces do not count.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Hashable, Mapping, Sequence
from operator import attrgetter

from toolgauge.assemble.node import Execution, Node, NodeIndex
from toolgauge.assemble.pairing import Pair
from toolgauge.model.names import fold_name
from toolgauge.model.records import SpanRef

_NEWEST_TRAJECTORIES = 100
_LEAST_SPLIT = 5
_SPLIT_SHARE = 0.1
# A share that rises and falls again is reported this often.
_REPORT_AGAIN_NS = 3_600_000_000_000
_WINDOW_NS = 60_000_000_000
_MAX_REMEMBERED = 20_000
_LOOP_SHARE = 0.5
_LEAST_SPANS = 100
_UNASKED = "a tool ran for which the request of the model never came"
UNSEEN = "a model was given the answer to a call of which no span came"
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

    def add(self, ref: SpanRef, now_ns: int) -> None:
        """Count one span."""
        if now_ns - self._began_ns >= _WINDOW_NS:
            self.turn_over_if_due(now_ns)
        known, newer = hash(ref), self._newer
        if known in newer or known in self._older:
            self._repeated += 1
        elif len(newer) < _MAX_REMEMBERED:
            newer.add(known)

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
    orphans = [node for node in index.nodes if node.parent is not None and node.parent not in parents]
    # Nearly always there is nothing to be explained.
    if not unasked and not unseen and not orphans:
        return None
    models = _Models(index)
    if any(models.asked_before(ran) for ran in unasked):
        return _UNASKED
    if any(models.lacks_before(node, calls) for node in unseen):
        return UNSEEN
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
