"""`tool_call_order`: were the tools called in the expected order?"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import ClassVar

from toolgauge.model.expected import ExpectedCall
from toolgauge.model.outcomes import Difference, NotEvaluated, Outcome, Scored, Side
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.align import Alignment, align
from toolgauge.score.selection import CallComparison, Sides, make_sides
from toolgauge.score.summary import counts, greedy_note, leftovers

_MAX_DIFFERENCES = 20


class ToolCallOrder(CallComparison):
    """The longest common subsequence of expected and actual tool names / the number of expected calls.

    Calls of one turn (that the model asked for at once) have no order among themselves, and neither have the expected
    calls of one group. An expected `id` binds where the call has one too; arguments are not looked at. A call that may be
    missing (`optional`, `repeat`) counts as expected only where it was made in its place.

    Extra calls cost nothing in the score; they are in `precision` and `unexpected`. `strict`: 1 if the calls are the
    expected ones in the expected order and no others, else 0. Nothing expected and nothing called is 1, nothing expected
    and something called is 0. Where all expected calls may be missing, none of them was made but others were, there is
    nothing to put in order: not evaluated (`strict`: 0).

    Parts: `recall` is the score without `strict`, `precision` the common subsequence / the calls made, `out_of_order`
    the calls that an expected one was missed for.
    """

    version: ClassVar[str] = "1"

    strict: bool = False

    def compared(
        self,
        expected: Sequence[ExpectedCall],
        calls: Sequence[ToolCall],
        trajectory: Trajectory,  # noqa: ARG002 (only calls count)
    ) -> Outcome:
        """Compare the calls of one turn."""
        sides = make_sides(expected, calls, names_only=True)

        def weigh(slot: int, call: int) -> float | None:
            return 1.0 if sides.may_pair(slot, call) else None

        alignment = align(sides.slot_items, sides.call_items, weigh, order="partial")
        return self._outcome(sides, alignment, is_optional=bool(expected))

    def _outcome(self, sides: Sides, alignment: Alignment, *, is_optional: bool) -> Outcome:
        common, made = len(alignment.pairs), len(sides.calls)
        wanted = common + len(alignment.missing)
        parts = {**counts(alignment), "out_of_order": len(alignment.out_of_order)}
        if wanted:
            parts["recall"] = common / wanted
        if made:
            parts["precision"] = common / made
        if not made and not wanted:
            return Scored(value=1.0, explanation="no call was expected and none was made", parts=parts)
        if not wanted and is_optional and not self.strict:
            return NotEvaluated(reason="nothing_expected", explanation="all expected calls are optional; none was made")
        is_whole = common == wanted == made
        notes = [f"{common} of {wanted} expected calls are in order" if wanted else "no call was expected"]
        notes += [*leftovers(sides, alignment), *greedy_note(alignment)]
        if alignment.out_of_order:
            notes.append(f"{len(alignment.out_of_order)} calls are out of order")
        if self.strict and not is_whole:
            notes.append("strict: these calls, in this order, and no others")
        value = common / wanted if wanted else 0.0
        return Scored(
            value=float(is_whole) if self.strict else value,
            explanation="; ".join(notes),
            parts=parts,
            differences=tuple(islice(_differences(sides, alignment), _MAX_DIFFERENCES)),
        )


def _differences(sides: Sides, alignment: Alignment) -> Iterator[Difference]:
    misplaced = set(alignment.out_of_order)
    for slot in alignment.missing:
        yield Difference(where=sides.slots[slot].name, rule="order", expected=Side(value=sides.slots[slot].name))
    for index in alignment.unexpected:
        name = sides.calls[index].name
        yield Difference(
            where=name, rule="order" if index in misplaced else "extra call", actual=Side(value=f"call {index + 1}")
        )
