"""`tool_call_accuracy`: were the right calls made with the right arguments, in the right order?"""

from collections.abc import Sequence
from typing import ClassVar

from toolgauge.model.expected import ExpectedCall
from toolgauge.model.outcomes import Difference, Outcome, Scored, Side
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.align import Alignment, align
from toolgauge.score.arguments import ArgumentComparer, ArgumentComparison, Figures
from toolgauge.score.compare import describe
from toolgauge.score.selection import NOTHING_MADE, not_observable, readable_arguments
from toolgauge.score.summary import counts, cut_short_note, greedy_note, leftovers

_MAX_DIFFERENCES = 20
_DESCRIBED = 4


class ToolCallAccuracy(ArgumentComparison):
    """How well the calls and their arguments agree: the sum over paired calls / max(calls expected, calls made).

    A pair of calls of one tool scores the arguments that meet their rule / the arguments that either side has: 1 where all
    do, where neither side has any, and where the expected call has no `args`; 0 where the arguments could not be parsed.
    The rule is the one that `arguments` has for it, else equality. Arguments that nobody expects cost nothing if they
    are `volatile` or have the default that the tool's schema declares.

    Calls are paired one to one for the greatest sum. With `ordered` (the default) pairs keep the expected order, where
    calls of one turn have none among themselves, nor have the expected calls of one group; a call out of order has no
    pair. With `ordered: false` any order will do. So each call that is missing, extra or out of order costs its share and
    no more: of n expected calls, all right, and k extra ones, n / (n + k) is left. The range is 0 to 1; 1 means that
    the calls are the expected ones, in order, with the expected arguments, and no others. `strict`: that, or 0.

    A call that may be missing (`optional`, `repeat`) counts as expected only where it was made. Nothing expected and
    nothing called is 1; nothing expected and something called, or the reverse, is 0.

    Parts: `arguments`, the mean over the pairs; `recall`, the sum / calls expected; `precision`, the sum / calls made;
    `out_of_order`, the calls that would have been right elsewhere (`ordered: false`: the pairs that are out of order).
    """

    version: ClassVar[str] = "1"

    ordered: bool = True
    strict: bool = False

    def compared(self, expected: Sequence[ExpectedCall], calls: Sequence[ToolCall], trajectory: Trajectory) -> Outcome:
        """Compare the calls of one turn."""
        unobservable = not_observable(expected, calls)
        if unobservable is not None:
            return unobservable
        comparer = self.comparer(expected, calls, self.terms(trajectory))
        sides = comparer.sides
        alignment = align(
            sides.slot_items,
            sides.call_items,
            comparer.weigh,
            order="partial" if self.ordered else "any",
            peel=comparer.may_peel,
        )
        if expected and calls and not alignment.pairs and not alignment.missing:
            return NOTHING_MADE
        return self._outcome(comparer, alignment)

    def _outcome(self, comparer: ArgumentComparer, alignment: Alignment) -> Scored:
        made, paired = len(comparer.sides.calls), len(alignment.pairs)
        wanted = paired + len(alignment.missing)
        parts = {**counts(alignment), "out_of_order": len(alignment.out_of_order)}
        for name, total in (("arguments", paired), ("recall", wanted), ("precision", made)):
            if total:
                parts[name] = min(alignment.total / total, 1.0)
        if not wanted and not made:
            return Scored(value=1.0, explanation="no call was expected and none was made", parts=parts)
        whole = sum(pair.value == 1.0 for pair in alignment.pairs)
        is_whole = whole == wanted == made
        differences, figures = _compared(comparer, alignment)
        notes = [f"{whole} of {wanted} expected calls are right" if wanted else "no call was expected"]
        notes += [describe(difference) for difference in differences[:_DESCRIBED]]
        if len(differences) > _DESCRIBED:
            notes.append(f"{len(differences) - _DESCRIBED} more differences")
        notes += [*leftovers(comparer.sides, alignment), *greedy_note(alignment), *cut_short_note(comparer)]
        if self.ordered and alignment.out_of_order:
            notes.append(f"out of order: {len(alignment.out_of_order)}")
        if self.strict and not is_whole:
            notes.append("strict: these calls, as expected, and no others")
        # Rounding may neither hide what is wrong nor make something of it.
        value = 1.0 if is_whole else min(alignment.total / max(wanted, made), 1.0)
        return Scored(
            value=float(is_whole) if self.strict else value,
            explanation="; ".join(notes),
            parts={**parts, **figures},
            differences=(*differences, *_leftovers(comparer, alignment))[:_MAX_DIFFERENCES],
        )


def _compared(comparer: ArgumentComparer, alignment: Alignment) -> tuple[list[Difference], dict[str, float]]:
    """Find the differences of the paired calls, and count their unexpected arguments."""
    differences: list[Difference] = []
    figures = Figures()
    for pair in alignment.pairs:
        is_asked = pair.value < 1 and len(differences) < _MAX_DIFFERENCES
        agreement = comparer.compare(pair.expected, pair.actual, explain=is_asked)
        figures.add(agreement)
        differences += agreement.differences
    unexpected = figures.parts()
    return differences, {name: unexpected[name] for name in ("invented", "defaults", "volatile") if name in unexpected}


def _leftovers(comparer: ArgumentComparer, alignment: Alignment) -> list[Difference]:
    sides = comparer.sides
    missing = [sides.slots[slot] for slot in alignment.missing[:_MAX_DIFFERENCES]]
    extra = [sides.calls[index] for index in alignment.unexpected[:_MAX_DIFFERENCES]]
    return [
        *(Difference(where=slot.name, rule="missing call", expected=Side(value=slot.args)) for slot in missing),
        *(
            Difference(where=call.name, rule="extra call", actual=Side(value=readable_arguments(call)))
            for call in extra
        ),
    ]
