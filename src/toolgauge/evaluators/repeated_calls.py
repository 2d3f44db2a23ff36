"""`repeated_calls` and `one_effect`: does the agent go round in circles, and was each change made once? Neither needs a reference.

Only identical calls, found by hashing, have their results compared. A second refund is made by a call that works: no other criterion finds
anything wrong with it. `one_effect` covers the whole conversation, also where a run is resumed, retried or replayed.
"""

from bisect import bisect_right
from collections.abc import Hashable, Mapping, Sequence
from operator import attrgetter
from typing import Annotated, ClassVar

from msgspec import Struct
from pydantic import Field

from toolgauge.model.content import NotRecorded, Recorded, Unparsed
from toolgauge.model.json import Json, canonical
from toolgauge.model.judging import Judged
from toolgauge.model.left_out import RememberedEffects, UserText
from toolgauge.model.notices import OpenCall
from toolgauge.model.outcomes import EFFECT_RULE, Difference, Level, NotEvaluated, Outcome, Scored, Side
from toolgauge.model.ports import Needs
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score import effects
from toolgauge.score.contracts import ToolKinds
from toolgauge.score.effects import Effect, Effects, Histories, is_act
from toolgauge.score.facts import Facts, FactsEvaluator
from toolgauge.score.origins.gaps import without_delegated
from toolgauge.score.origins.value_origin import place, values_of
from toolgauge.score.recorded_values import Contents, lasting, result_value
from toolgauge.score.selection import (
    has_taken_effect,
    no_object,
    nothing_to_judge,
    readable_arguments,
    shown,
    unseen_arguments,
)

# So many identical calls without new content, among others with new content, count as one call; the fifth is the first below 1/2.
_STALE = 2
# More identical calls with new content each lower the value, never below 1/2: the length of a run is for `budget`.
_FRESH = 20
# So many identical calls are a loop, also in an open run.
_LOOP = 10
_SMALL = 1e9
_UNREPEATED = "was not called with these arguments before, or something has changed since"


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

    def outcomes(self, facts: Facts) -> list[Judged]:
        """Return one outcome a call."""
        trajectory, may_repeat = facts.trajectory, facts.kinds.may_repeat
        writing = trajectory.writing_tools

        def is_judged(call: ToolCall) -> bool:
            is_done = call.name in writing and has_taken_effect(call) and is_act(call, facts)
            return not (is_done or may_repeat(call.name))

        calls = list(filter(is_judged, self.calls(trajectory)))
        if not calls:
            return [(None, nothing_to_judge(trajectory))]
        made: Sequence[ToolCall] = trajectory.calls
        if self.failed_calls != "count":
            made = [call for call in made if not call.has_failed]
        numbers = _numbers(trajectory, calls if self.tools is None else list(filter(is_judged, made)))
        repeats: Mapping[int, _Repeat] = {}
        # Most trajectories have no identical calls, and then nothing else needs to be looked at.
        if len(set(numbers.values())) < len(numbers):
            repeats = _Watch(trajectory, facts.kinds, self.retries).repeats(made, numbers)
        new = self._usual
        outcomes: list[Judged] = []
        for call in calls:
            repeat = repeats.get(call.order)
            outcome = None if call.order in numbers else unseen_arguments(call)
            outcome = outcome or (new.get(call.name) if repeat is None else _outcome(call, repeat))
            outcomes.append((call, outcome or new.keep(call.name, Scored(1.0, f"{shown(call.name)} {_UNREPEATED}"))))
        return outcomes

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
    histories = Histories(trajectory)
    known: dict[Hashable, int] = {}
    numbers: dict[int, int] = {}
    for call in calls:
        if unseen_arguments(call) is None:
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


_SECOND = 1_000_000_000
_UNITS = ((86_400, "days"), (3600, "h"), (60, "min"))
_MAX_DIFFERENCES = 5
# From so many equal acts on, messages of the user in between do not matter.
_CERTAIN = 3
_NO_ACT = NotEvaluated(
    reason="no_calls", explanation="no act to judge: no call of a tool that does something once more"
)


class OneEffect(FactsEvaluator):
    """1 for an act that was made once, 0 for one made again whose result names another id or number, 1/2 for the same result.

    An act is a call of a tool that changes state, and whose name shows that each call does something once more, or that `tools`
    names; with arguments, and without an error. It is made again by an equal call of the same conversation: 1/2 for the second
    with the same result, 1/3 for the third, because the tool may have done it once. Where a message of the user in between may
    ask for another, the call is `undecided`. After a call that takes the first effect back, it counts as new.

    Parts: `identical`, how many equal calls worked by now; `may_have_happened_twice` of a call that worked after an equal one
    whose answer was lost.
    """

    version: ClassVar[str] = "1"
    level: ClassVar[Level] = "call"
    needs: ClassVar[Needs] = Needs(reference="none", recent_offer=True, earlier_traces=True)

    def outcomes(self, facts: Facts) -> list[Judged]:
        """Return one outcome for each act."""
        trajectory = facts.trajectory
        earlier = trajectory.earlier
        remembered, texts = (b"", ()) if earlier is None else (earlier.effects, earlier.user_texts)
        writing, is_named = trajectory.writing_tools, bool(self.tools)
        calls = [call for call in self.calls(trajectory) if call.name in writing]
        acts = {call.order for call in calls if effects.is_act(call, facts, is_named=is_named)}
        outcomes: list[Judged] = []
        if acts or remembered:
            conversation = _Conversation(facts, Effects(remembered, texts))
            for call in trajectory.calls:
                outcome = conversation.outcome(call) if call.order in acts else conversation.take_back(call)
                if outcome is not None:
                    if outcome is _NEW:
                        new = Scored(1.0, f"{shown(call.name)} {_NEW.explanation}")
                        outcome = self._usual.get(call.name) or self._usual.keep(call.name, new)
                    outcomes.append((call, outcome))
            facts.effects = conversation.remembered()
        return outcomes or [(None, nothing_to_judge(trajectory) if trajectory.hidden_turns else _NO_ACT)]

    def while_open(self, call: OpenCall) -> str | None:
        """Return a failure from the third equal act on: the second may be what the user wants."""
        is_act = call.writes and call.has_worked and (bool(self.tools) or call.once_more)
        if call.effects < _CERTAIN or not is_act or not self.names_tool(call.name, writes=True):
            return None
        if not call.arguments or effects.has_idempotency_key(call.arguments):
            return None
        return f"{shown(call.name)} worked {call.effects} times with the same arguments"


_NEW = Scored(1.0, "was not called with these arguments before")


class _Conversation:
    """Goes through the messages and calls of a trajectory in their order, with the effects so far."""

    def __init__(self, facts: Facts, known: Effects) -> None:
        trajectory = self._trajectory = facts.trajectory
        self._error_texts = facts.error_texts.kinds
        self._effects = known
        self._calls: dict[str, ToolCall] = {}
        messages = [one for one in without_delegated(trajectory).messages if one.role != "system"]
        # The next comes last.
        self._messages = sorted(messages, key=attrgetter("turn"))[::-1]
        self._questions = ""
        self._texts: list[str] = []
        # Without a conversation's id, the runs of a trace may be those of several users.
        self._histories = Histories(trajectory) if trajectory.conversation_id is None else None

    def outcome(self, call: ToolCall) -> Outcome | None:
        """Judge an act; `None` for one that did nothing."""
        arguments, has_worked = readable_arguments(call), self._has_worked(call)
        if not has_worked and not effects.was_lost(call.error):
            return None
        if arguments is None:
            return no_object(call)
        if effects.has_idempotency_key(arguments):
            return _NEW if has_worked else None
        self._hear(call.turn)
        run = None if self._histories is None else self._histories.outermost(call)
        digest = effects.equal_calls(call.name, arguments, "" if run is None else run.span_id)
        before, result = self._effects.find(digest), _result(call)
        if not has_worked and before is not None:
            return None
        self._effects.take_back(call, arguments, but=digest)
        times = 1 if before is None or before.may_be_asked else before.times + before.has_worked
        self._effects.add(digest, effects.effect(call, arguments, result, has_worked=has_worked, times=times))
        first, self._calls[digest] = self._calls.get(digest), call
        if not has_worked:
            return None
        return _NEW if before is None else self._again(call, result, before, first)

    def take_back(self, call: ToolCall) -> None:
        """Forget the effects that a call other than an act takes back."""
        if call.name in self._trajectory.writing_tools and self._has_worked(call):
            self._effects.take_back(call, readable_arguments(call) or {})

    def remembered(self) -> RememberedEffects:
        """Return what later traces of the conversation are judged by."""
        self._hear(None)
        # A question may be answered there.
        last = (UserText("", self._questions, 0, is_new=True),) if self._questions else ()
        return self._effects.written(), (*self._effects.user_texts, *last)

    def _has_worked(self, call: ToolCall) -> bool:
        """Return whether a call was seen to work; one that only reads like an error may have done nothing."""
        is_answered = call.state == "executed" or not isinstance(call.result, NotRecorded)
        return is_answered and has_taken_effect(call) and call.order not in self._error_texts

    def _again(self, call: ToolCall, result: Json, before: Effect, first: ToolCall | None) -> Outcome:
        """Judge an act that was made before, with the same arguments; `first` is `None` for one of an earlier trace."""
        name, times = shown(call.name), before.times + 1
        if not before.has_worked:
            explanation = f"{name} worked after an equal call whose answer was lost: it may have happened twice"
            return Scored(1.0, explanation, {"may_have_happened_twice": 1})
        where = "in an earlier trace of the conversation" if first is None else f"in call {first.order + 1}"
        again = f"{name} was called with the same arguments as {where}"
        if before.end_ns and call.start_ns:
            seconds = max(0, call.start_ns - before.end_ns) / _SECOND
            size, unit = next(((size, unit) for size, unit in _UNITS if seconds >= 2 * size), (1, "s"))
            again += f", {seconds / size:.{int(seconds < 1)}f} {unit} apart"
        if before.may_be_asked or any(effects.asks_for_several(text, call.name) for text in self._texts):
            return NotEvaluated(reason="undecided", explanation=f"{again}; a message of the user may have asked for it")
        earlier, is_other_trace = self._trajectory.earlier, first is None or first.span.trace_id != call.span.trace_id
        has_gap = first is None and earlier is not None and earlier.gap == "incomplete"
        if has_gap or (is_other_trace and not self._effects.has_user):
            return NotEvaluated(reason="undecided", explanation=f"{again}; messages in between may not have been seen")
        parts = {"identical": times}
        values = effects.names_another(before, result)
        if values is None:
            how = "the result was not recorded" if result is None or before.rest < 0 else "its result says the same"
            return Scored(1 / times, f"{again}; {how}", parts)
        old = {} if first is None else {one.steps: one.content for one in values_of(_result(first))}
        differences = tuple(
            Difference(
                where=f"{call.name}: {place(one.steps)}" if one.steps else call.name,
                rule=EFFECT_RULE,
                expected=Side(value=old[one.steps]) if one.steps in old else None,
                actual=Side(value=one.content),
            )
            for one in values[:_MAX_DIFFERENCES]
        )
        places = ", ".join(dict.fromkeys(shown(place(one.steps)) for one in values[:_MAX_DIFFERENCES] if one.steps))
        return Scored(0.0, f"{again}, and its result names another {places or 'id or number'}", parts, differences)

    def _hear(self, turn: int | None) -> None:
        """Take in the messages up to a turn of calls."""
        while self._messages and (turn is None or self._messages[-1].turn <= turn):
            message = self._messages.pop()
            if message.role == "assistant":
                self._questions = effects.questions(message.text) if "?" in message.text else ""
                continue
            turns = self._trajectory.earlier_turns
            # In the same trace, or in the input of a later one, the user wrote it twice.
            is_new = message.text in self._texts or (turns is not None and turns.user.count(message.text) > 1)
            self._texts.append(message.text)
            self._effects.user_texts.append(UserText(message.text, self._questions, message.time_ns, is_new))
            self._questions = ""


def _result(call: ToolCall) -> Json:
    """Return the value of a result; `None` where it was not recorded, or cut off."""
    result = call.result
    if isinstance(result, Recorded):
        return result_value(result.value)
    return result.text if isinstance(result, Unparsed) and result.reason != "truncated" else None
