"""Joins a call that waited for a person with its execution once the run was resumed, in the same trace or in a later one.

Frameworks carry out a call of a resumed run again from its start, under a span of its own, and no model asks for it again: one call
would be counted as two, and one of them as never carried out.
"""

from bisect import bisect_right
from collections.abc import Hashable, Iterator, Sequence

from toolgauge.assemble.canonical import fold_name
from toolgauge.assemble.node import Execution, Node
from toolgauge.assemble.pairing import Pair
from toolgauge.assemble.restored import is_restored
from toolgauge.model.observations import PAUSED, CallError

# So many later executions are looked at for each key of a call that was not carried out: equal calls may come in thousands.
_MAX_CANDIDATES = 100


def mark_paused(pairs: Sequence[Pair], nodes: Sequence[Node]) -> None:
    """Mark unfinished calls as paused where the trace has model calls and none of them follows.

    Without any model call, nothing shows that the run stopped there.
    """
    unfinished = [pair.execution for pair in pairs if pair.execution is not None and pair.execution.is_unfinished]
    if not unfinished:
        return
    last_called_ns: dict[str, int] = {}
    for node in nodes:
        if node.model_call is not None:
            trace_id = node.ref.trace_id
            last_called_ns[trace_id] = max(node.time_ns, last_called_ns.get(trace_id, node.time_ns))
    for execution in unfinished:
        ran = execution.node
        if last_called_ns.get(ran.ref.trace_id, ran.until_ns) < ran.until_ns:
            execution.error = CallError(kind=PAUSED, message="")


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
        while id(pair) not in dropped and (pair.execution is None or pair.execution.waits):
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
            if pair.request is not None and other.request is not None and not _is_restored(other, pair):
                continue
            if pair.call_id is not None and other.call_id is not None and pair.call_id != other.call_id:
                continue
            # In the trace that asked for it, a call without a span was joined with its execution already.
            if waiting is not None or other.asking.ref.trace_id != pair.asking.ref.trace_id:
                yield other


def _is_restored(other: Pair, pair: Pair) -> bool:
    """Return whether the request of the later call was restored from the history that holds the call which waited."""
    return other.call_id is not None and other.call_id == pair.call_id and is_restored(other.asking.ref)
