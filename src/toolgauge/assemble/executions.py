"""Finds the tool spans that show one and the same call, and keeps the outermost of them.

A call may be shown by a wrapper, by a second instrumentation, and by the client and server side of MCP.
Delegation and agents used as tools nest tool spans too, but those are calls of their own. So are the steps of code agents that
failed by their own code; the code itself is in the output of the model within the step.
"""

import re
from collections import Counter, deque
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import islice

from toolgauge.assemble.canonical import fold_name
from toolgauge.assemble.node import Execution, Node, NodeIndex, Request, place_and_time
from toolgauge.assemble.pairing import Pair
from toolgauge.model.content import NOT_RECORDED, Recorded
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import CodeStep

# Where code stands in what a model wrote: the tags and fences that smolagents asks for, by release.
_CODE = re.compile(
    r"<code>[ \t]*\n?([^<]*(?:<(?!/code>|code>)[^<]*)*)</code>|```(?:python|py)?[ \t]*\n([^`]*(?:`(?!``)[^`]*)*)```"
)
# So many steps around a call are looked at, and so much of the error of each: all calls of a trace may lie deep within them.
_MAX_STEPS = 32
_MAX_SEARCHED = 65_536


def failed_steps(index: NodeIndex, pairs: Sequence[Pair]) -> Iterator[Pair]:
    """Yield a call for each step of a code agent that failed by its own code, not by the error of a call within it."""
    codes = _codes(index)
    failed_by_call: set[SpanRef] = set()
    for pair in pairs:
        error = pair.execution.error if pair.execution is not None else None
        step = pair.execution.node.branch.step_above if pair.execution is not None else None
        # Code agents call each other within steps.
        for _ in range(_MAX_STEPS if error is not None and error.message else 0):
            if step is None or step.code_step is None:
                break
            of_step = step.code_step.error
            if of_step is not None and error is not None and error.message in of_step.message[:_MAX_SEARCHED]:
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
    inner = [node for node in executing if node.branch.tool_above is not None]
    calls = [execution for node in executing for execution in node.executions]
    if inner:
        for node in sorted(inner, key=lambda node: node.branch.depth):
            for execution in node.executions:
                _absorb_into_outer(node, execution)
        calls = _outermost(calls)
    # A single instrumentation, as nearly always, tells nothing twice; and keys of arguments are dear.
    if len({execution.node.first.scope for execution in calls}) > 1:
        _absorb_doubled(calls)
        calls = _outermost(calls)
    if len({place_and_time(execution.node) for execution in calls}) < len(calls):
        _absorb_copies(calls, requests)
        calls = _outermost(calls)
    ids = [execution.call_id for execution in calls if execution.call_id is not None]
    if len(set(ids)) < len(ids):
        _absorb_beside(calls, requests)
        calls = _outermost(calls)
    return calls


def _outermost(executions: Sequence[Execution]) -> list[Execution]:
    return [execution for execution in executions if execution.host is None]


def _absorb_into_outer(node: Node, execution: Execution) -> None:
    if node.branch.tool_above is None:
        return
    for outer in islice(node.branch.tool_above.executions, _MAX_BESIDE):
        host = outer.host or outer
        if _shows_same_call(outer, execution, crossed=node.branch.crossed) or (
            host is not outer and _shows_same_call(host, execution, crossed=node.branch.crossed)
        ):
            host.absorb(execution)
            return


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


def _absorb_doubled(executions: Sequence[Execution]) -> None:
    """Merge tool spans of two instrumentations: same tool, arguments and time. A call absorbs one span of each."""
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
    mine, others = known.arguments_key, other.arguments_key
    if mine is None and others is None:
        # Without arguments only a clock of nanoseconds tells copies from calls that ran at once.
        return bool(known.node.start_ns % _MILLISECOND_NS)
    return mine is None or others is None or mine == others


def _absorb_beside(executions: Sequence[Execution], requests: Sequence[Request]) -> None:
    """Merge tool spans side by side that carry one id, down to the number of requests: some producers use ids again."""
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
                kept.end_with(execution)
                surplus -= 1
            else:
                kept = execution


def _overlap(earlier: Execution, later: Execution) -> bool:
    return later.node.time_ns < earlier.node.time_ns + (earlier.node.end_ns - earlier.node.start_ns)
