"""`one_effect`: was each change made once? Over the whole conversation, also where a run is resumed, retried or replayed.

A second refund is made by a call that works: no other criterion finds anything wrong with it.
"""

from collections.abc import Iterator
from operator import attrgetter
from typing import ClassVar

from toolgauge.model.content import NotRecorded, Recorded, Unparsed
from toolgauge.model.json import Json
from toolgauge.model.judging import Judged
from toolgauge.model.left_out import RememberedEffects, UserText
from toolgauge.model.notices import OpenCall
from toolgauge.model.outcomes import EFFECT_RULE, Difference, Level, NotEvaluated, Outcome, Scored, Side
from toolgauge.model.ports import Needs
from toolgauge.model.trajectory import ToolCall
from toolgauge.score import effects
from toolgauge.score.effects import Effect, Effects, Histories
from toolgauge.score.facts import Facts, FactsEvaluator
from toolgauge.score.origins.gaps import without_delegated
from toolgauge.score.origins.value_origin import place, values_of
from toolgauge.score.recorded_values import result_value
from toolgauge.score.selection import has_taken_effect, no_object, nothing_to_judge, readable_arguments, shown

_SECOND = 1_000_000_000
_UNITS = ((86_400, "days"), (3600, "h"), (60, "min"))
_MAX_DIFFERENCES = 5
# From so many equal acts on, messages of the user in between do not matter.
_CERTAIN = 3


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

    def outcomes(self, facts: Facts) -> Iterator[Judged]:
        """Yield one outcome for each act."""
        trajectory = facts.trajectory
        earlier = trajectory.earlier
        remembered, texts = (b"", ()) if earlier is None else (earlier.effects, earlier.user_texts)
        acts: set[int] = set()
        for call in self.calls(trajectory):
            if effects.is_act(call, facts, is_named=bool(self.tools)):
                acts.add(call.order)
        is_any = False
        if acts or remembered:
            conversation = _Conversation(facts, Effects(remembered, texts))
            for call in trajectory.calls:
                outcome = conversation.outcome(call) if call.order in acts else conversation.take_back(call)
                if outcome is not None:
                    is_any = True
                    if outcome is _NEW:
                        new = Scored(1.0, f"{shown(call.name)} {_NEW.explanation}")
                        outcome = self._usual.get(call.name) or self._usual.keep(call.name, new)
                    yield call, outcome
            facts.effects = conversation.remembered()
        if not is_any:
            yield None, nothing_to_judge(trajectory) if trajectory.hidden_turns else _NO_ACT

    def while_open(self, call: OpenCall) -> str | None:
        """Return a failure from the third equal act on: the second may be what the user wants."""
        is_act = call.writes and call.has_worked and (bool(self.tools) or call.once_more)
        if call.effects < _CERTAIN or not is_act or not self.names_tool(call.name, writes=True):
            return None
        if not call.arguments or effects.has_idempotency_key(call.arguments):
            return None
        return f"{shown(call.name)} worked {call.effects} times with the same arguments"


_NO_ACT = NotEvaluated(
    reason="no_calls", explanation="no act to judge: no call of a tool that does something once more"
)
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
