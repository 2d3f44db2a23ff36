"""`tool_call_f1`: were the expected calls made, and no others?"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import ClassVar, Literal, cast

from pydantic import model_validator

from toolgauge.model.expected import ExpectedCall
from toolgauge.model.outcomes import Difference, Outcome, Scored, Side
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.align import Alignment, align
from toolgauge.score.arguments import ArgumentComparison
from toolgauge.score.selection import Sides, not_observable, readable_arguments
from toolgauge.score.summary import (
    Mismatch,
    counts,
    cut_short_note,
    greedy_note,
    leftovers,
    mismatches,
    unparsable_note,
)

_MAX_DIFFERENCES = 20


class ToolCallF1(ArgumentComparison):
    """F1 between the multisets of expected and actual calls: 2 * matched / (expected + made).

    Calls match one to one, in any order. With `match: name_and_args` each argument must meet its rule too (equality, where
    `arguments` has none for it), and none may be there that nobody expects, but for those that are `volatile` or have
    the default that the tool's schema declares; an expected call without `args` matches by its name. With
    `match: name` the name is enough. Repeats count: two expected and one made are one match. A call that may be missing
    (`optional`, `repeat`) counts as expected only where it was made. Nothing expected and nothing called is 1, nothing
    expected and something called is 0. With `tools: writes` changes of state are compared: a call that failed made none,
    and does not count unless `failed_calls: count` is given.

    Parts: `precision` is matched / made, `recall` matched / expected.
    """

    version: ClassVar[str] = "2"

    match: Literal["name", "name_and_args"] = "name_and_args"

    @model_validator(mode="before")
    @classmethod
    def _without_failed_writes(cls, written: object) -> object:
        if not isinstance(written, dict):
            return written
        # Keys of any kind may be written; what is no parameter is refused later.
        parameters = cast("dict[object, object]", written)
        return {"failed_calls": "ignore", **parameters} if parameters.get("tools") == "writes" else parameters

    def compared(self, expected: Sequence[ExpectedCall], calls: Sequence[ToolCall], trajectory: Trajectory) -> Outcome:
        """Compare the calls of one turn."""
        names_only = self.match == "name"
        unobservable = None if names_only else not_observable(expected, calls)
        if unobservable is not None:
            return unobservable
        terms = self.terms(trajectory)
        comparer = self.comparer(expected, calls, terms, names_only=names_only)
        sides = comparer.sides

        def weigh(slot: int, call: int) -> float | None:
            value = comparer.weigh(slot, call)
            return value if value == 1.0 else None

        alignment = align(sides.slot_items, sides.call_items, weigh, peel=names_only or comparer.may_peel)
        paired = mismatches(comparer, alignment)
        notes = [*leftovers(sides, alignment, paired), *greedy_note(alignment), *cut_short_note(comparer)]
        if not names_only:
            notes += unparsable_note(sides, alignment)
        return _outcome(sides, alignment, paired, self.match, notes)


def _outcome(
    sides: Sides, alignment: Alignment, paired: Sequence[Mismatch], match: str, notes: Sequence[str]
) -> Scored:
    matched, made = len(alignment.pairs), len(sides.calls)
    wanted = matched + len(alignment.missing)
    parts = counts(alignment)
    if wanted:
        parts["recall"] = matched / wanted
    if made:
        parts["precision"] = matched / made
    if not wanted and not made:
        return Scored(value=1.0, explanation="no call was expected and none was made", parts=parts)
    summary = f"{matched} of {wanted} expected calls match" if wanted else "no call was expected"
    return Scored(
        value=2 * matched / (wanted + made),
        explanation="; ".join([summary, *notes]),
        parts=parts,
        differences=tuple(islice(_differences(sides, alignment, paired, match), _MAX_DIFFERENCES)),
    )


def _differences(sides: Sides, alignment: Alignment, paired: Sequence[Mismatch], match: str) -> Iterator[Difference]:
    yield from (one.difference for one in paired)
    slots, calls = {one.slot for one in paired}, {one.call for one in paired}
    for slot in (slot for slot in alignment.missing if slot not in slots):
        call = sides.slots[slot]
        yield Difference(where=call.name, rule=match, expected=Side(value=call.args))
    for index in (index for index in alignment.unexpected if index not in calls):
        made = sides.calls[index]
        yield Difference(where=made.name, rule=match, actual=Side(value=readable_arguments(made)))
