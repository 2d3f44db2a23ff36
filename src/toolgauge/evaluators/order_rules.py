"""`order_rules`: were calls made in the order, and no more often, than rules allow? Needs no reference."""

import re
from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from operator import attrgetter
from typing import Annotated, ClassVar, TypeAlias

from msgspec import Struct
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag

from toolgauge.model.expected import Expected
from toolgauge.model.json import leaves
from toolgauge.model.outcomes import Difference, Errored, Level, NotEvaluated, Outcome, Scored
from toolgauge.model.ports import Evaluation, Needs
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.call_patterns import CallPattern, Match, not_empty
from toolgauge.score.patterns import Pattern, regular_expression
from toolgauge.score.recorded_values import written
from toolgauge.score.selection import (
    FailedCalls,
    first_notes,
    has_taken_effect,
    hidden_calls,
    nothing_to_judge,
    readable_arguments,
    shown,
)

# Closed for want of room or time, or with spans missing: a missing call may have come later.
_CUT_SHORT = frozenset(("max_duration", "max_open", "max_open_bytes", "memory", "shutdown", "open_idle"))
_UNFINISHED = NotEvaluated(reason="incomplete", explanation="the trajectory was closed before its end")
_NOTHING = NotEvaluated(reason="nothing_expected", explanation="no rule had a call to judge")
_MAX_RULES = 100
_MAX_NAME = 80
_MAX_TEXT = 10_000
_DESCRIBED = 5
_MAX_DIFFERENCES = 50

# The user's confirmation, read in favour of the agent: the agent had named the call, and then the user spoke. A message names a call
# when it holds all words of one of its argument values, or, if the agent named no value, a word of the tool's name, unless the last
# message of the user is the first to name a value: then the user asked for the call. Only messages before the call count.
_WORD = re.compile(r"\w+")
_NAME_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SHORTEST_VALUE = 2
_SHORTEST_NAME = 3
_MAX_VALUES = 200
_MAX_WORDS = 50
_LONGEST_NAME = 256

_NO_USER = NotEvaluated(reason="no_content", explanation="no message of the user was recorded")
_NO_REPLY = NotEvaluated(
    reason="no_content",
    explanation="the agent named the call, and a reply that repeats the one before is recorded once",
)
_OTHER_TRACES = NotEvaluated(
    reason="incomplete", explanation="the agent may have asked in another trace of the conversation"
)
_CUT = NotEvaluated(reason="truncated", explanation="texts were cut, in which the agent may have named the call")

# Why a rule cannot be judged.
Doubt: TypeAlias = NotEvaluated | Errored


class Dialogue:
    """The messages of user and agent, with an index of the first message of each that holds a word."""

    __slots__ = ("_agent", "_agent_words", "_doubt", "_turns", "_user", "_user_words")

    def __init__(self, trajectory: Trajectory) -> None:
        spoken = [message for message in trajectory.messages if message.role != "system"]
        self._turns = [message.turn for message in spoken]
        self._user = [(place, message.text) for place, message in enumerate(spoken) if message.role == "user"]
        self._agent = [place for place, message in enumerate(spoken) if message.role == "assistant"]
        self._user_words: dict[str, int] = {}
        self._agent_words: dict[str, int] = {}
        for place, message in enumerate(spoken):
            first = self._user_words if message.role == "user" else self._agent_words
            for word in _WORD.findall(message.text.casefold()):
                first.setdefault(word, place)
        # Why the agent may have named a call that it is not seen to have named.
        self._doubt: NotEvaluated | None = None
        is_part = trajectory.scope == "trace" and trajectory.conversation_id is not None
        if trajectory.left_out.texts:
            self._doubt = _CUT
        elif trajectory.has_beginning is False or (trajectory.has_beginning is None and is_part):
            self._doubt = _OTHER_TRACES

    def answers(self, agreeing: Pattern | None) -> tuple[int, ...]:
        """Return the places of the user's messages that agree; without a pattern, of all of them."""
        return tuple(place for place, text in self._user if agreeing is None or agreeing.matches(text))

    def confirmation(self, call: ToolCall, answers: Sequence[int]) -> bool | NotEvaluated:
        """Return whether an answer was given after the agent named the call and before the call; `NotEvaluated` if not known."""
        if not self._user:
            return _NO_USER
        known = bisect_left(self._turns, call.turn + 1)
        # The words of each argument value that can be looked for.
        words_of = (
            _WORD.findall(written(leaf).casefold())[:_MAX_WORDS] for leaf in leaves(readable_arguments(call) or {})
        )
        values = list(
            islice((some for some in words_of if max(map(len, some), default=0) >= _SHORTEST_VALUE), _MAX_VALUES)
        )
        asked = min(_places(values, self._agent_words), default=None)
        # The place of the last message of the user, and of the agent's last one before it.
        before = bisect_left(self._user, (known, ""))
        last = self._user[before - 1][0] if before else -1
        before = bisect_left(self._agent, last)
        since = self._agent[before - 1] if before else -1
        is_request = any(since < place <= last for place in _places(values, self._user_words))
        if (asked is None or asked > last) and not is_request:
            names = _NAME_WORD.findall(call.name[:_LONGEST_NAME])
            words = [[word.casefold()] for word in names if len(word) >= _SHORTEST_NAME]
            named = min(_places(words, self._agent_words), default=None)
            asked = min((place for place in (asked, named) if place is not None), default=None)
        if asked is None or asked >= known:
            return False if self._doubt is None else self._doubt
        place = bisect_left(answers, asked)
        if place < len(answers) and answers[place] < known:
            return True
        return False if asked < last else _NO_REPLY


def _places(values: Iterable[Sequence[str]], first: dict[str, int]) -> Iterator[int]:
    """Yield the first place by which all words of a value occurred, for each value with such a place."""
    for words in values:
        places = [first.get(word, -1) for word in words]
        if min(places) >= 0:
            yield max(places)


class Ledger:
    """The findings of one rule, call by call: how many calls it judged, and the calls that break it."""

    def __init__(self, trajectory: Trajectory, dialogue: Dialogue | None) -> None:
        self.trajectory = trajectory
        # `None` where no rule asks for the user's confirmation.
        self.dialogue = dialogue
        self.judged = 0
        # Each call that breaks the rule, and how.
        self.breaches: list[tuple[ToolCall, str]] = []
        self.doubt: Doubt | None = None
        self._unseen: Doubt | None = None

    def match(self, pattern: CallPattern, call: ToolCall) -> Match:
        """Match a call; keep the reason of an uncertain match, should it matter."""
        sight = pattern.sight(call, self.trajectory)
        self._unseen = self._unseen or sight.doubt
        return sight.match

    def judge(self, call: ToolCall, *, bound: Match, meets: Match, how: str) -> None:
        """Enter a call that the rule binds, and whether it meets the rule."""
        if bound is Match.YES and meets is not Match.UNSEEN:
            self.judged += 1
            if meets is Match.NO:
                self.breaches.append((call, how))
        elif bound is not Match.NO and meets is not Match.YES:
            self.doubt = self.doubt or self._unseen


class _Rule(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: ClassVar[str]
    # Whether calls that were not seen cannot excuse a breach.
    is_certain: ClassVar[bool] = True

    name: Annotated[str, Field(min_length=1, max_length=_MAX_NAME)] | None = None

    @abstractmethod
    def review(self, turns: Sequence[Sequence[ToolCall]], ledger: Ledger) -> None:
        """Enter the calls of all turns into the ledger, in one pass."""


def _follow(
    turns: Iterable[Sequence[ToolCall]],
    ledger: Ledger,
    bound: CallPattern,
    other: CallPattern,
    how: str,
    *,
    must_follow: bool,
) -> None:
    """Enter the calls of `bound`: an earlier turn must have a call of `other` that worked, or may have no call of `other`."""
    made = Match.NO
    for turn in turns:
        made_here = Match.NO
        for call in turn:
            match = ledger.match(other, call)
            meets = made if must_follow else made.negated
            # A call that both sides mean is not bound.
            ledger.judge(call, bound=min(ledger.match(bound, call), match.negated), meets=meets, how=how)
            if has_taken_effect(call) or not must_follow:
                made_here = max(made_here, match)
        made = max(made, made_here)


class Before(_Rule):
    """Every call of `before` needs a call of `call` that worked in an earlier turn."""

    kind: ClassVar[str] = "before"
    is_certain: ClassVar[bool] = False

    before: CallPattern
    call: CallPattern

    def review(self, turns: Sequence[Sequence[ToolCall]], ledger: Ledger) -> None:
        """Remember whether the awaited call was made."""
        _follow(turns, ledger, self.before, self.call, f"without {self.call} before it", must_follow=True)


class After(_Rule):
    """Every call of `after` that worked needs a call of `call` that worked in a later turn."""

    kind: ClassVar[str] = "after"
    is_certain: ClassVar[bool] = False

    after: CallPattern
    call: CallPattern

    def review(self, turns: Sequence[Sequence[ToolCall]], ledger: Ledger) -> None:
        """Go backwards, and remember whether the later call was made."""
        worked = ([call for call in turn if has_taken_effect(call)] for turn in reversed(turns))
        _follow(worked, ledger, self.after, self.call, f"without {self.call} after it", must_follow=True)
        ledger.breaches.reverse()


class NeverBefore(_Rule):
    """No call of `call` may be in an earlier turn than a call of `never_before`."""

    kind: ClassVar[str] = "never_before"

    never_before: CallPattern
    call: CallPattern

    def review(self, turns: Sequence[Sequence[ToolCall]], ledger: Ledger) -> None:
        """Remember whether the early call was made."""
        _follow(turns, ledger, self.never_before, self.call, f"after {self.call}", must_follow=False)


class Never(_Rule):
    """No call of `never` at all."""

    kind: ClassVar[str] = "never"

    never: CallPattern

    def review(self, turns: Sequence[Sequence[ToolCall]], ledger: Ledger) -> None:
        """Look for one."""
        for turn in turns:
            for call in turn:
                ledger.judge(call, bound=ledger.match(self.never, call), meets=Match.NO, how="must never be called")
        ledger.judged += 1


class AtMost(_Rule):
    """No more than so many calls of `call`."""

    kind: ClassVar[str] = "at_most"

    at_most: Annotated[int, Field(ge=1, le=1_000_000_000)]
    call: CallPattern

    def review(self, turns: Sequence[Sequence[ToolCall]], ledger: Ledger) -> None:
        """Count the calls that are meant, and those that may be meant."""
        certain = possible = 0
        for turn in turns:
            for call in turn:
                match = ledger.match(self.call, call)
                certain += match is Match.YES
                possible += match is not Match.NO
                left = Match.NO if certain > self.at_most else Match.UNSEEN if possible > self.at_most else Match.YES
                ledger.judge(call, bound=match, meets=left, how=f"beyond {self.at_most}")
        ledger.judged += 1


class RequiresConfirmation(_Rule):
    """Before every call the user must have spoken after the agent named it; `yes` is a pattern for what the user wrote."""

    kind: ClassVar[str] = "requires_confirmation"

    requires_confirmation: CallPattern
    # RE2 over the whole text of a message.
    yes: (
        Annotated[str, Field(max_length=_MAX_TEXT), AfterValidator(lambda yes: regular_expression(yes).text)] | None
    ) = None

    def review(self, turns: Sequence[Sequence[ToolCall]], ledger: Ledger) -> None:
        """Look for the user's answer to each call."""
        dialogue = ledger.dialogue
        if dialogue is None:
            return
        answers = dialogue.answers(None if self.yes is None else regular_expression(self.yes))
        for turn in turns:
            for call in turn:
                bound = ledger.match(self.requires_confirmation, call)
                if bound is Match.NO:
                    continue
                given = dialogue.confirmation(call, answers)
                if isinstance(given, NotEvaluated):
                    ledger.doubt = ledger.doubt or given
                    continue
                meets = Match.YES if given else Match.NO
                ledger.judge(call, bound=bound, meets=meets, how="without the user's confirmation")


_RULES: Mapping[str, type[_Rule]] = {
    rule.kind: rule for rule in (Before, After, NeverBefore, Never, AtMost, RequiresConfirmation)
}
_KINDS = ", ".join(f"`{kind}`" for kind in _RULES)


def _class(written: object) -> str | None:
    """Return the name of a rule's class; the one key that is a kind decides."""
    if isinstance(written, _Rule):
        return type(written).__name__
    found = [rule for kind, rule in _RULES.items() if isinstance(written, Mapping) and kind in written]
    return found[0].__name__ if len(found) == 1 else None


def _has_kind(written: object) -> object:
    if _class(written) is None:
        raise ValueError(f"must be a mapping with exactly one of {_KINDS}")
    return written


Rule: TypeAlias = Annotated[
    Annotated[
        Annotated[Before, Tag("Before")]
        | Annotated[After, Tag("After")]
        | Annotated[NeverBefore, Tag("NeverBefore")]
        | Annotated[Never, Tag("Never")]
        | Annotated[AtMost, Tag("AtMost")]
        | Annotated[RequiresConfirmation, Tag("RequiresConfirmation")],
        Discriminator(_class),
    ],
    BeforeValidator(_has_kind),
]


class OrderRules(BaseModel):
    """The share of the rules with something to judge that hold.

    A forbidden act counts when it was tried: a call that failed breaks `never` as any other does. A required act counts
    when it worked: a failed call neither meets `before` and `after` nor needs a call after it.
    `failed_calls: ignore` leaves failed calls out altogether. Calls of one turn have no order among each other: none is
    before or after another. A call that both sides of a rule mean is not bound by it.

    Parts: `applied`, `violated`, and both for each kind of rule.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    version: ClassVar[str] = "1"
    level: ClassVar[Level] = "trajectory"

    rules: Annotated[tuple[Rule, ...], Field(max_length=_MAX_RULES), AfterValidator(not_empty)]
    failed_calls: FailedCalls = "count"

    @property
    def needs(self) -> Needs:
        """The needs of its rules."""
        patterns = [one for rule in self.rules for _, one in rule if isinstance(one, CallPattern)]
        attributes = tuple(dict.fromkeys(key for pattern in patterns for key in pattern.attributes))
        return Needs(reference="none", attributes=attributes, tools_in="rules", titled=("rules",))

    def names_call(self, trajectory: Trajectory) -> bool:
        """Return whether any rule has a call to judge, or needs none."""
        bound = [getattr(rule, rule.kind) for rule in self.rules]
        return any(
            isinstance(rule, Never | AtMost) or any(map(pattern.names, trajectory.calls))
            for rule, pattern in zip(self.rules, bound, strict=True)
        )

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:  # noqa: ARG002 (no reference needed)
        """Yield one outcome for the trajectory."""
        calls = trajectory.calls
        if self.failed_calls == "ignore":
            calls = tuple(call for call in calls if not call.has_failed)
        if not calls:
            yield None, nothing_to_judge(trajectory)
            return
        turns = tuple(tuple(turn) for _, turn in groupby(calls, key=attrgetter("turn")))
        asks_people = any(isinstance(rule, RequiresConfirmation) for rule in self.rules)
        dialogue = Dialogue(trajectory) if asks_people else None
        verdicts = [
            _verdict(place, rule, turns, Ledger(trajectory, dialogue)) for place, rule in enumerate(self.rules, 1)
        ]
        yield None, _joined(verdicts)


class _Verdict(Struct, frozen=True):
    """The outcome of one rule; `doubt` is the reason where it cannot be judged."""

    title: str
    kind: str
    applied: bool
    breaches: Sequence[tuple[ToolCall, str]]
    doubt: Doubt | None


def _verdict(number: int, rule: _Rule, turns: Sequence[Sequence[ToolCall]], ledger: Ledger) -> _Verdict:
    rule.review(turns, ledger)
    breaches, doubt, trajectory = ledger.breaches, ledger.doubt, ledger.trajectory
    if breaches and isinstance(rule, After) and trajectory.closed_because in _CUT_SHORT:
        breaches, doubt = [], _UNFINISHED
    if trajectory.hidden_turns:
        breaches, doubt = breaches if rule.is_certain else [], hidden_calls(trajectory)
    applied = bool(breaches) or (doubt is None and ledger.judged > 0)
    title = f"rule {number}" if rule.name is None else f"rule {number} {shown(rule.name)}"
    if breaches:
        doubt = None
    elif isinstance(doubt, NotEvaluated):
        doubt = NotEvaluated(reason=doubt.reason, explanation=f"{title}: {doubt.explanation}")
    elif doubt is not None:
        doubt = Errored(error_type=doubt.error_type, message=f"{title}: {doubt.message}")
    return _Verdict(title, rule.kind, applied, breaches, doubt)


def _joined(verdicts: Sequence[_Verdict]) -> Outcome:
    applied = [verdict for verdict in verdicts if verdict.applied]
    violated = [verdict for verdict in applied if verdict.breaches]
    doubts = [verdict.doubt for verdict in verdicts if verdict.doubt is not None]
    if not violated and doubts:
        # Without it, a run whose calls were not seen would pass.
        return doubts[0]
    if not applied:
        return _NOTHING
    notes: list[str] = []
    differences: list[Difference] = []
    for verdict in violated:
        (first, how), more = verdict.breaches[0], len(verdict.breaches) - 1
        others = f", and {more} more" if more else ""
        notes.append(f"{verdict.title}: {shown(first.name)} (call {first.order + 1}) {how}{others}")
        for call, how in verdict.breaches:
            where = f"call {call.order + 1}: {call.name}, {verdict.title}: {how}"
            differences.append(Difference(where=where, rule=verdict.kind))
    held = len(applied) - len(violated)
    unjudged = [f"{len(doubts)} more could not be judged"] if doubts else []
    parts: dict[str, float] = {"applied": len(applied), "violated": len(violated)}
    for name, some in (("applied", applied), ("violated", violated)):
        for kind in _RULES:
            if any(verdict.kind == kind for verdict in applied):
                parts[f"{kind}_{name}"] = sum(verdict.kind == kind for verdict in some)
    broken = first_notes(notes, _DESCRIBED, "more rules are broken")
    return Scored(
        value=held / len(applied),
        explanation="; ".join([f"{held} of {len(applied)} rules hold", *broken, *unjudged]),
        parts=parts,
        differences=tuple(differences[:_MAX_DIFFERENCES]),
    )
