"""Collects what the models of one trace asked for, each request once, in the models' order.

A request shows up on the model's span, in log records, on the span of a second instrumentation above or
beside it, and in summaries on agent spans. The innermost model span decides to which turn it belongs.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from operator import attrgetter, itemgetter

from toolgauge.assemble.node import Node, NodeIndex, Request, place_and_time

# A request, and its place among all known ones: the earliest are taken first.
_Placed = tuple[int, Request]
_place = itemgetter(0)
_position: Callable[[Request], int] = attrgetter("position")
# The most keys by which one request may be found.
_KEYS = 3
# Nested model spans come in twos and threes; a limit keeps a hostile chain from costing its square.
_MAX_NESTING = 4
# The most spans between an output and its summary.
_MAX_AROUND = 16


class RequestIndex:
    """Known requests, by id and by arguments; the index stays right while they absorb the requests it yields."""

    def __init__(self, known: Iterable[Request] = ()) -> None:
        self._by_key: dict[Hashable, list[_Placed]] = {}
        self._count = 0
        for request in known:
            self.add(request)

    def add(self, request: Request) -> None:
        """Add one more."""
        for key in _offered_keys(request):
            self._by_key.setdefault(key, []).append((self._count, request))
        self._count += 1

    def same_requests(self, arriving: Iterable[Request]) -> Iterator[tuple[Request, Request]]:
        """Yield pairs of an indexed and an arriving request that are views of one; each is paired once."""
        taken: dict[int, tuple[Request, tuple[Hashable, ...]]] = {}
        # How many requests of a key are taken from its front.
        passed: dict[Hashable, int] = {}
        for request in arriving:
            for key in _wanted_keys(request):
                candidates = self._by_key.get(key, ())
                at = passed.get(key, 0)
                while at < len(candidates) and candidates[at][0] in taken:
                    at += 1
                passed[key] = at
                if at < len(candidates):
                    passed[key] = at + 1
                    place, same = candidates[at]
                    taken[place] = (same, tuple(_offered_keys(same)))
                    yield same, request
                    break
        # A request that took an id or arguments is found by these from here on.
        for place, (same, before) in taken.items():
            keys = tuple(_offered_keys(same))
            if keys != before:
                for key in before:
                    candidates = self._by_key[key]
                    del candidates[bisect_left(candidates, place, key=_place)]
                for key in keys:
                    candidates = self._by_key.setdefault(key, [])
                    candidates.insert(bisect_left(candidates, place, key=_place), (place, same))


class Summed:
    """Requests of a span that sums up the outputs within it: each of these asks for the few that it may show."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self._requests = requests
        self._by_key: dict[Hashable, deque[_Placed]] = {}
        for place, request in enumerate(requests):
            for key in _wanted_keys(request):
                self._by_key.setdefault(key, deque()).append((place, request))

    def arriving(self, known: Sequence[Request]) -> list[Request]:
        """Return, in order, at least all living requests that can be views of known ones."""
        if _KEYS * len(known) ** 2 >= len(self._requests):
            return [request for request in self._requests if request.alive]
        found: dict[int, Request] = {}
        for request in known:
            for key in _offered_keys(request):
                waiting = self._by_key.get(key)
                first: list[_Placed] = []
                # As many as are known: one of them finds nothing only if no known one is left for those behind it.
                while waiting and len(first) < len(known):
                    placed = waiting.popleft()
                    if placed[1].alive:
                        first.append(placed)
                if waiting is not None:
                    waiting.extendleft(reversed(first))
                found.update(first)
        return [found[place] for place in sorted(found)]


def _offered_keys(request: Request) -> Iterator[Hashable]:
    has_id = request.call_id is not None
    arguments = request.arguments_key
    if has_id:
        yield ("id", request.call_id)
    if arguments is None:
        yield ("unknown arguments", request.name, request.position, has_id)
    else:
        yield ("arguments", request.name, arguments, has_id)
    yield ("position", request.name, request.position, has_id)


def _wanted_keys(request: Request) -> Iterator[Hashable]:
    """Ids decide where both sides have one; else equal arguments; else, where one side has none, the position."""
    if request.call_id is not None:
        yield ("id", request.call_id)
    sides = (False,) if request.call_id is not None else (False, True)
    arguments = request.arguments_key
    for has_id in sides:
        if arguments is None:
            yield ("position", request.name, request.position, has_id)
        else:
            yield ("arguments", request.name, arguments, has_id)
    if arguments is not None:
        for has_id in sides:
            yield ("unknown arguments", request.name, request.position, has_id)


def requested_calls(index: NodeIndex) -> list[Request]:
    """Return each request once: by turn, within it by the model's order."""
    requesting = index.requesting
    primary = [node for node in requesting if node.is_primary]
    nested = [node for node in primary if node.branch.model_above is not None]
    if nested:
        _absorb_above(nested)
    if any(map(_may_repeat, primary)):
        _absorb_repetitions(primary)
    # A single instrumentation, as nearly always, shows nothing twice; and keys of arguments are dear.
    if len({node.first.scope for node in primary}) > 1 or len(set(map(place_and_time, primary))) < len(primary):
        _absorb_beside(primary)
    if len(primary) < len(requesting):
        known = RequestIndex(request for node in primary for request in _alive(node))
        for node in requesting:
            if not node.is_primary:
                for same, request in known.same_requests(node.requests):
                    same.absorb(request)
                for request in _alive(node):
                    known.add(request)
        _give_to_single_outputs(requesting, index.nodes)
        requesting = [node for node in index.nodes if node.requests]
    calls: list[Request] = []
    for node in requesting:
        requests = node.requests
        calls += requests if len(requests) == 1 else sorted(requests, key=_position)
    return [request for request in calls if request.alive]


def _absorb_above(nodes: Sequence[Node]) -> None:
    """Merge the requests of nested model spans, the innermost first."""
    summed: dict[int, Summed] = {}
    for node in sorted(nodes, key=lambda node: -node.branch.depth):
        known = _alive(node)
        outer = node.branch.model_above
        for _ in range(_MAX_NESTING):
            if outer is None:
                break
            if outer.requests:
                if id(outer) not in summed:
                    summed[id(outer)] = Summed(_alive(outer))
                arriving = summed[id(outer)].arriving(known)
                if known and arriving:
                    for same, request in RequestIndex(known).same_requests(arriving):
                        same.absorb(request)
            outer = outer.branch.model_above


def _may_repeat(node: Node) -> bool:
    return node.model_call is not None and node.model_call.may_repeat


def _absorb_repetitions(primary: Sequence[Node]) -> None:
    """Merge requests of one id where the operation may be no model call: a response may be fetched more than once."""
    known: dict[tuple[str, str], Request] = {}
    # Stable: in order of time, those that are known as models' first.
    for node in sorted(primary, key=_may_repeat):
        for request in _alive(node):
            if request.call_id is None:
                continue
            same = known.setdefault((request.name, request.call_id), request)
            if same is not request and _may_repeat(node) and _has_same_arguments(same, request):
                same.absorb(request)


def _has_same_arguments(one: Request, other: Request) -> bool:
    mine, others = one.arguments_key, other.arguments_key
    return mine is None or others is None or mine == others


def _give_to_single_outputs(requesting: Sequence[Node], nodes: Sequence[Node]) -> None:
    """Move requests that only a span around one single output shows to that output, to whose turn they belong."""
    # An agent's run may sum up outputs that no span shows.
    outputs_within = {
        id(node): list[Node]()
        for node in requesting
        if not node.is_primary and node.agent_run is None and any(request.alive for request in node.requests)
    }
    if not outputs_within:
        return
    for node in nodes:
        above = node.above if node.model_call is not None else None
        for _ in range(_MAX_AROUND):
            if above is None:
                break
            if id(above) in outputs_within:
                outputs_within[id(above)].append(node)
            above = above.above
    for node in requesting:
        outputs = outputs_within.get(id(node), ())
        if len(outputs) == 1:
            moved, node.requests = _alive(node), []
            for request in moved:
                request.node = outputs[0]
            outputs[0].requests.extend(moved)


def _alive(node: Node) -> list[Request]:
    return [request for request in node.requests if request.alive]


def _absorb_beside(nodes: Sequence[Node]) -> None:
    """Merge the requests of one output that two instrumentations wrote, or that an exporter sent twice."""
    seen: dict[Hashable, Request] = {}
    for node in nodes:
        for request in _alive(node):
            keys = (request.call_id, (request.name, request.position, request.arguments_key))
            earlier = (seen[key] for key in keys if key is not None and key in seen)
            same = next((known for known in earlier if _doubles(known, request)), None)
            if same is not None:
                same.absorb(request)
            else:
                seen.update((key, request) for key in keys if key is not None)


def _doubles(earlier: Request, later: Request) -> bool:
    """Return whether both are of one output: another scope at the same time, or another span with the same parent and times."""
    first, second = earlier.node, later.node
    if first is second or earlier.name != later.name:
        return False
    if first.first.scope == second.first.scope:
        if second.from_log_only or place_and_time(first) != place_and_time(second):
            return False
    elif second.time_ns >= first.time_ns + (first.end_ns - first.start_ns):
        return False
    if earlier.call_id is not None and later.call_id is not None and earlier.call_id != later.call_id:
        return False
    return _has_same_arguments(earlier, later)
