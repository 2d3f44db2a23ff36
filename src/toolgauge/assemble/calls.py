"""Makes tool calls of paired views: what was asked, what came of it, who made it, and in which order."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from toolgauge.assemble.answers import Answers
from toolgauge.assemble.node import Execution, Node, Request
from toolgauge.assemble.pairing import Pair
from toolgauge.model.content import NOT_RECORDED, Content, NotRecorded, Unparsed
from toolgauge.model.observations import CallAnswered, CallError
from toolgauge.model.trajectory import CallState, ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """The calls of one model output; a call that no seen model asked for is a turn of its own."""

    node: Node
    pairs: tuple[Pair, ...]


def in_turns(pairs: Sequence[Pair]) -> tuple[Turn, ...]:
    """Group calls by the output that asked for them; requests come in the models' order."""
    outputs: dict[int, list[Pair]] = {}
    alone: list[Turn] = []
    for pair in pairs:
        if pair.request is None:
            alone.append(Turn(node=pair.asking, pairs=(pair,)))
        elif pair.request.node.is_primary:
            outputs.setdefault(id(pair.asking), []).append(pair)
        else:
            # A summary of several outputs does not tell which calls went together, only what came of them.
            node = pair.execution.node if pair.execution is not None else pair.asking
            alone.append(Turn(node=node, pairs=(pair,)))
    grouped = (Turn(node=together[0].asking, pairs=tuple(together)) for together in outputs.values())
    return tuple(sorted([*grouped, *alone], key=lambda turn: turn.node.order))


def tool_calls(turns: Sequence[Turn], nodes: Iterable[Node], answers: Answers) -> Iterator[ToolCall]:
    """Yield the calls in order."""
    offers = _Offers(nodes)
    pairs = [pair for turn in turns for pair in turn.pairs]
    with_tool_spans = {pair.asking.ref.trace_id for pair in pairs if pair.execution is not None}
    order = 0
    for number, turn in enumerate(turns):
        for position, pair in enumerate(turn.pairs):
            has_tool_spans = pair.asking.ref.trace_id in with_tool_spans
            outcome = _outcome(pair, answers.to(pair), offers, has_tool_spans=has_tool_spans)
            yield _tool_call(pair, outcome, order=order, turn=number, position=position)
            order += 1


class _Offers:
    """Which tools a model could choose from: those told on its own span, else those told in its agent run.

    What another agent was offered says nothing about this one.
    """

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._by_run: dict[tuple[str, int], set[str]] = {}
        for node in nodes:
            if node.offers:
                self._by_run.setdefault(_run(node), set()).update(_names(node))

    def lacks(self, request: Request) -> bool:
        """Tell whether the requested tool is known not to be on offer."""
        offered = _names(request.node) if request.node.offers else self._by_run.get(_run(request.node))
        return offered is not None and request.name not in offered


def _run(node: Node) -> tuple[str, int]:
    return (node.ref.trace_id, id(node.inside))


def _names(node: Node) -> set[str]:
    return {tool.name for offer in node.offers for tool in offer.tools}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    state: CallState
    result: Content
    error: CallError | None


def _outcome(pair: Pair, answer: CallAnswered | None, offers: _Offers, *, has_tool_spans: bool) -> _Outcome:
    told = answer.result if answer is not None else NOT_RECORDED
    told_error = answer.error if answer is not None else None
    if pair.execution is not None:
        result, error = pair.execution.result, pair.execution.error or told_error
        if isinstance(result, NotRecorded) and error is None:
            result = told
        return _Outcome(state="executed", result=result, error=error)
    if pair.request is None:
        raise ValueError("a pair has at least one view")
    fault = _fault(pair.request, told_error, offers)
    if fault is not None:
        return _Outcome(state="rejected", result=told, error=fault)
    state: CallState = "executed" if answer is not None and not has_tool_spans else "requested_only"
    return _Outcome(state=state, result=told, error=None)


def _fault(request: Request, told: CallError | None, offers: _Offers) -> CallError | None:
    """Return why a request without a tool span was turned down, `None` when nothing says that it was."""
    if offers.lacks(request):
        return CallError(kind="unknown_tool", message=told.message if told else "the tool is not on offer")
    is_broken = isinstance(request.arguments, Unparsed) and request.arguments.reason == "unparsable"
    if is_broken or not request.usable:
        return CallError(kind="invalid_arguments", message=told.message if told else "the arguments cannot be parsed")
    return told


def _tool_call(pair: Pair, outcome: _Outcome, *, order: int, turn: int, position: int) -> ToolCall:
    request, execution = pair.request, pair.execution
    shown = execution.node if execution is not None else pair.asking
    agents = _agents(pair)
    return ToolCall(
        order=order,
        turn=turn,
        position=position,
        name=pair.name or (execution.name if execution is not None else ""),
        arguments=_arguments(request, execution),
        result=outcome.result,
        error=outcome.error,
        call_id=pair.call_id,
        agent=agents[-1] if agents else None,
        agent_path=agents,
        state=outcome.state,
        span=shown.ref,
        requested_by=request.node.ref if request is not None else None,
        executed_by=execution.node.ref if execution is not None else None,
        dialect=shown.dialect,
        # Without a tool span only the moment of the request is known.
        start_ns=shown.start_ns if execution is not None else shown.end_ns,
        end_ns=shown.end_ns,
    )


def _arguments(request: Request | None, execution: Execution | None) -> Content:
    if request is not None and not isinstance(request.arguments, NotRecorded):
        return request.arguments
    if execution is not None and not isinstance(execution.arguments, NotRecorded):
        return execution.arguments
    # Both say nothing; that something was hidden on purpose says more.
    return request.arguments if request is not None else execution.arguments if execution is not None else NOT_RECORDED


def _agents(pair: Pair) -> tuple[str, ...]:
    request, execution = pair.request, pair.execution
    if execution is not None and execution.node.above is not None and execution.node.above.agents:
        return execution.node.above.agents
    if request is not None and request.node.agents:
        return request.node.agents
    model = request.node.model_call if request is not None else None
    named = (
        execution.agent if execution is not None else None,
        request.agent if request is not None else None,
        model.agent if model is not None else None,
    )
    return next(((agent,) for agent in named if agent is not None), ())
