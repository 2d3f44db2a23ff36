"""`data_flow`: do argument values come from where they should, and stay where they should? Needs no reference."""

from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from typing import Annotated, ClassVar, TypeAlias

from msgspec import Struct
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from toolgauge.model.expected import Expected
from toolgauge.model.json import Leaf
from toolgauge.model.outcomes import Level, NotEvaluated
from toolgauge.model.ports import Evaluation, Needs
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.origins.provenance import (
    Check,
    FromResults,
    ResultsOf,
    SearchRule,
    StaysWithin,
    Subject,
    equals_attribute,
    joined,
)
from toolgauge.score.patterns import Globs, read_path, read_place, with_places
from toolgauge.score.rules import Casefold, DateTime, Exact, Numeric, PlainRule, WrittenRule, compiled
from toolgauge.score.selection import CallSelection, hidden_calls, no_object, readable_arguments, shown

_MAX_RULES = 100
_MAX_SOURCES = 20

_Name: TypeAlias = Annotated[str, Field(min_length=1)]
_Names: TypeAlias = Annotated[tuple[_Name, ...], Field(max_length=_MAX_RULES)]


class _Written(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Source(_Written):
    """The results of a tool (a name or a glob), or one place in them."""

    tool: _Name
    path: str | None = None

    @field_validator("path")
    @classmethod
    def _is_path(cls, path: str | None) -> str | None:
        if path is not None:
            read_path(path)
        return path


class FlowRule(_Written):
    """Conditions for the values at one place; `by` is the rule that compares them."""

    sources: Annotated[
        tuple[Source, ...],
        BeforeValidator(
            lambda sources: (sources,) if isinstance(sources, dict | Source) else sources,
            json_schema_input_type=Source | tuple[Source, ...],
        ),
        Field(alias="from", min_length=1, max_length=_MAX_SOURCES),
    ] = ()
    equals_attribute: _Name | None = None
    only_in: _Names | None = None
    not_in: _Names | None = None
    by: WrittenRule = PlainRule(rule="exact")

    @field_validator("by")
    @classmethod
    def _is_search_rule(cls, by: WrittenRule) -> WrittenRule:
        _search_rule(by)
        return by

    @model_validator(mode="after")
    def _demands_something(self) -> "FlowRule":
        if not self.sources and self.equals_attribute is None and self.only_in is None and self.not_in is None:
            raise ValueError("must have `from`, `equals_attribute`, `only_in` or `not_in`")
        return self

    def compiled(self, key: str) -> "_Flow":
        """Return the rule for a place."""
        sources = [
            ResultsOf(shown(one.tool), Globs((one.tool,)), None)
            if one.path is None
            else ResultsOf(f"{shown(one.tool)} at {shown(one.path)}", Globs((one.tool,)), read_path(one.path))
            for one in self.sources
        ]
        return _Flow(
            Subject(key, read_place(key), _search_rule(self.by)),
            sources,
            self.equals_attribute,
            None if self.only_in is None else Globs(self.only_in),
            None if self.not_in is None else Globs(self.not_in),
        )


def _search_rule(by: WrittenRule) -> SearchRule:
    rule = compiled(by)
    if not isinstance(rule, Exact | Casefold | DateTime | Numeric):
        raise ValueError("must be `exact`, `casefold`, `datetime` or `numeric`")
    return rule


class DataFlow(CallSelection):
    """The share of rules that hold, for each call with an argument that a rule names.

    `rules` maps places to conditions for the values there: `from` (each is in an earlier result of a tool),
    `equals_attribute` (each is that of an attribute of the trace), `only_in` and `not_in` (none is in calls of other tools,
    or of these). A place is a tool and a path that begins with an argument, see `score.rules`. All rules for a place hold
    there, not only the most specific one.

    Parts: `rules` that could be judged, `held`, and `not_judged`.
    """

    version: ClassVar[str] = "1"
    judges_every_answer: ClassVar[bool] = True
    level: ClassVar[Level] = "call"

    rules: Annotated[dict[str, FlowRule], Field(min_length=1, max_length=_MAX_RULES), AfterValidator(with_places)]

    @property
    def needs(self) -> Needs:
        """The needs of its rules."""
        asked = dict.fromkeys(rule.equals_attribute for rule in self.rules.values())
        attributes = tuple(key for key in asked if key is not None)
        return Needs(reference="none", recent_offer=True, attributes=attributes, tools_in="rules")

    @cached_property
    def _flows(self) -> tuple["_Flow", ...]:
        return tuple(rule.compiled(key) for key, rule in self.rules.items())

    def names_call(self, trajectory: Trajectory) -> bool:
        """Return whether any call that counts is of a tool that a rule names."""
        return any(one.subject.place.tool.leads_to(call.name) for call in self.calls(trajectory) for one in self._flows)

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:  # noqa: ARG002 (no reference needed)
        """Yield one outcome for each call with an argument that a rule names."""
        wanted: list[list[Leaf]] = [[] for _ in self._flows]
        # Each call with its values that rules name, by the number of the rule; `None` for unreadable arguments.
        uses: list[tuple[ToolCall, dict[int, list[Leaf]] | None]] = []
        for call in self.calls(trajectory):
            flows = [one for one in enumerate(self._flows) if one[1].subject.place.tool.leads_to(call.name)]
            arguments = readable_arguments(call) if flows else {}
            if arguments is None:
                uses.append((call, None))
                continue
            named = {number: found for number, flow in flows if (found := flow.subject.values(arguments))}
            for number, values in named.items():
                wanted[number] += values
            if named:
                uses.append((call, named))
        if not uses:
            nothing = NotEvaluated(reason="no_calls", explanation="no call has an argument that a rule names")
            yield None, hidden_calls(trajectory) if trajectory.hidden_turns else nothing
            return
        checks = [tuple(flow.checks(values, trajectory)) for flow, values in zip(self._flows, wanted, strict=True)]
        for call, named in uses:
            if named is None:
                yield call, no_object(call)
            else:
                judged = [judge(call, values) for number, values in named.items() for judge in checks[number]]
                yield call, joined(call, judged, "rules")


class _Flow(Struct, frozen=True):
    subject: Subject
    sources: Sequence[ResultsOf]
    attribute: str | None
    only_in: Globs | None
    not_in: Globs | None

    def checks(self, wanted: Sequence[Leaf], trajectory: Trajectory) -> Iterator[Check]:
        """Yield the checks of the values that calls have at the place."""
        if not wanted:
            return
        if self.sources:
            yield FromResults(self.subject, self.sources, wanted, trajectory).judge
        if self.attribute is not None:
            yield partial(equals_attribute, self.subject, self.attribute, trajectory)
        if self.only_in is not None or self.not_in is not None:
            yield StaysWithin(self.subject, wanted, trajectory, only_in=self.only_in, not_in=self.not_in).judge
