"""Makes tool calls of paired views: what was asked, what came of it, who made it, and in which order."""

from bisect import bisect_left
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from operator import attrgetter

from msgspec import Struct

from toolgauge.assemble.answers import Answers
from toolgauge.assemble.canonical import adds_to
from toolgauge.assemble.node import TOP, Execution, Node, Request
from toolgauge.assemble.pairing import Pair
from toolgauge.assemble.states import Fate, Offers, fate
from toolgauge.model.content import NOT_RECORDED, Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.trajectory import ToolCall


class Turn(Struct, frozen=True, eq=False):
    """The calls of one model output; a call that no seen model asked for is a turn of its own."""

    node: Node
    pairs: list[Pair]


class Surroundings(Struct, frozen=True, eq=False):
    """What decides what became of calls."""

    answers: Answers
    offers: Offers
    # What stands for each trace as a whole, and the traces in which tools have spans.
    wholes: Mapping[str, Node]
    with_tool_spans: Collection[str]


def in_turns(pairs: Sequence[Pair]) -> list[Turn]:
    """Group calls by the output that asked for them; they come in order of time."""
    outputs: dict[Hashable, list[Pair]] = {}
    together: list[list[Pair]] = []
    has_summaries = False
    for pair in pairs:
        request = pair.request
        if request is None:
            # A call by itself, which no known output asked for.
            together.append([pair])
            continue
        output: Hashable = pair.asking
        if not request.node.is_primary:
            has_summaries = True
            # A summary of several outputs rarely tells which calls went together.
            output = pair if request.output is None else (id(pair.asking), request.output)
        known = outputs.get(output)
        if known is None:
            outputs[output] = alone = [pair]
            together.append(alone)
        else:
            known.append(pair)
    turns = [Turn(_moment(these) if has_summaries else these[0].asking, these) for these in together]
    return sorted(turns, key=_place) if has_summaries else turns


_place: Callable[[Turn], int] = attrgetter("node.place")


def _moment(together: Sequence[Pair]) -> Node:
    """Return the span that shows when the output was: of a summary, the first call that came of it."""
    asking, request = together[0].asking, together[0].request
    if request is None or request.node.is_primary:
        return asking
    ran = (pair.execution.node for pair in together if pair.execution is not None)
    return min(ran, key=lambda node: node.place, default=asking)


def tool_calls(turns: Sequence[Turn], turns_ns: Sequence[int], around: Surroundings) -> tuple[ToolCall, ...]:
    """Return the calls in order; `turns_ns` are the times at which turns began."""
    answers, offers, wholes = around.answers, around.offers, around.wholes
    calls: list[ToolCall] = []
    for number, turn in enumerate(turns):
        for position, pair in enumerate(turn.pairs):
            trace_id = pair.asking.ref.trace_id
            became = fate(pair, answers.to(pair), offers, has_tool_spans=trace_id in around.with_tool_spans)
            known_turn: int | None = None
            if became.error is not None or type(became.result) is not NotRecorded:
                known_turn = _known_turn(pair, number, turns_ns, answers)
            place = (len(calls), number, position, known_turn)
            calls.append(_tool_call(pair, became, wholes[trace_id], place))
    return tuple(calls)


def _known_turn(pair: Pair, number: int, turns_ns: Sequence[int], answers: Answers) -> int:
    """Return the first turn in which the result of a call of turn `number` was known."""
    ran = pair.execution
    if ran is None and not pair.asking.is_primary:
        # A summary has one time for all of its outputs, and each of them was given the answers to those before it.
        return number + 1
    known_ns = answers.answered_ns(pair) if ran is None else ran.node.until_ns
    # Clocks are rounded: whoever asks is told later all the same.
    return bisect_left(turns_ns, known_ns, number + 1)


def _tool_call(pair: Pair, became: Fate, whole: Node, place: tuple[int, int, int, int | None]) -> ToolCall:
    request, execution = pair.request, pair.execution
    shown = execution.node if execution is not None else pair.asking
    # What a tool's span itself runs does not count.
    above = execution.node.above if execution is not None else None
    branch = above.branch if above is not None else TOP
    asking = request.node.branch if request is not None else TOP
    agents = branch.agents or asking.agents or _named(request, execution)
    run = branch.outermost or asking.outermost or _outside(shown, whole)
    arguments = _arguments(request, execution)
    order, turn, position, result_turn = place
    # By position: twenty keywords cost more than all else about a call.
    return ToolCall(
        order,
        turn,
        position,
        pair.name or (execution.name if execution is not None else ""),
        arguments,
        became.result,
        became.error,
        pair.call_id,
        agents[-1] if agents else None,
        agents,
        became.state,
        shown.ref,
        request.node.ref if request is not None else None,
        shown.ref if execution is not None else None,
        shown.first.dialect or "",
        # Without a tool span only the moment of the request is known.
        shown.start_ns if execution is not None else shown.end_ns,
        shown.end_ns,
        result_turn,
        run.ref,
        execution.tool_id if execution is not None else None,
        request is not None
        and execution is not None
        and request.call_id is not None
        and request.call_id == execution.call_id,
        became.by_provider,
        execution.node.definition if execution is not None else None,
        execution.kind if execution is not None else "tool",
    )


def _outside(node: Node, whole: Node) -> Node:
    """Return what stands for the run of a call outside of all agent runs.

    Rule: that is the outermost run, unless a tool outside of it started that run: whoever called the tool is no part of it.
    """
    return whole if whole.branch.tool_above is None else node.branch.topmost or node


def _arguments(request: Request | None, execution: Execution | None) -> Content:
    """Return the arguments of a call.

    Rule: where its two views disagree, the execution's arguments count, and an empty object never hides others, cut and masked ones
    included. Members that the execution adds are defaults or injected state, which the model did not write: they are left out.
    """
    if request is None:
        return execution.arguments if execution is not None else NOT_RECORDED
    asked = request.arguments
    if execution is None:
        return asked
    given = execution.arguments
    if type(asked) is NotRecorded:
        # Both say nothing; that something was hidden on purpose says more.
        return asked if type(given) is NotRecorded else given
    if asked == Recorded({}) and _is_damaged(given):
        # The arguments that were cut or masked were not an empty object.
        return given
    if type(given) is not Recorded or type(given.value) is not dict or not given.value:
        # A single value written bare, or text, says less than the object that the model wrote.
        return asked
    is_same = type(asked) is Recorded and asked.value == given.value
    return asked if is_same or adds_to(given.value, asked) else given


def _is_damaged(given: Content) -> bool:
    return given == NotRecorded("redacted") or (type(given) is Unparsed and given.reason == "truncated")


def _named(request: Request | None, execution: Execution | None) -> tuple[str, ...]:
    """Return the agent that the views of a call name where no agent run is above them."""
    model = request.node.model_call if request is not None else None
    named = (
        execution.agent if execution is not None else None,
        request.agent if request is not None else None,
        model.agent if model is not None else None,
    )
    return next(((agent,) for agent in named if agent is not None), ())
