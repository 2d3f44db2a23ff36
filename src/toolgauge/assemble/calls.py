"""Builds tool calls from paired views: their arguments, state, result, agent and order.

Answers are in the history of later model inputs: each repeats every earlier one, also from earlier traces. Only an error result, the
producer's word or an answer shows that a call was rejected; unknown names and broken JSON do not.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import replace

from toolgauge.assemble.agent_runs import Offers
from toolgauge.assemble.failures import (
    NotExecuted,
    Rejection,
    failure_in,
    mcp_failure,
    misfits,
    not_executed,
    rejection,
    with_message,
)
from toolgauge.assemble.node import TOP, Execution, Node, Request, adds_to
from toolgauge.assemble.pairing import Pair
from toolgauge.model.content import NOT_RECORDED, Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.names import fold_name
from toolgauge.model.observations import INVALID_ARGUMENTS, OTHER_ERROR, PAUSED, REFUSED, CallAnswered, CallError
from toolgauge.model.trajectory import CallState, ToolCall

# So many answers or calls with one id are compared with each other; of more the order decides.
_MAX_OF_ONE_ID = 64


class _Sighting(Struct, frozen=True, eq=False):
    """The answers with one call id that one span holds."""

    node: Node
    time_ns: int
    answers: list[CallAnswered]


class Answers:
    """The answers of all traces of a trajectory."""

    def __init__(self, answering: Sequence[Node], pairs: Sequence[Pair]) -> None:
        """`answering` nodes and `pairs` come in order of time."""
        self._asked: dict[str, list[int]] = {}
        # How often its id was asked for before, of a call whose id is used again.
        self._occurrence: dict[int, int] = {}
        self._sightings: dict[str, list[_Sighting]] = {}
        # The same by id and trace: each of thousands of calls with one id asks for them.
        self._in_trace: dict[tuple[str, str], list[_Sighting]] = {}
        self._by_order: dict[int, CallAnswered] = {}
        # By call id: that it waits for a person, which counts least, or was refused by one, which counts most.
        self._paused: dict[str, CallAnswered] = {}
        self._refused: dict[str, CallAnswered] = {}
        if not answering:
            return
        asked = self._asked
        for pair in pairs:
            if pair.call_id is not None:
                times = asked.setdefault(pair.call_id, [])
                if times:
                    self._occurrence[id(pair)] = len(times)
                times.append(pair.asking.time_ns)
        if not self._with_ids(answering):
            self._by_order = _without_ids(answering, pairs)

    def settle(self, pairs: Sequence[Pair]) -> None:
        """Give calls that share one id, and whose spans have no arguments, the span with the result of their answer."""
        if not self._occurrence:
            return
        shared: dict[str, list[Pair]] = {}
        for pair in pairs:
            if pair.call_id is not None and len(self._asked.get(pair.call_id, ())) > 1:
                shared.setdefault(pair.call_id, []).append(pair)
        for together in shared.values():
            free = [pair.execution for pair in together if pair.execution is not None]
            is_bounded = len(together) == len(free) <= _MAX_OF_ONE_ID
            if not is_bounded or any(one.arguments_key is not None for one in free):
                continue
            for pair in together:
                answer = self.to(pair)
                same = next((one for one in free if answer is not None and one.result == answer.result), None)
                if same is None:
                    break
                free.remove(same)
                pair.execution = same

    def to(self, pair: Pair) -> CallAnswered | None:
        """Return the first answer that came after the call, from its own trace if there is one."""
        call_id = pair.call_id
        if call_id is not None and call_id in self._refused:
            return self._refused[call_id]
        first = self._first_after(pair)
        if first is None or call_id is None:
            # A tool span shows that the call ran: it has a result, or an error that is not a pause.
            ran = pair.execution
            has_ended = ran is not None and (ran.error is not None or type(ran.result) is not NotRecorded)
            has_run = ran is not None and has_ended and ran.stopped != "paused"
            waiting = self._paused.get(call_id) if call_id is not None and not has_run else None
            return waiting or self._by_order.get(id(pair))
        asked, answers = self._asked[call_id], first.answers
        if len(asked) == 1 == len(answers):
            return answers[0]
        number, asked_before = self._occurrence.get(id(pair), 0), bisect_right(asked, first.time_ns)
        held = len(given.answers) if (given := self._given(pair)) is not None else 0
        if given is not None and answers[held - 1 : held] == given.answers[-1:]:
            # Rule: of a history that repeats the answers that the asking span was given, only those after them can be to its calls.
            answers, number = answers[held:], number - bisect_left(asked, pair.asking.time_ns)
            asked_before = len(answers)
            if number >= len(answers):
                return None
        if 1 < len(answers) <= _MAX_OF_ONE_ID:
            # Where one id stands for several calls, their answers may name the tool.
            name = fold_name(pair.name)
            named = [answer for answer in answers if not answer.name or fold_name(answer.name) == name]
            answers = named if len(named) == 1 else answers
        if len(answers) == 1:
            return answers[0]
        # An id that is used again has several answers in one history: the newest belong to the newest calls.
        index = len(answers) - asked_before + number
        return answers[min(max(index, 0), len(answers) - 1)]

    def answered_ns(self, pair: Pair) -> int:
        """Return when the answer to a call was known, at the earliest."""
        first = self._first_after(pair)
        return pair.asking.time_ns if first is None else first.time_ns

    def _first_after(self, pair: Pair) -> _Sighting | None:
        if pair.call_id is None or pair.call_id not in self._sightings:
            return None
        sightings = self._sightings[pair.call_id]
        first, asked_ns, trace_id = sightings[0], pair.asking.time_ns, pair.asking.ref.trace_id
        if first.time_ns > asked_ns and first.node.ref.trace_id == trace_id:
            return first
        # What the asking span itself was given answers earlier calls, unless the provider ran the tool.
        given = self._given(pair)
        for after in (bisect_right, bisect_left):
            place = after(sightings, asked_ns, key=_time)
            later = [one for one in sightings[place : place + 2] if one is not given]
            if later:
                own = self._in_trace.get((pair.call_id, trace_id), ())
                own_place = after(own, asked_ns, key=_time)
                return next((one for one in own[own_place : own_place + 2] if one is not given), later[0])
        return None

    def _given(self, pair: Pair) -> _Sighting | None:
        """Return the answers to earlier calls with the same id that the asking model was given."""
        asking = pair.asking
        if pair.call_id is None or not asking.is_primary or self._asked[pair.call_id][0] >= asking.time_ns:
            return None
        own = self._in_trace.get((pair.call_id, asking.ref.trace_id), ())
        place = bisect_left(own, asking.time_ns, key=_time)
        # Few spans of a trace begin in the same nanosecond.
        together = own[place : place + _MAX_OF_ONE_ID]
        return next((one for one in together if one.node is asking and not one.answers[-1].by_provider), None)

    def _with_ids(self, nodes: Sequence[Node]) -> bool:
        """Collect answers as far as they can matter: histories grow with their square. Return whether all have ids."""
        have_ids = True
        settled: dict[str, set[str]] = {}
        for node in sorted(nodes, key=_known_at):
            time_ns, settled_here = _known_at(node), settled.setdefault(node.ref.trace_id, set())
            for answer in node.answers:
                call_id, error = answer.call_id, answer.error
                if call_id is None:
                    have_ids = False
                    continue
                times, known = self._asked.get(call_id, ()), self._sightings.get(call_id)
                here = known[-1].answers if known and known[-1].node is node else None
                if error is not None and error.kind == PAUSED:
                    self._paused[call_id] = answer
                elif error is not None and error.kind == REFUSED and len(times) <= 1:
                    self._refused[call_id] = answer
                elif error is not None and here and here[-1].error is None and here[-1].result == answer.result:
                    # Bedrock's instrumentation writes two events for each answer, one with its failure.
                    here[-1] = answer
                # The calls of others were made later.
                elif call_id not in settled_here and times and time_ns >= times[0]:
                    if here is not None:
                        here.append(answer)
                    else:
                        sighting = _Sighting(node, time_ns, [answer])
                        self._sightings.setdefault(call_id, []).append(sighting)
                        self._in_trace.setdefault((call_id, node.ref.trace_id), []).append(sighting)
                    # No later one of the trace can matter.
                    if len(times) == 1 and time_ns > times[0]:
                        settled_here.add(call_id)
        return have_ids


_time: Callable[[_Sighting], int] = attrgetter("time_ns")


def _known_at(node: Node) -> int:
    """Return when answers were known: a model is given them at its start, other spans show what happened within."""
    return node.time_ns if node.is_primary else node.until_ns


def _without_ids(nodes: Sequence[Node], pairs: Sequence[Pair]) -> dict[int, CallAnswered]:
    """Give answers without ids to calls by name and order, within one agent run."""
    longest: dict[tuple[str, int], tuple[Node, list[CallAnswered]]] = {}
    for node in nodes:
        answers = [answer for answer in node.answers if answer.call_id is None]
        run = (node.ref.trace_id, id(node.branch.inside))
        if answers and (run not in longest or len(answers) >= len(longest[run][1])):
            longest[run] = (node, answers)
    if not longest:
        return {}
    asked: dict[tuple[str, int], list[Pair]] = {}
    for pair in pairs:
        asked.setdefault((pair.asking.ref.trace_id, id(pair.run)), []).append(pair)
    found: dict[int, CallAnswered] = {}
    for run, (node, answers) in longest.items():
        named: dict[str | None, list[CallAnswered]] = {}
        for answer in answers:
            named.setdefault(None if answer.name is None else fold_name(answer.name), []).append(answer)
        # From the end: a history may begin with calls of earlier traces.
        for pair in reversed([pair for pair in asked.get(run, []) if pair.asking.time_ns <= _known_at(node)]):
            left = named.get(fold_name(pair.name)) or named.get(None)
            if left:
                found[id(pair)] = left.pop()
    return found


# A refusal names itself in its first characters; the same words further on may be the answer of a tool that ran.
_MAX_TEXT = 300
# How Anthropic and OpenAI begin the ids of calls that they run themselves.
_PROVIDER_ID = re.compile(r"(?:srvtoolu|mcptoolu)_|(?:ws|fs|ci|ig|mcp)_[0-9a-f]{32}")


class Fate(Struct, frozen=True):
    """The state of a call. `error` is why its tool failed, or why it was rejected."""

    state: CallState
    result: Content
    error: CallError | None
    by_provider: bool = False


def fate(pair: Pair, answer: CallAnswered | None, offers: Offers, *, has_tool_spans: bool) -> Fate:
    """Return the state of the call; `has_tool_spans`: whether any call of its trace has one."""
    execution, request = pair.execution, pair.request
    if execution is None:
        if request is None:
            raise ValueError("a pair has at least one view")
        return _of_requested(request, answer, has_tool_spans=has_tool_spans)
    result, error, stopped = execution.result, execution.error, execution.stopped
    answered_with = result
    # Nearly always the answer repeats the result of the span.
    if answer is not None and not (error is stopped is answer.error is None and answer.result == result):
        answered_with = answer.result
        answered = not_executed(answer.error, answered_with)
        if answered is not None:
            return _unexecuted(answered, answer.result, answer.error)
        if stopped == "paused":
            # A call that waited and was answered later, by a person or from outside.
            return Fate("executed", answer.result, answer.error)
        error = error or answer.error
        if error is None and type(result) is NotRecorded:
            result = answer.result
    if stopped is not None:
        return _unexecuted(stopped, result, error)
    error = error or mcp_failure(result) or (mcp_failure(answered_with) if answered_with is not result else None)
    if error is None:
        return Fate("executed", result, None)
    shown = answered_with if isinstance(result, NotRecorded) else result
    error = with_message(error, shown)
    why = _rejection(execution, request, error, shown, offers)
    return Fate("executed" if why is None else "rejected", result, error)


def _unexecuted(state: NotExecuted, result: Content, error: CallError | None) -> Fate:
    """Return a call that waits, was refused or cancelled: it has no error, and the words of a refusal are its result."""
    words = Recorded(error.message) if error is not None and error.message else NOT_RECORDED
    return Fate(state, words if state != "paused" and type(result) is NotRecorded else result, None)


def _rejection(
    execution: Execution, request: Request | None, error: CallError, answered: Content, offers: Offers
) -> Rejection | None:
    arguments = execution.arguments
    if request is not None:
        # Some producers write the only value of a call to the tool's span, in place of its arguments.
        if isinstance(arguments, (NotRecorded, Unparsed)) and not isinstance(request.arguments, NotRecorded):
            arguments = request.arguments
        if misfits(arguments, offers.schema(request)):
            return INVALID_ARGUMENTS
        if isinstance(request.arguments, Unparsed):
            arguments = request.arguments
    return rejection(execution.name, arguments, error, answered)


def _of_requested(request: Request, answer: CallAnswered | None, *, has_tool_spans: bool) -> Fate:
    """Return the state of a call without a tool span."""
    answered = answer.result if answer is not None else NOT_RECORDED
    error = answer.error if answer is not None else None
    stopped = not_executed(error, answered)
    if stopped is not None:
        return _unexecuted(stopped, answered, error)
    # Tools that the model's provider runs have no spans.
    has_provider_id = request.call_id is not None and _PROVIDER_ID.match(request.call_id) is not None
    by_provider = request.by_provider or (answer is not None and answer.by_provider) or has_provider_id
    has_tool_spans = has_tool_spans and not by_provider
    error = error or mcp_failure(answered)
    if error is not None:
        error = with_message(error, answered)
    refusal = error
    if answer is None:
        # The innermost failed span around an unanswered request may name the tool it rejects.
        # OpenAI Agents: `Tool not found: {'tool_name': 'get_forecast'}` on the turn.
        node = request.node if request.node.failure is not None else request.node.branch.failed_above
        refusal = error or (node.failure if node is not None else None)
    if not request.usable:
        message = refusal.message if refusal else "the arguments cannot be parsed"
        return Fate("rejected", answered, CallError(kind=INVALID_ARGUMENTS, message=message))
    if refusal is None and isinstance(answered, Recorded) and isinstance(answered.value, str):
        # A framework that does not run the tool often says so in words alone.
        refusal = CallError(kind=OTHER_ERROR, message=answered.value[:_MAX_TEXT])
    if refusal is not None and (why := rejection(request.name, request.arguments, refusal, NOT_RECORDED)) is not None:
        return Fate("rejected", answered, CallError(kind=why, message=refusal.message))
    if error is None and not has_tool_spans:
        error = failure_in(request.name, answered)
    if error is not None:
        # Where tools have spans, one without is a tool that never ran.
        return Fate("rejected" if has_tool_spans else "executed", answered, error, by_provider)
    has_run = by_provider or answer is not None
    return Fate("executed" if has_run and not has_tool_spans else "requested_only", answered, None, by_provider)


class Turn(Struct, frozen=True, eq=False):
    """The calls of one model output; a call that no seen model asked for is a turn of its own."""

    node: Node
    pairs: list[Pair]


def in_turns(pairs: Sequence[Pair]) -> list[Turn]:
    """Group calls by the output that asked for them; they come in order of time."""
    outputs: dict[Hashable, Turn] = {}
    has_summaries = False
    for pair in pairs:
        request = pair.request
        output: Hashable = pair if request is None else pair.asking
        if request is not None and not request.node.is_primary:
            has_summaries = True
            # A summary of several outputs rarely tells which calls went together.
            output = pair if request.output is None else (id(pair.asking), request.output)
        turn = outputs.get(output)
        if turn is None:
            turn = outputs[output] = Turn(pair.asking, [])
        turn.pairs.append(pair)
    turns = list(outputs.values())
    if not has_summaries:
        return turns
    for at, turn in enumerate(turns):
        request = turn.pairs[0].request
        if request is not None and not request.node.is_primary:
            # A summary: the first call that it led to shows when the output was.
            ran = (pair.execution.node for pair in turn.pairs if pair.execution is not None)
            turns[at] = Turn(min(ran, key=lambda node: node.place, default=turn.node), turn.pairs)
    return sorted(turns, key=lambda turn: turn.node.place)


def tool_calls(
    turns: Sequence[Turn],
    turns_ns: Sequence[int],
    answers: Answers,
    offers: Offers,
    wholes: Mapping[str, Node],
    with_tool_spans: Collection[str],
) -> tuple[ToolCall, ...]:
    """Return the calls of turns that began at `turns_ns`; `wholes` are the spans that stand for whole traces."""
    calls: list[ToolCall] = []
    for number, turn in enumerate(turns):
        trace_id = turn.pairs[0].asking.ref.trace_id
        whole, has_tool_spans = wholes[trace_id], trace_id in with_tool_spans
        for position, pair in enumerate(turn.pairs):
            became = fate(pair, answers.to(pair), offers, has_tool_spans=has_tool_spans)
            # The first turn in which the result was known.
            known_turn: int | None = None
            if became.error is not None or type(became.result) is not NotRecorded:
                ran = pair.execution
                if ran is None and not pair.asking.is_primary:
                    # A summary has one time for all of its outputs, and each was given the answers to those before it.
                    known_turn = number + 1
                else:
                    known_ns = answers.answered_ns(pair) if ran is None else ran.node.until_ns
                    # Clocks are rounded: the model that asked is told later all the same.
                    known_turn = bisect_left(turns_ns, known_ns, number + 1)
            calls.append(_tool_call(pair, became, whole, (len(calls), number, position, known_turn)))
    # Read results of bare text, of a producer that writes JSON: a tool that wrote JSON in another call raised this text.
    bare = [
        (call, call.result.text)
        for call in calls
        # JSON that is too large or too deep to open has not failed.
        if type(call.result) is Unparsed
        and call.result.reason == "unparsable"
        and not call.result.text.lstrip().startswith(("{", "["))
    ]
    # A number may be bare text as well.
    with_json = {
        call.name
        for call in (calls if bare else ())
        if call.error is None and isinstance(call.result, Recorded) and isinstance(call.result.value, str | dict | list)
    }
    for call, text in bare:
        has_raised = call.state == "executed" and call.name in with_json
        error = call.error or (CallError(kind=OTHER_ERROR, message=text) if has_raised else None)
        calls[call.order] = replace(call, result=Recorded(text), error=error)
    return tuple(calls)


def _tool_call(pair: Pair, became: Fate, whole: Node, place: tuple[int, int, int, int | None]) -> ToolCall:
    request, execution = pair.request, pair.execution
    shown, branch, asking = pair.asking, TOP, TOP
    start_ns, requested_by, executed_by, has_same_id = shown.end_ns, None, None, False
    if request is not None:
        asking, requested_by = request.node.branch, request.node.ref
    if execution is not None:
        shown = execution.node
        start_ns, executed_by = shown.start_ns, shown.ref
        # Runs within the tool's span do not count.
        branch = shown.above.branch if shown.above is not None else TOP
        has_same_id = request is not None and request.call_id is not None and request.call_id == execution.call_id
    agents = branch.agents or asking.agents
    if not agents:
        # The agent that the views of a call name, where no agent run is above them.
        model = request.node.model_call if request is not None else None
        named = [view.agent for view in (execution, request, model) if view is not None and view.agent is not None]
        agents = tuple(named[:1])
    # Rule: a call outside of all agent runs belongs to the outermost run, unless a tool outside of that run started it:
    # the tool's caller is not part of it.
    run = branch.outermost or asking.outermost
    if run is None:
        run = whole if whole.branch.tool_above is None else shown.branch.topmost or shown
    order, turn, position, result_turn = place
    # By position: twenty keywords cost more than all else about a call.
    return ToolCall(
        order,
        turn,
        position,
        pair.name or (execution.name if execution is not None else ""),
        _arguments(request, execution),
        became.result,
        became.error,
        pair.call_id,
        agents[-1] if agents else None,
        agents,
        became.state,
        shown.ref,
        requested_by,
        executed_by,
        shown.first.dialect or "",
        start_ns,
        shown.end_ns,
        result_turn,
        run.ref,
        execution.tool_id if execution is not None else None,
        has_same_id,
        became.by_provider,
        execution.node.definition if execution is not None else None,
        execution.kind if execution is not None else "tool",
        execution is not None and execution.node.first.status == "ok",
    )


def _arguments(request: Request | None, execution: Execution | None) -> Content:
    # Rule: where both views disagree, the execution's arguments count, and an empty object never hides others, cut and masked ones
    # included. Members that the execution adds are defaults or injected state, which the model did not write: they are left out.
    if request is None:
        return execution.arguments if execution is not None else NOT_RECORDED
    asked = request.arguments
    if execution is None:
        return asked
    given = execution.arguments
    # Nearly always both are the same.
    if given == asked or (type(asked) is type(given) is NotRecorded):
        return asked
    if type(asked) is NotRecorded:
        return given
    is_hidden = given == NotRecorded("redacted") or (type(given) is Unparsed and given.reason == "truncated")
    if asked == Recorded({}) and is_hidden:
        # The arguments that were cut or masked were not an empty object.
        return given
    if type(given) is not Recorded or type(given.value) is not dict or not given.value:
        # A single value written bare, or text, says less than the object that the model wrote.
        return asked
    return asked if adds_to(given.value, asked) else given
