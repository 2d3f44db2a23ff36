"""Finds signs that spans of a trace went elsewhere: to another toolgauge, behind a load balancer that does not route by trace.

A half that shows nothing missing looks like a whole run that did less, and its scores would be false. A sign has to be
sound: frameworks run tools that no model asked for, take up runs of earlier traces, and Collectors filter spans.
"""

from collections import deque
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence

from toolgauge.assemble.canonical import fold_name
from toolgauge.assemble.node import Execution, Node, NodeIndex
from toolgauge.assemble.pairing import Pair
from toolgauge.model.records import SpanRef

_NEWEST_TRAJECTORIES = 100
_LEAST_SPLIT = 5
_SPLIT_SHARE = 0.1
# A share that goes to and fro is reported so often.
_REPORT_AGAIN_NS = 3_600_000_000_000


class SplitDetector:
    """Counts, of the newest trajectories with calls, those that show that spans of them went elsewhere."""

    def __init__(self) -> None:
        self._newest: deque[bool] = deque(maxlen=_NEWEST_TRAJECTORIES)
        self._reported_ns: int | None = None
        self.split_suspected = False

    @property
    def share(self) -> float:
        """The share of trajectories with signs."""
        return sum(self._newest) / len(self._newest) if self._newest else 0.0

    def add(self, now_ns: int, *, has_sign: bool) -> bool:
        """Take note of a trajectory; return whether a suspicion begins that is to be reported."""
        before = self.split_suspected
        self._newest.append(has_sign)
        self.split_suspected = sum(self._newest) >= _LEAST_SPLIT and self.share >= _SPLIT_SHARE
        if before or not self.split_suspected:
            return False
        if self._reported_ns is not None and now_ns - self._reported_ns < _REPORT_AGAIN_NS:
            return False
        self._reported_ns = now_ns
        return True


_WINDOW_NS = 60_000_000_000
_MAX_REMEMBERED = 20_000
_SUSPICIOUS_SHARE = 0.5
_LEAST_SPANS = 100


class LoopDetector:
    """Counts spans that come again within a minute or two."""

    def __init__(self) -> None:
        self._began_ns = 0
        self._newer: set[int] = set()
        self._older: set[int] = set()
        self._repeated = 0
        self.loop_suspected = False

    def add(self, ref: SpanRef, now_ns: int) -> None:
        """Take note of one span."""
        if now_ns - self._began_ns >= _WINDOW_NS:
            self._turn_over(now_ns)
        known, newer = hash(ref), self._newer
        if known in newer or known in self._older:
            self._repeated += 1
        elif len(newer) < _MAX_REMEMBERED:
            newer.add(known)

    def turn_over_if_due(self, now_ns: int) -> None:
        """Let a suspicion end when nothing comes any more."""
        if now_ns - self._began_ns >= _WINDOW_NS:
            self._turn_over(now_ns)

    def _turn_over(self, now_ns: int) -> None:
        # What is not remembered could not be found again: it says nothing about the share.
        seen = len(self._newer) + self._repeated
        self.loop_suspected = seen >= _LEAST_SPANS and self._repeated >= _SUSPICIOUS_SHARE * seen
        self._older, self._newer = self._newer, set()
        self._repeated = 0
        self._began_ns = now_ns


_UNASKED = "a tool ran for which the request of the model never came"
UNSEEN = "a model was given the answer to a call of which no span came"
_ORPHANED = "spans of the run never came that others of its spans name as their parents"


def split_sign(index: NodeIndex, pairs: Sequence[Pair], parents: Mapping[str, str | None]) -> str | None:
    """Return what shows that spans of a trace with these calls are missing inside, in words; `None` when nothing does."""
    if not index.running:
        return None
    calls = {pair.call_id for pair in pairs if pair.call_id is not None}
    # Models ask for no steps of code agents: they write the code.
    unasked = [
        pair.execution
        for pair in pairs
        if pair.request is None and pair.execution is not None and pair.execution.kind == "tool"
    ]
    unseen = [node for node in index.answering if _is_model(node) and node.answers[-1].call_id not in calls]
    orphans = [node for node in index.nodes if node.parent is not None and node.parent not in parents]
    # Nearly always there is nothing to be explained.
    if not unasked and not unseen and not orphans:
        return None
    models = _Models(index.nodes)
    if any(models.asked_before(ran) and _is_for_models(ran, index) for ran in unasked):
        return _UNASKED
    if any(models.lacks_before(node, calls) for node in unseen):
        return UNSEEN
    return _ORPHANED if orphans and _lacks_inside(index, orphans, parents) else None


class _Models:
    """The model calls of a trace by agent run, in order of time."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._by_run: dict[int, list[Node]] = {}
        for node in nodes:
            if _is_model(node) and node.branch.inside is not None:
                self._by_run.setdefault(id(node.branch.inside), []).append(node)

    def asked_before(self, ran: Execution) -> bool:
        """Return whether a model call of the run must have come before this execution, and is missing."""
        return ran.run is not None and self._is_missing(ran.run, ran.node, self._newest_before(ran.run, ran.node))

    def lacks_before(self, node: Node, calls: Collection[str | None]) -> bool:
        """Return whether the newest answer in a model's input is to a call that was made within its run.

        Not `calls`, which were seen: others in the input may be of earlier turns, unless they follow one that was seen.
        """
        run, answered = node.branch.inside, node.answers[-1].call_id
        if run is None or answered is None:
            return False
        before = self._newest_before(run, node)
        if before is not None and before.answers and before.answers[-1].call_id == answered:
            return False
        if _is_of_later_turn(node) and not any(answer.call_id in calls for answer in node.answers):
            return False
        return self._is_missing(run, node, before)

    def _newest_before(self, run: Node, node: Node) -> Node | None:
        before: Node | None = None
        for model in self._by_run.get(id(run), ()):
            if model is node or model.time_ns >= node.time_ns:
                break
            before = model
        return before

    def _is_missing(self, run: Node, node: Node, before: Node | None) -> bool:
        if before is not None:
            # Some producers write down the text of an output and not its calls, or not those that the provider runs.
            return bool(before.requests)
        # A run that is taken up again goes on where it was; before another one, a model took its time.
        shortest_ns = min([model.until_ns - model.time_ns for model in self._by_run.get(id(run), ())], default=None)
        return bool(shortest_ns) and node.time_ns - run.time_ns >= shortest_ns


def _is_model(node: Node) -> bool:
    return node.model_call is not None and node.is_primary


def _is_of_later_turn(node: Node) -> bool:
    return any(seen.role == "user" and seen.follows for seen in node.messages)


def _is_for_models(ran: Execution, index: NodeIndex) -> bool:
    """Return whether models ask for this call: code of the application runs tools as well."""
    if ran.call_id is not None and any(
        answer.call_id == ran.call_id for node in index.answering for answer in node.answers
    ):
        return True
    name = fold_name(ran.name)
    return any(fold_name(tool) == name for tool in _names(index))


def _names(index: NodeIndex) -> Iterator[str]:
    for node in index.requesting:
        for request in node.requests:
            yield request.name
    for node in index.offering:
        for offer in node.offers:
            for tool in offer.tools:
                yield tool.name


def _lacks_inside(index: NodeIndex, orphans: Sequence[Node], parents: Mapping[str, str | None]) -> bool:
    """Return whether parents are missing of some spans of a run that has ended, and of others of their kind are not.

    Where the spans between are filtered out, the parents of all of a kind are missing, unless one of them is in another.
    """
    ended = next((run for run in index.running if run.is_outermost_run and _is_below_top(run, parents)), None)
    if ended is None:
        return False
    service = ended.first.service
    kinds = {_kind(node) for node in orphans if node.first.service == service and not node.first.parent_is_remote}
    kinds.discard(None)
    if not kinds:
        return False
    arrived = [node for node in index.nodes if node.parent in parents and _kind(node) in kinds]
    kind_of = {node.ref.span_id: _kind(node) for node in index.nodes}
    return any(node.parent is not None and kind_of.get(node.parent) != _kind(node) for node in arrived)


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
