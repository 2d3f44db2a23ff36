"""Evaluators of the arguments of expected calls: `tool_call_args`, `tool_parameter_match` and `tool_call_accuracy`.

`tool_parameter_match` follows the proposal for Google ADK (google/adk-python issue 5643), with its open points decided.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, ClassVar, Literal, TypeAlias

from msgspec.structs import replace
from pydantic import Field, field_validator

from toolgauge.model.expected import ExpectedCall
from toolgauge.model.outcomes import Difference, Outcome, Scored, Side
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.align import Alignment, align
from toolgauge.score.arguments import (
    ArgumentComparer,
    ArgumentComparison,
    Figures,
    counts,
    leftovers,
    pairing_notes,
    report,
)
from toolgauge.score.compare import describe
from toolgauge.score.patterns import read_place
from toolgauge.score.rules import ArgumentRules, Casefold, Contains, Exact, Numeric, Rule, Similarity
from toolgauge.score.selection import NOTHING_MADE, first_notes, not_observable, nothing_expected, readable_arguments

Strategy: TypeAlias = Literal["exact", "casefold_exact", "numeric", "contains"]

_MATCHED = {"name_and_args": "name and arguments", "name_and_required_args": "name and required arguments"}
_MAX_DIFFERENCES = 20
_DESCRIBED = 4


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
        comparer = self.comparer(expected, calls, self.terms(trajectory, default=default, subset=self.subset))
        alignment = comparer.aligned()
        if not alignment.pairs and not alignment.missing:
            return NOTHING_MADE
        wanted = len(alignment.pairs) + len(alignment.missing)
        whole = sum(pair.value == 1.0 for pair in alignment.pairs)
        found = report(comparer, alignment)
        notes = [f"arguments are as expected in {whole} of {wanted} expected calls", *found.notes]
        if self.strict and whole < wanted:
            notes.append("strict: all of them have to be")
        value = float(whole == wanted) if self.strict else min(alignment.total / wanted, 1.0)
        return Scored(value, "; ".join(notes), found.parts, found.differences)


class ToolParameterMatch(ArgumentComparison):
    """The mean over the expected calls of how well each was met; calls are paired one to one for the greatest sum.

    `match_mode: name_only`: any call of the tool may be the expected one, and a pair scores the share of the expected
    arguments that match. `name_and_args`: only a call whose arguments all match, and which has no others, is the
    expected one; the score is the share of expected calls that were found. `name_and_required_args`: the same, but
    only required arguments are looked at: those of the expected ones that the tool's schema requires, where a tool with
    a list of them is on offer, else all expected ones.

    An argument matches by the strategy that `strategies` has for it (`argument`, or `tool.argument` with the syntax of
    `arguments`), else by `strategy`. `exact`: the same value. `casefold_exact`: the same but for case. `numeric`: numbers
    that differ by at most `tolerance`; a boolean or a text is no number and has to be the same. `contains`: the expected
    text occurs in the actual one, case matters; of two lists, each expected item does. All apply inside objects and
    lists too. `arguments` allows all other rules.

    With `ordered` pairs keep the order of both sides; calls that the model made at once have none among themselves.
    Unexpected calls and arguments cost nothing in the modes that do not name them, and are counted in the parts. A user
    turn without expected calls is not evaluated and stays out of the mean; its calls count as unexpected.
    """

    version: ClassVar[str] = "1"

    match_mode: Literal["name_only", "name_and_args", "name_and_required_args"] = "name_only"
    strategy: Strategy = "exact"
    strategies: dict[str, Strategy] = Field(default_factory=dict)
    tolerance: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    ordered: bool = False

    @field_validator("strategies")
    @classmethod
    def _has_places(cls, strategies: dict[str, Strategy]) -> dict[str, Strategy]:
        for key in strategies:
            read_place(_place(key))
        return strategies

    def compared(self, expected: Sequence[ExpectedCall], calls: Sequence[ToolCall], trajectory: Trajectory) -> Outcome:
        """Compare the calls of one turn."""
        unanswerable = nothing_expected(expected, calls) or not_observable(expected, calls)
        if unanswerable is not None:
            return unanswerable
        defaults: dict[Strategy, Rule] = {
            "exact": Exact(),
            "casefold_exact": Casefold(),
            "numeric": Numeric(absolute=self.tolerance),
            "contains": Contains(),
        }
        terms = self.terms(
            trajectory,
            default=defaults[self.strategy],
            subset=self.match_mode != "name_and_args",
            required_only=self.match_mode == "name_and_required_args",
        )
        comparer = self.comparer(expected, calls, replace(terms, rules=self._rules))
        alignment = comparer.aligned(order="partial" if self.ordered else "any", whole=self.match_mode != "name_only")
        if not alignment.pairs and not alignment.missing:
            return NOTHING_MADE
        matched, wanted = len(alignment.pairs), len(alignment.pairs) + len(alignment.missing)
        found = report(comparer, alignment)
        if self.match_mode == "name_only":
            whole = sum(pair.value == 1.0 for pair in alignment.pairs)
            summary = f"arguments are as expected in {whole} of {wanted} expected calls"
        else:
            summary = f"{matched} of {wanted} expected calls match by {_MATCHED[self.match_mode]}"
        explanation = "; ".join([summary, *found.notes])
        return Scored(min(alignment.total / wanted, 1.0), explanation, found.parts, found.differences)

    @cached_property
    def _rules(self) -> ArgumentRules:
        if not self.strategies:
            return self.arguments
        numeric = {"rule": "numeric", "absolute": self.tolerance}
        rules = {"exact": "exact", "casefold_exact": "casefold", "numeric": numeric, "contains": "contains"}
        written = {_place(key): rules[strategy] for key, strategy in self.strategies.items()}
        # Of two rules for the same place the last one counts.
        return ArgumentRules.model_validate({**written, **self.arguments.root})


def _place(key: str) -> str:
    """Let an argument stand for that of any tool."""
    return key if "." in key or "[" in key or key == "*" else f"*.{key}"


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
        made, paired = len(sides.calls), len(alignment.pairs)
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
        notes += first_notes([describe(difference) for difference in differences], _DESCRIBED, "more differences")
        notes += [*leftovers(sides, alignment), *pairing_notes(alignment, comparer)]
        if self.ordered and alignment.out_of_order:
            notes.append(f"out of order: {len(alignment.out_of_order)}")
        if self.strict and not is_whole:
            notes.append("strict: these calls, as expected, and no others")
        missing = [sides.slots[slot] for slot in alignment.missing[:_MAX_DIFFERENCES]]
        extra = [sides.calls[index] for index in alignment.unexpected[:_MAX_DIFFERENCES]]
        differences += [
            Difference(where=one.name, rule="missing call", expected=Side(value=one.args)) for one in missing
        ]
        differences += [
            Difference(where=one.name, rule="extra call", actual=Side(value=readable_arguments(one))) for one in extra
        ]
        # Rounding may neither hide a flaw nor invent one.
        value = 1.0 if is_whole else min(alignment.total / max(wanted, made), 1.0)
        return Scored(
            value=float(is_whole) if self.strict else value,
            explanation="; ".join(notes),
            parts={**parts, **figures},
            differences=tuple(differences[:_MAX_DIFFERENCES]),
        )


def _compared(comparer: ArgumentComparer, alignment: Alignment) -> tuple[list[Difference], dict[str, float]]:
    """Find the differences of the paired calls, and count their unexpected arguments."""
    differences: list[Difference] = []
    figures = Figures()
    for pair in alignment.pairs:
        is_asked = pair.value < 1 and len(differences) < _MAX_DIFFERENCES
        verdicts, found = comparer.compare(pair.expected, pair.actual, explain=is_asked)
        figures.add(verdicts)
        differences += found
    unexpected = figures.parts()
    return differences, {name: unexpected[name] for name in ("invented", "defaults", "volatile") if name in unexpected}
