"""Joins the two views of a call: the request of a model, and the execution that a tool span shows.

By call id, else by name and arguments, else by name within one agent run, else by arguments within it, under two names of one
tool; a resumed run's also with the call that waited.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial
from operator import attrgetter
from typing import TypeAlias, TypeVar

from msgspec import Struct

from toolgauge.assemble.failures import not_executed
from toolgauge.assemble.node import Execution, Node, Request, adds_to, is_restored, likeness
from toolgauge.model.content import Recorded
from toolgauge.model.names import fold_name, is_same_tool
from toolgauge.model.observations import PAUSED, CallError

# Comparing all with all is for the few calls of one agent run; hostile numbers fall through to order.
_MAX_COMPARISONS = 1024


class Pair(Struct, eq=False):
    """One call as it was requested, executed, or both; `asking` is the span that shows that it was made."""

    request: Request | None
    execution: Execution | None
    asking: Node
    name: str
    call_id: str | None

    @property
    def run(self) -> Node | None:
        """The agent run that made the call."""
        if self.request is not None:
            return self.request.run
        return self.execution.run if self.execution is not None else None


def pair(requests: Sequence[Request], executions: Sequence[Execution], offering: Sequence[Node] = ()) -> list[Pair]:
    """Return all calls of one trace in order of time. Both sides come in that order too; `offering` nodes have tools on offer."""
    asking, left = requests, executions
    ran = {execution.call_id: execution for execution in executions if execution.call_id is not None}
    found: _Pairs = [(request, ran[request.call_id]) for request in requests if request.call_id in ran]
    # Nearly always each id stands for one call, or executions have none.
    are_single = not ran or (len(ran) == len(executions) and len({one.call_id for one in requests}) == len(requests))
    for key, matches in _RULES:
        if not asking or not left:
            break
        for request, execution in found if are_single and key is _by_id else _matched(asking, left, key, matches):
            request.execution = execution
            execution.was_requested = True
        asking = [request for request in asking if request.execution is None]
        left = [execution for execution in left if not execution.was_requested]
    if asking and left:
        # Nearly always one of both is empty.
        known = {tool.name for node in offering for offer in node.offers for tool in offer.tools}
        known.update([request.name for request in requests])
        for request, execution in _under_two_names(asking, [one for one in left if one.name not in known]):
            request.execution = execution
            execution.was_requested = True
        left = [execution for execution in left if not execution.was_requested]
    asked_for: list[Pair] = []
    for request in requests:
        execution, call_id = request.execution, request.call_id
        if call_id is None and execution is not None:
            call_id = execution.call_id
        asked_for.append(Pair(request, execution, request.node, request.name, call_id))
    # Of an execution without a name only its request could name the tool.
    alone = [Pair(None, one, one.node, one.name, one.call_id) for one in left if one.name]
    return sorted([*asked_for, *alone], key=asked) if alone else asked_for


asked: Callable[[Pair], int] = attrgetter("asking.place")


_View: TypeAlias = Request | Execution
_Pairs: TypeAlias = Iterable[tuple[Request, Execution]]
_Key: TypeAlias = Callable[[_View], Hashable | None]
_Matches: TypeAlias = Callable[[Sequence[Request], Sequence[Execution]], _Pairs]


def _matched(requests: Sequence[Request], executions: Sequence[Execution], key: _Key, matches: _Matches) -> _Pairs:
    """Yield pairs with equal keys; a key of `None` equals nothing."""
    ran = _group(executions, key)
    for shared, wanting in _group(requests, key).items():
        if shared in ran:
            yield from matches(wanting, ran[shared])


_V = TypeVar("_V", Request, Execution)


def _group(views: Sequence[_V], key: _Key) -> dict[Hashable, list[_V]]:
    groups: dict[Hashable, list[_V]] = {}
    for view in views:
        value = key(view)
        if value is not None:
            groups.setdefault(value, []).append(view)
    return groups


_by_id: _Key = attrgetter("call_id")


def _by_arguments(scope: Callable[[_View], int], spelled: Callable[[str], str], view: _View) -> Hashable | None:
    arguments = view.arguments_key
    return None if arguments is None else (scope(view), spelled(view.name), arguments)


def _by_name(spelled: Callable[[str], str], view: _View) -> Hashable:
    return _in_run(view), spelled(view.name)


def _in_run(view: _View) -> int:
    return id(view.run)


def _anywhere(_view: _View) -> int:
    return 0


_SPELLINGS: tuple[Callable[[str], str], ...] = (str, fold_name)


def _in_order(requests: Sequence[Request], executions: Sequence[Execution]) -> _Pairs:
    """Pair by order; where one side lacks some, by the newest output before: models ask again for lost calls."""
    if len(requests) == len(executions):
        yield from zip(requests, executions, strict=True)
        return
    outputs: list[deque[Request]] = []
    arriving = deque(requests)
    early: list[Execution] = []
    for execution in executions:
        while arriving and arriving[0].node.time_ns <= execution.node.time_ns:
            request = arriving.popleft()
            if not outputs or outputs[-1][0].node is not request.node:
                outputs.append(deque())
            outputs[-1].append(request)
        if not outputs:
            early.append(execution)
            continue
        yield outputs[-1].popleft(), execution
        if not outputs[-1]:
            outputs.pop()
    # Only clocks that disagree put an execution before every request.
    left = [*(request for output in outputs for request in output), *arriving]
    yield from zip(left, early, strict=False)


def _of_one_id(requests: Sequence[Request], executions: Sequence[Execution]) -> _Pairs:
    """Pair views that share a call id. Where one id stands for several calls, names and arguments decide, else the order."""
    for key, matches in _RULES_OF_ONE_ID:
        found = list(_matched(requests, executions, key, matches))
        yield from found
        taken = {id(one) for pair in found for one in pair}
        requests = [request for request in requests if id(request) not in taken]
        executions = [execution for execution in executions if id(execution) not in taken]


def _in_order_unless_ids_differ(requests: Sequence[Request], executions: Sequence[Execution]) -> _Pairs:
    """Pair by order, but not views with two ids."""
    unnamed = [request for request in requests if request.call_id is None]
    named = [request for request in requests if request.call_id is not None]
    taken: set[int] = set()
    for request, execution in _in_order(named, [one for one in executions if one.call_id is None]):
        taken.add(id(execution))
        yield request, execution
    yield from _in_order(unnamed, [one for one in executions if id(one) not in taken])


def _most_alike(requests: Sequence[Request], executions: Sequence[Execution], *, same_id: bool = False) -> _Pairs:
    """Pair the most alike arguments first. Views with two ids are two calls, as are views that share one, unless `same_id`."""
    if len(requests) * len(executions) > _MAX_COMPARISONS:
        return
    if same_id and len(requests) == len(executions) == 1:
        yield requests[0], executions[0]
        return
    scored = [
        (-alike, wanted, given)
        for wanted, request in enumerate(requests)
        for given, execution in enumerate(executions)
        if (same_id or request.call_id is None or execution.call_id is None)
        and (alike := likeness(request.arguments, execution.arguments)) > 0
    ]
    taken: set[int] = set()
    found: set[int] = set()
    for _, wanted, given in sorted(scored):
        if wanted not in found and given not in taken:
            found.add(wanted)
            taken.add(given)
            yield requests[wanted], executions[given]


_RULES_OF_ONE_ID: tuple[tuple[_Key, _Matches], ...] = (
    (partial(_by_arguments, _anywhere, fold_name), partial(zip, strict=False)),
    (lambda view: fold_name(view.name), partial(_most_alike, same_id=True)),
    (_anywhere, _in_order),
)

# From the third kind on two different ids are two calls, however alike.
_RULES: tuple[tuple[_Key, _Matches], ...] = (
    (_by_id, _of_one_id),
    *((partial(_by_arguments, scope, spelled), _in_order) for scope in (_in_run, _anywhere) for spelled in _SPELLINGS),
    *((partial(_by_name, spelled), _most_alike) for spelled in _SPELLINGS),
    *((partial(_by_name, spelled), _in_order_unless_ids_differ) for spelled in _SPELLINGS),
)


def _under_two_names(requests: Sequence[Request], executions: Sequence[Execution]) -> _Pairs:
    """Pair by run, arguments and time alone, or by names of one tool: with the newest output before that asked for such a call.

    Servers of MCP and gateways have names of their own for tools, and some producers name the class of a call. A name that a
    model was offered or asked for is that of another tool.
    """
    by_run = _group(requests, _in_run)
    for execution in executions:
        together = by_run.get(_in_run(execution), [])
        before = bisect_right(together, execution.node.time_ns, key=_asked_ns)
        found: int | None = None
        for place in range(before - 1, max(before - _MAX_CANDIDATES, 0) - 1, -1):
            if found is not None and together[place].node is not together[found].node:
                break
            if _shows_same_call(together[place], execution):
                found = place
        if found is not None:
            yield together.pop(found), execution


_asked_ns: Callable[[_View], int] = attrgetter("node.time_ns")


def _shows_same_call(request: Request, execution: Execution) -> bool:
    if request.has_other_id_than(execution):
        return False
    key = request.arguments_key
    is_equal = key is not None and key == execution.arguments_key
    if is_same_tool(request.name, execution.name, loosely=is_equal or execution.is_protocol):
        given = execution.arguments.value if type(execution.arguments) is Recorded else None
        is_added_to = isinstance(given, dict) and adds_to(given, request.arguments)
        return is_added_to or request.may_have_arguments_of(execution)
    # Many calls have no arguments.
    return is_equal and request.arguments != Recorded({})


# So many later executions are looked at for each key of a call that was not carried out: equal calls may come in thousands.
_MAX_CANDIDATES = 100


def mark_stopped(pairs: Sequence[Pair], nodes: Sequence[Node]) -> bool:
    """Mark calls that wait or were refused, unfinished ones that no model call of their trace follows included; return if any waits."""
    unfinished: list[Execution] = []
    has_waiting = False
    for pair in pairs:
        execution = pair.execution
        if execution is not None:
            execution.stopped = not_executed(execution.error, execution.result)
            has_waiting = has_waiting or execution.stopped == "paused"
            if execution.is_unfinished:
                unfinished.append(execution)
    last_called_ns: dict[str, int] = {}
    for node in nodes if unfinished else ():
        if node.model_call is not None:
            trace_id = node.ref.trace_id
            last_called_ns[trace_id] = max(node.time_ns, last_called_ns.get(trace_id, node.time_ns))
    for execution in unfinished:
        ran = execution.node
        if last_called_ns.get(ran.ref.trace_id, ran.until_ns) < ran.until_ns:
            execution.error = CallError(kind=PAUSED, message="")
            execution.stopped, has_waiting = "paused", True
    return has_waiting


def resumed(pairs: Sequence[Pair]) -> list[Pair]:
    """Return the pairs, in their order, with one for each call that was resumed."""
    executed: dict[Hashable, list[tuple[Execution, Pair]]] = {}
    for pair in pairs:
        if pair.execution is not None:
            for key in _keys(pair):
                executed.setdefault(key, []).append((pair.execution, pair))
    for found in executed.values():
        found.sort(key=_time_ns)
    dropped: set[int] = set()
    for pair in pairs:
        # A call may wait more than once before it is carried out.
        while id(pair) not in dropped and (pair.execution is None or pair.execution.stopped == "paused"):
            later = next((other for other in _candidates(pair, executed) if id(other) not in dropped), None)
            if later is None:
                break
            if pair.request is None:
                dropped.add(id(pair))
                break
            pair.execution = later.execution
            pair.call_id = pair.call_id if pair.call_id is not None else later.call_id
            dropped.add(id(later))
    return [pair for pair in pairs if id(pair) not in dropped]


def _time_ns(executed: tuple[Execution, Pair]) -> int:
    return executed[0].node.time_ns


def _keys(pair: Pair) -> Iterator[Hashable]:
    """Yield the keys by which a call is known again: its id, else its name and arguments."""
    if pair.call_id is not None:
        yield pair.call_id
    for view in (pair.request, pair.execution):
        if view is not None and view.arguments_key is not None:
            yield fold_name(pair.name), view.arguments_key


def _candidates(pair: Pair, executed: dict[Hashable, list[tuple[Execution, Pair]]]) -> Iterator[Pair]:
    """Yield the later executions that may be of the call, which only one model output asked for, the earliest first."""
    waiting = pair.execution
    since_ns = pair.asking.time_ns if waiting is None else waiting.node.time_ns
    for key in _keys(pair):
        alike = executed.get(key, [])
        first = bisect_right(alike, since_ns, key=_time_ns)
        for _, other in alike[first : first + _MAX_CANDIDATES]:
            is_same = other.call_id is not None and other.call_id == pair.call_id and is_restored(other.asking.ref)
            if pair.request is not None and other.request is not None and not is_same:
                continue
            if pair.call_id is not None and other.call_id is not None and pair.call_id != other.call_id:
                continue
            # In the trace that asked for it, a call without a span was joined with its execution already.
            if waiting is not None or other.asking.ref.trace_id != pair.asking.ref.trace_id:
                yield other
