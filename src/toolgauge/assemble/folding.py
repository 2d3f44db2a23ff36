"""Folds log records into the node of the span that they belong to.

Where only log records tell of calls, those of a whole session may name one span: each takes the same time, however
many came before it.
"""

from bisect import bisect_left, insort

from toolgauge.assemble.canonical import fold_name
from toolgauge.assemble.node import Execution, Node, Request
from toolgauge.assemble.twins import Known
from toolgauge.model.observations import CallAnswered, ConversationSeen


class Folding:
    """Takes one log record after the other, each a node by itself."""

    __slots__ = ("_answered", "_node", "_requests", "_shown")

    def __init__(self, node: Node) -> None:
        self._node = node
        # What finds another view of what is told: made when there is something to be found, as seldom.
        self._requests: Known | None = None
        self._shown: _Shown | None = None
        self._answered: set[str | None] | None = None

    def add(self, log: Node) -> None:
        """Add what a log record of the span tells."""
        node = self._node
        node.agent_run = node.agent_run or log.agent_run
        if log.model_call is not None:
            node.model_call = log.model_call if log.model_call.stopped_for_tools else node.model_call or log.model_call
            node.is_primary = True
        if log.conversation is not None:
            known = node.conversation
            node.conversation = log.conversation if known is None else lower(known, log.conversation)
        node.messages += log.messages
        node.offers += log.offers
        if log.requests:
            self._add_requests(log.requests)
        if log.executions:
            if self._shown is None:
                self._shown = _Shown(node)
            self._shown.add(log.executions)
        if log.answers:
            self._add_answers(log.answers)

    def _add_requests(self, arriving: list[Request]) -> None:
        """Add requests; those that another reading of the same span has are views of the same."""
        node, known = self._node, self._requests
        if known is None and node.requests:
            known = self._requests = Known(node.requests)
        if known is not None:
            for twin, request in known.twins(arriving):
                twin.absorb(request)
        for request in arriving:
            if request.alive:
                request.node = node
                node.requests.append(request)
                if known is not None:
                    known.add(request)

    def _add_answers(self, arriving: list[CallAnswered]) -> None:
        # Log records repeat what the span itself says, or say it in its place, each an answer.
        node = self._node
        if node.from_log_only:
            node.answers += arriving
            return
        if self._answered is None:
            self._answered = {answer.call_id for answer in node.answers}
        told = self._answered
        new = [answer for answer in arriving if answer.call_id is None or answer.call_id not in told]
        node.answers += new
        told.update([answer.call_id for answer in new])


class _Shown:
    """The executions of a node, by their ids and names. Of several that have the same, the last one counts."""

    __slots__ = ("_by_id", "_by_name", "_node", "_places")

    def __init__(self, node: Node) -> None:
        self._node = node
        self._by_id: dict[str, Execution] = {}
        # Places among all executions, in order.
        self._by_name: dict[str, list[int]] = {}
        self._places: dict[int, int] = {}
        for place, execution in enumerate(node.executions):
            self._note(execution, place)

    def add(self, arriving: list[Execution]) -> None:
        """Add executions of one reading; a log record may show the execution that its span shows."""
        executions = self._node.executions
        absorbed: list[tuple[Execution, str]] = []
        first_new = len(executions)
        for execution in arriving:
            execution.node = self._node
            twin = self._twin(execution)
            # Log records without ids tell of a call each; they may name the span of the whole run.
            is_other = twin is not None and twin.from_log and execution.call_id is None
            if twin is None or is_other or twin.has_other_id_than(execution):
                executions.append(execution)
            else:
                absorbed.append((twin, fold_name(twin.name)))
                twin.absorb(execution)
        for twin, name in absorbed:
            self._note_anew(twin, name)
        for place in range(first_new, len(executions)):
            self._note(executions[place], place)

    def _twin(self, execution: Execution) -> Execution | None:
        twin = self._by_id.get(execution.call_id) if execution.call_id is not None else None
        named = None if twin is not None else self._by_name.get(fold_name(execution.name))
        if named is not None:
            return self._node.executions[named[-1]]
        if twin is None and not execution.name and len(self._by_name) == 1:
            # Content that was split off a tool's span does not name the tool again.
            return self._node.executions[0]
        return twin

    def _note(self, execution: Execution, place: int) -> None:
        self._places[id(execution)] = place
        if execution.call_id is not None:
            self._by_id[execution.call_id] = execution
        self._by_name.setdefault(fold_name(execution.name), []).append(place)

    def _note_anew(self, execution: Execution, name: str) -> None:
        """Note an id or a name that an execution took from another view of it."""
        place = self._places[id(execution)]
        if execution.call_id is not None:
            known = self._by_id.get(execution.call_id)
            if known is None or self._places[id(known)] < place:
                self._by_id[execution.call_id] = execution
        if fold_name(execution.name) != name:
            places = self._by_name[name]
            del places[bisect_left(places, place)]
            if not places:
                del self._by_name[name]
            insort(self._by_name.setdefault(fold_name(execution.name), []), place)


def lower(known: ConversationSeen, seen: ConversationSeen) -> ConversationSeen:
    """Return the conversation id of the lower rank."""
    ranks = (seen.rank, seen.conversation_id), (known.rank, known.conversation_id)
    return seen if ranks[0] < ranks[1] else known
