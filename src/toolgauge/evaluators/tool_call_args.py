"""`tool_call_args`: were the expected calls made with the expected arguments?"""

from collections.abc import Sequence
from typing import ClassVar, Literal

from toolgauge.model.expected import ExpectedCall
from toolgauge.model.outcomes import Outcome, Scored
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.align import Alignment
from toolgauge.score.arguments import ArgumentComparer, ArgumentComparison
from toolgauge.score.rules import Exact, Similarity
from toolgauge.score.selection import NOTHING_MADE, not_observable, nothing_expected
from toolgauge.score.summary import report


class ToolCallArgs(ArgumentComparison):
    """How far the arguments of the expected calls were met.

    A pair of calls of one tool scores the sum over its arguments / the number of arguments that either side has. An
    argument scores 1 if it meets its rule and 0 if not; some rules know values between. The rule is the one that
    `arguments` has for it, else equality, or with `similarity: json` how alike the values are. Arguments that nobody
    expects cost nothing if they are `volatile` or have the default that the tool's schema declares; with `subset` none
    of them does. Calls without arguments on either side, and expected calls without `args`, score 1; arguments that
    could not be parsed score 0.

    Calls are paired one to one for the greatest sum, in any order. The score is that sum / the number of expected
    calls: a call that was not made is a 0, one that was not expected costs nothing here and is counted in `unexpected`.
    A call that may be missing (`optional`, `repeat`) counts as expected only where it was made. `strict`: 1 if each
    expected call scores 1, else 0.

    Parts: `recall` is the arguments met / arguments expected, `precision` the arguments met / arguments given in paired
    calls, but for those that are volatile or defaults; these and the `invented` ones are counted.
    """

    version: ClassVar[str] = "1"

    strict: bool = False
    subset: bool = False
    similarity: Literal["exact", "json"] = "exact"

    def compared(self, expected: Sequence[ExpectedCall], calls: Sequence[ToolCall], trajectory: Trajectory) -> Outcome:
        """Compare the calls of one turn."""
        unanswerable = nothing_expected(expected, calls) or not_observable(expected, calls)
        if unanswerable is not None:
            return unanswerable
        default = Similarity() if self.similarity == "json" else Exact()
        terms = self.terms(trajectory, default=default, subset=self.subset)
        comparer = self.comparer(expected, calls, terms)
        alignment = comparer.aligned()
        if not alignment.pairs and not alignment.missing:
            return NOTHING_MADE
        return self._outcome(comparer, alignment)

    def _outcome(self, comparer: ArgumentComparer, alignment: Alignment) -> Scored:
        wanted = len(alignment.pairs) + len(alignment.missing)
        whole = sum(pair.value == 1.0 for pair in alignment.pairs)
        found = report(comparer, alignment)
        notes = [f"arguments are as expected in {whole} of {wanted} expected calls", *found.notes]
        if self.strict and whole < wanted:
            notes.append("strict: all of them have to be")
        return Scored(
            value=float(whole == wanted) if self.strict else min(alignment.total / wanted, 1.0),
            explanation="; ".join(notes),
            parts=found.parts,
            differences=found.differences,
        )
