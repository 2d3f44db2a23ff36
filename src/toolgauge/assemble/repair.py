"""Restores model outputs that were lost or garbled, from the history in a later input of the same agent run.

Collectors drop an output's span, SDKs cut its text, instrumentations join streamed calls. One input a run is read, where an
output shows damage, or an answer or a tool's span has no request; calls given to the run at its beginning do not count.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import accumulate, groupby, islice
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from toolgauge.assemble.node import Node, NodeIndex, Request, arguments_key, restored_ref
from toolgauge.assemble.pairing import Pair
from toolgauge.model.content import NOT_RECORDED, NotRecorded, Recorded, Unparsed
from toolgauge.model.names import fold_name
from toolgauge.model.observations import CallRequested, MessageSeen, Observation, Reading

# Text with this beginning is cut JSON or plain text of the model: the history shows which.
_JSON = ("[", "{")


class Given(Struct, frozen=True):
    """The calls that were answered before any output of the trace: their ids, and how many answers have none."""

    ids: Collection[str | None]
    without_id: int


# An input whose history is needed, and the damaged output of an agent that handed its history on.
_Needed: TypeAlias = tuple[Node, Node | None]


def _around(models: Sequence[Node]) -> set[int]:
    """Return the spans of model calls that wrap another one, with no tool or agent run between them."""
    return {id(node.model_around) for node in models if node.model_around is not None}


def _is_damaged(node: Node, names: dict[int, frozenset[str]]) -> bool:
    """Return whether a model's output may have been lost or garbled. `names` keeps the names of offered tools, by offer."""
    for request in node.requests:
        if type(request.arguments) is not Recorded:
            return True
        is_offered = not node.offers
        for offer in node.offers:
            offered = names.get(id(offer.tools))
            if offered is None:
                offered = names[id(offer.tools)] = frozenset([tool.name for tool in offer.tools])
            is_offered = is_offered or request.name in offered
        if not is_offered:
            return True
        if request.arguments.value or request.arguments.value != {}:
            continue
        # An empty object may stand for arguments that were lost, unless the tool's span has some.
        given = request.execution.arguments if request.execution is not None else NOT_RECORDED
        if type(given) is NotRecorded or given == Recorded({}):
            return True
    if node.requests:
        return False
    for seen in node.messages:
        if seen.role == "assistant":
            return seen.text.lstrip()[:1] in _JSON
    return True


def _needed_inputs(models: Sequence[Node], pairs: Sequence[Pair], given: Given) -> list[_Needed]:
    """Return the inputs whose histories are needed, one per run: the newest after damage."""
    requested = {pair.call_id for pair in pairs if pair.request is not None and pair.call_id is not None}
    newest: dict[int, _Needed] = {}
    # The number of answers in the previous input, and the damaged output since then.
    before: dict[int, int] = {}
    damaged: dict[int, Node] = {}
    first: list[Node] = []
    names: dict[int, frozenset[str]] = {}
    for node in models:
        run = id(node.branch.outermost)
        if node.answers:
            # Each input of a run repeats the answers in the one before it.
            answered = before.get(run, 0)
            answers = node.answers[answered:] if len(node.answers) > answered else node.answers
            unasked = {answer.call_id for answer in answers} - requested
            is_asked_elsewhere = bool(unasked.difference(given.ids, (None,)))
            if run in damaged or is_asked_elsewhere or (None in unasked and _lacks_requests(node, pairs, given)):
                newest[run] = (node, None)
            damaged.pop(run, None)
        if run not in before:
            first.append(node)
        before[run] = len(node.answers)
        if _is_damaged(node, names):
            damaged[run] = node
    for last in damaged.values():
        # An agent that handed over has no later input; the agent after it was given its history.
        after = next((node for node in first if node.place > last.place and node.answers), None)
        if after is not None:
            newest.setdefault(_run_of(after), (after, last))
    return list(newest.values())


def _lacks_requests(node: Node, pairs: Sequence[Pair], given: Given) -> bool:
    """Return whether an input has more answers without ids than its run has asked for."""
    answers = len([answer for answer in node.answers if answer.call_id is None])
    run = _run_of(node)
    asked = [pair for pair in pairs if pair.request is not None and _run_of(pair.request.node) == run]
    return answers - given.without_id > len([pair for pair in asked if pair.asking.place < node.place])


def _run_of(node: Node) -> int:
    """Return a key of the agent run that a span is part of."""
    return id(node.branch.outermost)


# Reads the calls in the history that the model of a span was given.
History: TypeAlias = Callable[[str], Sequence[CallRequested | MessageSeen]]


class Repair(Struct, frozen=True):
    """The restored calls by output, outputs without a span, and by their ids the spans whose histories show them."""

    calls: Mapping[str, Sequence[CallRequested]]
    lost: Sequence[Reading]
    shown_by: Mapping[str, Node]

    def readings(self, readings: Iterable[Reading]) -> list[Reading]:
        """Return the readings of the trace as they would be without the damage."""
        repaired: list[Reading] = []
        placed: set[str] = set()
        for reading in sorted(readings, key=lambda one: one.is_log):
            calls = self.calls.get(reading.ref.span_id)
            if calls is None or not reading.observations:
                repaired.append(reading)
                continue
            kept: list[Observation] = [seen for seen in reading.observations if type(seen) is not CallRequested]
            if reading.ref.span_id not in placed:
                placed.add(reading.ref.span_id)
                kept += calls
            repaired.append(replace(reading, observations=tuple(kept)))
        return [*repaired, *self.lost]


class _Past(Struct, eq=False):
    """A call that a history shows, and the request that is the same call."""

    call: CallRequested
    request: Request | None = None


def repair(index: NodeIndex, pairs: Sequence[Pair], history: History) -> Repair | None:
    """Return what the histories of a trace restore; `None` where nothing is damaged, as nearly always."""
    if not index.answering:
        return None
    # Some spans around model calls hold nothing of an input, others repeat a nested one.
    models = [one for one in index.models if one.is_primary and (one.requests or one.answers or one.user is not None)]
    outer = _around(models)
    models = [node for node in models if id(node) not in outer and not node.from_log_only]
    # The calls in the first input of the trace, and in the first of each run, are earlier turns and examples.
    ran = {execution.call_id for node in index.executing for execution in node.executions}
    ids: set[str | None] = set()
    runs: set[int] = set()
    without_id = 0
    for node in models:
        if id(node.branch.outermost) not in runs:
            if not runs:
                without_id = len([answer for answer in node.answers if answer.call_id is None])
            runs.add(id(node.branch.outermost))
            # A tool's span in the trace shows that the call was made in it.
            ids.update([answer.call_id for answer in node.answers if answer.call_id not in ran])
    ids.discard(None)
    given = Given(ids, without_id)
    needed = _needed_inputs(models, pairs, given)
    if not needed:
        return None
    known = _Known(pairs)
    calls: dict[str, Sequence[CallRequested]] = {}
    lost: list[Reading] = []
    shown_by: dict[str, Node] = {}
    for node, before in needed:
        together = [one for one in models if _run_of(one) == _run_of(node)]
        restored = _Restored(node, before, index, together, known)
        restored.take(history(node.ref.span_id), given)
        calls.update(restored.calls)
        lost += restored.lost
        shown_by.update((reading.ref.span_id, node) for reading in restored.lost)
    return Repair(calls, lost, shown_by) if calls or lost else None


class _Known:
    """The requests of a trace that no call of a history is yet known to be."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        requests = [pair.request for pair in pairs if pair.request is not None]
        self._by_id: dict[str, list[Request]] = {}
        for request in requests:
            if request.call_id is not None:
                self._by_id.setdefault(request.call_id, []).append(request)
        self._requests = requests
        self._taken: set[int] = set()
        # Executions without a known request, and calls restored from another history.
        self._unasked = [pair.execution for pair in pairs if pair.request is None and pair.execution is not None]
        self._restored: set[object] = set()

    def match(self, past: Sequence[_Past], before: Node) -> None:
        """Find the request of each call: by id, else by name and arguments, in the same run first."""
        # Histories of several runs may repeat one another.
        self._taken.clear()
        for one in past:
            alike = self._by_id.get(one.call.call_id, ()) if one.call.call_id is not None else ()
            self._take(one, alike)
        # Some producers give a call another id in a history.
        have_own_ids = any(one.request is not None for one in past)
        left = [
            request
            for request in self._requests
            if id(request) not in self._taken and (request.node.place < before.place or not request.node.is_primary)
        ]
        left.sort(key=lambda request: _run_of(request.node) != _run_of(before))
        for one in past:
            if one.request is None:
                key = _key(one.call)
                alike = [request for request in left if (fold_name(request.name), request.arguments_key) == key]
                if have_own_ids and one.call.call_id is not None:
                    alike = [request for request in alike if request.call_id is None]
                self._take(one, alike)

    def is_shown_elsewhere(self, past: _Past, run: Node | None) -> bool:
        """Return whether another run has the missing call, restored or by its tool's span: it counts once."""
        call = past.call
        if past.request is not None:
            return False
        if (call.call_id or _key(call)) in self._restored:
            return True
        alike = [ran for ran in self._unasked if fold_name(ran.name) == fold_name(call.name)]
        if any(ran.call_id is not None and ran.call_id == call.call_id for ran in alike):
            return False
        found = next((ran for ran in alike if ran.call_id is None or call.call_id is None), None)
        if found is None:
            return False
        self._unasked.remove(found)
        # Equal arguments join a call and its tool's span wherever they are.
        return found.run is not run and found.arguments_key != arguments_key(call.arguments)

    def note(self, past: Iterable[_Past]) -> None:
        """Remember restored calls: another run may have the same in its history."""
        self._restored.update([one.call.call_id or _key(one.call) for one in past if one.request is None])

    def _take(self, past: _Past, requests: Sequence[Request]) -> None:
        for request in requests:
            if id(request) not in self._taken:
                self._taken.add(id(request))
                past.request = request
                return


def _key(call: CallRequested) -> object:
    key = arguments_key(call.arguments)
    return None if key is None else (fold_name(call.name), key)


class _Restored:
    """Restores the outputs before one input of a run from the history in that input."""

    def __init__(
        self, given: Node, before: Node | None, index: NodeIndex, models: Sequence[Node], known: _Known
    ) -> None:
        self._given = given
        self._known = known
        self._outputs = [node for node in models if node.place < given.place]
        self._handed_on = before
        if before is not None:
            self._outputs, models = [before], [before, *models]
        self._inputs = [node for node in models if node.answers or node.user is not None]
        self._started = {execution.call_id: node.time_ns for node in index.executing for execution in node.executions}
        # Spans around model calls show the calls of several outputs, or of the newest alone.
        self._around = _around(models)
        self.calls: dict[str, Sequence[CallRequested]] = {}
        self.lost: list[Reading] = []

    def take(self, history: Sequence[CallRequested | MessageSeen], given: Given) -> None:
        """Compare the history with the outputs that were seen."""
        texts = (seen.text for node in self._inputs for seen in node.messages if seen.role == "user")
        asked = next(texts, None)
        if self._handed_on is not None:
            if not any(type(one) is MessageSeen and one.text == asked for one in history):
                return
            # The first agent was given the same as both.
            given = Given((), 0)
        made = _made_since(history, given, asked)
        turns = [[_Past(call) for call in calls] for _, calls in groupby(made, key=lambda call: call.output)]
        self._known.match([past for turn in turns for past in turn], self._given)
        run = (self._handed_on or self._given).branch.inside
        turns = [[past for past in turn if not self._known.is_shown_elsewhere(past, run)] for turn in turns]
        turns = [turn for turn in turns if turn]
        self._known.note(past for turn in turns for past in turn)
        homes = self._homes(turns)
        # Calls of spans around model calls are moved to outputs of their own.
        moved: dict[int, Request] = {}
        for turn, home in zip(turns, homes, strict=True):
            if home is not None:
                self._complete(home, turn)
            for past in turn:
                request = past.request
                if request is not None and request.node is not home and id(request.node) in self._around:
                    moved[id(request)] = request
        for node in {id(request.node): request.node for request in moved.values()}.values():
            self.calls[node.ref.span_id] = [
                _as_written(request) for request in node.requests if request.alive and id(request) not in moved
            ]
        # An output that no span shows is put right before its first tool, or before the output that followed.
        before_ns = self._given.time_ns
        for turn, home in zip(reversed(turns), reversed(homes), strict=True):
            if home is not None:
                before_ns = min(before_ns, home.time_ns)
                continue
            ran = [self._started[past.call.call_id] for past in turn if past.call.call_id in self._started]
            before_ns = min([before_ns, *ran]) - 1
            self.lost.append(self._output(turn, before_ns))

    def _homes(self, turns: Sequence[Sequence[_Past]]) -> list[Node | None]:
        """Return the output that asked for the calls of each turn; `None` where its span is missing."""
        homes: list[Node | None] = []
        for turn in turns:
            home = next((past.request.node for past in turn if past.request is not None), None)
            homes.append(home if home is None or id(home) not in self._around else None)
        seen = {id(home) for home in homes if home is not None}
        free = [node for node in self._outputs if id(node) not in seen and _is_damaged(node, {})]
        places = [-1 if home is None else home.place for home in homes]
        for at, home in enumerate(homes):
            if home is None:
                # A damaged output may fit between the outputs of the turns around this one.
                after = max(places[:at], default=-1)
                before = min([place for place in places[at:] if place >= 0], default=self._given.place)
                fitting = next((node for node in free if after < node.place < before), None)
                if fitting is not None:
                    free.remove(fitting)
                    homes[at], places[at] = fitting, fitting.place
        return homes

    def _complete(self, home: Node, turn: Sequence[_Past]) -> None:
        """Give an output the calls of its turn in place of garbled ones."""
        if home.model_call is None or home.from_log_only:
            return
        if all(
            past.request is not None and not _is_garbled(past) and id(past.request.node) not in self._around
            for past in turn
        ):
            return
        own = {id(past.request) for past in turn}
        names = [fold_name(past.call.name) for past in turn]
        missing = {fold_name(past.call.name) for past in turn if past.request is None}
        kept = [
            _as_written(request)
            for request in home.requests
            if request.alive and id(request) not in own and not _is_made_of(request, names, missing)
        ]
        agent = home.model_call.agent
        self.calls[home.ref.span_id] = [
            replace(call, position=position)
            for position, call in enumerate([*[_restored(past, agent) for past in turn], *kept])
        ]

    def _output(self, turn: Sequence[_Past], time_ns: int) -> Reading:
        given = self._given
        shown = given.first
        start_ns = time_ns - given.time_ns + shown.start_ns
        agent = given.model_call.agent if given.model_call is not None else None
        return Reading(
            ref=restored_ref(shown.ref, len(self.lost)),
            is_log=True,
            parent_span_id=None,
            parent_is_remote=None,
            start_ns=start_ns,
            end_ns=start_ns,
            service=shown.service,
            scope=shown.scope,
            dialect=None,
            status="unset",
            observations=tuple([_restored(past, agent) for past in turn]),
            size_bytes=0,
            resource=shown.resource,
        )


def _made_since(history: Sequence[CallRequested | MessageSeen], given: Given, asked: str | None) -> list[CallRequested]:
    """Return the calls after the text `asked`, or after the newest user text, without those `given`."""
    made: list[CallRequested] = []
    earlier = given.without_id
    has_asked = False
    for one in history:
        if type(one) is MessageSeen:
            if one.text == asked or not has_asked:
                has_asked = has_asked or one.text == asked
                made.clear()
        elif type(one) is CallRequested:
            if one.call_id is None and earlier:
                earlier -= 1
            elif one.call_id is None or one.call_id not in given.ids:
                made.append(one)
    return made


def _is_garbled(past: _Past) -> bool:
    """Return whether the history has arguments that the output lacks or has cut."""
    request, whole = past.request, past.call.arguments
    if request is None:
        return False
    if isinstance(request.arguments, Recorded):
        return request.arguments.value == {} and isinstance(whole, Recorded) and whole.value != {}
    match request.arguments, whole:
        case Unparsed(text=cut), Unparsed(text=text):
            return text != cut
        # The AI SDK puts `{}` into its history for arguments that it could not parse.
        case Unparsed(text=cut), Recorded(value={} as value) if not value:
            return cut.strip() in ("", "{")
        case _:
            return isinstance(whole, Recorded)


def _is_made_of(request: Request, names: Sequence[str], missing: Collection[str]) -> bool:
    """Return whether a garbled call is a piece of missing calls, or several of them joined."""
    name = fold_name(request.name)
    if name in missing:
        return not isinstance(request.arguments, Recorded)
    return any(name in islice(accumulate(names[first:]), 1, None) for first in range(len(names)))


def _restored(past: _Past, agent: str | None) -> CallRequested:
    request, call = past.request, past.call
    if request is None:
        return replace(call, agent=agent, output=None)
    arguments = call.arguments if _is_garbled(past) else request.arguments
    return replace(_as_written(request), call_id=request.call_id or call.call_id, arguments=arguments)


def _as_written(request: Request) -> CallRequested:
    return CallRequested(
        position=request.position,
        name=request.name,
        call_id=request.call_id,
        arguments=request.arguments,
        agent=request.agent,
        usable=request.usable,
        output=request.output,
        by_provider=request.by_provider,
    )
