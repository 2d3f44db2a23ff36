"""Joins a call that waited for a person with its execution once the run was resumed, in the same trace or in a later one.

Frameworks carry out a call of a resumed run again from its start, under a span of its own, and no model asks for it again: one call
would be counted as two, and one of them as never carried out.
"""

from collections.abc import Hashable, Iterator, Sequence

from toolgauge.assemble.canonical import fold_name
from toolgauge.assemble.node import Node
from toolgauge.assemble.pairing import Pair
from toolgauge.assemble.restored import is_restored
from toolgauge.model.observations import PAUSED, CallError


def mark_paused(pairs: Sequence[Pair], nodes: Sequence[Node]) -> None:
    """Decide for each span that ended as one of a waiting call does: the call waits if no model was called after it."""
    unfinished = [pair.execution for pair in pairs if pair.execution is not None and pair.execution.is_unfinished]
    for execution in unfinished:
        ran = execution.node
        later = (node for node in nodes if node.model_call is not None and node.time_ns >= ran.until_ns)
        if not any(node.ref.trace_id == ran.ref.trace_id for node in later):
            execution.error = CallError(kind=PAUSED, message="")


def resumed(pairs: Sequence[Pair]) -> list[Pair]:
    """Return the pairs, in their order, with one for each call that was resumed."""
    executed: dict[Hashable, list[Pair]] = {}
    for pair in pairs:
        if pair.execution is not None:
            for key in _keys(pair):
                executed.setdefault(key, []).append(pair)
    dropped: set[int] = set()
    for pair in pairs:
        if id(pair) in dropped or (pair.execution is not None and not pair.execution.waits):
            continue
        later = next((other for other in _candidates(pair, executed) if id(other) not in dropped), None)
        if later is None:
            continue
        if pair.request is None:
            dropped.add(id(pair))
            continue
        pair.execution = later.execution
        pair.call_id = pair.call_id if pair.call_id is not None else later.call_id
        dropped.add(id(later))
    return [pair for pair in pairs if id(pair) not in dropped]


def _keys(pair: Pair) -> Iterator[Hashable]:
    """Yield the keys by which a call is known again: its id, else its name and arguments."""
    if pair.call_id is not None:
        yield pair.call_id
    for view in (pair.request, pair.execution):
        if view is not None and view.arguments_key is not None:
            yield fold_name(pair.name), view.arguments_key


def _candidates(pair: Pair, executed: dict[Hashable, list[Pair]]) -> Iterator[Pair]:
    """Yield the executions that may be of the call, which only one model output asked for."""
    waiting = pair.execution
    since_ns = pair.asking.time_ns if waiting is None else waiting.node.time_ns
    for key in _keys(pair):
        for other in executed.get(key, ()):
            later = other.execution
            if other is pair or later is None or later.node.time_ns <= since_ns:
                continue
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
