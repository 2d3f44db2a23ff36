"""Sums up the tokens of model calls, each of them once.

A model call may be on several spans: that of a second instrumentation above or beside it, or one of a framework around
it, which may also sum up the calls within. So the innermost spans with tokens count, as long as no tool or agent run
stands between them and the span above.
"""

from collections.abc import Iterable, Sequence

from toolgauge.assemble.node import Node
from toolgauge.model.trajectory import Tokens

# Nested model spans come in twos and threes.
_MAX_NESTING = 4


def tokens_of(traces: Iterable[Sequence[Node]]) -> Tokens | None:
    """Return the tokens of all traces, whose nodes come in order of time; `None` where none were recorded."""
    sums, measured, unmeasured = [0, 0], False, 0
    for nodes in traces:
        calls = [node for node in nodes if node.model_call is not None]
        for node in _counted(calls):
            found = _tokens(node)
            measured = measured or found != (None, None)
            unmeasured += None in found
            sums[0] += found[0] or 0
            sums[1] += found[1] or 0
    return Tokens(input=sums[0], output=sums[1], unmeasured=unmeasured) if measured else None


def _tokens(node: Node) -> tuple[int | None, int | None]:
    call = node.model_call
    return (None, None) if call is None else (call.input_tokens, call.output_tokens)


def _is_measured(node: Node) -> bool:
    return _tokens(node) != (None, None)


def _counted(calls: Sequence[Node]) -> list[Node]:
    """Leave out the spans that show what others show."""
    around: set[int] = set()
    around_measured: set[int] = set()
    for node in calls:
        _mark_above(node, around)
        if _is_measured(node):
            _mark_above(node, around_measured)
    counted = [node for node in calls if id(node) not in around_measured]
    counted = [node for node in counted if _is_measured(node) or not (id(node) in around or _is_within_measured(node))]
    # A single instrumentation, as nearly always, shows nothing twice.
    return _without_doubles(counted) if len({node.first.scope for node in counted}) > 1 else counted


def _above(node: Node) -> Node | None:
    """Return the span of a model call around this one; `None` where a tool or an agent run stands between."""
    above = node.branch.model_above
    if above is None or above.model_call is None:
        return None
    is_same = above.branch.inside is node.branch.inside and above.branch.tool_above is node.branch.tool_above
    return above if is_same else None


def _mark_above(node: Node, marked: set[int]) -> None:
    above = _above(node)
    # What is above a marked one is marked.
    while above is not None and id(above) not in marked:
        marked.add(id(above))
        above = _above(above)


def _is_within_measured(node: Node) -> bool:
    above = _above(node)
    for _ in range(_MAX_NESTING):
        if above is None:
            return False
        if _is_measured(above):
            return True
        above = _above(above)
    return False


def _without_doubles(calls: Sequence[Node]) -> list[Node]:
    """Count what two instrumentations wrote side by side about one call once: they overlap, with the same tokens."""
    counted: list[Node] = []
    waiting: dict[tuple[int | None, int | None], Node] = {}
    for node in calls:
        earlier = waiting.get(_tokens(node)) if _is_measured(node) else None
        if (
            earlier is not None
            and earlier.first.scope != node.first.scope
            and node.time_ns < earlier.time_ns + (earlier.end_ns - earlier.start_ns)
        ):
            del waiting[_tokens(node)]
            continue
        waiting[_tokens(node)] = node
        counted.append(node)
    return counted
