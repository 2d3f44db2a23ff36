"""Checks the values at one argument place: where they come from, and where else they occur.

A check is made of a trajectory and all its values at the place; then it judges them call by call. Its verdict is `None`
where the rule holds, `Broken` where it does not, and `NotEvaluated` where that cannot be known.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import islice, tee
from math import isfinite
from operator import itemgetter
from typing import TypeAlias, TypeGuard

from msgspec import Struct

from toolgauge.model.content import NotRecorded, Recorded, Unparsed
from toolgauge.model.json import Json, JsonObject, Leaf, is_large, kind, leaves, tagged
from toolgauge.model.left_out import is_cut
from toolgauge.model.outcomes import Difference, NotEvaluated, Outcome, Scored, Side
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.equality import agreement, fold_key, moment
from toolgauge.score.patterns import Globs, Place, Step, values_at
from toolgauge.score.recorded_values import result_parts, result_value, written
from toolgauge.score.rules import Casefold, DateTime, Exact, Numeric, rule_name
from toolgauge.score.selection import (
    first_notes,
    has_taken_effect,
    hidden_calls,
    readable_arguments,
    recorded_result,
    shown,
    unseen_arguments,
)

# Rules under which a value meets another in time that does not depend on how many others there are.
SearchRule: TypeAlias = Exact | Casefold | DateTime | Numeric

# Words, numbers with points or commas inside, and single signs.
_TOKEN = re.compile(r"\d++(?:[.,]\d++){0,4}+(?!\w)|\w++|[^\w\s]")
# Of a longer value so many decide in prose: each length takes a walk over the text.
_MAX_TOKENS = 12
_ROUNDING = 1e-14


class ValueSearch:
    """Looks for values by one rule. A mark is a number; places are looked at in the order of theirs."""

    __slots__ = ("_found", "_missing", "_numbers", "_phrases", "_rule")

    def __init__(self, rule: SearchRule, values: Iterable[Leaf], *, shortest_in_prose: int = 1) -> None:
        """Values with fewer characters than `shortest_in_prose` are not looked for in prose."""
        self._rule = rule
        self._found: dict[Hashable, int | None] = {}
        # How values are written in prose, by the number of tokens.
        self._phrases: dict[int, dict[tuple[str, ...], list[Hashable]]] = {}
        # Numbers that were not found within the tolerance yet, in order.
        self._numbers: list[int | float] = []
        for value in values:
            key = self._key(value)
            if key in self._found:
                continue
            self._found[key] = None
            if self._has_tolerance(value):
                self._numbers.append(value)
            text = written(value)
            if len(text) >= shortest_in_prose:
                phrase = tuple(islice(self._tokens(text), _MAX_TOKENS))
                if phrase:
                    self._phrases.setdefault(len(phrase), {}).setdefault(phrase, []).append(key)
        self._numbers.sort()
        self._missing = len(self._found)

    def first(self, value: Leaf) -> int | None:
        """Return the mark of the first place where a value was found."""
        return self._found.get(self._key(value))

    def was_found(self, value: Leaf, by: int) -> bool:
        """Return whether a value was found at a place with a mark of at most `by`."""
        first = self.first(value)
        return first is not None and first <= by

    def look_among(self, values: Iterable[Leaf], mark: int) -> None:
        """Look at the single values of a place."""
        found = self._found
        for value in values:
            if not self._missing:
                return
            key = self._key(value)
            if key in found and found[key] is None:
                self._note(key, mark)
            if not (self._numbers and isinstance(self._rule, Numeric) and self._has_tolerance(value)):
                continue
            # The wanted numbers near the value; each is taken out once it is found.
            tolerance = max(self._rule.absolute, self._rule.relative * abs(value))
            # Rounding may add a little: `agreement` decides.
            reach = tolerance + _ROUNDING * (tolerance + abs(value))
            begin, end = bisect_left(self._numbers, value - reach), bisect_right(self._numbers, value + reach)
            far: list[int | float] = []
            for wanted in self._numbers[begin:end]:
                if agreement(self._rule, value, wanted)[0] == 1.0:
                    self._note(self._key(wanted), mark)
                else:
                    far.append(wanted)
            self._numbers[begin:end] = far

    def look_in_prose(self, text: str, mark: int) -> None:
        """Look at a text, in which values may be among other words."""
        if not self._missing:
            return
        for size, phrases in self._phrases.items():
            tokens = self._tokens(text)
            copies = tee(tokens, size)
            for place, copy in enumerate(copies):
                next(islice(copy, place, place), None)
            for phrase in phrases.keys() & zip(*copies, strict=False):
                for key in phrases.pop(phrase):
                    self._note(key, mark)

    def _note(self, key: Hashable, mark: int) -> None:
        if key in self._found and self._found[key] is None:
            self._found[key] = mark
            self._missing -= 1

    def _has_tolerance(self, value: Leaf) -> TypeGuard[int | float]:
        return (
            isinstance(self._rule, Numeric)
            and isinstance(value, int | float)
            and not isinstance(value, bool)
            and not is_large(value)
            and isfinite(value)
        )

    def _key(self, value: Leaf) -> Hashable:
        if not isinstance(value, str):
            return tuple(tagged(value))
        if isinstance(self._rule, Casefold):
            return fold_key(value)
        point = moment(value, zone=self._rule.zone) if isinstance(self._rule, DateTime) else None
        return value if point is None else point

    def _tokens(self, text: str) -> Iterator[str]:
        if isinstance(self._rule, Casefold):
            text = fold_key(text)
        return map(itemgetter(0), _TOKEN.finditer(text))


MAX_DIFFERENCES = 20
_NAMED_SOURCES = 4
_DESCRIBED = 4
# Shorter values are in other texts by chance.
_SHORTEST_IN_PROSE = 4


class Subject(Struct, frozen=True):
    """The values at one place, its name, and the rule that compares them."""

    key: str
    place: Place
    rule: SearchRule

    def values(self, arguments: JsonObject) -> list[Leaf]:
        """Return the single values at the place; null is how many models leave an argument out."""
        return [leaf for value in values_at(arguments, self.place.steps) for leaf in leaves(value) if leaf is not None]

    def broken(
        self, call: ToolCall, rule: str, values: Sequence[Leaf], note: str, wanted: Side | None = None
    ) -> "Broken":
        """Return the verdict on values of a call that break a rule; `note` follows the name of the place."""
        where = f"{call.name[:80]}: {self.place.path}"
        differences = tuple(
            Difference(where=where, rule=rule, expected=wanted, actual=Side(value=value))
            for value in values[:MAX_DIFFERENCES]
        )
        return Broken(note=f"{shown(self.key)} {note}", differences=differences)


class Broken(Struct, frozen=True, kw_only=True):
    """A breach of a rule."""

    note: str
    differences: tuple[Difference, ...]


Verdict: TypeAlias = Broken | NotEvaluated | None


def joined(call: ToolCall, verdicts: Sequence[Verdict], rules: str) -> Outcome:
    """Return the outcome of a call; `rules` is the word for the things that gave the verdicts."""
    unjudged = [verdict for verdict in verdicts if isinstance(verdict, NotEvaluated)]
    broken = [verdict for verdict in verdicts if isinstance(verdict, Broken)]
    judged = len(verdicts) - len(unjudged)
    if not judged:
        return unjudged[0]
    held = judged - len(broken)
    notes = first_notes([verdict.note for verdict in broken], _DESCRIBED)
    if unjudged:
        notes.append(f"{len(unjudged)} could not be judged: {unjudged[0].explanation}")
    differences = [difference for verdict in broken for difference in verdict.differences]
    parts = {rules: judged, "held": held}
    return Scored(
        value=held / judged,
        explanation="; ".join([f"{held} of {judged} {rules} hold for {shown(call.name)}", *notes]),
        parts={**parts, "not_judged": len(unjudged)} if unjudged else parts,
        differences=tuple(differences[:MAX_DIFFERENCES]),
    )


# One condition for the values at one place: it judges the values of one call.
Check: TypeAlias = Callable[[ToolCall, Sequence[Leaf]], Verdict]


class ResultsOf(Struct, frozen=True):
    """The results of tools, or one place in them; `or_arguments`: what their calls were given counts too."""

    name: str
    tools: Globs
    steps: tuple[Step, ...] | None
    or_arguments: bool = False


class FromResults:
    """Values have to be in results of any of the sources that were known when the call was made."""

    def __init__(
        self, subject: Subject, sources: Sequence[ResultsOf], wanted: Sequence[Leaf], trajectory: Trajectory
    ) -> None:
        self._subject = subject
        self._names = " or ".join(source.name for source in sources[:_NAMED_SOURCES])
        self._trajectory = trajectory
        self._trails = [_Trail(source, subject.rule, wanted, trajectory) for source in sources]
        # Calls that the criterion does not look at are left out of a trajectory, and may have been of a source.
        numbered = enumerate(trajectory.calls)
        self._left_out_before = next((call.order for place, call in numbered if call.order != place), None)

    def strangers(self, call: ToolCall, values: Sequence[Leaf]) -> list[Leaf]:
        """Return the values that are in no result known when the call was made."""
        return [
            value for value in values if not any(trail.search.was_found(value, call.turn) for trail in self._trails)
        ]

    def judge(self, call: ToolCall, values: Sequence[Leaf]) -> Verdict:
        """Judge the values of one call."""
        strangers = self.strangers(call, values)
        if not strangers:
            return None
        results = sum(bisect_right(trail.turns, call.turn) for trail in self._trails)
        unseen = self.unseen(call)
        if unseen is not None:
            return unseen
        absent = [
            value
            for value in strangers
            if not any(trail.in_texts.was_found(value, call.turn) for trail in self._trails)
        ]
        if not absent:
            explanation = f"a result of {self._names} is a text, in which no path leads anywhere"
            return NotEvaluated(reason="unparsable", explanation=explanation)
        note = f"is in no result of {self._names} ({results} seen before the call)"
        if not results:
            note = f"comes from nowhere: no result of {self._names} was seen before the call"
        return self._subject.broken(call, "from", absent, note)

    def unseen(self, call: ToolCall) -> NotEvaluated | None:
        """Return why the values may have been in a result all the same."""
        for trail in self._trails:
            if trail.gap is not None and trail.gap[0] <= call.turn:
                return trail.gap[1]
        trajectory = self._trajectory
        if trajectory.hidden_turns:
            return hidden_calls(trajectory)
        is_part = trajectory.scope == "trace" and trajectory.conversation_id is not None
        if self._left_out_before is not None and call.order >= self._left_out_before:
            explanation = "earlier calls are of agents that the criterion does not look at"
            return NotEvaluated(reason="incomplete", explanation=explanation)
        if trajectory.has_beginning is False or (is_part and not trajectory.has_beginning):
            explanation = (
                f"earlier turns may have had results of {self._names}; `scope: conversation` looks at all traces"
            )
            return NotEvaluated(reason="incomplete", explanation=explanation)
        return None


class _Trail:
    """The values in the results of one source, each marked with the first turn of calls that knew it."""

    def __init__(self, source: ResultsOf, rule: SearchRule, wanted: Sequence[Leaf], trajectory: Trajectory) -> None:
        self.search = ValueSearch(rule, wanted)
        # The values in texts in which a path cannot be followed.
        self.in_texts = ValueSearch(rule, wanted)
        self.turns: list[int] = []
        # The first result that could not be searched, and the turn from which on it mattered.
        self.gap: tuple[int, NotEvaluated] | None = None
        self._steps = source.steps
        calls = [call for call in trajectory.calls if source.tools.match(call.name) and has_taken_effect(call)]
        known = [(call.turn + 1 if call.result_turn is None else call.result_turn, call) for call in calls]
        for turn, call in sorted(known, key=itemgetter(0)):
            if source.or_arguments:
                self.search.look_among(leaves(readable_arguments(call) or {}), turn)
            parts: Sequence[Json] = ()
            if isinstance(call.result, Recorded):
                value = call.result.value
                parts = result_parts(value)
                if source.steps is not None and parts[:1] != (value,):
                    # A path may lead through one block, all of them, or the blocks' wrapping.
                    parts = (*parts, result_value(value), value)
            elif isinstance(call.result, Unparsed):
                parts = (call.result.text,)
            for part in parts:
                self._look_in(part, turn)
            if not isinstance(call.result, NotRecorded):
                self.turns.append(turn)
            gap = unseen_part(call)
            if gap is not None and self.gap is None:
                self.gap = (turn, gap)

    def _look_in(self, value: Json, turn: int) -> None:
        if not isinstance(value, str):
            at_path = (leaf for found in values_at(value, self._steps or ()) for leaf in leaves(found))
            # Without a path, keys of objects count: they are ids in many results.
            self.search.look_among(values_and_keys(value) if self._steps is None else at_path, turn)
            return
        search = self.search if self._steps is None else self.in_texts
        search.look_among((value,), turn)
        search.look_in_prose(value, turn)


def values_and_keys(value: Json) -> Iterator[Leaf]:
    """Yield the single values within a value, and the keys of objects."""
    stack = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            yield from node
            stack += node.values()
        elif isinstance(node, list):
            stack += node
        else:
            yield node


def unseen_part(call: ToolCall) -> NotEvaluated | None:
    """Return the outcome of a call whose result was recorded in part, or not at all."""
    if isinstance(call.result, Unparsed) and is_cut(call.result.text):
        return NotEvaluated(reason="truncated", explanation=f"a result of {shown(call.name)} was cut off")
    found = recorded_result(call, "a result")
    return found if isinstance(found, NotEvaluated) else None


def equals_attribute(
    subject: Subject, attribute: str, trajectory: Trajectory, call: ToolCall, values: Sequence[Leaf]
) -> Verdict:
    """Judge the values of one call: they must equal an attribute of the trace."""
    wanted, rule = trajectory.attributes.get(attribute), subject.rule
    if wanted is None:
        return NotEvaluated(reason="no_reference", explanation=f"the trace has no attribute {shown(attribute)}")
    others = [value for value in values if agreement(rule, wanted, value)[0] < 1.0]
    if not others:
        return None
    kinds = kind(others[0]), kind(wanted)
    note = f"differs from the attribute {shown(attribute)}"
    if kinds[0] != kinds[1]:
        note += f" ({kinds[0]} instead of {kinds[1]})"
    return subject.broken(call, rule_name(rule), others, note, Side(value=wanted))


class StaysWithin:
    """Values may not be in the arguments of calls of other tools than some, or of some."""

    def __init__(
        self,
        subject: Subject,
        wanted: Sequence[Leaf],
        trajectory: Trajectory,
        *,
        only_in: Globs | None,
        not_in: Globs | None,
    ) -> None:
        self._subject = subject
        self._calls = trajectory.calls
        self._condition = "not_in" if only_in is None else "only_in"
        self._search = ValueSearch(subject.rule, wanted, shortest_in_prose=_SHORTEST_IN_PROSE)
        self._gap: NotEvaluated | None = hidden_calls(trajectory) if trajectory.hidden_turns else None
        for place, call in enumerate(trajectory.calls):
            is_outside = only_in is not None and not (
                only_in.match(call.name) or subject.place.tool.leads_to(call.name)
            )
            if not is_outside and (not_in is None or not not_in.match(call.name)):
                continue
            if isinstance(call.arguments, Recorded):
                for leaf in leaves(call.arguments.value):
                    self._search.look_among((leaf,), place)
                    if isinstance(leaf, str):
                        self._search.look_in_prose(leaf, place)
            elif isinstance(call.arguments, Unparsed):
                self._search.look_in_prose(call.arguments.text, place)
            self._gap = self._gap or unseen_arguments(call)

    def judge(self, call: ToolCall, values: Sequence[Leaf]) -> Verdict:
        """Judge the values of one call."""
        first = [(place, value) for value in values if (place := self._search.first(value)) is not None]
        if not first:
            return self._gap
        other = self._calls[first[0][0]]
        note = f"is also in call {other.order + 1}, of {shown(other.name)}"
        return self._subject.broken(call, self._condition, [value for _, value in first], note)
