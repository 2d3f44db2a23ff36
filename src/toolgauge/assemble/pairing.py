"""Joins the two views of a call: what a model asked for, and what a tool span shows.

By call id; else by name and arguments; else by name, within one agent run, first where the arguments are
alike and at last by order. What stays alone on either side is a call all the same.
"""

from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from functools import partial
from typing import TypeAlias, TypeVar

from toolgauge.assemble.canonical import fold_name, likeness
from toolgauge.assemble.node import Execution, Node, Request
from toolgauge.assemble.pauses import GLANCES, Pace, parts

# Comparing all with all is for the few calls of one agent run; hostile numbers fall through to order.
_MAX_COMPARISONS = 1024
# So many pairs are made without asking whether to pause.
_PAUSE_EVERY = 500


class Pair:
    """One call as it was requested, executed, or both."""

    __slots__ = ("asking", "call_id", "execution", "name", "request", "run")

    def __init__(self, view: "Request | Execution", execution: "Execution | None") -> None:
        self.request = view if isinstance(view, Request) else None
        self.execution = execution
        # The span that says that the call was made.
        self.asking: Node = view.node
        self.run: Node | None = view.run
        self.name: str = view.name
        self.call_id: str | None = view.call_id
        if self.call_id is None and execution is not None:
            self.call_id = execution.call_id


def pair(requests: Sequence[Request], executions: Sequence[Execution], pace: Pace) -> Generator[None, None, list[Pair]]:
    """Return all calls of one trace. Both sides come in order of time."""
    pairing = _Pairing(requests, executions, pace)
    yield from pairing.join(_by_id, _in_order)
    for scope in (_in_run, _anywhere):
        for spelled in (_exactly, fold_name):
            yield from pairing.join(partial(_by_arguments, scope, spelled), _in_order)
    # From here on two different ids are two calls, whatever else is alike.
    for spelled in (_exactly, fold_name):
        yield from pairing.join(partial(_by_name, spelled), _most_alike)
    for spelled in (_exactly, fold_name):
        yield from pairing.join(partial(_by_name, spelled), _in_order_unless_ids_differ)
    return (yield from pairing.pairs())


_View: TypeAlias = Request | Execution
_Pairs: TypeAlias = Iterable[tuple[Request, Execution]]


class _Pairing:
    def __init__(self, requests: Sequence[Request], executions: Sequence[Execution], pace: Pace) -> None:
        self._pace = pace
        self._requests = requests
        self._executions = executions
        self._partners: dict[int, Execution] = {}
        self._left_requests: Sequence[Request] = requests
        self._left_executions: Sequence[Execution] = executions

    def join(
        self,
        key: Callable[[_View], Hashable | None],
        matches: Callable[[Sequence[Request], Sequence[Execution]], _Pairs],
    ) -> Generator[None, None, None]:
        """Join what is left and has equal keys; a key of `None` equals nothing."""
        if not self._left_requests or not self._left_executions:
            return
        if self._pace.due((len(self._left_requests) + len(self._left_executions)) // GLANCES):
            yield
        requests = yield from _group(self._left_requests, key, self._pace)
        executions = yield from _group(self._left_executions, key, self._pace)
        taken: set[int] = set()
        for shared in requests.keys() & executions.keys():
            comparisons = min(len(requests[shared]) * len(executions[shared]), _MAX_COMPARISONS)
            if self._pace.due(comparisons // GLANCES):
                yield
            for request, execution in matches(requests[shared], executions[shared]):
                self._partners[id(request)] = execution
                taken.add(id(execution))
                if len(taken) % _PAUSE_EVERY == 0 and self._pace.due(_PAUSE_EVERY // GLANCES):
                    yield
        if self._pace.due(len(self._left_requests) // GLANCES):
            yield
        self._left_requests = [request for request in self._left_requests if id(request) not in self._partners]
        if self._pace.due(len(self._left_executions) // GLANCES):
            yield
        self._left_executions = [execution for execution in self._left_executions if id(execution) not in taken]

    def pairs(self) -> Generator[None, None, list[Pair]]:
        found: list[Pair] = []
        for part in parts(self._requests):
            found += [Pair(request, self._partners.get(id(request))) for request in part]
            if self._pace.due(len(part) // GLANCES):
                yield
        for part in parts(self._left_executions):
            # Of an execution without a name only its request could tell what was called.
            found += [Pair(execution, execution) for execution in part if execution.name]
            if self._pace.due(len(part) // GLANCES):
                yield
        return found


_V = TypeVar("_V", Request, Execution)


def _group(
    views: Sequence[_V], key: Callable[[_View], Hashable | None], pace: Pace
) -> Generator[None, None, dict[Hashable, list[_V]]]:
    groups: dict[Hashable, list[_V]] = {}
    for part in parts(views):
        for view in part:
            value = key(view)
            if value is not None:
                groups.setdefault(value, []).append(view)
        if pace.due(len(part) // GLANCES):
            yield
    return groups


def _by_id(view: _View) -> Hashable | None:
    return view.call_id


def _by_arguments(scope: Callable[[_View], int], spelled: Callable[[str], str], view: _View) -> Hashable | None:
    arguments = view.arguments_key
    return None if arguments is None else (scope(view), spelled(view.name), arguments)


def _by_name(spelled: Callable[[str], str], view: _View) -> Hashable:
    return (_in_run(view), spelled(view.name))


def _in_run(view: _View) -> int:
    return id(view.run)


def _anywhere(_view: _View) -> int:
    return 0


def _exactly(name: str) -> str:
    return name


def _in_order(requests: Sequence[Request], executions: Sequence[Execution]) -> _Pairs:
    """Pair by order; where one side lacks some, an execution goes to the newest output before it.

    A model that asks again does so because its earlier request was not carried out.
    """
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


def _in_order_unless_ids_differ(requests: Sequence[Request], executions: Sequence[Execution]) -> _Pairs:
    """Pair by order what does not carry two ids."""
    unnamed = [request for request in requests if request.call_id is None]
    named = [request for request in requests if request.call_id is not None]
    taken: set[int] = set()
    for request, execution in _in_order(named, [one for one in executions if one.call_id is None]):
        taken.add(id(execution))
        yield request, execution
    yield from _in_order(unnamed, [one for one in executions if id(one) not in taken])


def _most_alike(requests: Sequence[Request], executions: Sequence[Execution]) -> _Pairs:
    """Pair where arguments are alike, the most alike first: producers fill in defaults and repair values."""
    if len(requests) * len(executions) > _MAX_COMPARISONS:
        return
    scored = [
        (-alike, wanted, given)
        for wanted, request in enumerate(requests)
        for given, execution in enumerate(executions)
        if (request.call_id is None or execution.call_id is None)
        and (alike := likeness(request.arguments, execution.arguments)) > 0
    ]
    taken: set[int] = set()
    found: set[int] = set()
    for _, wanted, given in sorted(scored):
        if wanted not in found and given not in taken:
            found.add(wanted)
            taken.add(given)
            yield requests[wanted], executions[given]
