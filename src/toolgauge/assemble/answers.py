"""Finds the answers to calls, in the history of later model inputs.

Every later input repeats every earlier answer, also from earlier traces; histories are never calls.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from operator import attrgetter

from msgspec import Struct

from toolgauge.assemble.node import Node
from toolgauge.assemble.pairing import Pair
from toolgauge.model.content import NotRecorded
from toolgauge.model.names import fold_name
from toolgauge.model.observations import PAUSED, REFUSED, CallAnswered

# So many answers or calls with one id are compared with each other; of more the order decides.
_MAX_OF_ONE_ID = 64


class _Sighting(Struct, frozen=True, eq=False):
    """The answers with one call id that one span holds, and when they were known."""

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
        # The same by trace, of ids that have several.
        self._sightings_by_trace: dict[str, dict[str, list[_Sighting]]] = {}
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
                own = self._in_trace(pair.call_id, trace_id)
                own_place = after(own, asked_ns, key=_time)
                return next((one for one in own[own_place : own_place + 2] if one is not given), later[0])
        return None

    def _given(self, pair: Pair) -> _Sighting | None:
        """Return the answers to earlier calls with the same id that the asking model was given."""
        asking = pair.asking
        if pair.call_id is None or not asking.is_primary or self._asked[pair.call_id][0] >= asking.time_ns:
            return None
        own = self._in_trace(pair.call_id, asking.ref.trace_id)
        place = bisect_left(own, asking.time_ns, key=_time)
        # Few spans of a trace begin in the same nanosecond.
        together = own[place : place + _MAX_OF_ONE_ID]
        return next((one for one in together if one.node is asking and not one.answers[-1].by_provider), None)

    def _in_trace(self, call_id: str, trace_id: str) -> Sequence[_Sighting]:
        """Return what a trace holds: each of thousands of calls with one id asks for it."""
        by_trace = self._sightings_by_trace.get(call_id)
        if by_trace is None:
            by_trace = self._sightings_by_trace[call_id] = {}
            for one in self._sightings[call_id]:
                by_trace.setdefault(one.node.ref.trace_id, []).append(one)
        return by_trace.get(trace_id, ())

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
                        self._sightings.setdefault(call_id, []).append(_Sighting(node, time_ns, [answer]))
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
