"""Finds the views of one request and the tool spans of one call, and keeps one of each.

Log records, wrappers, summaries, second instrumentations and both sides of MCP show the same request or call. Delegation
and agents used as tools nest calls of their own; the steps of code agents that failed by their own code are calls too.
"""

import re
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import attrgetter

from toolgauge.assemble.node import Execution, Node, NodeIndex, Request, place_and_time
from toolgauge.assemble.pairing import Pair
from toolgauge.model.content import NOT_RECORDED, Recorded
from toolgauge.model.names import fold_name, is_same_tool
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import CodeStep

_position: Callable[[Request], int] = attrgetter("position")
# Nested model spans come in twos and threes; a limit keeps a hostile chain from costing its square.
_MAX_NESTING = 4
# The most spans between an output and its summary.
_MAX_AROUND = 16


class RequestIndex:
    """Living requests by id, arguments and position; requests that absorb others stay where they are found."""

    def __init__(self, requests: Iterable[Request] = ()) -> None:
        self._by_key: dict[Hashable, deque[Request]] = {}
        for request in requests:
            self.add(request)

    def add(self, request: Request) -> None:
        """Add one more, or one that gained an id or arguments."""
        for key in _offered_keys(request):
            self._by_key.setdefault(key, deque()).append(request)

    def same_requests(self, others: Iterable[Request]) -> Iterator[tuple[Request, Request]]:
        """Yield pairs of an indexed and another request that are views of one; each is paired once."""
        taken: dict[int, tuple[Request, list[Hashable]]] = {}
        waiting: dict[Hashable, Iterator[Request]] = {}
        for request in others:
            for key in _wanted_keys(request):
                known = self._by_key.get(key)
                if known is None:
                    continue
                if key not in waiting:
                    while known and not _has_key(known[0], key):
                        known.popleft()
                    waiting[key] = iter(known)
                same = next((one for one in waiting[key] if id(one) not in taken and _has_key(one, key)), None)
                if same is not None:
                    taken[id(same)] = (same, list(_offered_keys(same)))
                    yield same, request
                    break
        for same, before in taken.values():
            for key in set(_offered_keys(same)).difference(before):
                self._by_key.setdefault(key, deque()).append(same)


def _has_key(request: Request, key: Hashable) -> bool:
    """Return whether the request lives and has not gained an id or arguments, which change its keys."""
    return request.alive and key in _offered_keys(request)


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
    if not requesting:
        return []
    primary = [node for node in requesting if node.is_primary]
    nested = [node for node in primary if node.branch.model_above is not None]
    if nested:
        _absorb_above(nested)
    if any(map(_may_repeat, primary)):
        # Merge requests of one id where the operation may be no model call: a response may be fetched more than once.
        by_id: dict[tuple[str, str], Request] = {}
        # Stable: in order of time, known models first.
        for node in sorted(primary, key=_may_repeat):
            for request in _alive(node):
                if request.call_id is None:
                    continue
                same = by_id.setdefault((request.name, request.call_id), request)
                if same is not request and _may_repeat(node) and same.may_have_arguments_of(request):
                    same.absorb(request)
    # A single instrumentation, the usual case, has no duplicates; argument keys are expensive.
    if len({node.first.scope for node in primary}) > 1 or len({node.start_ns for node in primary}) < len(primary):
        _absorb_doubled_requests(primary)
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
    summed: dict[int, RequestIndex] = {}
    for node in sorted(nodes, key=lambda node: -node.branch.depth):
        inner = _alive(node)
        outer = node.branch.model_above
        for _ in range(_MAX_NESTING if inner else 0):
            if outer is None:
                break
            if outer.requests:
                if id(outer) not in summed:
                    summed[id(outer)] = RequestIndex(_alive(outer))
                for same, request in summed[id(outer)].same_requests(inner):
                    request.absorb(same)
            outer = outer.branch.model_above


def _may_repeat(node: Node) -> bool:
    return node.model_call is not None and node.model_call.may_repeat


def _give_to_single_outputs(requesting: Sequence[Node], nodes: Sequence[Node]) -> None:
    """Move requests found only on a wrapper of a single output to that output, whose turn they belong to."""
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


def _absorb_doubled_requests(nodes: Sequence[Node]) -> None:
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
    return not earlier.has_other_id_than(later) and earlier.may_have_arguments_of(later)


# Marks of code in a model's text: the tags and fences that smolagents asks for, by release.
_CODE = re.compile(
    r"<code>[ \t]*\n?([^<]*(?:<(?!/code>|code>)[^<]*)*)</code>|```(?:python|py)?[ \t]*\n([^`]*(?:`(?!``)[^`]*)*)```"
)
# Limits on the steps searched around a call, and on the error text of each: all calls of a trace may be nested deeply.
_MAX_STEPS = 32
_MAX_SEARCHED = 65_536


def failed_steps(index: NodeIndex, pairs: Sequence[Pair]) -> Iterator[Pair]:
    """Yield a call for each step of a code agent that failed by its own code, not by the error of a call within it."""
    codes = _codes(index)
    failed_by_call: set[SpanRef] = set()
    for pair in pairs:
        ran = pair.execution
        if ran is None or ran.error is None or not ran.error.message:
            continue
        step = ran.node.branch.step_above
        # Code agents call each other within steps.
        for _ in range(_MAX_STEPS):
            if step is None or step.code_step is None:
                break
            of_step = step.code_step.error
            if of_step is not None and ran.error.message in of_step.message[:_MAX_SEARCHED]:
                failed_by_call.add(step.ref)
            step = step.branch.step_above
    for node in index.coding:
        step = node.code_step
        if step is None or step.error is None or node.ref in failed_by_call:
            continue
        code = codes.get(node.ref)
        ran = Execution(
            node=node,
            name=step.name,
            call_id=None,
            arguments=NOT_RECORDED if code is None else Recorded({"code": code}),
            agent=None,
            result=NOT_RECORDED,
            error=step.error,
            is_protocol=False,
            tool_id=None,
            from_log=False,
            kind="code",
        )
        yield Pair(None, ran, node, step.name, None)


def code_steps(index: NodeIndex) -> tuple[CodeStep, ...]:
    """Return all steps that ran code, or tried to, in order of time."""
    codes: Mapping[SpanRef, str] = _codes(index) if index.coding else {}
    return tuple(
        CodeStep(
            span=node.ref,
            name=node.code_step.name,
            agent=node.branch.agents[-1] if node.branch.agents else None,
            code=codes.get(node.ref),
            has_failed=node.code_step.error is not None,
            start_ns=node.start_ns,
        )
        for node in index.coding
        if node.code_step is not None
    )


def _codes(index: NodeIndex) -> Mapping[SpanRef, str]:
    """Return the code of each step: the last that a model wrote directly within it, its blocks joined as smolagents does."""
    steps = {node.ref for node in index.coding}
    codes: dict[SpanRef, str] = {}
    for node in index.speaking:
        if node.above is not None and node.above.ref in steps:
            text = "\n".join([seen.text for seen in node.messages if seen.role == "assistant"])
            code = "\n\n".join(filter(None, [(found[1] or found[2]).strip() for found in _CODE.finditer(text)]))
            if code:
                codes[node.above.ref] = code
    return codes


# One span shows one call; log records may add some to it, and hostile ones very many.
_MAX_BESIDE = 16
_MILLISECOND_NS = 1_000_000


def executed_calls(executing: Sequence[Node], requests: Sequence[Request]) -> list[Execution]:
    """Return one execution per call in order of time; `requests` show how often a call id was requested."""
    calls: list[Execution] = []
    inner: list[Node] = []
    for node in executing:
        calls += node.executions
        if node.branch.tool_above is not None:
            inner.append(node)
    # A single call, as most traces have, has no other view.
    if len(calls) <= 1:
        return calls
    if inner:
        for node in sorted(inner, key=lambda node: node.branch.depth):
            tool, crossed = node.branch.tool_above, node.branch.crossed
            for execution in node.executions:
                for outer in islice(tool.executions, _MAX_BESIDE) if tool is not None else ():
                    host = outer.host or outer
                    views = (outer,) if host is outer else (outer, host)
                    if any(_shows_same_call(one, execution, crossed=crossed) for one in views):
                        host.absorb(execution)
                        break
        calls = _outermost(calls)
    # A single instrumentation, the usual case, has no duplicates; argument keys are expensive.
    if len({execution.node.first.scope for execution in calls}) > 1:
        _absorb_other_scopes(calls)
        calls = _outermost(calls)
    if len({(one.node.parent, one.node.start_ns, one.node.end_ns) for one in calls}) < len(calls):
        _absorb_copies(calls, requests)
        calls = _outermost(calls)
    ids = [execution.call_id for execution in calls if execution.call_id is not None]
    if len(set(ids)) < len(ids):
        _absorb_beside(calls, requests)
        calls = _outermost(calls)
    return calls


def _outermost(executions: Sequence[Execution]) -> list[Execution]:
    return [execution for execution in executions if execution.host is None]


def _shows_same_call(outer: Execution, inner: Execution, *, crossed: bool) -> bool:
    if crossed:
        # An agent or a model between both made a call of its own, unless it carries the very same id.
        return inner.call_id is not None and inner.call_id == outer.call_id and outer.has_name_of(inner)
    if inner.is_protocol:
        return True
    if not outer.has_name_of(inner):
        return False
    if outer.is_protocol or not outer.has_other_id_than(inner):
        return True
    # Some producers write an id of their own when the tool failed.
    return inner.arguments_key is not None and inner.arguments_key == outer.arguments_key


def _absorb_other_scopes(executions: Sequence[Execution]) -> None:
    """Merge tool spans of two instrumentations, and spans of MCP into the calls beside them."""
    # Same tool, arguments and time. A call absorbs one span of each instrumentation.
    alike: dict[Hashable, deque[tuple[Execution, set[str]]]] = {}
    for execution in executions:
        if execution.arguments_key is None:
            continue
        key = (fold_name(execution.name), execution.arguments_key, id(execution.node.branch.tool_above))
        hosts = alike.setdefault(key, deque(maxlen=_MAX_BESIDE))
        scope = execution.node.first.scope
        for host, scopes in hosts:
            if scope not in scopes and not host.has_other_id_than(execution) and _overlap(host, execution):
                host.absorb(execution)
                scopes.add(scope)
                break
        else:
            hosts.append((execution, {scope}))
    # The name of the call may have the server's before the tool's.
    clients: dict[str | None, list[Execution]] = {}
    for execution in executions if any(one.is_protocol for one in executions) else ():
        if not execution.is_protocol and execution.host is None:
            clients.setdefault(execution.node.parent, []).append(execution)
    for served in executions if clients else ():
        if served.is_protocol and served.host is None:
            around = clients.get(served.node.parent, [])
            before = bisect_right(around, served.node.time_ns, key=_began_ns)
            for client in around[max(before - _MAX_BESIDE, 0) : before]:
                if _overlap(client, served) and is_same_tool(client.name, served.name, loosely=True):
                    client.absorb(served)
                    around.remove(client)
                    break


_began_ns: Callable[[Execution], int] = attrgetter("node.time_ns")


def _absorb_copies(executions: Sequence[Execution], requests: Sequence[Request]) -> None:
    """Merge tool spans that an exporter sent twice under two ids, down to the number of requests: equal calls may run at once."""
    groups: dict[tuple[Hashable, str], list[Execution]] = {}
    for execution in executions:
        if not execution.from_log:
            groups.setdefault((place_and_time(execution.node), fold_name(execution.name)), []).append(execution)
    surplus: Counter[str] = Counter()
    for (_, name), copies in groups.items():
        surplus[name] += len(copies)
    # Without any request one of each place and time is left.
    surplus.subtract(fold_name(request.name) for request in requests)
    for (_, name), copies in groups.items():
        by_id: dict[str | None, Execution] = {}
        kept: deque[Execution] = deque(maxlen=_MAX_BESIDE)
        for execution in copies if len(copies) > 1 else ():
            if surplus[name] <= 0:
                break
            host = by_id.get(execution.call_id) or next((one for one in kept if _is_copy(one, execution)), None)
            if host is None:
                kept.append(execution)
                if execution.call_id is not None:
                    by_id[execution.call_id] = execution
            else:
                host.absorb(execution)
                surplus[name] -= 1


def _is_copy(known: Execution, other: Execution) -> bool:
    if known.call_id is not None and other.call_id is not None:
        return known.call_id == other.call_id
    if known.arguments_key is None and other.arguments_key is None:
        # Without arguments only a clock of nanoseconds tells copies from calls that ran at once.
        return bool(known.node.start_ns % _MILLISECOND_NS)
    return known.may_have_arguments_of(other)


def _absorb_beside(executions: Sequence[Execution], requests: Sequence[Request]) -> None:
    """Merge tool spans side by side that carry one id, down to the number of requests: some producers reuse ids."""
    by_id: dict[str, list[Execution]] = {}
    for execution in executions:
        if execution.call_id is not None:
            by_id.setdefault(execution.call_id, []).append(execution)
    wanted = Counter([request.call_id for request in requests])
    for call_id, together in by_id.items():
        surplus = len(together) - max(1, wanted[call_id])
        kept = together[0]
        for execution in together[1:]:
            if surplus <= 0 or not kept.has_name_of(execution):
                kept = execution
            elif _overlap(kept, execution):
                kept.absorb(execution)
                surplus -= 1
            elif kept.arguments_key == execution.arguments_key:
                # A later attempt: its outcome counts.
                kept.absorb(execution)
                kept.result, kept.error, kept.failed_ns = execution.result, execution.error, execution.failed_ns
                kept.is_unfinished = execution.is_unfinished
                surplus -= 1
            else:
                kept = execution


def _overlap(earlier: Execution, later: Execution) -> bool:
    return later.node.time_ns < earlier.node.time_ns + (earlier.node.end_ns - earlier.node.start_ns)
