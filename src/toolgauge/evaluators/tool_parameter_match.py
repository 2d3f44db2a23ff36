"""`tool_parameter_match`: how good were the arguments of the expected calls?

After the proposal for Google ADK (google/adk-python issue 5643), with its open points decided.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, ClassVar, Literal, TypeAlias

from msgspec.structs import replace
from pydantic import Field, field_validator

from toolgauge.model.expected import ExpectedCall
from toolgauge.model.outcomes import Outcome, Scored
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.align import Alignment
from toolgauge.score.arguments import ArgumentComparer, ArgumentComparison, Terms
from toolgauge.score.patterns import check_key
from toolgauge.score.rules import ArgumentRules, Casefold, Contains, Exact, Numeric, Rule
from toolgauge.score.selection import NOTHING_MADE, not_observable, nothing_expected
from toolgauge.score.summary import report

Strategy: TypeAlias = Literal["exact", "casefold_exact", "numeric", "contains"]

_MATCHED = {"name_and_args": "name and arguments", "name_and_required_args": "name and required arguments"}


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
            check_key(_place(key))
        return strategies

    def compared(self, expected: Sequence[ExpectedCall], calls: Sequence[ToolCall], trajectory: Trajectory) -> Outcome:
        """Compare the calls of one turn."""
        unanswerable = nothing_expected(expected, calls) or not_observable(expected, calls)
        if unanswerable is not None:
            return unanswerable
        comparer = self.comparer(expected, calls, self._terms(trajectory))
        alignment = comparer.aligned(order="partial" if self.ordered else "any", whole=self.match_mode != "name_only")
        if not alignment.pairs and not alignment.missing:
            return NOTHING_MADE
        return self._outcome(comparer, alignment)

    def _terms(self, trajectory: Trajectory) -> Terms:
        terms = self.terms(
            trajectory,
            default=self._default,
            subset=self.match_mode != "name_and_args",
            required_only=self.match_mode == "name_and_required_args",
        )
        return replace(terms, rules=self._rules)

    @property
    def _default(self) -> Rule:
        match self.strategy:
            case "exact":
                return Exact()
            case "casefold_exact":
                return Casefold()
            case "numeric":
                return Numeric(absolute=self.tolerance)
            case "contains":
                return Contains()

    @cached_property
    def _rules(self) -> ArgumentRules:
        if not self.strategies:
            return self.arguments
        written = {_place(key): self._written(strategy) for key, strategy in self.strategies.items()}
        # Of two rules for the same place the last one counts.
        return ArgumentRules.model_validate({**written, **self.arguments.root})

    def _written(self, strategy: Strategy) -> str | Mapping[str, object]:
        if strategy == "numeric":
            return {"rule": "numeric", "absolute": self.tolerance}
        return "casefold" if strategy == "casefold_exact" else strategy

    def _outcome(self, comparer: ArgumentComparer, alignment: Alignment) -> Scored:
        matched, wanted = len(alignment.pairs), len(alignment.pairs) + len(alignment.missing)
        found = report(comparer, alignment)
        if self.match_mode == "name_only":
            whole = sum(pair.value == 1.0 for pair in alignment.pairs)
            summary = f"arguments are as expected in {whole} of {wanted} expected calls"
        else:
            summary = f"{matched} of {wanted} expected calls match by {_MATCHED[self.match_mode]}"
        return Scored(
            value=min(alignment.total / wanted, 1.0),
            explanation="; ".join([summary, *found.notes]),
            parts=found.parts,
            differences=found.differences,
        )


def _place(key: str) -> str:
    """Let an argument stand for that of any tool."""
    return key if "." in key or "[" in key or key == "*" else f"*.{key}"
