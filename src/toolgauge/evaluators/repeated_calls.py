"""`repeated_calls`: does the agent go round in circles? Only identical calls, found by hashing, have their results compared."""

from bisect import bisect_right
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Annotated, ClassVar

from msgspec import Struct
from pydantic import Field

from toolgauge.model.content import NotRecorded, Recorded, Unparsed
from toolgauge.model.json import canonical
from toolgauge.model.judging import Judged
from toolgauge.model.notices import OpenCall
from toolgauge.model.outcomes import Level, Scored
from toolgauge.model.ports import Needs
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.contracts import ToolKinds
from toolgauge.score.effects import Histories, is_act
from toolgauge.score.facts import Facts, FactsEvaluator
from toolgauge.score.recorded_values import Contents, lasting, result_value
from toolgauge.score.selection import has_taken_effect, nothing_to_judge, readable_arguments, shown, unseen_arguments

# So many identical calls without new content, among others with new content, count as one call; the fifth is the first below 1/2.
_STALE = 2
# More identical calls with new content each lower the value, never below 1/2: the length of a run is for `budget`.
_FRESH = 20
# So many identical calls are a loop, also in an open run.
_LOOP = 10
_SMALL = 1e9
_NEW = "was not called with these arguments before, or something has changed since"


class RepeatedCalls(FactsEvaluator):
    """1 for a call that is new, 1/2 for the first repeat of it, 1/3 for the second and so on.

    A repeat is an identical call (same agent, tool and arguments) with nothing changed in between: no state-changing call
    has succeeded, no tool that waits or polls (`tools`) and no hand-off was called, and the result is the same, apart
    from times, durations, counters, request ids and order, or not known. A state-changing call with the same result as the
    identical one before it changes nothing, unless the user wrote something in between. Identical calls of one turn were asked for at once: they are repeats whatever
    their results. Acts that worked are for `one_effect`.

    A result with new content is progress: pages, states, screens. Results that come back among others count half: of calls
    without new content, the third is 2/3, the fourth 1/2 and the fifth 2/5. Of calls with new content, the twenty-first is
    20/21, the thirtieth 2/3, and none is below 1/2.

    The first `retries` repeats are excused (1) after an error of the call before, or after a message of the user. Where
    results are not known, a message of the user starts a new count.

    Parts of repeats: `identical`, how many identical calls in a row these are by now; `stale` and `fresh`, how many identical
    calls without and with new content there are by now, where these decide.
    """

    version: ClassVar[str] = "4"
    level: ClassVar[Level] = "call"
    needs: ClassVar[Needs] = Needs(reference="none", recent_offer=True)

    # How many identical calls after an error or a message of the user do not count as repeats yet.
    retries: Annotated[int, Field(ge=0, le=100)] = 1

    def outcomes(self, facts: Facts) -> Iterator[Judged]:
        """Yield one outcome a call."""
        trajectory = facts.trajectory

        def is_judged(call: ToolCall) -> bool:
            return not (facts.kinds.may_repeat(call.name) or (has_taken_effect(call) and is_act(call, facts)))

        calls = list(filter(is_judged, self.calls(trajectory)))
        if not calls:
            yield None, nothing_to_judge(trajectory)
            return
        made: Sequence[ToolCall] = trajectory.calls
        if self.failed_calls != "count":
            made = [call for call in made if not call.has_failed]
        numbers = _numbers(trajectory, calls if self.tools is None else list(filter(is_judged, made)))
        repeats: Mapping[int, _Repeat] = {}
        # Most trajectories have no identical calls, and then nothing else needs to be looked at.
        if len(set(numbers.values())) < len(numbers):
            repeats = _Watch(trajectory, facts.kinds, self.retries).repeats(made, numbers)
        new = self._usual
        for call in calls:
            unseen = None if call.order in numbers else unseen_arguments(call)
            if unseen is not None:
                yield call, unseen
            elif call.order in repeats:
                yield call, _outcome(call, repeats[call.order])
            else:
                yield call, new.get(call.name) or new.keep(call.name, Scored(1.0, f"{shown(call.name)} {_NEW}"))

    def while_open(self, call: OpenCall) -> str | None:
        """Return a failure from the tenth identical call on."""
        is_act = call.has_worked and call.writes and call.once_more
        counts = self.names_tool(call.name, writes=call.writes) and (call.has_worked or self.failed_calls == "count")
        if call.identical < _LOOP or is_act or not counts or call.may_repeat:
            return None
        return f"{shown(call.name)} was called {call.identical} times with the same arguments and nothing changed in between"


class _Repeat(Struct, frozen=True):
    """A call that repeats an earlier one; `stale` and `fresh` count the identical calls without and with new content."""

    identical: int
    stale: int
    fresh: int
    before: ToolCall
    is_excused: bool


class _Seen(Struct, frozen=True):
    """The newest of identical calls and their count; `stale` counts those without new content, from turn `since` on."""

    call: ToolCall
    identical: int
    stale: int
    since: int
    contents: Contents
    changes: int
    messages: int


def _numbers(trajectory: Trajectory, calls: list[ToolCall]) -> dict[int, int]:
    """Return numbers by the order of the calls, equal for identical calls; calls with unseen arguments have none."""
    names: set[str] = set()
    repeated: set[str] = set()
    for call in calls:
        (repeated if call.name in names else names).add(call.name)
    histories = Histories(trajectory) if repeated else None
    known: dict[Hashable, int] = {}
    numbers: dict[int, int] = {}
    for call in calls:
        if unseen_arguments(call) is None:
            key: Hashable = call.name
            # A tool that is called once needs no look at its arguments.
            if histories is not None and call.name in repeated:
                key = (call.agent, histories.of(call), call.name, _arguments(call))
            numbers[call.order] = known.setdefault(key, len(known))
    return numbers


def _arguments(call: ToolCall) -> Hashable:
    readable = readable_arguments(call)
    if readable is not None:
        # Most arguments are texts and small numbers. Without it: 6 us more a call.
        others = [one for one in readable.values() if type(one) is not str]
        if all((type(one) is int or type(one) is float) and -_SMALL < one < _SMALL for one in others):
            return frozenset(readable.items())
        return canonical(readable)
    content = call.arguments
    if isinstance(content, Recorded):
        return canonical(content.value)
    return content.text if isinstance(content, Unparsed) else None


class _Watch:
    """Goes through the calls of a trajectory in order and remembers every change."""

    def __init__(self, trajectory: Trajectory, kinds: ToolKinds, retries: int) -> None:
        self._kinds = kinds
        self._retries = retries
        self._writing = trajectory.writing_tools
        self._user_turns = sorted(message.turn for message in trajectory.messages if message.role == "user")
        self._traces: dict[str, int] = {}
        self._changes = 0
        self._changed_turn = -1
        self._seen: dict[int, _Seen] = {}
        # Hashes of results: by the order of the call, and by content.
        self._results: dict[int, int] = {}
        self._hashes: dict[Hashable, int] = {}

    def repeats(self, calls: Sequence[ToolCall], numbers: Mapping[int, int]) -> dict[int, _Repeat]:
        """Return the repeats by the order of the calls; calls without a number are not judged."""
        found: dict[int, _Repeat] = {}
        for call in calls:
            number = numbers.get(call.order)
            if number is None:
                self._see_change(call)
            elif (repeat := self._repeat(call, number)) is not None:
                found[call.order] = repeat
        return found

    def _repeat(self, call: ToolCall, number: int) -> _Repeat | None:
        # The number of user messages before the call; where none was recorded, each trace of a conversation is one.
        traces = self._traces
        messages = (
            bisect_right(self._user_turns, call.turn)
            if self._user_turns
            else traces.setdefault(call.span.trace_id, len(traces))
        )
        seen = self._seen.get(number)
        identical, stale, fresh, since, contents = 1, int(has_taken_effect(call)), 0, call.turn, Contents()
        same = None if seen is None else self._has_same_result(seen.call, call)
        is_apart = seen is None or seen.changes != self._changes
        if seen is not None and not is_apart:
            # Where results are not known, a message of the user starts a new count.
            identical += seen.identical if same or (same is None and seen.messages == messages) else 0
        # Rule: the calls of one turn are asked for at once, so what changes in the first turn is not in between.
        if (
            seen is not None
            and seen.stale
            and not (is_apart and (self._changed_turn > seen.since or call.turn == seen.since))
        ):
            since, contents = seen.since, seen.contents
            if not contents.hashes:
                self._is_new(seen.call, contents)
            is_new = same is False and self._is_new(call, contents)
            fresh, stale = len(contents.hashes) if is_new else 0, seen.stale + (not is_new)
        # A change by the call itself does not make the next identical call a new one.
        if seen is None or same is False or seen.messages != messages:
            self._see_change(call)
        self._seen[number] = _Seen(call, identical, stale, since, contents, self._changes, messages)
        if seen is None or (identical == 1 and stale <= _STALE and fresh <= _FRESH):
            return None
        is_asked_anew = not has_taken_effect(seen.call) or seen.messages != messages
        is_excused = is_asked_anew and seen.call.turn != call.turn and identical <= self._retries + 1
        return _Repeat(identical, stale, fresh, seen.call, is_excused)

    def _see_change(self, call: ToolCall) -> None:
        if has_taken_effect(call) and (call.name in self._writing or self._kinds.pauses(call.name)):
            self._changes += 1
            self._changed_turn = call.turn

    def _has_same_result(self, before: ToolCall, call: ToolCall) -> bool | None:
        """Return whether both had the same result, `None` when that is not known."""
        if before.turn == call.turn:
            return True
        has_worked = has_taken_effect(call)
        if not (has_worked and has_taken_effect(before)):
            # The texts of errors hold times and ids.
            return not has_worked and not has_taken_effect(before)
        first, second = self._content(before), self._content(call)
        return None if first is None or second is None else first == second

    def _is_new(self, call: ToolCall, contents: Contents) -> bool:
        """Add the result of a call to those of identical ones; return whether it is new content."""
        content = self._content(call) if has_taken_effect(call) else None
        return content is not None and contents.add(call.result, content, (call.name, call.arguments))

    def _content(self, call: ToolCall) -> int | None:
        """Return the hash of the lasting part of a result."""
        if call.order not in self._results:
            if isinstance(call.result, NotRecorded):
                return None
            content = result_value(call.result.value) if isinstance(call.result, Recorded) else call.result.text
            # Most results are equal as they are. Looking for what lasts in each of them takes five times as long.
            key = canonical(content)
            if key not in self._hashes:
                self._hashes[key] = lasting(content)
            self._results[call.order] = self._hashes[key]
        return self._results[call.order]


def _outcome(call: ToolCall, repeat: _Repeat) -> Scored:
    name, times = shown(call.name), repeat.identical
    value = 1.0 if repeat.is_excused else 1 / times
    parts: dict[str, float] = {"identical": times}
    last = f"the previous one is call {repeat.before.order + 1}"
    if repeat.stale * value > _STALE:
        value = _STALE / repeat.stale
        parts["stale"] = repeat.stale
        explanation = (
            f"{name} was called {repeat.stale} times with the same arguments and no state-changing call in between, "
            f"and its results were none but earlier ones: {last}"
        )
    elif repeat.fresh > _FRESH:
        value = max(0.5, _FRESH / repeat.fresh)
        parts["fresh"] = repeat.fresh
        explanation = f"{name} was called {repeat.fresh} times with the same arguments and had new results: {last}"
    else:
        explanation = (
            f"{name} was called {times} times with the same arguments, and nothing had changed in between: {last}"
        )
    if value == 1:
        explanation += "; excused by an error or a message of the user"
    return Scored(value=value, explanation=explanation, parts=parts)
