"""`order_rules`: were calls made in the order, and no more often, than rules allow? Needs no reference."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from operator import attrgetter
from typing import Annotated, ClassVar, TypeAlias

from msgspec import Struct
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, field_validator

from toolgauge.model.expected import Expected
from toolgauge.model.outcomes import Difference, Errored, Level, NotEvaluated, Outcome, Scored
from toolgauge.model.ports import Evaluation, Needs
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.call_patterns import CallPattern, Match, not_empty, regular_expression
from toolgauge.score.confirmation import Dialogue
from toolgauge.score.patterns import Pattern
from toolgauge.score.selection import FailedCalls, first_notes, has_taken_effect, hidden_calls, nothing_to_judge, shown

# Closed for want of room or time, or with spans missing: a missing call may have come later.
_CUT_SHORT = frozenset(("max_duration", "max_open", "max_open_bytes", "memory", "shutdown", "open_idle"))
_UNFINISHED = NotEvaluated(reason="incomplete", explanation="the trajectory was closed before its end")
_NOTHING = NotEvaluated(reason="nothing_expected", explanation="no rule had a call to judge")
_MAX_RULES = 100
_MAX_NAME = 80
_MAX_TEXT = 10_000
_DESCRIBED = 5
_MAX_DIFFERENCES = 50

# Why a rule cannot be judged.
Doubt: TypeAlias = NotEvaluated | Errored


class Breach(Struct, frozen=True):
    """A call that breaks a rule, and how."""

    call: ToolCall
    how: str


class Ledger:
    """What one rule finds, call by call: how many calls it judged, which break it, and why others cannot be judged."""

    __slots__ = ("_unseen", "breaches", "doubt", "judged", "trajectory")

    def __init__(self, trajectory: Trajectory) -> None:
        self.trajectory = trajectory
        self.judged = 0
        self.breaches: list[Breach] = []
        self.doubt: Doubt | None = None
        self._unseen: Doubt | None = None

    def match(self, pattern: CallPattern, call: ToolCall) -> Match:
        """Match a call; keep the reason why that cannot be seen, should it matter."""
        sight = pattern.sight(call, self.trajectory)
        self._unseen = self._unseen or sight.doubt
        return sight.match

    def judge(self, call: ToolCall, *, bound: Match, meets: Match, how: str) -> None:
        """Enter a call that the rule binds, and whether it meets the rule."""
        if bound is Match.YES and meets is not Match.UNSEEN:
            self.judged += 1
            if meets is Match.NO:
                self.breaches.append(Breach(call, how))
        elif bound is not Match.NO and meets is not Match.YES:
            self.doubt = self.doubt or self._unseen


class _Rule(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: ClassVar[str]
    # Whether a breach that was seen is one whatever was not seen.
    is_certain: ClassVar[bool] = True
    holds_without_calls: ClassVar[bool] = False

    name: Annotated[str, Field(min_length=1, max_length=_MAX_NAME)] | None = None

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes of the trace that its patterns ask for."""
        return tuple(key for _, pattern in self if isinstance(pattern, CallPattern) for key in pattern.attributes)

    @property
    def bound(self) -> CallPattern | None:
        """The calls without which there is nothing to judge; `None` where the rule holds without any."""
        pattern = dict(self).get(self.kind)
        return pattern if isinstance(pattern, CallPattern) and not self.holds_without_calls else None

    @abstractmethod
    def review(self, turns: Sequence[Sequence[ToolCall]], ledger: Ledger, dialogue: Dialogue | None) -> None:
        """Enter the calls of all turns into the ledger, in one pass."""


class Before(_Rule):
    """Every call of `before` needs a call of `call` that worked in an earlier turn."""

    kind: ClassVar[str] = "before"
    is_certain: ClassVar[bool] = False

    before: CallPattern
    call: CallPattern

    def review(self, turns: Sequence[Sequence[ToolCall]], ledger: Ledger, dialogue: Dialogue | None) -> None:  # noqa: ARG002 (calls alone decide)
        """Remember whether the awaited call was made."""
        made, how = Match.NO, f"without {self.call} before it"
        for turn in turns:
            made_here = Match.NO
            for call in turn:
                awaited = ledger.match(self.call, call)
                ledger.judge(call, bound=min(ledger.match(self.before, call), awaited.negated), meets=made, how=how)
                if has_taken_effect(call):
                    made_here = max(made_here, awaited)
            made = max(made, made_here)


class After(_Rule):
    """Every call of `after` that worked needs a call of `call` that worked in a later turn."""

    kind: ClassVar[str] = "after"
    is_certain: ClassVar[bool] = False

    after: CallPattern
    call: CallPattern

    def review(self, turns: Sequence[Sequence[ToolCall]], ledger: Ledger, dialogue: Dialogue | None) -> None:  # noqa: ARG002 (calls alone decide)
        """Go backwards, and remember whether the call that has to follow was made."""
        made, how = Match.NO, f"without {self.call} after it"
        for turn in reversed(turns):
            made_here = Match.NO
            for call in turn:
                if not has_taken_effect(call):
                    continue
                following = ledger.match(self.call, call)
                ledger.judge(call, bound=min(ledger.match(self.after, call), following.negated), meets=made, how=how)
                made_here = max(made_here, following)
            made = max(made, made_here)
        ledger.breaches.reverse()


class NeverBefore(_Rule):
    """No call of `call` may stand in an earlier turn than a call of `never_before`."""

    kind: ClassVar[str] = "never_before"

    never_before: CallPattern
    call: CallPattern

    def review(self, turns: Sequence[Sequence[ToolCall]], ledger: Ledger, dialogue: Dialogue | None) -> None:  # noqa: ARG002 (calls alone decide)
        """Remember whether the early call was made."""
        made, how = Match.NO, f"after {self.call}"
        for turn in turns:
            made_here = Match.NO
            for call in turn:
                early = ledger.match(self.call, call)
                bound = min(ledger.match(self.never_before, call), early.negated)
                ledger.judge(call, bound=bound, meets=made.negated, how=how)
                made_here = max(made_here, early)
            made = max(made, made_here)


class Never(_Rule):
    """No call of `never` at all."""

    kind: ClassVar[str] = "never"
    holds_without_calls: ClassVar[bool] = True

    never: CallPattern

    def review(self, turns: Sequence[Sequence[ToolCall]], ledger: Ledger, dialogue: Dialogue | None) -> None:  # noqa: ARG002 (calls alone decide)
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

    def review(self, turns: Sequence[Sequence[ToolCall]], ledger: Ledger, dialogue: Dialogue | None) -> None:  # noqa: ARG002 (calls alone decide)
        """Count those that are seen to be meant, and those that may be."""
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
    yes: Annotated[str, Field(max_length=_MAX_TEXT)] | None = None

    @field_validator("yes")
    @classmethod
    def _is_pattern(cls, yes: str | None) -> str | None:
        if yes is not None:
            regular_expression(yes)
        return yes

    @cached_property
    def _agreeing(self) -> Pattern | None:
        return None if self.yes is None else regular_expression(self.yes)

    def review(self, turns: Sequence[Sequence[ToolCall]], ledger: Ledger, dialogue: Dialogue | None) -> None:
        """Look for the user's answer to each call."""
        if dialogue is None:
            return
        answers = dialogue.answers(self._agreeing)
        for turn in turns:
            for call in turn:
                bound = ledger.match(self.requires_confirmation, call)
                if bound is Match.NO:
                    continue
                confirmation = dialogue.confirmation(call, answers)
                if confirmation.unseen is not None:
                    ledger.doubt = ledger.doubt or confirmation.unseen
                    continue
                meets = Match.YES if confirmation.given else Match.NO
                ledger.judge(call, bound=bound, meets=meets, how="without the user's confirmation")


_RULES: Mapping[str, type[_Rule]] = {
    rule.kind: rule for rule in (Before, After, NeverBefore, Never, AtMost, RequiresConfirmation)
}
_KINDS = ", ".join(f"`{kind}`" for kind in _RULES)


def _class(written: object) -> str | None:
    """Name the class of a rule, which the only key of it that is a kind decides."""
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

    What must not be done counts when it was tried: a call that failed breaks `never` as any other does. What must have
    been done counts when it worked: a failed call neither meets `before` and `after` nor obliges to what must follow it.
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
        """What its parameters ask for."""
        attributes = tuple(dict.fromkeys(key for rule in self.rules for key in rule.attributes))
        return Needs(reference="none", attributes=attributes, tools_in="rules", titled=("rules",))

    def names_call(self, trajectory: Trajectory) -> bool:
        """Return whether any rule has a call to judge, or needs none."""
        bound = [rule.bound for rule in self.rules]
        return any(pattern is None or any(map(pattern.names, trajectory.calls)) for pattern in bound)

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
        yield (
            None,
            _joined([_verdict(place, rule, turns, trajectory, dialogue) for place, rule in enumerate(self.rules, 1)]),
        )


class _Verdict(Struct, frozen=True):
    """The outcome of one rule; `doubt` is the reason where it cannot be judged."""

    title: str
    kind: str
    applied: bool
    breaches: tuple[Breach, ...]
    doubt: Doubt | None

    @property
    def note(self) -> str:
        """Describe the first breach."""
        first, more = self.breaches[0], len(self.breaches) - 1
        others = f", and {more} more" if more else ""
        return f"{self.title}: {shown(first.call.name)} (call {first.call.order + 1}) {first.how}{others}"

    def differences(self) -> Iterator[Difference]:
        for breach in self.breaches:
            where = f"call {breach.call.order + 1}: {breach.call.name}, {self.title}: {breach.how}"
            yield Difference(where=where, rule=self.kind)


def _verdict(
    number: int, rule: _Rule, turns: Sequence[Sequence[ToolCall]], trajectory: Trajectory, dialogue: Dialogue | None
) -> _Verdict:
    ledger = Ledger(trajectory)
    rule.review(turns, ledger, dialogue)
    breaches, doubt = tuple(ledger.breaches), ledger.doubt
    if breaches and isinstance(rule, After) and trajectory.closed_because in _CUT_SHORT:
        breaches, doubt = (), _UNFINISHED
    if trajectory.hidden_turns:
        breaches, doubt = breaches if rule.is_certain else (), hidden_calls(trajectory)
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
    held = len(applied) - len(violated)
    broken = first_notes([verdict.note for verdict in violated], _DESCRIBED, "more rules are broken")
    unjudged = [f"{len(doubts)} more could not be judged"] if doubts else []
    parts: dict[str, float] = {"applied": len(applied), "violated": len(violated)}
    for name, some in (("applied", applied), ("violated", violated)):
        for kind in _RULES:
            if any(verdict.kind == kind for verdict in applied):
                parts[f"{kind}_{name}"] = sum(verdict.kind == kind for verdict in some)
    differences = [difference for verdict in violated for difference in verdict.differences()]
    return Scored(
        value=held / len(applied),
        explanation="; ".join([f"{held} of {len(applied)} rules hold", *broken, *unjudged]),
        parts=parts,
        differences=tuple(differences[:_MAX_DIFFERENCES]),
    )
